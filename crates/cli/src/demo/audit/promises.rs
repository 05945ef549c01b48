//! Each promise against the facts: whether it held, and whether a fault met it at all.

use super::super::report::{Outcome, Promise};
use super::super::script::{Played, Strike};
use super::facts::Facts;
use crate::text::counted;

#[cfg(test)]
mod tests;

/// A promise breaks by what the databases hold. One that held is shown only if its fault met data.
pub(super) fn judge(f: &Facts, played: &Played, finished: bool) -> Vec<Promise> {
    let case = Case { f, played, finished };
    vec![
        case.published(),
        case.rolled_back(),
        case.once(),
        case.in_order(),
        case.killed(),
        case.stale(),
        case.refilled(),
        case.poison(),
        case.drained(),
    ]
}

struct Case<'a> {
    f: &'a Facts,
    played: &'a Played,
    finished: bool,
}

/// Broken, or not shown for the first reason that applies, or kept.
fn promise(
    promise: &'static str,
    holds: bool,
    evidence: String,
    not_shown: &[(bool, &'static str)],
) -> Promise {
    let reason = not_shown
        .iter()
        .find(|(applies, _)| *applies)
        .map(|(_, why)| *why);
    let (outcome, reason) = match (holds, reason) {
        (false, _) => (Outcome::Broken, None),
        (true, Some(reason)) => (Outcome::NotShown, Some(reason)),
        (true, None) => (Outcome::Kept, None),
    };
    Promise {
        promise,
        outcome,
        evidence,
        reason,
    }
}

const EARLY: &str = "the story ended early";

impl Case<'_> {
    /// True for what must hold once nothing is on its way.
    fn at_the_end(&self, holds: bool) -> bool {
        !self.finished || holds
    }

    fn published(&self) -> Promise {
        let f = self.f;
        promise(
            "committed is published",
            f.lost == 0 && self.at_the_end(f.published == f.committed && f.waiting == 0),
            format!(
                "{} committed, {} in the stream, {} waiting",
                f.committed, f.published, f.waiting
            ),
            &[(!self.finished, EARLY)],
        )
    }

    fn rolled_back(&self) -> Promise {
        let f = self.f;
        promise(
            "rolled back is never published",
            f.ghosts == 0,
            format!("{} rolled back, {} seen anywhere", f.rolled_back, f.ghosts),
            &[(f.rolled_back == 0, "no transaction rolled back")],
        )
    }

    fn once(&self) -> Promise {
        let f = self.f;
        let on_the_way = match f.on_the_way {
            0 => String::new(),
            n => format!(", {n} on the way"),
        };
        promise(
            "nothing lost, nothing doubled",
            f.lost == 0 && f.doubled == 0 && self.at_the_end(f.applied == f.committed),
            format!(
                "{} applied, lost {}, doubled {}{on_the_way}",
                f.applied, f.lost, f.doubled
            ),
            &[(!self.finished, EARLY)],
        )
    }

    fn in_order(&self) -> Promise {
        let f = self.f;
        promise(
            "in order per key",
            f.out_of_order == 0 && f.differing == 0 && f.gaps == 0,
            format!(
                "out of order {}, rows of the projection that differ {}, lanes with holes {}",
                f.out_of_order, f.differing, f.gaps
            ),
            &[(f.applied == 0, "nothing was applied")],
        )
    }

    fn killed(&self) -> Promise {
        let f = self.f;
        let killed = &self.played.killed;
        let lanes = killed.iter().map(|strike| self.taken(strike)).sum::<u64>();
        let planned = killed.iter().filter_map(|strike| f.planned.get(&strike.worker));
        let planned = planned.sum::<u64>();
        promise(
            "a kill costs one take-over, not an event",
            f.lost == 0 && f.doubled == 0,
            format!(
                "{} workers killed -9, {lanes} of their lanes taken over, {} in hand there",
                killed.len(),
                counted(planned, "event")
            ),
            &[
                (killed.len() < 2, EARLY),
                (
                    killed.iter().any(|strike| !strike.at_point),
                    "a worker had nothing to do when it was killed",
                ),
                (
                    killed.iter().any(|strike| self.taken(strike) == 0),
                    "a killed worker owned no lane",
                ),
                (planned == 0, "the killed relay had nothing in hand"),
            ],
        )
    }

    fn taken(&self, strike: &Strike) -> u64 {
        self.f.taken.get(&strike.worker).copied().unwrap_or(0)
    }

    fn stale(&self) -> Promise {
        let f = self.f;
        let woken = self.played.woken.as_ref();
        let lanes = woken.map_or(0, |strike| self.taken(strike));
        promise(
            "a stale relay appends nothing",
            f.stale == 0 && f.doubled == 0,
            format!(
                "{lanes} lanes taken over in its sleep; {} entries in the stream under an ended term, {} refused",
                f.stale, f.refused
            ),
            &[
                (woken.is_none(), EARLY),
                (
                    woken.is_some_and(|strike| !strike.at_point),
                    "the relay had nothing to append when it was stopped",
                ),
                (lanes == 0, "the relay owned no lane"),
            ],
        )
    }

    fn refilled(&self) -> Promise {
        let f = self.f;
        promise(
            "a stream that loses its tail is refilled",
            self.at_the_end(f.refilled == f.lost_entries),
            format!(
                "{} entries lost, {} back under the same numbers",
                f.lost_entries, f.refilled
            ),
            &[
                (!self.finished, EARLY),
                (f.lost_entries == 0, "the stream had nothing to lose"),
            ],
        )
    }

    fn poison(&self) -> Promise {
        let f = self.f;
        promise(
            "a poison event holds back its key only",
            f.parked <= 1 && self.at_the_end(f.parked == 1 && f.redriven > 0),
            format!(
                "{} parked, {} events of other keys applied meanwhile, {} redriven in order",
                f.parked_key.as_deref().unwrap_or("no key"),
                f.flowed,
                f.redriven
            ),
            &[
                (!self.finished, EARLY),
                (f.flowed == 0, "no other key had events meanwhile"),
            ],
        )
    }

    fn drained(&self) -> Promise {
        let drained = &self.played.drained;
        let clean = drained.iter().filter(|(_, clean)| *clean).count();
        promise(
            "a drain is bounded and clean",
            drained.is_empty() || (clean == drained.len() && self.f.owned == 0),
            format!(
                "{clean} of {} workers exited with 0 after SIGTERM, {} lanes not handed over",
                drained.len(),
                self.f.owned
            ),
            &[(drained.is_empty(), EARLY)],
        )
    }
}

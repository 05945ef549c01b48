//! O2, O3, O5, N1, N2 and N3 over appends.

use std::collections::BTreeSet;

use tidegate_core::memory::stream::{Contents, Stored};
use tidegate_core::stream::LaneAppend;

use super::{At, Checked, Truth, ensure};

fn at(stored: &Stored) -> At {
    (stored.lane.slot, stored.entry.n)
}

impl Truth {
    /// An append was carried out.
    pub(crate) fn appended(&mut self, before: &Contents, after: &Contents, asked: &[LaneAppend]) -> Checked {
        for append in asked {
            for entry in &append.entries {
                *self.attempts.entry((append.lane.slot, entry.n)).or_default() += 1;
            }
        }
        let fresh: Vec<_> = after.entries.range(before.last + 1..).map(|(_, e)| e).collect();
        let present: BTreeSet<At> = before.entries.values().map(at).collect();
        for stored in &fresh {
            ensure("O5", !present.contains(&at(stored)), || {
                format!("number {:?} stands twice in one life of the stream", at(stored))
            })?;
            self.accept(stored)?;
        }
        dense(before, after, &fresh)?;
        self.effort(asked)
    }

    fn accept(&mut self, stored: &Stored) -> Checked {
        let (at, event) = (at(stored), stored.entry.event.as_ref());
        let id = event.map(|e| e.id);
        if let Some(known) = self.accepted.get(&at) {
            return ensure("N1", *known == id, || {
                format!("the stream has {id:?} at {at:?} and had {known:?}")
            });
        }
        ensure("N2", self.assigned.get(&at) == Some(&id), || {
            format!("{id:?} was appended at {at:?} and is not planned there")
        })?;
        self.accepted.insert(at, id);
        let Some(event) = event else { return Ok(()) };
        let Some((order, committed)) = self.committed.get(&event.id) else {
            return ensure("O2", false, || format!("{id:?} was never committed"));
        };
        ensure("O1", committed == event, || {
            format!("{id:?} was changed on the way")
        })?;
        let Some(key) = event.key.clone() else {
            return Ok(());
        };
        let newest = self.newest.insert(key.clone(), *order);
        ensure("O3", newest.is_none_or(|newest| newest < *order), || {
            format!("{id:?} of {key} was published after a later one")
        })?;
        self.by_key.entry((at.0, key)).or_default().insert(at.1);
        Ok(())
    }

    fn effort(&self, asked: &[LaneAppend]) -> Checked {
        for append in asked {
            let hand_overs = self.hand_overs.get(&append.lane.slot).copied().unwrap_or(0);
            let allowed = 1 + hand_overs + self.excuses + self.losses;
            let worst = append.entries.iter().map(|e| {
                let at = (append.lane.slot, e.n);
                (self.attempts.get(&at).copied().unwrap_or(0), at)
            });
            let (attempts, at) = worst.max().unwrap_or_default();
            ensure("O5", attempts <= allowed, || {
                format!("{at:?} was appended {attempts} times where {allowed} are explained")
            })?;
        }
        Ok(())
    }

    /// The stream lost entries: what was there and is not any more.
    pub(crate) fn lost(&mut self, before: &Contents, after: &Contents) {
        let left: BTreeSet<At> = after.entries.values().map(at).collect();
        let gone = before.entries.values().map(at).filter(|at| !left.contains(at));
        self.destroyed.extend(gone);
        self.losses += 1;
    }
}

/// Each register moved by exactly the entries that came.
fn dense(before: &Contents, after: &Contents, fresh: &[&Stored]) -> Checked {
    for (lane, register) in &after.registers {
        let mut n = before.registers.get(lane).map_or(0, |r| r.n);
        for stored in fresh.iter().filter(|stored| stored.lane == *lane) {
            n += 1;
            ensure("N3", stored.entry.n == n, || {
                format!("lane {} got {} after {}", lane.slot, stored.entry.n, n - 1)
            })?;
        }
        ensure("N3", register.n == n, || {
            format!("lane {}: the register is {} at entry {n}", lane.slot, register.n)
        })?;
    }
    Ok(())
}

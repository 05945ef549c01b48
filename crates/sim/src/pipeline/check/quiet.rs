//! What must hold once the faults have ended.

use std::collections::BTreeSet;

use tidegate_core::inbox::transaction::ParkedState;
use tidegate_core::inbox::{Class, KeyRef};
use tidegate_core::memory::inbox::Contents as Inbox;
use tidegate_core::memory::outbox::Contents as Outbox;
use tidegate_core::memory::stream::Contents as Stream;
use tidegate_core::{Event, outbox::key_ref};

use super::super::workload::{Kind, kind_of};
use super::{At, Checked, Truth, ensure};

/// Everything that is stored.
pub(crate) struct State<'s> {
    pub(crate) outbox: &'s Outbox,
    pub(crate) stream: &'s Stream,
    pub(crate) inbox: &'s Inbox,
}

impl Truth {
    /// Everything is where it belongs.
    pub(crate) fn quiet(&self, state: &State<'_>) -> Checked {
        published(state)?;
        self.complete(state)?;
        self.parked_at_source(state)?;
        for row in &state.inbox.lanes {
            let end = state.stream.registers.get(&row.lane).map_or(0, |r| r.n);
            let stopped = self.is_gone(state, (row.lane.slot, row.state.hw + 1));
            ensure("Quiet", row.state.hw == end || stopped, || {
                format!("lane {}: applied to {} of {end}", row.lane.slot, row.state.hw)
            })?;
        }
        let all = state.stream.registers.iter().filter(|(_, r)| r.n > 0);
        let known = all.filter(|(lane, _)| state.inbox.position(**lane).is_none());
        ensure("Quiet", known.count() == 0, || {
            "the consumer does not know a lane".into()
        })?;
        parked_at_target(state)
    }

    /// Whether some consumer lane can go no further: what it needs is declared lost.
    pub(crate) fn is_stuck(&self, state: &State<'_>) -> bool {
        let mut rows = state.inbox.lanes.iter();
        rows.any(|row| self.is_gone(state, (row.lane.slot, row.state.hw + 1)))
    }

    /// Declared lost, or trimmed too early by a hold that a loss had made meaningless.
    fn is_gone(&self, state: &State<'_>, at: At) -> bool {
        is_lost(state, at) || (self.losses > 0 && self.trimmed.contains(&at))
    }

    /// The stream holds each number, or it was trimmed, or it is declared lost; and only what was destroyed is.
    fn complete(&self, state: &State<'_>) -> Checked {
        let present: BTreeSet<At> = state
            .stream
            .entries
            .values()
            .map(|e| (e.lane.slot, e.entry.n))
            .collect();
        for (lane, register) in &state.stream.registers {
            for n in 1..=register.n {
                let at = (lane.slot, n);
                let (here, lost) = (present.contains(&at), is_lost(state, at));
                let gone = self.trimmed.contains(&at);
                ensure("Quiet", here || lost || gone, || {
                    format!("{at:?} is neither in the stream nor declared lost")
                })?;
                ensure("Quiet", !(here && lost), || {
                    format!("{at:?} is in the stream and declared lost")
                })?;
                let destroyed = self.destroyed.contains(&at) && !state.outbox.settings.archive;
                ensure("Quiet", !lost || destroyed || gone, || {
                    format!("{at:?} is declared lost and was not destroyed")
                })?;
            }
        }
        Ok(())
    }

    /// What still waits in the outbox has a key with a poisoned head.
    fn parked_at_source(&self, state: &State<'_>) -> Checked {
        let published: BTreeSet<_> = self.accepted.values().flatten().collect();
        for (_, event) in self.committed.values() {
            let sent = published.contains(&event.id);
            let parked = state.outbox.parked.get(&key_ref(event));
            let waits = parked.is_some_and(|p| p.rows.values().any(|e| e.id == event.id));
            let id = event.id.as_u128();
            ensure("Quiet", sent != waits, || {
                format!("event {id}: published {sent}, parked at the source {waits}")
            })?;
            let head = parked.and_then(|p| p.rows.values().next());
            let cause = head.is_some_and(|e| kind_of(e) == Kind::Large);
            ensure("O4", sent || cause, || {
                format!("event {id} is parked for nothing")
            })?;
        }
        Ok(())
    }
}

/// What waits in the inbox has a dead head with its cause.
fn parked_at_target(state: &State<'_>) -> Checked {
    for (key, parked) in &state.inbox.parked {
        let head = parked.events.values().next();
        let class = head.and_then(|event| cause(event, true));
        let dead = parked.state == ParkedState::Dead;
        ensure("Quiet", dead && class == Some(parked.failure.class), || {
            format!(
                "a key waits with {:?} and {:?}; its head fails with {class:?}",
                parked.state, parked.failure.class
            )
        })?;
        let mine = parked.events.values().all(|e| KeyRef::of(key.lineage, e) == *key);
        ensure("Quiet", mine, || {
            "an event waits behind a key that is not its own".into()
        })?;
    }
    for skipped in state.inbox.skipped.values() {
        let known = cause(&skipped.delivered.event, false).is_some();
        ensure("Quiet", known, || "an event was skipped for nothing".into())?;
    }
    Ok(())
}

/// The class of failure that an event brings about; `still`: after the faults ended.
fn cause(event: &Event, still: bool) -> Option<Class> {
    match kind_of(event) {
        Kind::Bad => Some(Class::Handler),
        Kind::Flaky if !still => Some(Class::Handler),
        Kind::Killer => Some(Class::Crash),
        Kind::Plain | Kind::Large | Kind::Flaky => None,
    }
}

fn is_lost(state: &State<'_>, at: At) -> bool {
    let mut lost = state.stream.lost.iter();
    lost.any(|lost| lost.lane.slot == at.0 && (lost.from..=lost.through).contains(&at.1))
}

/// Nothing waits in the outbox but parked keys, and the stream holds what is settled.
fn published(state: &State<'_>) -> Checked {
    for (row, book) in state.outbox.lanes.iter().zip(&state.outbox.books) {
        let slot = row.lane.slot;
        ensure("Quiet", book.rows.is_empty() && book.plan.is_empty(), || {
            let (rows, planned) = (book.rows.len(), book.plan.len());
            format!("lane {slot}: {rows} rows wait, {planned} of them planned")
        })?;
        let n = state.stream.registers.get(&row.lane).map_or(0, |r| r.n);
        ensure("Quiet", n == row.state.settled, || {
            format!("lane {slot}: {} settled, {n} in the stream", row.state.settled)
        })?;
    }
    Ok(())
}

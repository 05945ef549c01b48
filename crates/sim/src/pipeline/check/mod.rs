//! Omniscient checkers: each keeps its own books from what stores really hold, apart from production code.
//!
//! | id | sentence | looked at |
//! |---|---|---|
//! | O1 | nothing leaves the outbox unless the stream accepted that id and those bytes under its number | each outbox transaction |
//! | O2 | nothing is published that was not committed | each append |
//! | O3 | per key, first publications follow commit order | each append |
//! | O4 | an event waits in the outbox only for a poisoned one of its own key | end |
//! | O5 | appends carried out per number stay within 1 + crashes + hand-overs + unknown outcomes + losses; one entry per life of the stream | each append |
//! | N1 | a number belongs to one event for ever, in plan and stream; only a park makes it void, before it is appended | each transaction and append |
//! | N2 | what is appended is planned and committed | each append |
//! | N3 | a lane's numbers in the stream are dense | each append |
//! | F1 | a transaction under a stale token changes nothing | each transaction |
//! | C1 | an effect happens once at most | each commit |
//! | C2 | in each snapshot the effects are those of the numbers that the inbox counts as applied | each commit |
//! | C3 | positions never go back | each commit |
//! | C4 | per key, effects follow stream order without holes | each commit |
//! | C5 | a cursor passes no entry that was not taken in; trimming deletes none | each move, each trim |
//! | C7 | a new consumer that starts at now passes over nothing that was published after it had started | each registration |
//! | C6 | a poison event leaves nothing else of its batch behind | each apply |
//! | S1 | a stopping process starts no work, releases a lane only when nothing works in it, and ends within its bound | each effect, end |
//! | S2 | a process whose drain is cut, by its bound or by a second signal, is gone at once: it sends nothing more, runs no handler, and every other sentence holds as after a crash | each effect |
//! | S3 | a clean drain leaves no lane owned and causes no second append | each drain, end |
//! | Q1 | position = start + applied + void + skipped + waiting, number by number | each commit |
//! | Q2 | a dead letter and the position commit together | each commit |
//! | Q3 | no message of a dead letter holds what the handler put into it unredacted | each commit |
//! | Q4 | a redrive or discard moves no position and has no effect of its own; redriven events stay behind C1 and C4 | each decision |
//! | W1 | a machine that is ticked when it asked to be does not ask for the same moment again | each step |
//! | W2 | a machine does not spin over the network either: calls per process and second are bounded | each step |
//! | Quiet | after the faults end, everything committed is published and applied, or parked with its cause; declared losses are exactly what was destroyed; every process knows that it is quiet | end |

mod inbox;
mod outbox;
mod quiet;
mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tidegate_core::stream::Chain;
use tidegate_core::{Event, Uuid};

pub(super) use inbox::went_on;
pub(super) use outbox::Writer;
pub(super) use quiet::State;

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Whose sentence is broken.
    pub checker: &'static str,
    /// How.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.text)
    }
}

/// What a checker says.
pub(super) type Checked = Result<(), Violation>;

/// Fails unless `holds`.
pub(super) fn ensure(checker: &'static str, holds: bool, text: impl FnOnce() -> String) -> Checked {
    if holds {
        return Ok(());
    }
    Err(Violation {
        checker,
        text: text(),
    })
}

/// A lane's slot and a number in it.
pub(super) type At = (u16, u64);

/// What really happened.
#[derive(Debug, Default)]
pub(super) struct Truth {
    /// Committed events with their place in commit order.
    pub(super) committed: BTreeMap<Uuid, (u64, Event)>,
    /// What each planned number stands for; `None`: void.
    pub(super) assigned: BTreeMap<At, Option<Uuid>>,
    /// The chain at each planned number.
    pub(super) chains: BTreeMap<At, Chain>,
    /// What the stream accepted, in any of its lives.
    pub(super) accepted: BTreeMap<At, Option<Uuid>>,
    /// Numbers of each key in the stream.
    pub(super) by_key: BTreeMap<(u16, String), BTreeSet<u64>>,
    /// The last first publication of each key, in commit order.
    pub(super) newest: BTreeMap<String, u64>,
    /// Appends carried out for each number, accepted or not.
    pub(super) attempts: BTreeMap<At, u64>,
    /// What else may explain an append, by slot.
    pub(super) hand_overs: BTreeMap<u16, u64>,
    /// What else may explain an append, for every lane.
    pub(super) excuses: u64,
    /// The stream lost entries.
    pub(super) losses: u64,
    /// Numbers that a loss destroyed at least once.
    pub(super) destroyed: BTreeSet<At>,
    /// Numbers that were deleted for their age.
    pub(super) trimmed: BTreeSet<At>,
    /// Appends refused because the register had moved.
    pub(super) moved: u64,
    /// The most that each lane of a new consumer may pass over: what the stream held when it was first registered.
    pub(super) starts: Option<BTreeMap<u16, u64>>,
    /// Entries met again by consumers.
    pub(super) duplicates: u64,
}

impl Truth {
    /// A transaction of a producer committed.
    pub(super) fn commit(&mut self, events: &[Event]) {
        for event in events {
            let order = self.committed.len() as u64;
            self.committed.insert(event.id, (order, event.clone()));
        }
    }

    /// A lane changed hands.
    pub(super) fn handed_over(&mut self, slot: u16) {
        *self.hand_overs.entry(slot).or_default() += 1;
    }

    pub(super) fn event(&self, id: Uuid) -> Option<&Event> {
        self.committed.get(&id).map(|(_, event)| event)
    }

    /// The chain at a number, from the plan.
    pub(super) fn chain(&self, at: At) -> Chain {
        self.chains.get(&at).copied().unwrap_or(Chain::START)
    }
}

//! Producers: transactions of a few events, of which some roll back.

use fastrand::Rng;
use tidegate_core::event::Draft;
use tidegate_core::time::micros;
use tidegate_core::{Event, Timestamp, Uuid};

use super::knobs::{Fault, Knobs};

/// Payloads above this are poison to the stream.
pub(super) const PAYLOAD_MAX: usize = 64;

/// What an event does to whoever meets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// Larger than the stream takes.
    Large,
    /// The handler never can.
    Bad,
    /// The handler cannot until the faults end.
    Flaky,
    /// Ends the process that handles it.
    Killer,
}

const KIND: &str = "kind";

/// One transaction.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    pub(super) at: i64,
    pub(super) commits: bool,
    pub(super) events: Vec<Event>,
}

/// The kind of an event.
pub(super) fn kind_of(event: &Event) -> Kind {
    match event.header(KIND) {
        Some("large") => Kind::Large,
        Some("bad") => Kind::Bad,
        Some("flaky") => Kind::Flaky,
        Some("killer") => Kind::Killer,
        _ => Kind::Plain,
    }
}

/// Every transaction of a run, in order of time.
pub(super) fn transactions(rng: &mut Rng, knobs: &Knobs) -> Vec<Transaction> {
    let mut id = 0;
    let mut all: Vec<_> = (0..knobs.transactions)
        .map(|_| Transaction {
            at: rng.i64(0..micros(knobs.chaos)),
            commits: rng.u32(0..8) > 0,
            events: Vec::new(),
        })
        .collect();
    all.sort_by_key(|t| t.at);
    for transaction in &mut all {
        for _ in 0..rng.u32(1..=6) {
            id += 1;
            transaction.events.push(event(rng, knobs, id, transaction.at));
        }
    }
    all
}

fn event(rng: &mut Rng, knobs: &Knobs, id: u128, at: i64) -> Event {
    let kind = match rng.u32(0..40) {
        0 if knobs.faults.has(Fault::Large) => Kind::Large,
        1 if knobs.faults.has(Fault::Bad) => Kind::Bad,
        2 if knobs.faults.has(Fault::Flaky) => Kind::Flaky,
        3 if knobs.faults.has(Fault::Killer) && rng.u32(0..3) == 0 => Kind::Killer,
        _ => Kind::Plain,
    };
    let draft = match rng.u32(0..10) {
        0 => Draft::keyless("sim"),
        _ => Draft::new("sim", format!("key{}", rng.u64(0..knobs.keys))),
    };
    let bytes = match kind {
        Kind::Large => PAYLOAD_MAX + 1,
        _ => rng.usize(0..=PAYLOAD_MAX),
    };
    let draft = match kind {
        Kind::Plain => draft,
        Kind::Large => draft.header(KIND, "large"),
        Kind::Bad => draft.header(KIND, "bad"),
        Kind::Flaky => draft.header(KIND, "flaky"),
        Kind::Killer => draft.header(KIND, "killer"),
    };
    let payload: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(bytes).collect();
    draft
        .payload("application/octet-stream", payload)
        .seal(Uuid::from_u128(id), Timestamp::from_micros(at))
        .unwrap_or_else(|error| unreachable!("the workload keeps the limits: {error}"))
}

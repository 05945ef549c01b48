//! Faults that come by themselves, decided before the world begins: the plan is data.

use fastrand::Rng;
use tidegate_core::time::micros;

use super::knobs::{Fault, Knobs};

/// One thing that goes wrong, or is done by a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// A process ends; it is started again after so many microseconds.
    Crash { node: usize, back_after: i64 },
    /// A process stands still.
    Pause { node: usize, for_micros: i64 },
    /// A process is told to stop.
    Drain { node: usize },
    /// A store refuses everything: 0 outbox, 1 stream, 2 inbox.
    Outage { store: usize, for_micros: i64 },
    /// The stream forgets its newest entries.
    Tail { entries: usize },
    /// The stream forgets everything.
    Flush,
    /// A store's clock jumps forward.
    StoreJump { store: usize, by: i64 },
    /// A process's wall clock jumps.
    WallJump { node: usize, by: i64 },
    /// A person releases the parked keys of the outbox.
    Release,
    /// A person redrives every dead key.
    Redrive,
    /// A person discards the first dead letter.
    Discard,
    /// Old entries are deleted from the stream.
    Trim,
}

/// When what happens, in order of time.
pub(super) fn plan(rng: &mut Rng, knobs: &Knobs) -> Vec<(i64, Deed)> {
    let mut deeds = Vec::new();
    for fault in Fault::ALL.into_iter().filter(|fault| knobs.faults.has(*fault)) {
        for _ in 0..rng.usize(1..=4) {
            let at = rng.i64(0..micros(knobs.chaos));
            deeds.extend(deed(fault, rng, knobs).map(|deed| (at, deed)));
        }
    }
    deeds.sort_by_key(|(at, _)| *at);
    deeds
}

fn deed(fault: Fault, rng: &mut Rng, knobs: &Knobs) -> Option<Deed> {
    let node = rng.usize(0..knobs.relays + knobs.consumers);
    let (store, ttl) = (rng.usize(0..3), micros(knobs.ttl));
    let span = rng.i64(1..2 * ttl);
    Some(match fault {
        Fault::Crash => Deed::Crash {
            node,
            back_after: span,
        },
        Fault::Pause => Deed::Pause {
            node,
            for_micros: span * 2,
        },
        Fault::Drain => Deed::Drain { node },
        Fault::Outage => Deed::Outage {
            store,
            for_micros: span,
        },
        Fault::Tail => Deed::Tail {
            entries: rng.usize(1..=20),
        },
        Fault::Flush if rng.bool() => Deed::Flush,
        Fault::Jump if rng.u32(0..4) > 0 => Deed::StoreJump {
            store,
            by: span + ttl,
        },
        Fault::Jump => Deed::WallJump {
            node,
            by: rng.i64(-ttl * 5..ttl * 5),
        },
        Fault::Large => Deed::Release,
        Fault::Bad | Fault::Flaky | Fault::Killer if rng.bool() => Deed::Redrive,
        Fault::Bad => Deed::Discard,
        Fault::Trim => Deed::Trim,
        _ => return None,
    })
}

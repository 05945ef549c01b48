//! The outbox: rows written in the user's own transaction, waiting to be published.
//!
//! # What it promises
//! Every committed row is published; no rolled-back row ever is. Per key, publication follows `seq` order, which is
//! commit order when the writers of the key hold a common lock up to commit (SQLite: always, it has one writer).
//!
//! # The three steps, and who is authoritative for what
//! 1. **Plan**: a transaction fenced by the lane row gives the next numbers `n` to visible rows in `seq` order, once
//!    and for ever. The lane row keeps the plan: `settled` and the seqs planned after it.
//! 2. **Append**: exactly as planned; the stream compares (see [`crate::stream`]).
//! 3. **Settle**: fenced delete of exactly the planned rows whose n was acknowledged, or a move to the archive.
//!
//! A plan is committed before its append. Its entries are never removed, reordered or reassigned; a planned event that
//! no relay can ever append is parked and its number becomes a void marker, committed before the marker is appended.
//!
//! ```text
//!   row ──plan──▶ (n, seq) ──append──▶ stream ──settle──▶ archive or gone
//!                    │
//!                    └─poison─▶ parked (the key waits; n becomes void)
//! ```
//!
//! # Failures
//! An outage pauses the lane and writes no row. An unknown append is resolved by reading the register. A register
//! below the last settled number is a loss: refilled from archive and plan, or declared lost with its range.

pub mod relay;

use crate::event::Event;
use crate::lane::{LaneId, Lineage};
use crate::lease::{Nonce, Token};
use crate::stream::Chain;

/// The stored settings of an outbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Its identity.
    pub lineage: Lineage,
    /// Its name.
    pub name: String,
    /// Number of lanes; fixed.
    pub lanes: u16,
    /// Settled rows are kept with their numbers.
    pub archive: bool,
}

/// What the outbox keeps for one lane, as a new owner reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LaneState {
    /// The last settled number.
    pub settled: u64,
    /// The chain at `settled`.
    pub chain: Chain,
    /// The last planned number; `planned - settled` events are unfinished.
    pub planned: u64,
}

/// One transaction of the relay: settle what was acknowledged, plan what is visible, hand the plan back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Turn {
    /// The owner; every lane is compared with it and its token.
    pub member: Nonce,
    /// What to do in each lane.
    pub lanes: Vec<LaneTurn>,
    /// Stop planning when the planned payloads exceed this many bytes; at least one row is planned where visible.
    pub bytes_max: usize,
}

/// A turn's part for one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LaneTurn {
    /// The lane.
    pub lane: LaneId,
    /// The tenure's token.
    pub token: Token,
    /// Settle through this number, which has this chain; the number must be planned.
    pub settle: Option<(u64, Chain)>,
    /// Plan at most this many more rows; zero plans none.
    pub plan: u32,
    /// Also hand back the unfinished plan of an earlier owner, first.
    pub load: bool,
}

/// The reply for one lane of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Turned {
    /// The lane.
    pub lane: LaneId,
    /// What happened.
    pub outcome: LaneTurned,
}

/// Outcome of one lane in a turn.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LaneTurned {
    /// Not mine any more: nothing was settled or planned in this lane.
    Fenced,
    /// Done.
    Planned {
        /// Planned events in order of n: the loaded plan first if asked, then the new ones.
        events: Vec<Planned>,
        /// Rows were left unplanned: come back at once.
        more: bool,
    },
}

/// A row with its number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Planned {
    /// The number.
    pub n: u64,
    /// The event; `None` is a void marker.
    pub event: Option<Event>,
}

/// A slice of settled history, for refilling a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Refill {
    /// Consecutive numbers from the one asked for; each with its chain. Empty: nothing at or after it is settled.
    Events(Vec<(Planned, Chain)>),
    /// The number asked for is not kept; the oldest kept number and the chain just before it.
    Missing {
        /// Oldest kept number: from here on refilling is possible. `settled + 1` when nothing is kept.
        oldest: u64,
        /// The chain at `oldest - 1`.
        chain: Chain,
    },
    /// The lane is not mine any more.
    Fenced,
}

/// Set aside the event planned as `n`, and everything of its key that is not yet appended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Park {
    /// The owner.
    pub member: Nonce,
    /// The lane.
    pub lane: LaneId,
    /// The tenure's token.
    pub token: Token,
    /// The poisoned number.
    pub n: u64,
    /// Also void the key's planned followers. Needs a sink that compares tokens.
    pub followers: bool,
    /// Why, without payload.
    pub reason: String,
}

/// Reply to [`Park`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ParkReply {
    /// Rows were moved to the parked table; their planned numbers are now void.
    Parked {
        /// The lane's new token: the old one must not be used again.
        token: Token,
        /// The numbers that became void, ascending.
        voided: Vec<u64>,
    },
    /// The lane is not mine any more.
    Fenced,
}

/// A lane, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneRow {
    /// The lane.
    pub lane: LaneId,
    /// The current or last token.
    pub token: Token,
    /// The owner's label; `None` when vacant or expired.
    pub owner: Option<String>,
    /// Last settled number.
    pub settled: u64,
    /// Last planned number.
    pub planned: u64,
    /// Rows waiting, planned ones included.
    pub depth: u64,
    /// Age of the oldest waiting row, microseconds on the store's clock.
    pub oldest_micros: Option<i64>,
    /// Keys set aside.
    pub parked_keys: u64,
}

/// A key set aside at the source, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedKey {
    /// The lane.
    pub lane: LaneId,
    /// The key, or the event id of a keyless event.
    pub key: String,
    /// Rows that wait.
    pub events: u64,
    /// Why the first one was refused.
    pub reason: String,
    /// Refusals so far; they survive restarts.
    pub attempts: u32,
}

/// How an outbox tells keys apart: `k:` and the key, or `e:` and the id of an event without one.
pub fn key_ref(event: &Event) -> String {
    match &event.key {
        Some(key) => format!("k:{key}"),
        None => format!("e:{}", event.id),
    }
}

//! The inbox: what has been applied, kept in the database that holds the effects.
//!
//! # What it promises
//! One transaction holds the handler's effects, the position, parked events and emitted events (I1). Ownership is a
//! row in the same database, locked in the same transaction (I2). An event is applied only when every earlier event
//! of its key has been; otherwise it waits in the key's parked queue, in order (I3). Whatever is not provably
//! contiguous stops and says so (I4).
//!
//! # What identifies what
//! A lane's position is one number: `hw`, the last n taken in. `n <= hw` is a duplicate, `n = hw + 1` is next, anything
//! above is a gap. The chain at `hw` tells two histories apart. `cursor` only says where to read from.
//!
//! # Failures
//! Infrastructure pauses and counts nothing. Data failures park the key and let others flow. A fenced owner stops.

pub mod apply;
pub mod block;
pub mod consumer;
pub mod handler;
pub mod projection;
mod retry;
mod sift;
#[cfg(test)]
mod tests;
pub mod transaction;

use crate::error::Error;
use crate::event::Event;
use crate::lane::{LaneId, Lineage};
use crate::lease::{Nonce, Token};
use crate::stream::{Chain, Entry, EntryId};
use crate::time::Timestamp;

/// Where to go back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewind {
    /// The lane.
    pub lane: LaneId,
    /// The last number that stays taken in.
    pub to: u64,
    /// The chain at `to`, from the stream.
    pub chain: Chain,
}

/// Where a consumer stands in one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Last number taken in: applied, parked, skipped or void.
    pub hw: u64,
    /// The chain at `hw`.
    pub chain: Chain,
    /// Every entry of the lane up to this id has `n <= hw`.
    pub cursor: EntryId,
    /// The previous owner released it after draining. When false the new owner starts in careful mode.
    pub clean: bool,
}

impl Position {
    /// Before the first event of a lane.
    pub const EARLIEST: Position = Position {
        hw: 0,
        chain: Chain::START,
        cursor: EntryId::START,
        clean: true,
    };
}

/// Where a new consumer starts; there is no default, since each choice loses or repeats something for somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the first event of each lane.
    Earliest,
    /// After what the stream holds now.
    Now,
    /// At the first event of each lane that the stream took at or after this time; one to come: as [`Start::Now`].
    At(Timestamp),
}

/// A key as the inbox knows it: an event without a key is one of its own, named by its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRef {
    /// The outbox whose key it is.
    pub lineage: Lineage,
    /// `k:` and the key, or `e:` and the event id.
    pub key: String,
}

impl KeyRef {
    /// The key of an event.
    pub fn of(lineage: Lineage, event: &Event) -> Self {
        let key = match &event.key {
            Some(key) => format!("k:{key}"),
            None => format!("e:{}", event.id),
        };
        Self { lineage, key }
    }
}

/// Entries to take in, lane by lane, in one or a few transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The owner.
    pub member: Nonce,
    /// Each owned lane that has something.
    pub lanes: Vec<LaneBatch>,
    /// After an unclean take-over: what is about to be handled is recorded and committed first (ADR-0007).
    pub careful: bool,
    /// Events that may fail in this call, at least one; at that many it ends with what is committed, and lanes stand
    /// where they are.
    pub failures_max: usize,
    /// The time written to parked rows.
    pub now: Timestamp,
}

/// A batch's part for one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneBatch {
    /// The lane.
    pub lane: LaneId,
    /// The tenure's token.
    pub token: Token,
    /// Entries in stream order; duplicates and already applied ones are dropped, not refused.
    pub entries: Vec<Entry>,
    /// The cursor to store when all entries were taken in.
    pub cursor: EntryId,
}

/// What became of a [`Batch`].
#[derive(Debug, Default)]
pub struct Applied {
    /// One outcome for each lane of the batch.
    pub lanes: Vec<(LaneId, LaneApplied)>,
    /// What was done in the transactions that committed.
    pub counts: Counts,
    /// The failures that parked a key or skipped an event, one each: the breaker counts distinct keys.
    pub failures: Vec<Failed>,
    /// Events were taken one at a time, and only a few of them: so are the next.
    pub doubtful: bool,
    /// Infrastructure failed, or an outcome is unknown: nothing was blamed; give the same batch again after a pause.
    pub pause: Option<Error>,
}

/// A failure that was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Whose.
    pub key: KeyRef,
    /// See [`Failure::fingerprint`].
    pub fingerprint: String,
}

/// Outcome for one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneApplied {
    /// The lane stands here now; below the end of its entries when the call ended early.
    At(Position),
    /// The row no longer carries my member and token: stop, drop the lane.
    Fenced,
    /// The next entry is not `hw + 1`: read again from the beginning; if it stays, events are missing.
    Gap {
        /// Last number taken in.
        hw: u64,
        /// The entry that came.
        next: u64,
    },
    /// The entry's chain does not follow from mine: two histories share this number.
    Fork {
        /// The number.
        n: u64,
    },
    /// A bound was reached or the policy says halt: nothing more is taken in until a person acts.
    Halted {
        /// Last number taken in.
        hw: u64,
        /// Why.
        reason: String,
    },
}

/// Counters of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Events whose handler ran and committed.
    pub applied: u64,
    /// Entries dropped because `n <= hw`.
    pub duplicates: u64,
    /// Void markers passed.
    pub voids: u64,
    /// Keys newly parked.
    pub parked: u64,
    /// Events queued behind a parked key, heads included.
    pub queued: u64,
    /// Events dead-lettered by the policy `skip`.
    pub skipped: u64,
    /// Keys whose queue was emptied.
    pub unparked: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.applied += other.applied;
        self.duplicates += other.duplicates;
        self.voids += other.voids;
        self.parked += other.parked;
        self.queued += other.queued;
        self.skipped += other.skipped;
        self.unparked += other.unparked;
    }
}

/// Due retries of parked keys in these lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// The owner.
    pub member: Nonce,
    /// Lanes it owns.
    pub lanes: Vec<(LaneId, Token)>,
    /// Keys that may fail in this call, at least one; at that many it ends.
    pub failures_max: usize,
    /// Keys due at or before this are tried, head first.
    pub now: Timestamp,
}

/// Reply to [`Retry`].
#[derive(Debug, Default)]
pub struct Retried {
    /// What was done.
    pub counts: Counts,
    /// When the next key is due, among keys that are not dead.
    pub next: Option<Timestamp>,
    /// As [`Applied::pause`].
    pub pause: Option<Error>,
}

/// An event as a handler receives it; `(consumer, lane, n)` is its idempotency key for effects elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// Its lane.
    pub lane: LaneId,
    /// Its number in the lane.
    pub n: u64,
    /// The event.
    pub event: Event,
}

/// What kind of data failure parked a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The payload cannot be read, or lacks a required field.
    Decode,
    /// The database refused the data (constraint, type, range).
    Data,
    /// The handler said so.
    Handler,
    /// The handler panicked.
    Panic,
    /// The process ended while this event's handler ran, more often than allowed.
    Crash,
}

/// Why one event could not be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its class.
    pub class: Class,
    /// Equal for equal causes, such as an error code or a constraint's name; holds no data.
    pub fingerprint: String,
    /// For people; redacted before it is stored.
    pub message: String,
}

/// What a handler answers.
#[derive(Debug)]
pub enum Verdict {
    /// All events are applied in the given transaction.
    Applied,
    /// One event is to blame.
    Failed {
        /// Which of the given events; `None`: one of them, and the search for it runs smaller and smaller batches.
        index: Option<usize>,
        /// Why.
        failure: Failure,
    },
    /// Nothing is wrong with the events: something below is down.
    Infrastructure(Error),
}

/// What to do with a key whose head failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Park the key, retry its head with back-off, dead after `attempts_max`.
    Park,
    /// Dead-letter this event at once and let the key go on.
    Skip,
    /// Stop the lane.
    Halt,
}

/// How a consumer treats failures; every bound has a default with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What a failing event does to its key.
    pub policy: Policy,
    /// Retries before a parked key is dead: 8, about four minutes of back-off. The failure that parked it is not one.
    pub attempts_max: u32,
    /// First pause before a retry, in microseconds: one second; doubles up to five minutes.
    pub backoff_micros: i64,
    /// Crashes blamed on one event before it is parked: 3.
    pub crashes_max: u32,
    /// Events that may wait behind one key: 10,000. At the bound the lane halts.
    pub key_events_max: u64,
    /// Events that may wait in all: 100,000. At the bound the lane halts.
    pub parked_events_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: Policy::Park,
            attempts_max: 8,
            backoff_micros: 1_000_000,
            crashes_max: 3,
            key_events_max: 10_000,
            parked_events_max: 100_000,
        }
    }
}

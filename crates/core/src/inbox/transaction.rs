//! The apply transaction as [`super::apply`] sees it: a database with begin and commit, and a few typed statements.
//!
//! Each method is one statement, or two, whatever the number of lanes and events. Futures need not be `Send`: SQLite
//! runs them on its writer thread, where they are ready at once. Dropping a transaction rolls it back.

use crate::error::{Error, Result};
use crate::inbox::{Class, Delivered, Failure, KeyRef, Position};
use crate::lane::LaneId;
use crate::lease::{Nonce, Token};
use crate::time::Timestamp;

/// What became of a commit.
#[derive(Debug)]
pub enum Commit {
    /// It stands.
    Done,
    /// It was rolled back. [`crate::Code::HandlerFailed`]: by a constraint that is checked at commit.
    Refused(Error),
    /// It may stand: read positions again before believing either.
    Unknown(Error),
}

/// The database that holds the effects and the position of one consumer.
#[allow(async_fn_in_trait)] // Futures need not be Send: see the head of the file.
pub trait InboxDb {
    /// A transaction; a handler gets at the vendor's own through it.
    type Tx<'a>: InboxTx
    where
        Self: 'a;

    /// Begins a transaction that may write.
    async fn begin(&self) -> Result<Self::Tx<'_>>;

    /// Commits it.
    async fn commit<'a>(&'a self, tx: Self::Tx<'a>) -> Commit;
}

/// The statements of the apply transaction.
///
/// # Errors
/// Of every method: an error is one of infrastructure, blames no event, and ends the transaction.
#[allow(async_fn_in_trait)]
pub trait InboxTx {
    /// Locks the rows of those lanes that still carry this member and token; the others are missing in the reply.
    async fn lock_lanes(&mut self, member: Nonce, lanes: &[(LaneId, Token)]) -> Result<Vec<Locked>>;

    /// Which of these keys are parked, with the number of events that wait.
    async fn parked_among(&mut self, keys: &[KeyRef]) -> Result<Vec<(KeyRef, u64)>>;

    /// Events that wait in all parked queues of the consumer.
    async fn parked_total(&mut self) -> Result<u64>;

    /// Parks these keys, and queues these events behind their keys, which are parked before or hereby.
    async fn set_aside(&mut self, keys: &[NewlyParked], events: &[Waiting]) -> Result<()>;

    /// Dead-letters one event that does not hold back its key.
    async fn skip(&mut self, skipped: &Skipped) -> Result<()>;

    /// Moves lanes by compare-and-set on member, token and `from`; returns how many rows matched.
    async fn advance(&mut self, member: Nonce, lanes: &[Advance]) -> Result<usize>;

    /// Parked keys of these lanes that are not dead, earliest due first.
    async fn scheduled(&mut self, lanes: &[LaneId], limit: u32) -> Result<Vec<Scheduled>>;

    /// The first events of a parked key, in order.
    async fn queue_head(&mut self, lane: LaneId, key: &KeyRef, limit: u32) -> Result<Vec<Delivered>>;

    /// Removes these events from a parked key's queue; when it is empty the key is un-parked. Returns what is left.
    async fn unqueue(&mut self, lane: LaneId, key: &KeyRef, through: u64) -> Result<u64>;

    /// Records that the head of a parked key failed again.
    async fn reschedule(&mut self, key: &KeyRef, failed: &FailedAgain) -> Result<()>;

    /// What was announced beyond the position of these lanes and has no result.
    async fn announced(&mut self, lanes: &[LaneId]) -> Result<Vec<Announced>>;

    /// Replaces what is announced beyond a position, lane by lane.
    async fn announce(&mut self, lanes: &[Announce]) -> Result<()>;

    /// Records that this tenure is about to hand event `n` alone to the handler, once per token. Returns how many
    /// tenures did so and left no result, this one included.
    async fn attempt(&mut self, lane: LaneId, n: u64, token: Token) -> Result<u32>;

    /// False: the handler ended the transaction behind our back, for example with `INSERT OR ROLLBACK`, or left it
    /// failed. Asked after each call of a handler.
    async fn is_open(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Forgets the attempts at event `n`: they had a result.
    async fn clear_attempt(&mut self, lane: LaneId, n: u64) -> Result<()>;
}

/// Events of a lane that were about to be handled, and have no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// The lane.
    pub lane: LaneId,
    /// The first of them.
    pub n: u64,
    /// The last of them.
    pub upto: u64,
    /// Whose tenure announced them.
    pub token: Token,
    /// They are taken one at a time.
    pub alone: bool,
}

/// What is to stand announced in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announce {
    /// The lane.
    pub lane: LaneId,
    /// Whatever is announced beyond this number is replaced.
    pub beyond: u64,
    /// By this, or by nothing.
    pub range: Option<Announced>,
}

/// A lane row, locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    /// The lane.
    pub lane: LaneId,
    /// Where it stands.
    pub position: Position,
    /// Events of the lane that wait in parked queues; zero means that no key of the lane is parked.
    pub parked: u64,
}

/// The state of a parked key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParkedState {
    /// Tried again at `next_at`.
    Retrying,
    /// Waits for a person.
    Dead,
}

/// A key to park, with the failure of its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewlyParked {
    /// Its lane.
    pub lane: LaneId,
    /// The key.
    pub key: KeyRef,
    /// Retrying, or dead at once.
    pub state: ParkedState,
    /// Why; the message is redacted.
    pub failure: Failure,
    /// Now.
    pub at: Timestamp,
    /// When to try again.
    pub next_at: Timestamp,
}

/// An event that waits behind its key, the head included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its key.
    pub key: KeyRef,
    /// The event with its position.
    pub delivered: Delivered,
}

/// An event dead-lettered by the policy `skip`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its key.
    pub key: KeyRef,
    /// The event with its position.
    pub delivered: Delivered,
    /// Why; the message is redacted.
    pub failure: Failure,
    /// Now.
    pub at: Timestamp,
}

/// A lane's move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advance {
    /// The lane.
    pub lane: LaneId,
    /// The tenure's token.
    pub token: Token,
    /// `hw` as it was when the row was locked.
    pub from: u64,
    /// Where the lane stands from now on; `clean` is not written.
    pub to: Position,
    /// What the move consists of.
    pub tally: Tally,
}

/// What became of a lane's numbers: `hw - start` is the sum of these and of what people discarded, in every snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Events applied.
    pub applied: i64,
    /// Void markers.
    pub voids: i64,
    /// Events dead-lettered by the policy `skip`.
    pub skipped: i64,
    /// Events that wait in parked queues.
    pub parked: i64,
}

/// Where a lane's numbers went, since it was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ledger {
    /// `hw` when the lane was registered.
    pub start: u64,
    /// Counted by the apply transaction.
    pub tally: Tally,
    /// Given up by a person.
    pub discarded: i64,
}

impl Ledger {
    /// `hw` as it follows from the parts (invariant Q1).
    pub fn sum(&self) -> i64 {
        let Tally {
            applied,
            voids,
            skipped,
            parked,
        } = self.tally;
        self.start.cast_signed() + applied + voids + skipped + parked + self.discarded
    }
}

/// A parked key and when it is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// Its lane.
    pub lane: LaneId,
    /// The key.
    pub key: KeyRef,
    /// Retries so far.
    pub attempts: u32,
    /// When to try.
    pub next_at: Timestamp,
}

/// A failed retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAgain {
    /// Retrying, or dead.
    pub state: ParkedState,
    /// Retries so far, this one included.
    pub attempts: u32,
    /// Why; the message is redacted.
    pub failure: Failure,
    /// Now.
    pub at: Timestamp,
    /// When to try again.
    pub next_at: Timestamp,
}

impl ParkedState {
    /// As stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            ParkedState::Retrying => "retrying",
            ParkedState::Dead => "dead",
        }
    }
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 5] = [
        Class::Decode,
        Class::Data,
        Class::Handler,
        Class::Panic,
        Class::Crash,
    ];

    /// As stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Decode => "decode",
            Class::Data => "data",
            Class::Handler => "handler",
            Class::Panic => "panic",
            Class::Crash => "crash",
        }
    }
}

//! The stream: where published events wait for readers.
//!
//! # What it promises
//! An entry of a lane is accepted only as the lane's register plus one, compared and advanced in one atomic step
//! (ADR-0002). So a stream holds each event at most once per incarnation, in order per lane, whoever sent it.
//!
//! # Who is authoritative
//! The outbox database numbers events; the stream only compares. A stream may lose its tail (flush, failover,
//! restore): the relay notices by the register and refills in the same numbers.
//!
//! # What it does not promise
//! Nothing across lanes. Nothing about how long entries stay: `retain` and the readers' holds decide that.

mod locate;

use std::fmt;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::event::Event;
use crate::lane::LaneId;
use crate::lease::Token;
use crate::time::Timestamp;

pub use locate::Locator;

/// A hash over all event ids of a lane up to some n: two histories that share a number differ here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Chain(pub [u8; 16]);

impl Chain {
    /// The chain before the first event.
    pub const START: Chain = Chain([0; 16]);

    /// The chain after event `n`; `None` is a void marker. First 16 bytes of `SHA-256(chain, n, tag, id)`.
    #[must_use]
    pub fn next(self, n: u64, id: Option<Uuid>) -> Chain {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(n.to_be_bytes());
        match id {
            Some(id) => {
                hash.update(b"e");
                hash.update(id.as_bytes());
            }
            None => hash.update(b"v"),
        }
        let digest = hash.finalize();
        let mut out = [0; 16];
        out.copy_from_slice(&digest[..16]);
        Chain(out)
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// A physical position in one incarnation of a stream; ordered; opaque outside its store.
///
/// SQLite: `(0, rowid)`. Redis: milliseconds and sequence. NATS: `(0, sequence)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntryId(pub u64, pub u64);

impl EntryId {
    /// Before every entry.
    pub const START: EntryId = EntryId(0, 0);

    /// The greatest position below this one.
    #[must_use]
    pub fn before(self) -> Self {
        match self {
            EntryId(0, 0) => self,
            EntryId(hi, 0) => EntryId(hi - 1, u64::MAX),
            EntryId(hi, lo) => EntryId(hi, lo - 1),
        }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

impl std::str::FromStr for EntryId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (hi, lo) = text.split_once('-').unwrap_or(("0", text));
        Ok(EntryId(hi.parse()?, lo.parse()?))
    }
}

/// One published entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it stands in this incarnation.
    pub id: EntryId,
    /// Its lane.
    pub lane: LaneId,
    /// Its number in the lane: dense, from 1, assigned once and for ever by the outbox database.
    pub n: u64,
    /// The chain after it.
    pub chain: Chain,
    /// The event; `None` is a void marker: the number is used, nothing is to be applied.
    pub event: Option<Event>,
}

/// What the stream knows of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Register {
    /// The last accepted number; zero before the first.
    pub n: u64,
    /// The highest token seen.
    pub token: Token,
    /// The chain at `n`.
    pub chain: Chain,
}

/// Every lane's register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registers {
    /// The incarnation they belong to.
    pub incarnation: Uuid,
    /// In order of lane.
    pub lanes: Vec<(LaneId, Register)>,
}

/// Events of one lane, to be appended exactly as planned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaneAppend {
    /// The lane.
    pub lane: LaneId,
    /// The tenure's token; an older one is refused.
    pub token: Token,
    /// Consecutive numbers, from the register's n plus one.
    pub entries: Vec<Numbered>,
}

/// A planned event with the number the database gave it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Numbered {
    /// Its number.
    pub n: u64,
    /// The chain after it.
    pub chain: Chain,
    /// The event, or a void marker.
    pub event: Option<Event>,
}

/// What the stream said to one [`LaneAppend`]: outcomes, not errors.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Appended {
    /// All entries stand; the register is at this number.
    Through(u64),
    /// The first number was not the register's plus one: nothing was appended. Continue from the register.
    Moved(Register),
    /// A newer token has been here: nothing was appended.
    Fenced(Token),
    /// Entry `n` can never be appended by anyone; entries before it were not appended either.
    Poison {
        /// Which.
        n: u64,
        /// Why, without payload.
        reason: String,
    },
    /// This lane cannot be served now (a limit an operator can raise): an outage of the lane, nothing was appended.
    Paused(String),
}

/// What a sink can promise; printed at start and by `doctor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Appends are compared with a register in the same atomic step: each event once. Otherwise at least once.
    pub compare_and_append: bool,
    /// An older token is refused by the sink itself.
    pub tokens: bool,
    /// Largest payload it takes, in bytes.
    pub payload_bytes_max: usize,
    /// Most entries in one append call, over all lanes.
    pub batch_max: usize,
}

impl Capabilities {
    /// The guarantee in the words used everywhere.
    pub fn guarantee(&self) -> &'static str {
        if self.compare_and_append {
            "exactly once in the stream"
        } else {
            "at least once"
        }
    }
}

/// What a reader keeps from being trimmed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReaderHold {
    /// Who: a consumer's name.
    pub reader: String,
    /// It needs everything after this.
    pub below: EntryId,
    /// When it said so last.
    pub renewed_at: Timestamp,
}

/// Where a reader may begin in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// After this number.
    pub n: u64,
    /// The chain there.
    pub chain: Chain,
    /// Every entry of the lane up to here has at most that number.
    pub cursor: EntryId,
}

/// A page of entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The stream's incarnation: a new one means that positions of the old one mean nothing.
    pub incarnation: Uuid,
    /// Entries in order of id.
    pub entries: Vec<Entry>,
    /// Every entry of the asked lanes up to here is in this page or was before it.
    pub scanned: EntryId,
    /// The last id the stream has; below the reader's cursor it means that the stream lost entries.
    pub last: EntryId,
}

/// A range that no archive could bring back, declared by an explicit step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lost {
    /// The lane.
    pub lane: LaneId,
    /// First lost number.
    pub from: u64,
    /// Last lost number.
    pub through: u64,
    /// The chain at `through`, from the outbox's own records.
    pub chain: Chain,
}

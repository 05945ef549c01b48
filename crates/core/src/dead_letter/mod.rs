//! Dead letters: events that could not be applied, kept for a person to decide.
//!
//! **Promises.** Nothing is dropped silently: a dead letter is a parked row that keeps the original bytes, so it can
//! be redriven. No personal data reaches people, logs, metrics or sinks: whatever leaves the row passes
//! [`redact`] first, and what cannot be redacted is not shown.
//!
//! **Identity.** Native streams: (consumer, lineage, lane, n). Foreign streams: (consumer, event id, topic).
//!
//! **Authority.** The row in the target database is the only truth. Views, exports and sinks hold redacted copies and
//! point back at the row; redrive reads the row, never a copy.
//!
//! ```text
//! parked --attempts used up--> dead --redrive--> parked
//!                               |----discard---> gone, audited with a reason
//! ```
//!
//! **Failures.** A sink that fails leaves the event parked. A redactor that cannot understand its input returns a
//! fixed mask.
//!
//! **Not promised.** Redaction recognises names and shapes; it cannot know that free prose is about a person. Name
//! such fields in [`redact::Options`].

mod courier;
pub mod redact;
mod view;

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::error::{Code, Error, Result};
use crate::inbox::KeyRef;
use crate::inbox::transaction::Ledger;
use crate::lane::{LaneId, Lineage};
use crate::time::Timestamp;
use redact::Redacted;

pub use courier::Courier;
pub use view::Raw;

/// The position of an event in its stream: `lineage/slot/n` in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Its lane.
    pub lane: LaneId,
    /// Its number.
    pub n: u64,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.lane, self.n)
    }
}

impl FromStr for Id {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let parsed = match parts.as_slice() {
            [lineage, slot, n] => Uuid::parse_str(lineage)
                .ok()
                .zip(slot.parse().ok().zip(n.parse().ok())),
            _ => None,
        };
        let Some((lineage, (slot, n))) = parsed else {
            return Err(Error::new(
                Code::OptionsInvalid,
                "a dead letter's id is lineage/slot/number, as `dead-letter ls` prints it",
            ));
        };
        let lane = LaneId {
            lineage: Lineage(lineage),
            slot,
        };
        Ok(Self { lane, n })
    }
}

/// Where an event that could not be applied stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// The head of a key that is tried again.
    Retrying,
    /// The head of a key that waits for a person.
    Dead,
    /// Dead-lettered by the policy `skip`: its key went on without it.
    Skipped,
}

impl State {
    /// As stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Retrying => "retrying",
            State::Dead => "dead",
            State::Skipped => "skipped",
        }
    }
}

/// What to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Only these.
    pub state: Option<State>,
    /// Only with this cause.
    pub fingerprint: Option<String>,
    /// At most so many, oldest first.
    pub limit: u32,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            state: None,
            fingerprint: None,
            limit: 100,
        }
    }
}

/// Where a letter stands in the order in which letters are offered: by age, then by position.
pub type Place = (Timestamp, Id);

/// Which letters to offer to a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    /// Only of these lanes.
    pub lanes: Option<Vec<LaneId>>,
    /// Only those behind this one.
    pub after: Option<Place>,
    /// At most so many.
    pub limit: u32,
}

impl Default for Untold {
    fn default() -> Self {
        Self {
            lanes: None,
            after: None,
            limit: 100,
        }
    }
}

/// A letter that a sink has taken: this death of the event, and no later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// The event.
    pub id: Id,
    /// When it had failed last.
    pub failed_at: Timestamp,
}

/// A line of a list. Nothing in it is unredacted data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// The head's position.
    pub id: Id,
    /// Where it stands.
    pub state: State,
    /// The key with its tag.
    pub key: Redacted,
    /// The event's id.
    pub event_id: Uuid,
    /// The event's topic.
    pub topic: String,
    /// Class of the last failure, as stored.
    pub class: String,
    /// Equal for equal causes.
    pub fingerprint: String,
    /// The last failure.
    pub message: Redacted,
    /// Retries of this head.
    pub attempts: u32,
    /// Events that wait for it, itself included.
    pub waiting: u64,
    /// When the key was parked, or the event skipped.
    pub since: Timestamp,
    /// When it failed last.
    pub failed_at: Timestamp,
    /// When it is tried again; `None`: not by itself.
    pub next_at: Option<Timestamp>,
}

/// One event that waits, whole, as a person or a sink may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// Its line; for an event behind the head, `id` and event are its own, the rest is the key's.
    pub letter: Letter,
    /// A JSON object of names and values.
    pub headers: Redacted,
    /// Media type of the payload.
    pub content_type: String,
    /// The payload.
    pub payload: Redacted,
    /// Its size in bytes, unredacted.
    pub payload_bytes: usize,
    /// The entity's version.
    pub version: Option<i64>,
    /// When it was enqueued.
    pub occurred_at: Timestamp,
}

/// What to redrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The key in whose queue this event waits.
    Event(Id),
    /// This key.
    Key(KeyRef),
    /// Every dead key with this cause.
    Fingerprint(String),
    /// Every dead key.
    All,
}

/// What became of a decision: the same decision again changes nothing and says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// Done and recorded.
    Done,
    /// It had been done before.
    Already,
}

/// A decision of a person, as recorded in the transaction that carried it out. It holds neither payload nor key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// When.
    pub at: Timestamp,
    /// `redrive`, `discard` or `release`.
    pub action: String,
    /// Why, in the person's words.
    pub reason: String,
    /// The event.
    pub id: Id,
    /// Its id at the producer.
    pub event_id: Uuid,
    /// Cause of the failure decided about.
    pub fingerprint: String,
}

/// Where a lane stands and where its numbers went, from one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Books {
    /// The lane.
    pub lane: LaneId,
    /// Last number taken in; [`Ledger::sum`] is equal to it (invariant Q1).
    pub hw: u64,
    /// Where the numbers went.
    pub ledger: Ledger,
}

/// What is parked now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParkedKeys {
    /// Keys tried again by themselves.
    pub retrying: u64,
    /// Keys that wait for a person.
    pub dead: u64,
    /// Events that wait in both, heads included.
    pub events: u64,
}

/// Longest reason: a paragraph.
const REASON_BYTES_MAX: usize = 1024;

/// Checks the reason of a decision that cannot be undone.
///
/// # Errors
/// [`Code::OptionsInvalid`] when it is empty or too long.
pub fn check_reason(reason: &str) -> Result<()> {
    let bytes = reason.trim().len();
    if (1..=REASON_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(Error::new(
        Code::OptionsInvalid,
        format!("the reason is {bytes} bytes; it needs 1 to {REASON_BYTES_MAX}"),
    ))
}

/// The error for a position at which nothing waits.
pub fn not_here(id: Id) -> Error {
    Error::new(Code::NotFound, format!("no dead letter at {id}"))
}

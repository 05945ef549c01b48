//! From rows to what may be seen.

use serde_json::{Map, Value};

use super::redact::{Redacted, Redactor};
use super::{Detail, Id, Letter, State};
use crate::event::Event;
use crate::time::Timestamp;

/// A row as a store reads it.
#[derive(Debug, Clone)]
pub struct Raw {
    /// The position.
    pub id: Id,
    /// Where it stands.
    pub state: State,
    /// The key with its tag.
    pub key: String,
    /// Class of the last failure.
    pub class: String,
    /// Its fingerprint.
    pub fingerprint: String,
    /// Its message, redacted when it was stored and once more when it is shown, under today's options.
    pub message: String,
    /// Retries of the head.
    pub attempts: u32,
    /// Events in the key's queue.
    pub waiting: u64,
    /// When it was parked or skipped.
    pub since: Timestamp,
    /// When it failed last.
    pub failed_at: Timestamp,
    /// When it is tried again.
    pub next_at: Option<Timestamp>,
    /// The event.
    pub event: Event,
}

impl Raw {
    /// A line of a list; the payload is not looked at.
    pub fn letter(&self, redactor: &Redactor) -> Letter {
        Letter {
            id: self.id,
            state: self.state,
            key: Redacted::text(redactor, &self.key),
            event_id: self.event.id,
            topic: self.event.topic.clone(),
            class: self.class.clone(),
            fingerprint: self.fingerprint.clone(),
            message: Redacted::text(redactor, &self.message),
            attempts: self.attempts,
            waiting: self.waiting,
            since: self.since,
            failed_at: self.failed_at,
            next_at: self.next_at.filter(|_| self.state == State::Retrying),
        }
    }

    /// The whole event.
    pub fn detail(&self, redactor: &Redactor) -> Detail {
        Detail {
            letter: self.letter(redactor),
            headers: headers(&self.event, redactor),
            content_type: self.event.content_type.clone(),
            payload: Redacted::payload(redactor, &self.event.content_type, &self.event.payload),
            payload_bytes: self.event.payload.len(),
            version: self.event.version,
            occurred_at: self.event.occurred_at,
        }
    }
}

/// As one JSON object, so that names decide as they do in a payload. Of a repeated name the first value is shown.
fn headers(event: &Event, redactor: &Redactor) -> Redacted {
    let mut object = Map::new();
    for (name, value) in &event.headers {
        object
            .entry(name.clone())
            .or_insert_with(|| Value::from(value.as_str()));
    }
    Redacted::payload(
        redactor,
        "application/json",
        Value::Object(object).to_string().as_bytes(),
    )
}

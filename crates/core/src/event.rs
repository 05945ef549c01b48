//! An event: what a service says happened, in its own transaction.

use bytes::Bytes;
use uuid::Uuid;

use crate::error::{Code, Error, Result};
use crate::limits;
use crate::time::Timestamp;

/// One event as stored, published and applied.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Event {
    /// Unique for ever; a version 7 UUID unless the producer chose it.
    pub id: Uuid,
    /// A label, such as `orders`; it decides nothing about order.
    pub topic: String,
    /// The unit of order. `None`: this event is a key of its own.
    pub key: Option<String>,
    /// The entity's version after this event, when the producer has one.
    pub version: Option<i64>,
    /// Media type of the payload.
    pub content_type: String,
    /// Names and values, in the producer's order; trace context travels here.
    pub headers: Vec<(String, String)>,
    /// Opaque bytes; never parsed on the way.
    pub payload: Bytes,
    /// When it was enqueued.
    pub occurred_at: Timestamp,
}

impl Event {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    /// Checks every limit; stores do so before a driver sees the event.
    ///
    /// # Errors
    /// As [`Draft::seal`].
    pub fn validate(&self) -> Result<()> {
        let key = self.key.as_deref();
        check(&self.topic, key, &self.content_type, &self.headers, &self.payload)
    }
}

/// An event not yet enqueued: `id` and time are given at enqueue unless set here.
#[derive(Clone, PartialEq, Eq)]
pub struct Draft {
    /// Topic.
    pub topic: String,
    /// Key, or none.
    pub key: Option<String>,
    /// Id, when the producer chooses it (for its own idempotency).
    pub id: Option<Uuid>,
    /// Version.
    pub version: Option<i64>,
    /// Media type; `application/octet-stream` until set.
    pub content_type: String,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// Payload.
    pub payload: Bytes,
}

/// Shows sizes, never the payload or header values.
impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft")
            .field("topic", &self.topic)
            .field("id", &self.id)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

impl Draft {
    /// A draft of an event of `key`.
    pub fn new(topic: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            key: Some(key.into()),
            ..Self::keyless(topic)
        }
    }

    /// A draft of an event that is ordered with nothing.
    pub fn keyless(topic: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            key: None,
            id: None,
            version: None,
            content_type: "application/octet-stream".into(),
            headers: Vec::new(),
            payload: Bytes::new(),
        }
    }

    /// Sets the payload and its media type.
    #[must_use]
    pub fn payload(mut self, content_type: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        self.content_type = content_type.into();
        self.payload = payload.into();
        self
    }

    /// Sets a JSON payload.
    ///
    /// # Errors
    /// [`Code::EventInvalid`] when `value` cannot be written as JSON.
    pub fn json(self, value: &impl serde::Serialize) -> Result<Self> {
        let bytes = serde_json::to_vec(value).map_err(|e| {
            Error::new(Code::EventInvalid, "payload cannot be written as JSON").with_source(e)
        })?;
        Ok(self.payload("application/json", bytes))
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the id.
    #[must_use]
    pub fn id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the entity's version.
    #[must_use]
    pub fn version(mut self, version: i64) -> Self {
        self.version = Some(version);
        self
    }

    /// Checks every limit and makes the event. `id` is used when the draft has none.
    ///
    /// # Errors
    /// [`Code::EventInvalid`] naming the field, its size and the limit; never its value.
    pub fn seal(self, id: Uuid, now: Timestamp) -> Result<Event> {
        self.validate()?;
        Ok(Event {
            id: self.id.unwrap_or(id),
            topic: self.topic,
            key: self.key,
            version: self.version,
            content_type: self.content_type,
            headers: self.headers,
            payload: self.payload,
            occurred_at: now,
        })
    }

    /// Checks every limit.
    ///
    /// # Errors
    /// As [`Draft::seal`].
    pub fn validate(&self) -> Result<()> {
        let key = self.key.as_deref();
        check(&self.topic, key, &self.content_type, &self.headers, &self.payload)
    }
}

fn check(
    topic: &str,
    key: Option<&str>,
    content_type: &str,
    headers: &[(String, String)],
    payload: &[u8],
) -> Result<()> {
    text("topic", topic, 1, limits::TOPIC_BYTES_MAX)?;
    if let Some(key) = key {
        text("key", key, 1, limits::KEY_BYTES_MAX)?;
    }
    text("content_type", content_type, 1, limits::CONTENT_TYPE_BYTES_MAX)?;
    size("payload", payload.len(), limits::PAYLOAD_BYTES_MAX)?;
    let total = headers.iter().map(|(n, v)| n.len() + v.len()).sum();
    size("headers", total, limits::HEADERS_BYTES_MAX)?;
    for (name, value) in headers {
        text("header name", name, 1, limits::HEADERS_BYTES_MAX)?;
        text("header value", value, 0, limits::HEADERS_BYTES_MAX)?;
    }
    Ok(())
}

fn size(field: &str, bytes: usize, max: usize) -> Result<()> {
    if bytes > max {
        return Err(Error::new(
            Code::EventInvalid,
            format!("{field} is {bytes} bytes; the limit is {max}"),
        ));
    }
    Ok(())
}

/// Length within bounds, and no NUL or other control character: stores, subjects and logs disagree about those.
pub(crate) fn text(field: &str, value: &str, min: usize, max: usize) -> Result<()> {
    if value.len() < min {
        return Err(Error::new(
            Code::EventInvalid,
            format!("{field} is empty; it needs at least {min} byte"),
        ));
    }
    size(field, value.len(), max)?;
    match value.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, c)) => Err(Error::new(
            Code::EventInvalid,
            format!(
                "{field} has the control character U+{:04X} at byte {at}; none is allowed",
                u32::from(c)
            ),
        )),
        None => Ok(()),
    }
}

//! An event as the one JSON object of an entry: `CloudEvents` 1.0, structured mode.
//!
//! A JSON payload stands in it byte for byte as `data`; any other as `data_base64`. Key, version and headers are
//! extension attributes, so that every reader of `CloudEvents` gets them and nothing is lost on the way back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidegate_core::lane::Lineage;
use tidegate_core::{Code, Error, Event, Result, Timestamp, Uuid};

#[derive(Serialize)]
struct Head<'a> {
    specversion: &'static str,
    id: String,
    source: String,
    #[serde(rename = "type")]
    topic: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    time: String,
    datacontenttype: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    entityversion: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    headers: &'a [(String, String)],
}

#[derive(Deserialize)]
struct Envelope<'a> {
    id: String,
    #[serde(rename = "type")]
    topic: String,
    subject: Option<String>,
    time: String,
    datacontenttype: String,
    entityversion: Option<i64>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    data_base64: Option<String>,
}

/// What of an envelope a payload could disturb.
#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    data_base64: Option<&'a RawValue>,
}

/// As it is appended.
pub(super) fn write(lineage: Lineage, event: &Event) -> Result<String> {
    let failed = |_| Error::new(Code::EventInvalid, "an event cannot be written as JSON");
    let time = jiff::Timestamp::from_microsecond(event.occurred_at.as_micros())
        .map_err(|_| Error::new(Code::EventInvalid, "occurred_at is no time of this era"))?;
    let head = Head {
        specversion: "1.0",
        id: event.id.to_string(),
        source: format!("/tidegate/{}", lineage.0),
        topic: &event.topic,
        subject: event.key.as_deref(),
        time: time.to_string(),
        datacontenttype: &event.content_type,
        entityversion: event.version,
        traceparent: event.header("traceparent"),
        tracestate: event.header("tracestate"),
        headers: &event.headers,
    };
    let mut head = serde_json::to_string(&head).map_err(failed)?;
    head.pop();
    if let Some(text) = verbatim(&head, event) {
        return Ok(text);
    }
    head.push_str(",\"data_base64\":\"");
    STANDARD.encode_string(&event.payload, &mut head);
    head.push_str("\"}");
    Ok(head)
}

/// With the payload as it is, if it reads back as exactly that.
fn verbatim(head: &str, event: &Event) -> Option<String> {
    if !event.content_type.starts_with("application/json") && !event.content_type.ends_with("+json") {
        return None;
    }
    let payload = std::str::from_utf8(&event.payload).ok()?;
    let text = format!("{head},\"data\":{payload}}}");
    let read: Payload<'_> = serde_json::from_str(&text).ok()?;
    let same = read.data.is_some_and(|data| data.get() == payload) && read.data_base64.is_none();
    same.then_some(text)
}

/// As it was enqueued.
pub(super) fn read(text: &[u8]) -> Result<Event> {
    let damaged = || {
        Error::new(
            Code::StoreCorrupt,
            "an entry of the stream holds no event of Tidegate's",
        )
    };
    let envelope: Envelope<'_> = serde_json::from_slice(text).map_err(|_| damaged())?;
    let payload = match (envelope.data, envelope.data_base64) {
        (Some(data), None) => data.get().as_bytes().to_vec(),
        (None, Some(text)) => STANDARD.decode(text).map_err(|_| damaged())?,
        _ => return Err(damaged()),
    };
    let time: jiff::Timestamp = envelope.time.parse().map_err(|_| damaged())?;
    Ok(Event {
        id: Uuid::try_parse(&envelope.id).map_err(|_| damaged())?,
        topic: envelope.topic,
        key: envelope.subject,
        version: envelope.entityversion,
        content_type: envelope.datacontenttype,
        headers: envelope.headers,
        payload: payload.into(),
        occurred_at: Timestamp::from_micros(time.as_microsecond()),
    })
}

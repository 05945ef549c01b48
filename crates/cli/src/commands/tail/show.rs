//! One entry as a line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use tidegate::Event;
use tidegate::stream::Entry;

use crate::error::Failure;
use crate::text::{base64, short, time};

/// Characters of the payload on a line for people.
const PAYLOAD_CHARS: usize = 100;

/// `0-17  2026-01-31T00:00:00Z  orders  42  {"total":7}`.
pub(super) fn human(entry: &Entry) -> String {
    let Some(event) = &entry.event else {
        return format!(
            "{}  -  (void: lane {}, number {})",
            entry.id, entry.lane.slot, entry.n
        );
    };
    let key = event
        .key
        .as_deref()
        .map_or_else(|| "-".to_owned(), |key| short(key, 40));
    let (at, topic) = (time(event.occurred_at), short(&event.topic, 40));
    format!("{}  {at}  {topic}  {key}  {}", entry.id, payload(event))
}

fn payload(event: &Event) -> String {
    match std::str::from_utf8(&event.payload) {
        Ok(text) => short(text, PAYLOAD_CHARS),
        Err(_) => format!("({} bytes of {})", event.payload.len(), event.content_type),
    }
}

#[derive(Serialize)]
struct Line<'a> {
    entry: String,
    lane: u16,
    n: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    void: bool,
    #[serde(flatten)]
    event: Option<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    id: String,
    topic: &'a str,
    key: Option<&'a str>,
    version: Option<i64>,
    occurred_at: String,
    content_type: &'a str,
    headers: BTreeMap<&'a str, &'a str>,
}

/// One object on one line. The payload is written as it is when it is JSON, otherwise as text or base64.
pub(super) fn json(entry: &Entry) -> Result<String, Failure> {
    let line = Line {
        entry: entry.id.to_string(),
        lane: entry.lane.slot,
        n: entry.n,
        void: entry.event.is_none(),
        event: entry.event.as_ref().map(shown),
    };
    let failed = |e: serde_json::Error| Failure::Output(std::io::Error::other(e));
    let mut text = serde_json::to_string(&line).map_err(failed)?;
    if let Some(event) = &entry.event {
        // A raw value does not survive a flattened struct, so the payload is the last field by hand.
        text.pop();
        text.push_str(&payload_field(event).map_err(failed)?);
        text.push('}');
    }
    Ok(text)
}

fn shown(event: &Event) -> Shown<'_> {
    Shown {
        id: event.id.to_string(),
        topic: &event.topic,
        key: event.key.as_deref(),
        version: event.version,
        occurred_at: time(event.occurred_at),
        content_type: &event.content_type,
        headers: event
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect(),
    }
}

fn payload_field(event: &Event) -> serde_json::Result<String> {
    let Ok(text) = std::str::from_utf8(&event.payload) else {
        return Ok(format!(
            ",\"payload_base64\":\"{}\"",
            base64::encode(&event.payload)
        ));
    };
    if event.content_type == "application/json" && serde_json::from_str::<&RawValue>(text).is_ok() {
        return Ok(format!(",\"payload\":{}", one_line(text.trim())));
    }
    Ok(format!(",\"payload_text\":{}", serde_json::to_string(text)?))
}

/// Line ends in JSON are only ever space between tokens.
fn one_line(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) {
        json.replace(['\n', '\r'], " ").into()
    } else {
        json.into()
    }
}

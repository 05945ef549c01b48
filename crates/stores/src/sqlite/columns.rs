//! How values of the core stand in columns.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Result, Row};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::stream::Chain;
use tidegate_core::{Code, Error, Event, Timestamp, Uuid};

/// The columns of an event, in the order of [`event`] and [`push_event`].
pub(super) const EVENT_WIDTH: usize = 8;

/// One bound parameter.
pub(super) type Param<'a> = ToSqlOutput<'a>;

pub(super) fn int(value: i64) -> Param<'static> {
    ToSqlOutput::from(value)
}

pub(super) fn blob(value: &[u8]) -> Param<'_> {
    ToSqlOutput::Borrowed(ValueRef::Blob(value))
}

pub(super) fn text(value: &str) -> Param<'_> {
    ToSqlOutput::Borrowed(ValueRef::Text(value.as_bytes()))
}

pub(super) const NULL: Param<'static> = ToSqlOutput::Borrowed(ValueRef::Null);

/// Numbers and tokens stay far below 2^63: tokens by their limit, numbers by time.
pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// What is stored is never negative.
pub(super) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

pub(super) fn number(row: &Row<'_>, at: usize) -> Result<u64> {
    row.get(at).map(unsigned)
}

pub(super) fn token(row: &Row<'_>, at: usize) -> Result<Token> {
    number(row, at).map(Token)
}

pub(super) fn bytes16(row: &Row<'_>, at: usize) -> Result<[u8; 16]> {
    row.get(at)
}

pub(super) fn chain(row: &Row<'_>, at: usize) -> Result<Chain> {
    bytes16(row, at).map(Chain)
}

pub(super) fn uuid(row: &Row<'_>, at: usize) -> Result<Uuid> {
    bytes16(row, at).map(Uuid::from_bytes)
}

pub(super) fn nonce(row: &Row<'_>, at: usize) -> Result<Option<Nonce>> {
    let bytes: Option<[u8; 16]> = row.get(at)?;
    Ok(bytes.map(|b| Nonce(u128::from_be_bytes(b))))
}

/// A void marker has no event.
pub(super) fn event(row: &Row<'_>, at: usize) -> Result<Option<Event>> {
    let id: Option<[u8; 16]> = row.get(at)?;
    let Some(id) = id else {
        return Ok(None);
    };
    Ok(Some(Event {
        id: Uuid::from_bytes(id),
        topic: row.get(at + 1)?,
        key: row.get(at + 2)?,
        version: row.get(at + 3)?,
        content_type: row.get(at + 4)?,
        headers: headers_from(row, at + 5)?,
        payload: bytes::Bytes::copy_from_slice(row.get_ref(at + 6)?.as_blob()?),
        occurred_at: Timestamp::from_micros(row.get(at + 7)?),
    }))
}

/// Pushes [`EVENT_WIDTH`] parameters. `headers` comes from [`headers_text`].
pub(super) fn push_event<'a>(
    params: &mut Vec<Param<'a>>,
    event: Option<&'a Event>,
    headers: Option<&'a str>,
) {
    let Some(event) = event else {
        params.extend(std::iter::repeat_n(NULL, EVENT_WIDTH));
        return;
    };
    params.extend([
        blob(event.id.as_bytes()),
        text(&event.topic),
        event.key.as_deref().map_or(NULL, text),
        event.version.map_or(NULL, int),
        text(&event.content_type),
        headers.map_or(NULL, text),
        blob(&event.payload),
        int(event.occurred_at.as_micros()),
    ]);
}

/// A JSON array of name and value pairs; null when there are none.
pub(super) fn headers_text(event: &Event) -> tidegate_core::Result<Option<String>> {
    if event.headers.is_empty() {
        return Ok(None);
    }
    let text = serde_json::to_string(&event.headers);
    text.map(Some)
        .map_err(|e| Error::new(Code::Internal, "headers cannot be written as JSON").with_source(e))
}

fn headers_from(row: &Row<'_>, at: usize) -> Result<Vec<(String, String)>> {
    match row.get_ref(at)? {
        ValueRef::Null => Ok(Vec::new()),
        value => serde_json::from_str(value.as_str()?).map_err(|_| {
            // The parser's message could quote a value.
            rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, "headers".into())
        }),
    }
}

/// A JSON array of integers, for `json_each`.
pub(super) fn json(integers: impl IntoIterator<Item = i64>) -> String {
    json_of(integers.into_iter().map(|i| i.to_string()))
}

/// A JSON array of texts that are JSON already.
pub(super) fn json_of(items: impl IntoIterator<Item = String>) -> String {
    let mut out = String::from("[");
    for item in items {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&item);
    }
    out.push(']');
    out
}

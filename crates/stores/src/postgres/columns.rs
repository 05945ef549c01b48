//! Values as Postgres keeps them: unsigned numbers as bigint, ids as uuid, times as bigint microseconds since 1970.

use bytes::Bytes;
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::stream::Chain;
use tidegate_core::{Code, Error, Event, Result, Timestamp, Uuid};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// One column, by place.
pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, index: usize) -> Result<T> {
    row.try_get(index).map_err(|_| {
        Error::new(
            Code::StoreCorrupt,
            format!("column {index} of a row has another type"),
        )
    })
}

/// A number that is never negative.
pub(super) fn number(row: &Row, index: usize) -> Result<u64> {
    u64::try_from(get::<i64>(row, index)?)
        .map_err(|_| Error::new(Code::StoreCorrupt, format!("column {index} of a row is negative")))
}

/// A token.
pub(super) fn token(row: &Row, index: usize) -> Result<Token> {
    number(row, index).map(Token)
}

/// A nonce as the uuid of the same bits.
pub(super) fn nonce(row: &Row, index: usize) -> Result<Option<Nonce>> {
    Ok(get::<Option<Uuid>>(row, index)?.map(|id| Nonce(id.as_u128())))
}

/// As stored.
pub(super) fn nonce_uuid(nonce: Nonce) -> Uuid {
    Uuid::from_u128(nonce.0)
}

/// A chain hash.
pub(super) fn chain(row: &Row, index: usize) -> Result<Chain> {
    let bytes: &[u8] = get(row, index)?;
    <[u8; 16]>::try_from(bytes).map(Chain).map_err(|_| {
        Error::new(
            Code::StoreCorrupt,
            format!("a chain has {} bytes; it must have 16", bytes.len()),
        )
    })
}

/// A slot as smallint.
pub(super) fn slot(row: &Row, index: usize) -> Result<u16> {
    u16::try_from(get::<i16>(row, index)?)
        .map_err(|_| Error::new(Code::StoreCorrupt, format!("column {index} of a row is no lane")))
}

/// A JSON array of name and value pairs; null when there are none.
pub(super) fn headers_text(event: &Event) -> Result<Option<String>> {
    if event.headers.is_empty() {
        return Ok(None);
    }
    let text = serde_json::to_string(&event.headers);
    text.map(Some)
        .map_err(|e| Error::new(Code::Internal, "headers cannot be written as JSON").with_source(e))
}

/// An event from eight columns: the payload is last. No id: a void marker. No payload: it was left out.
pub(super) fn event(row: &Row, at: usize) -> Result<Option<Event>> {
    let Some(id) = get::<Option<Uuid>>(row, at)? else {
        return Ok(None);
    };
    let headers: Option<&str> = get(row, at + 5)?;
    let headers = headers.map_or(Ok(Vec::new()), serde_json::from_str);
    // The parser's message could quote a value.
    let headers =
        headers.map_err(|_| Error::new(Code::StoreCorrupt, "the headers of a row are not pairs"))?;
    let payload: Option<&[u8]> = get(row, at + 7)?;
    Ok(Some(Event {
        id,
        topic: get(row, at + 1)?,
        key: get(row, at + 2)?,
        version: get(row, at + 3)?,
        content_type: get(row, at + 4)?,
        headers,
        payload: payload.map_or_else(Bytes::new, Bytes::copy_from_slice),
        occurred_at: Timestamp::from_micros(get(row, at + 6)?),
    }))
}

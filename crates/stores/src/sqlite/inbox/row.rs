//! Values as this schema keeps them.

use rusqlite::Row;
use rusqlite::types::Type;
use tidegate_core::inbox::{KeyRef, Position};
use tidegate_core::lane::{LaneId, Lineage};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::stream::{Chain, EntryId};
use tidegate_core::{Code, Error, Event, Result, Uuid};

use crate::sqlite::columns;

/// A list as one JSON parameter.
pub(super) fn json(list: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(list)
        .map_err(|e| Error::new(Code::Internal, "a list cannot be written as JSON").with_source(e))
}

pub(super) fn hex(bytes: [u8; 16]) -> String {
    Uuid::from_bytes(bytes).as_simple().to_string()
}

pub(super) fn lineage_hex(lineage: Lineage) -> String {
    lineage.0.as_simple().to_string()
}

pub(super) fn nonce(nonce: Nonce) -> [u8; 16] {
    nonce.0.to_be_bytes()
}

/// Tokens and numbers keep their 64 bits in SQLite's signed integers.
pub(super) fn token(token: Token) -> i64 {
    token.0.cast_signed()
}

pub(super) fn number(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(at)?.cast_unsigned())
}

/// `lineage, lane` from column `at` on.
pub(super) fn lane(row: &Row<'_>, at: usize) -> rusqlite::Result<LaneId> {
    Ok(LaneId {
        lineage: lineage(row, at)?,
        slot: row.get(at + 1)?,
    })
}

pub(super) fn lineage(row: &Row<'_>, at: usize) -> rusqlite::Result<Lineage> {
    Ok(Lineage(Uuid::from_bytes(row.get(at)?)))
}

/// `lineage, key` in the given columns.
pub(super) fn key(row: &Row<'_>, lineage_at: usize, key_at: usize) -> rusqlite::Result<KeyRef> {
    Ok(KeyRef {
        lineage: lineage(row, lineage_at)?,
        key: row.get(key_at)?,
    })
}

/// `hw, chain, cursor_hi, cursor_lo, clean` from column `at` on.
pub(super) fn position(row: &Row<'_>, at: usize) -> rusqlite::Result<Position> {
    Ok(Position {
        hw: number(row, at)?,
        chain: Chain(row.get(at + 1)?),
        cursor: EntryId(number(row, at + 2)?, number(row, at + 3)?),
        clean: row.get(at + 4)?,
    })
}

/// An event that is never void, in the columns of [`columns::event`].
pub(super) fn event(row: &Row<'_>, at: usize) -> rusqlite::Result<Event> {
    columns::event(row, at)?.ok_or(rusqlite::Error::InvalidColumnType(
        at,
        "event_id".into(),
        Type::Null,
    ))
}

/// `[[lineage, lane], …]`, as the statements take lanes.
pub(super) fn lanes(lanes: &[LaneId]) -> Result<String> {
    let lanes: Vec<_> = lanes
        .iter()
        .map(|lane| (lineage_hex(lane.lineage), lane.slot))
        .collect();
    json(&lanes)
}

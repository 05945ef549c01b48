//! Values as this schema keeps them.

use tidegate_core::inbox::{KeyRef, Position};
use tidegate_core::lane::{LaneId, Lineage};
use tidegate_core::stream::EntryId;
use tidegate_core::{Code, Error, Event, Result};
use tokio_postgres::Row;

use crate::postgres::columns::{self, chain, get};

/// A list as one JSON parameter.
pub(super) fn json(list: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(list)
        .map_err(|e| Error::new(Code::Internal, "a list cannot be written as JSON").with_source(e))
}

/// Numbers keep their 64 bits in signed integers.
pub(super) fn unsigned(row: &Row, at: usize) -> Result<u64> {
    Ok(get::<i64>(row, at)?.cast_unsigned())
}

/// `lineage, lane` from column `at` on.
pub(super) fn lane(row: &Row, at: usize) -> Result<LaneId> {
    Ok(LaneId {
        lineage: Lineage(get(row, at)?),
        slot: u16::try_from(get::<i32>(row, at + 1)?)
            .map_err(|_| Error::new(Code::StoreCorrupt, "a lane is out of range"))?,
    })
}

/// `lineage, key` in the given columns.
pub(super) fn key(row: &Row, lineage: usize, key: usize) -> Result<KeyRef> {
    Ok(KeyRef {
        lineage: Lineage(get(row, lineage)?),
        key: get(row, key)?,
    })
}

/// `hw, chain, cursor_hi, cursor_lo, clean` from column `at` on.
pub(super) fn position(row: &Row, at: usize) -> Result<Position> {
    Ok(Position {
        hw: unsigned(row, at)?,
        chain: chain(row, at + 1)?,
        cursor: EntryId(unsigned(row, at + 2)?, unsigned(row, at + 3)?),
        clean: get(row, at + 4)?,
    })
}

/// An event that is never void, in the columns of [`columns::event`].
pub(super) fn event(row: &Row, at: usize) -> Result<Event> {
    columns::event(row, at)?.ok_or_else(|| Error::new(Code::StoreCorrupt, "a waiting event has no id"))
}

/// `[[lineage, lane], …]`, as the statements take lanes.
pub(super) fn lanes(lanes: &[LaneId]) -> Result<String> {
    let lanes: Vec<_> = lanes
        .iter()
        .map(|lane| (lane.lineage.0.to_string(), lane.slot))
        .collect();
    json(&lanes)
}

/// The row that a statement always answers.
pub(super) fn one(rows: Vec<Row>) -> Result<Row> {
    rows.into_iter()
        .next()
        .ok_or_else(|| Error::new(Code::Internal, "a statement answered no row"))
}

//! Pages, registers, and trimming below every hold.

use rusqlite::Row;
use tidegate_core::lane::{LaneId, Lineage};
use tidegate_core::stream::{Entry, EntryId, Locator, Lost, Page, Place, ReaderHold, Register, Registers};
use tidegate_core::{Result, Timestamp, Uuid};

use super::{base, json_lanes, rowid};
use crate::sqlite::Sql;
use crate::sqlite::columns::{chain, event, number, token, unsigned, uuid};

fn head(sql: &Sql<'_>, stream: i64) -> Result<(Uuid, u64)> {
    sql.one("stream read", include_str!("head.sql"), [stream], |row| {
        Ok((uuid(row, 0)?, number(row, 1)?))
    })
}

fn lane(row: &Row<'_>, at: usize) -> rusqlite::Result<LaneId> {
    Ok(LaneId {
        lineage: Lineage(uuid(row, at)?),
        slot: row.get(at + 1)?,
    })
}

/// Two statements on one snapshot; payloads beyond the page are not read.
pub(super) fn page(
    sql: &Sql<'_>,
    stream: i64,
    after: EntryId,
    lanes: Option<Vec<LaneId>>,
    limit: u32,
    bytes_max: usize,
) -> Result<Page> {
    let (incarnation, last) = head(sql, stream)?;
    let mut page = Page {
        incarnation,
        entries: Vec::new(),
        scanned: EntryId(0, last),
        last: EntryId(0, last),
    };
    if after >= page.last {
        return Ok(page);
    }
    let range = (rowid(stream, after.1 + 1), rowid(stream, last));
    // One more than wanted, to know whether the page ends the stream.
    let limit_more = i64::from(limit) + 1;
    let mut bytes = 0;
    let take = |row: &Row<'_>| {
        if page.entries.len() >= limit as usize || (bytes >= bytes_max && !page.entries.is_empty()) {
            page.scanned = page.entries.last().map_or(after, |e| e.id);
            return Ok(false);
        }
        bytes += row.get::<_, Option<u32>>(5)?.unwrap_or(0) as usize;
        page.entries.push(entry(row, stream)?);
        Ok(true)
    };
    match lanes {
        None => {
            let params = (range.0, range.1, limit_more);
            sql.each_while("stream read", include_str!("read.sql"), params, take)?;
        }
        Some(lanes) => {
            let params = (range.0, range.1, limit_more, stream, json_lanes(lanes));
            sql.each_while("stream read", include_str!("read_lanes.sql"), params, take)?;
        }
    }
    Ok(page)
}

fn entry(row: &Row<'_>, stream: i64) -> rusqlite::Result<Entry> {
    Ok(Entry {
        id: EntryId(0, unsigned(row.get::<_, i64>(0)? - base(stream))),
        lane: lane(row, 1)?,
        n: number(row, 3)?,
        chain: chain(row, 4)?,
        event: event(row, 6)?,
    })
}

pub(super) fn registers(sql: &Sql<'_>, stream: i64) -> Result<Registers> {
    let (incarnation, _) = head(sql, stream)?;
    let lanes = sql.query(
        "stream registers",
        include_str!("registers.sql"),
        [stream],
        |row| {
            let register = Register {
                n: number(row, 2)?,
                token: token(row, 3)?,
                chain: chain(row, 4)?,
            };
            Ok((lane(row, 0)?, register))
        },
    )?;
    Ok(Registers { incarnation, lanes })
}

/// One pass over the entries' heads: times need not rise with positions.
pub(super) fn locate(sql: &Sql<'_>, stream: i64, from: Timestamp) -> Result<Vec<(LaneId, Place)>> {
    let mut locator = Locator::new(from);
    let range = (rowid(stream, 1), rowid(stream, u64::MAX));
    sql.each("stream locate", include_str!("locate.sql"), range, |row| {
        let id = EntryId(0, unsigned(row.get::<_, i64>(0)? - base(stream)));
        let (n, chain) = (number(row, 3)?, chain(row, 4)?);
        locator.entry(lane(row, 1)?, id, (n, chain), Timestamp::from_micros(row.get(5)?));
        Ok(())
    })?;
    let registers = registers(sql, stream)?;
    locator.places(&registers.lanes, &lost(sql, stream)?)
}

pub(super) fn lost(sql: &Sql<'_>, stream: i64) -> Result<Vec<Lost>> {
    sql.query("stream lost", include_str!("lost.sql"), [stream], |row| {
        Ok(Lost {
            lane: lane(row, 0)?,
            from: number(row, 2)?,
            through: number(row, 3)?,
            chain: chain(row, 4)?,
        })
    })
}

pub(super) fn holds(sql: &Sql<'_>, stream: i64) -> Result<Vec<ReaderHold>> {
    sql.query("stream holds", include_str!("holds.sql"), [stream], |row| {
        Ok(ReaderHold {
            reader: row.get(0)?,
            below: EntryId(0, number(row, 1)?),
            renewed_at: Timestamp::from_micros(row.get(2)?),
        })
    })
}

/// Deletes from the oldest on and stops at the first entry that stays, so that the log has no holes.
pub(super) fn trim(sql: &Sql<'_>, stream: i64, before: Timestamp, limit: u32) -> Result<u64> {
    let held: Option<i64> = sql.one("stream trim", include_str!("held.sql"), [stream], |row| {
        row.get(0)
    })?;
    let first = rowid(stream, 1);
    let end = rowid(stream, held.map_or(u64::MAX, unsigned));
    let params = (first, end, limit);
    let look = sql.query("stream trim", include_str!("trim_look.sql"), params, |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
    })?;
    let old = look.into_iter().take_while(|(_, at)| *at < before.as_micros());
    let Some((last, _)) = old.last() else {
        return Ok(0);
    };
    let trimmed = sql.execute("stream trim", include_str!("trim.sql"), (first, last))?;
    Ok(trimmed as u64)
}

//! Reading, holds and trimming.

use std::collections::HashMap;

use tidegate_core::lane::LaneId;
use tidegate_core::stream::{Entry, EntryId, Locator, Lost, Page, Place, ReaderHold, Registers};
use tidegate_core::{Result, Timestamp, Uuid};

use super::values::{chain, damaged, id, lane, lane_text, number, register};
use super::{Inner, envelope, fresh};
use crate::redis::error;

/// Entries of one page when the whole stream is read.
const PAGE: u32 = 1000;

/// Id, lane, number, chain, event.
type Raw = (String, String, String, String, Vec<u8>);

/// One round trip for each 5,000 entries that are looked at.
pub(super) async fn page(
    inner: &Inner,
    after: EntryId,
    lanes: Option<&[LaneId]>,
    limit: u32,
    bytes_max: usize,
) -> Result<Page> {
    // Redis does not understand what stands behind the greatest id.
    let after = after.min(EntryId(u64::MAX, u64::MAX).before());
    let (mut page, mut early) = part(inner, after, lanes, limit, bytes_max).await?;
    while early {
        let found = u32::try_from(page.entries.len()).unwrap_or(u32::MAX);
        let room = bytes_max.saturating_sub(bytes(&page));
        if found >= limit || (found > 0 && room == 0) {
            break;
        }
        let (next, again) = part(inner, page.scanned, lanes, limit - found, room).await?;
        if next.incarnation != page.incarnation {
            break;
        }
        page.entries.extend(next.entries);
        (page.scanned, page.last, early) = (next.scanned, next.last, again);
    }
    Ok(page)
}

fn bytes(page: &Page) -> usize {
    let payload = |entry: &Entry| entry.event.as_ref().map_or(0, |event| event.payload.len());
    page.entries.iter().map(payload).sum()
}

/// One round trip; whether it stopped early.
async fn part(
    inner: &Inner,
    after: EntryId,
    lanes: Option<&[LaneId]>,
    limit: u32,
    bytes_max: usize,
) -> Result<(Page, bool)> {
    let keys = [inner.keys.entries.as_str(), &inner.keys.meta];
    let mut call = inner.scripts.read.call(&keys);
    // No lane is called this.
    let none = lanes.is_some_and(<[_]>::is_empty).then_some("-");
    call.arg(fresh())
        .arg(after.to_string())
        .arg(limit)
        .arg(bytes_max)
        .arg(none);
    for lane in lanes.unwrap_or_default() {
        call.arg(lane_text(*lane));
    }
    let mut connection = inner.db.connection();
    let read = inner.scripts.read.run(&mut connection, &call).await;
    let (incarnation, last, scanned, entries, early): (String, String, String, Vec<Raw>, u8) =
        read.map_err(error::map("reading a stream"))?;
    let page = Page {
        incarnation: uuid(&incarnation)?,
        entries: entries.iter().map(entry).collect::<Result<_>>()?,
        scanned: id(&scanned)?,
        last: id(&last)?,
    };
    Ok((page, early == 1))
}

fn entry((at, of, n, hash, event): &Raw) -> Result<Entry> {
    Ok(Entry {
        id: id(at)?,
        lane: lane(of)?,
        n: number(n)?,
        chain: chain(hash)?,
        event: (!event.is_empty()).then(|| envelope::read(event)).transpose()?,
    })
}

fn uuid(text: &str) -> Result<Uuid> {
    Uuid::try_parse(text).map_err(|_| damaged("incarnation"))
}

pub(super) async fn registers(inner: &Inner) -> Result<Registers> {
    let mut calls = redis::pipe();
    calls
        .atomic()
        .cmd("HSETNX")
        .arg(&inner.keys.meta)
        .arg("incarnation")
        .arg(fresh())
        .ignore()
        .cmd("HGET")
        .arg(&inner.keys.meta)
        .arg("incarnation")
        .cmd("HGETALL")
        .arg(&inner.keys.registers);
    let read = calls.query_async(&mut inner.db.connection()).await;
    let (incarnation, all): (String, HashMap<String, String>) =
        read.map_err(error::map("reading registers"))?;
    let mut lanes = all
        .iter()
        .map(|(of, text)| Ok((lane(of)?, register(text)?)))
        .collect::<Result<Vec<_>>>()?;
    lanes.sort_unstable_by_key(|(lane, _)| *lane);
    Ok(Registers {
        incarnation: uuid(&incarnation)?,
        lanes,
    })
}

/// Reads the registers first: what is appended meanwhile is found in the entries.
pub(super) async fn locate(inner: &Inner, from: Timestamp) -> Result<Vec<(LaneId, Place)>> {
    let registers = registers(inner).await?;
    let mut locator = Locator::new(from);
    let mut cursor = EntryId::START;
    loop {
        let page = page(inner, cursor, None, PAGE, usize::MAX >> 16).await?;
        for entry in &page.entries {
            let millis = i64::try_from(entry.id.0).unwrap_or(i64::MAX);
            let appended = Timestamp::from_micros(millis.saturating_mul(1000));
            locator.entry(entry.lane, entry.id, (entry.n, entry.chain), appended);
        }
        if page.entries.is_empty() {
            break;
        }
        cursor = page.scanned;
    }
    locator.places(&registers.lanes, &lost(inner).await?)
}

pub(super) async fn lost(inner: &Inner) -> Result<Vec<Lost>> {
    let all = redis::cmd("HGETALL")
        .arg(&inner.keys.lost)
        .query_async::<HashMap<String, String>>(&mut inner.db.connection())
        .await
        .map_err(error::map("reading losses"))?;
    let range = |(key, value): (&String, &String)| {
        let (of, from) = key.split_once(' ').ok_or_else(|| damaged("loss"))?;
        let (through, hash) = value.split_once(' ').ok_or_else(|| damaged("loss"))?;
        Ok(Lost {
            lane: lane(of)?,
            from: number(from)?,
            through: number(through)?,
            chain: chain(hash)?,
        })
    };
    let mut all = all.iter().map(range).collect::<Result<Vec<_>>>()?;
    all.sort_unstable_by_key(|lost| (lost.lane, lost.from));
    Ok(all)
}

pub(super) async fn publish_hold(inner: &Inner, reader: &str, below: EntryId) -> Result<()> {
    let mut call = inner.scripts.hold.call(&[&inner.keys.holds]);
    call.arg(inner.db.now()).arg(reader).arg(below.to_string());
    let mut connection = inner.db.connection();
    let said = inner.scripts.hold.run::<()>(&mut connection, &call).await;
    said.map_err(error::map("publishing a hold"))
}

pub(super) async fn holds(inner: &Inner) -> Result<Vec<ReaderHold>> {
    let all = redis::cmd("HGETALL")
        .arg(&inner.keys.holds)
        .query_async::<HashMap<String, String>>(&mut inner.db.connection())
        .await
        .map_err(error::map("reading holds"))?;
    let hold = |(reader, value): (String, String)| {
        let (below, at) = value.split_once(' ').ok_or_else(|| damaged("hold"))?;
        let at: i64 = at.parse().map_err(|_| damaged("hold"))?;
        Ok(ReaderHold {
            reader,
            below: id(below)?,
            renewed_at: Timestamp::from_micros(at),
        })
    };
    let mut all = all.into_iter().map(hold).collect::<Result<Vec<_>>>()?;
    all.sort_unstable_by(|a, b| a.reader.cmp(&b.reader));
    Ok(all)
}

pub(super) async fn drop_hold(inner: &Inner, reader: &str) -> Result<bool> {
    let dropped = redis::cmd("HDEL")
        .arg(&inner.keys.holds)
        .arg(reader)
        .query_async::<u64>(&mut inner.db.connection())
        .await;
    Ok(dropped.map_err(error::map("dropping a hold"))? > 0)
}

/// Ids tell when entries were appended, to the millisecond: one of the same millisecond as `before` stays.
pub(super) async fn trim(inner: &Inner, before: Timestamp, limit: u32) -> Result<u64> {
    let keys = [inner.keys.entries.as_str(), &inner.keys.holds];
    let mut call = inner.scripts.trim.call(&keys);
    let millis = before.as_micros().max(0) / 1000;
    call.arg(millis).arg(limit.max(1));
    let mut connection = inner.db.connection();
    let trimmed = inner.scripts.trim.run(&mut connection, &call).await;
    trimmed.map_err(error::map("trimming a stream"))
}

//! Ownership and positions outside the apply transaction.
//!
//! The rule itself is [`apply_hold`], run on the rows as they are inside the writer's transaction: SQLite has one
//! writer, so what was read is still so when it is written.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Row, params};
use tidegate_core::inbox::Position;
use tidegate_core::lane::share::{Member, Row as LaneRow, apply_hold};
use tidegate_core::lane::{Held, Hold, LaneId};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::stream::EntryId;
use tidegate_core::time::micros;
use tidegate_core::{Result, Ticks, Uuid};

use super::row;
use crate::sqlite::{Clock, Sql};

pub(super) fn register(sql: &Sql<'_>, consumer: i64, lanes: &[(LaneId, Position)]) -> Result<()> {
    let rows: Vec<_> = lanes
        .iter()
        .map(|(lane, at)| {
            (
                row::lineage_hex(lane.lineage),
                lane.slot,
                at.hw.cast_signed(),
                row::hex(at.chain.0),
                at.cursor.0.cast_signed(),
                at.cursor.1.cast_signed(),
                i64::from(at.clean),
            )
        })
        .collect();
    let rows = row::json(&rows)?;
    sql.execute(
        "registering lanes",
        include_str!("register.sql"),
        params![consumer, rows],
    )?;
    Ok(())
}

pub(super) fn hold(sql: &Sql<'_>, consumer: i64, hold: &Hold, clock: &dyn Clock) -> Result<Held<Position>> {
    let boot = clock.boot_id();
    let mut members = members(sql, consumer, boot)?;
    let before = lanes(sql, consumer, boot)?;
    let mut rows = before.clone();
    let mut held = apply_hold(&mut rows, &mut members, hold, clock.boot());
    raise_tokens(&before, &mut rows, &mut held, clock.now().as_micros());
    write_members(sql, consumer, hold, &members, boot)?;
    write_lanes(sql, consumer, &before, &rows, boot)?;
    Ok(held)
}

/// A new tenure's token is at least the wall time, so that a restored file does not hand one out twice.
fn raise_tokens(
    before: &[LaneRow<Position>],
    rows: &mut [LaneRow<Position>],
    held: &mut Held<Position>,
    now: i64,
) {
    for (before, row) in before.iter().zip(rows) {
        if before.token == row.token {
            continue;
        }
        row.token = Token::next(before.token, now, row.token);
        if let Some(owned) = held.owned.iter_mut().find(|owned| owned.lane == row.lane) {
            owned.token = row.token;
        }
    }
}

/// Heartbeats of another boot have ended.
pub(super) fn members(sql: &Sql<'_>, consumer: i64, boot: Uuid) -> Result<BTreeMap<Nonce, Member>> {
    let all = sql.query(
        "reading consumer members",
        include_str!("members.sql"),
        [consumer],
        |row| {
            let member = Member {
                label: row.get(1)?,
                seen: Ticks::from_micros(row.get(2)?),
                ttl: Duration::from_micros(row::number(row, 3)?),
            };
            let here = row.get::<_, [u8; 16]>(4)? == *boot.as_bytes();
            Ok((here, Nonce(u128::from_be_bytes(row.get(0)?)), member))
        },
    )?;
    let live = all.into_iter().filter(|(here, ..)| *here);
    Ok(live.map(|(_, nonce, member)| (nonce, member)).collect())
}

/// Leases of another boot have run out.
pub(super) fn lanes(sql: &Sql<'_>, consumer: i64, boot: Uuid) -> Result<Vec<LaneRow<Position>>> {
    sql.query(
        "reading consumer lanes",
        include_str!("lanes.sql"),
        [consumer],
        |row| lane_row(row, boot),
    )
}

fn lane_row(row: &Row<'_>, boot: Uuid) -> rusqlite::Result<LaneRow<Position>> {
    let owner: Option<[u8; 16]> = row.get(7)?;
    let here = row.get_ref(11)?.as_blob()? == boot.as_bytes();
    let until = if here { row.get(10)? } else { i64::MIN };
    Ok(LaneRow {
        lane: row::lane(row, 0)?,
        state: row::position(row, 2)?,
        owner: owner.map(|owner| Nonce(u128::from_be_bytes(owner))),
        label: row.get(8)?,
        token: Token(row::number(row, 9)?),
        until: Ticks::from_micros(until),
    })
}

fn write_members(
    sql: &Sql<'_>,
    consumer: i64,
    hold: &Hold,
    members: &BTreeMap<Nonce, Member>,
    boot: Uuid,
) -> Result<()> {
    let live: Vec<_> = members
        .keys()
        .map(|member| row::hex(row::nonce(*member)))
        .collect();
    let live = row::json(&live)?;
    sql.execute(
        "forgetting members",
        include_str!("forget_members.sql"),
        params![consumer, live],
    )?;
    if let Some(me) = members.get(&hold.member) {
        let (member, boot) = (row::nonce(hold.member), boot.into_bytes());
        let (seen, ttl) = (me.seen.as_micros(), micros(me.ttl));
        sql.execute(
            "recording a heartbeat",
            include_str!("heartbeat.sql"),
            params![consumer, member, me.label, seen, ttl, boot],
        )?;
    }
    Ok(())
}

fn write_lanes(
    sql: &Sql<'_>,
    consumer: i64,
    before: &[LaneRow<Position>],
    rows: &[LaneRow<Position>],
    boot: Uuid,
) -> Result<()> {
    let changed = before.iter().zip(rows).filter(|(before, row)| before != row);
    let changed: Vec<_> = changed
        .map(|(_, lane)| {
            (
                row::lineage_hex(lane.lane.lineage),
                lane.lane.slot,
                lane.owner.map(|owner| row::hex(row::nonce(owner))),
                &lane.label,
                row::token(lane.token),
                lane.until.as_micros(),
                i64::from(lane.state.clean),
            )
        })
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    let (changed, boot) = (row::json(&changed)?, boot.into_bytes());
    sql.execute(
        "holding lanes",
        include_str!("own.sql"),
        params![consumer, changed, boot],
    )?;
    Ok(())
}

pub(super) fn move_cursors(
    sql: &Sql<'_>,
    consumer: i64,
    member: Nonce,
    cursors: &[(LaneId, Token, EntryId)],
) -> Result<u64> {
    let moves: Vec<_> = cursors
        .iter()
        .map(|(lane, token, to)| {
            (
                row::lineage_hex(lane.lineage),
                lane.slot,
                row::token(*token),
                to.0.cast_signed(),
                to.1.cast_signed(),
            )
        })
        .collect();
    let (moves, member) = (row::json(&moves)?, row::nonce(member));
    let moved = sql.execute(
        "moving cursors",
        include_str!("move_cursors.sql"),
        params![consumer, member, moves],
    )?;
    Ok(u64::try_from(moved).unwrap_or(u64::MAX))
}

pub(super) fn positions(sql: &Sql<'_>, consumer: i64) -> Result<Vec<(LaneId, Position)>> {
    sql.query(
        "reading positions",
        include_str!("lanes.sql"),
        [consumer],
        |row| Ok((row::lane(row, 0)?, row::position(row, 2)?)),
    )
}

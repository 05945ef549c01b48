//! Ownership and positions outside the apply transaction.
//!
//! The rule itself is [`apply_hold`], run on the rows under the lock of the consumer's row: one hold at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::inbox::Position;
use tidegate_core::lane::share::{Member, Row as LaneRow, apply_hold};
use tidegate_core::lane::{Held, Hold, LaneId};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::stream::EntryId;
use tidegate_core::time::micros;
use tidegate_core::{Result, Ticks, Uuid};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::row;
use crate::postgres::columns::{get, nonce, nonce_uuid};
use crate::postgres::db::{Database, Tx};
use crate::postgres::typed::{int8, int8_or, string, uuid};

pub(super) async fn register(db: &Database, consumer: i64, lanes: &[(LaneId, Position)]) -> Result<()> {
    let rows: Vec<_> = lanes
        .iter()
        .map(|(lane, at)| {
            (
                lane.lineage.0.to_string(),
                lane.slot,
                at.hw.cast_signed(),
                Uuid::from_bytes(at.chain.0).as_simple().to_string(),
                at.cursor.0.cast_signed(),
                at.cursor.1.cast_signed(),
                at.clean,
            )
        })
        .collect();
    let rows = row::json(&rows)?;
    let params = [int8(&consumer), string(&rows)];
    db.query("registering lanes", include_str!("register.sql"), &params)
        .await?;
    Ok(())
}

/// One transaction; answers the time.
pub(super) async fn lock(tx: &Tx, consumer: i64, now: Option<i64>) -> Result<i64> {
    let params = [int8(&consumer), int8_or(&now)];
    let rows = tx
        .query("holding lanes", include_str!("hold_lock.sql"), &params)
        .await?;
    get(&row::one(rows)?, 0)
}

pub(super) async fn hold(db: &Database, consumer: i64, hold: &Hold) -> Result<Held<Position>> {
    let tx = db.begin().await?;
    let now = lock(&tx, consumer, db.now()).await?;
    let mut members = members(&tx, consumer).await?;
    let before = lanes(&tx, consumer).await?;
    let mut rows = before.clone();
    let mut held = apply_hold(&mut rows, &mut members, hold, Ticks::from_micros(now));
    raise_tokens(&before, &mut rows, &mut held, now);
    write_members(&tx, consumer, hold, &members).await?;
    write_lanes(&tx, consumer, &before, &rows).await?;
    tx.commit("holding lanes").await?;
    Ok(held)
}

/// A new tenure's token is at least the time, so that a restored database does not hand one out twice.
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

pub(super) async fn members(tx: &Tx, consumer: i64) -> Result<BTreeMap<Nonce, Member>> {
    let rows = tx
        .query(
            "reading consumer members",
            include_str!("members.sql"),
            &[int8(&consumer)],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let member = Member {
                label: get(row, 1)?,
                seen: Ticks::from_micros(get(row, 2)?),
                ttl: Duration::from_micros(row::unsigned(row, 3)?),
            };
            Ok((Nonce(get::<Uuid>(row, 0)?.as_u128()), member))
        })
        .collect()
}

pub(super) async fn lanes(tx: &Tx, consumer: i64) -> Result<Vec<LaneRow<Position>>> {
    let rows = tx
        .query(
            "reading consumer lanes",
            include_str!("lanes.sql"),
            &[int8(&consumer)],
        )
        .await?;
    rows.iter().map(lane_row).collect()
}

fn lane_row(row: &Row) -> Result<LaneRow<Position>> {
    Ok(LaneRow {
        lane: row::lane(row, 0)?,
        state: row::position(row, 2)?,
        owner: nonce(row, 7)?,
        label: get(row, 8)?,
        token: Token(row::unsigned(row, 9)?),
        until: Ticks::from_micros(get(row, 10)?),
    })
}

async fn write_members(tx: &Tx, consumer: i64, hold: &Hold, members: &BTreeMap<Nonce, Member>) -> Result<()> {
    let live: Vec<Uuid> = members.keys().map(|member| nonce_uuid(*member)).collect();
    let params = [int8(&consumer), (&live as _, Type::UUID_ARRAY)];
    tx.execute("forgetting members", include_str!("forget_members.sql"), &params)
        .await?;
    if let Some(me) = members.get(&hold.member) {
        let (member, seen, ttl) = (nonce_uuid(hold.member), me.seen.as_micros(), micros(me.ttl));
        let params = [
            int8(&consumer),
            uuid(&member),
            string(&me.label),
            int8(&seen),
            int8(&ttl),
        ];
        tx.execute("recording a heartbeat", include_str!("heartbeat.sql"), &params)
            .await?;
    }
    Ok(())
}

async fn write_lanes(
    tx: &Tx,
    consumer: i64,
    before: &[LaneRow<Position>],
    rows: &[LaneRow<Position>],
) -> Result<()> {
    let changed = before.iter().zip(rows).filter(|(before, row)| before != row);
    let changed: Vec<_> = changed
        .map(|(_, lane)| {
            (
                lane.lane.lineage.0.to_string(),
                lane.lane.slot,
                lane.owner.map(|owner| nonce_uuid(owner).to_string()),
                &lane.label,
                lane.token.0.cast_signed(),
                lane.until.as_micros(),
                lane.state.clean,
            )
        })
        .collect();
    let changed = row::json(&changed)?;
    let params = [int8(&consumer), string(&changed)];
    // Also when nothing changed: a transaction is committed after a statement that succeeded.
    tx.execute("holding lanes", include_str!("own.sql"), &params)
        .await?;
    Ok(())
}

pub(super) async fn move_cursors(
    db: &Database,
    consumer: i64,
    member: Nonce,
    cursors: &[(LaneId, Token, EntryId)],
) -> Result<u64> {
    let moves: Vec<_> = cursors
        .iter()
        .map(|(lane, token, to)| {
            (
                lane.lineage.0.to_string(),
                lane.slot,
                token.0.cast_signed(),
                to.0.cast_signed(),
                to.1.cast_signed(),
            )
        })
        .collect();
    let (moves, member) = (row::json(&moves)?, nonce_uuid(member));
    let params = [int8(&consumer), uuid(&member), string(&moves)];
    let (at, tx) = ("moving cursors", db.begin().await?);
    let moved = tx.execute(at, include_str!("move_cursors.sql"), &params).await?;
    tx.commit(at).await?;
    Ok(moved)
}

pub(super) async fn positions(db: &Database, consumer: i64) -> Result<Vec<(LaneId, Position)>> {
    let rows = db
        .query("reading positions", include_str!("lanes.sql"), &[int8(&consumer)])
        .await?;
    rows.iter()
        .map(|row| Ok((row::lane(row, 0)?, row::position(row, 2)?)))
        .collect()
}

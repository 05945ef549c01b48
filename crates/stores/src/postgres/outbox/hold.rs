//! Ownership of lanes: the rule of [`tidegate_core::lane::share`] over the lane and member rows.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::lane::share::{Member, Row, apply_hold};
use tidegate_core::lane::{Held, Hold};
use tidegate_core::lease::Nonce;
use tidegate_core::outbox::LaneState;
use tidegate_core::{Code, Error, Result, Ticks, Uuid, time};
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::Type;

use super::{Here, big, small};
use crate::postgres::columns::{chain, get, nonce, nonce_uuid, number, slot, token};
use crate::postgres::db::{Database, Tx};

const AT: &str = "hold";

/// Five statements and a commit.
pub(super) async fn hold(db: &Database, here: Here, hold: &Hold) -> Result<Held<LaneState>> {
    let tx = db.begin().await?;
    let now = begin(&tx, here, db.now()).await?;
    let mut members = members(&tx, here).await?;
    let before = lanes(&tx, here).await?;
    let mut rows = before.clone();
    let held = apply_hold(&mut rows, &mut members, hold, now);
    heartbeat(&tx, here, hold, now).await?;
    write(&tx, here, &before, &rows).await?;
    tx.commit(AT).await?;
    Ok(held)
}

/// The time, read once the holds before this one have ended.
async fn begin(tx: &Tx, here: Here, now: Option<i64>) -> Result<Ticks> {
    let params = &[(&now as _, Type::INT8), (&here.id as _, Type::INT8)];
    let rows = tx.query(AT, include_str!("hold_begin.sql"), params).await?;
    let row = rows
        .first()
        .ok_or_else(|| Error::new(Code::NotFound, "hold: the outbox is gone"))?;
    get(row, 0).map(Ticks::from_micros)
}

async fn members(tx: &Tx, here: Here) -> Result<BTreeMap<Nonce, Member>> {
    let params = &[(&here.id as _, Type::INT8)];
    let rows = tx.query(AT, include_str!("members.sql"), params).await?;
    let member = |row: &SqlRow| {
        let member = Member {
            label: get(row, 1)?,
            ttl: Duration::from_micros(number(row, 2)?),
            seen: Ticks::from_micros(get(row, 3)?),
        };
        Ok((Nonce(get::<Uuid>(row, 0)?.as_u128()), member))
    };
    rows.iter().map(member).collect()
}

async fn lanes(tx: &Tx, here: Here) -> Result<Vec<Row<LaneState>>> {
    let params = &[(&here.id as _, Type::INT8)];
    let rows = tx.query(AT, include_str!("hold_lanes.sql"), params).await?;
    rows.iter().map(|row| lane(row, here)).collect()
}

fn lane(row: &SqlRow, here: Here) -> Result<Row<LaneState>> {
    let settled = number(row, 5)?;
    let unfinished = u64::try_from(get::<i32>(row, 7)?).unwrap_or(0);
    let state = LaneState {
        settled,
        chain: chain(row, 6)?,
        planned: settled + unfinished,
    };
    Ok(Row {
        lane: here.lane(slot(row, 0)?),
        token: token(row, 1)?,
        owner: nonce(row, 2)?,
        label: get(row, 3)?,
        until: Ticks::from_micros(get(row, 4)?),
        state,
    })
}

async fn heartbeat(tx: &Tx, here: Here, hold: &Hold, now: Ticks) -> Result<()> {
    let (member, now, ttl) = (nonce_uuid(hold.member), now.as_micros(), time::micros(hold.ttl));
    if hold.leave {
        let params = &[
            (&here.id as _, Type::INT8),
            (&member as _, Type::UUID),
            (&now as _, Type::INT8),
        ];
        tx.execute(AT, include_str!("member_leaves.sql"), params).await?;
        return Ok(());
    }
    let params = &[
        (&here.id as _, Type::INT8),
        (&member as _, Type::UUID),
        (&hold.label as _, Type::TEXT),
        (&now as _, Type::INT8),
        (&ttl as _, Type::INT8),
    ];
    tx.execute(AT, include_str!("member_beats.sql"), params).await?;
    Ok(())
}

/// Writes the lanes that changed, each under the token that was read.
async fn write(tx: &Tx, here: Here, before: &[Row<LaneState>], rows: &[Row<LaneState>]) -> Result<()> {
    let changed: Vec<_> = rows.iter().zip(before).filter(|(now, was)| now != was).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let slots: Vec<_> = changed.iter().map(|(now, _)| small(now.lane.slot)).collect();
    let owners: Vec<_> = changed.iter().map(|(now, _)| now.owner.map(nonce_uuid)).collect();
    let labels: Vec<_> = changed.iter().map(|(now, _)| now.label.as_str()).collect();
    let tokens: Vec<_> = changed.iter().map(|(now, _)| big(now.token.0)).collect();
    let ends: Vec<_> = changed.iter().map(|(now, _)| now.until.as_micros()).collect();
    let were: Vec<_> = changed.iter().map(|(_, was)| big(was.token.0)).collect();
    let params = &[
        (&here.id as _, Type::INT8),
        (&slots as _, Type::INT2_ARRAY),
        (&owners as _, Type::UUID_ARRAY),
        (&labels as _, Type::TEXT_ARRAY),
        (&tokens as _, Type::INT8_ARRAY),
        (&ends as _, Type::INT8_ARRAY),
        (&were as _, Type::INT8_ARRAY),
    ];
    let written = tx.execute(AT, include_str!("hold_write.sql"), params).await?;
    if written == changed.len() as u64 {
        return Ok(());
    }
    Err(Error::new(Code::Internal, "hold: a lane changed under its lock"))
}

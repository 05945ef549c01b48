//! Reading settled history, and tables for people.

use tidegate_core::lane::LaneId;
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::outbox::{LaneRow, ParkedKey, Planned, Refill};
use tidegate_core::stream::Chain;
use tidegate_core::{Result, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Here, big, small};
use crate::postgres::columns::{chain, event, get, nonce_uuid, number, slot, token};
use crate::postgres::db::{Database, Tx};

/// Two statements in one transaction. What is settled between them is not asked for.
pub(super) async fn refill(
    db: &Database,
    here: Here,
    member: Nonce,
    (lane, token): (LaneId, Token),
    from: u64,
    limit: u32,
) -> Result<Refill> {
    let tx = db.begin().await?;
    let params = &[
        (&here.id as _, Type::INT8),
        (&small(lane.slot) as _, Type::INT2),
        (&nonce_uuid(member) as _, Type::UUID),
        (&big(token.0) as _, Type::INT8),
    ];
    let rows = tx
        .query("refill", include_str!("refill_lane.sql"), params)
        .await?;
    let Some(row) = rows.first().filter(|_| lane.lineage == here.lineage) else {
        return Ok(Refill::Fenced);
    };
    let (settled, settled_chain) = (number(row, 0)?, chain(row, 1)?);
    if from > settled {
        return Ok(Refill::Events(Vec::new()));
    }
    let kept = kept(&tx, here, lane, from, limit).await?;
    Ok(match kept.first() {
        None => Refill::Missing {
            oldest: settled + 1,
            chain: settled_chain,
        },
        Some((oldest, prior)) if oldest.n != from => Refill::Missing {
            oldest: oldest.n,
            chain: *prior,
        },
        Some(_) => Refill::Events(following(kept, from)),
    })
}

/// Archived numbers from `from` on, each with the chain before it.
async fn kept(tx: &Tx, here: Here, lane: LaneId, from: u64, limit: u32) -> Result<Vec<(Planned, Chain)>> {
    let params = &[
        (&here.id as _, Type::INT8),
        (&small(lane.slot) as _, Type::INT2),
        (&big(from) as _, Type::INT8),
        (&i64::from(limit) as _, Type::INT8),
    ];
    let rows = tx.query("refill", include_str!("refill.sql"), params).await?;
    let kept = |row: &Row| {
        let planned = Planned {
            n: number(row, 0)?,
            event: event(row, 2)?,
        };
        Ok((planned, chain(row, 1)?))
    };
    rows.iter().map(kept).collect()
}

fn following(kept: Vec<(Planned, Chain)>, from: u64) -> Vec<(Planned, Chain)> {
    let dense = kept
        .into_iter()
        .zip(from..)
        .take_while(|((planned, _), n)| planned.n == *n);
    dense
        .map(|((planned, prior), n)| {
            let chain = prior.next(n, planned.event.as_ref().map(|e| e.id));
            (planned, chain)
        })
        .collect()
}

/// One statement; counting rows reads the index of each lane once.
pub(super) async fn lanes(db: &Database, here: Here) -> Result<Vec<LaneRow>> {
    let params = &[(&here.id as _, Type::INT8), (&db.now() as _, Type::INT8)];
    let rows = db
        .query("outbox lanes", include_str!("lanes.sql"), params)
        .await?;
    let lane = |row: &Row| {
        let (live, label): (bool, String) = (get(row, 2)?, get(row, 3)?);
        let settled = number(row, 4)?;
        Ok(LaneRow {
            lane: here.lane(slot(row, 0)?),
            token: token(row, 1)?,
            owner: live.then_some(label),
            settled,
            planned: settled + count(get(row, 5)?),
            depth: number(row, 6)?,
            oldest_micros: get(row, 7)?,
            parked_keys: count(get(row, 8)?),
        })
    };
    rows.iter().map(lane).collect()
}

fn count(value: i32) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

pub(super) async fn parked(db: &Database, here: Here, limit: u32) -> Result<Vec<ParkedKey>> {
    let params = &[(&here.id as _, Type::INT8), (&i64::from(limit) as _, Type::INT8)];
    let rows = db
        .query("outbox parked", include_str!("parked.sql"), params)
        .await?;
    let parked = |row: &Row| {
        let tagged: String = get(row, 1)?;
        Ok(ParkedKey {
            lane: here.lane(slot(row, 0)?),
            key: tagged.get(2..).unwrap_or_default().to_owned(),
            events: number(row, 4)?,
            reason: get(row, 2)?,
            attempts: u32::try_from(get::<i32>(row, 3)?).unwrap_or(0),
        })
    };
    rows.iter().map(parked).collect()
}

/// Deletes from the oldest on and stops at the first row that stays, so that what is kept of a lane has no holes.
pub(super) async fn sweep(db: &Database, here: Here, before: Timestamp, limit: u32) -> Result<u64> {
    let tx = db.begin().await?;
    let params = &[
        (&here.id as _, Type::INT8),
        (&before.as_micros() as _, Type::INT8),
        (&i64::from(limit) as _, Type::INT8),
    ];
    let swept = tx
        .execute("archive sweep", include_str!("sweep.sql"), params)
        .await?;
    tx.commit("archive sweep").await?;
    Ok(swept)
}

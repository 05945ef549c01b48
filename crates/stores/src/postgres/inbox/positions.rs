//! What people do about positions: going back, going past a loss, beginning anew. Each waits for the apply transaction
//! that is under way, and refuses the present owner from then on.

use tidegate_core::dead_letter::check_reason;
use tidegate_core::inbox::Rewind;
use tidegate_core::lane::LaneId;
use tidegate_core::stream::Lost;
use tidegate_core::{Code, Error, Result, Ticks, Timestamp, Uuid};

use super::{ownership, row};
use crate::postgres::columns::get;
use crate::postgres::db::{Database, Tx};
use crate::postgres::typed::{bytea, int4, int8, text, uuid};

/// The lane's position, locked.
async fn stands(tx: &Tx, consumer: i64, lane: LaneId) -> Result<Option<i64>> {
    let slot = i32::from(lane.slot);
    let params = [int8(&consumer), uuid(&lane.lineage.0), int4(&slot)];
    let rows = tx
        .query("locking a lane", include_str!("lock_lane.sql"), &params)
        .await?;
    rows.first().map(|row| get(row, 0)).transpose()
}

struct Record<'a> {
    action: &'a str,
    reason: &'a str,
    n: i64,
    fingerprint: &'a str,
    now: Timestamp,
}

async fn audit(tx: &Tx, consumer: i64, lane: LaneId, record: Record<'_>) -> Result<()> {
    let (slot, now, nobody) = (i32::from(lane.slot), record.now.as_micros(), Uuid::nil());
    let params = [
        int8(&consumer),
        int8(&now),
        text(&record.action),
        text(&record.reason),
        uuid(&lane.lineage.0),
        int4(&slot),
        int8(&record.n),
        uuid(&nobody),
        text(&record.fingerprint),
    ];
    tx.execute("auditing", include_str!("audit.sql"), &params).await?;
    Ok(())
}

pub(super) async fn rewind(
    db: &Database,
    consumer: i64,
    rewind: &Rewind,
    reason: &str,
    now: Timestamp,
) -> Result<u64> {
    check_reason(reason)?;
    let (at, tx) = ("rewinding a lane", db.begin().await?);
    let (lane, to) = (rewind.lane, rewind.to.cast_signed());
    let Some(stands) = stands(&tx, consumer, lane).await? else {
        return Err(Error::new(Code::NotFound, format!("no position in lane {lane}")));
    };
    if to > stands {
        let slot = lane.slot;
        return Err(Error::new(
            Code::OptionsInvalid,
            format!("lane {slot} is at {stands}; a rewind only goes back"),
        ));
    }
    if to == stands {
        return Ok(0);
    }
    let (slot, chain) = (i32::from(lane.slot), rewind.chain.0.as_slice());
    let params = [
        int8(&consumer),
        uuid(&lane.lineage.0),
        int4(&slot),
        int8(&to),
        bytea(&chain),
    ];
    for (sql, count) in [
        (include_str!("rewind/drop_queued.sql"), 4),
        (include_str!("rewind/recount_keys.sql"), 3),
        (include_str!("rewind/drop_keys.sql"), 3),
        (include_str!("rewind/drop_skipped.sql"), 4),
        (include_str!("rewind/drop_attempts.sql"), 4),
        (include_str!("rewind/move.sql"), 5),
    ] {
        tx.execute(at, sql, &params[..count]).await?;
    }
    let record = Record {
        action: "rewind",
        reason,
        n: to,
        fingerprint: "",
        now,
    };
    audit(&tx, consumer, lane, record).await?;
    tx.commit(at).await?;
    Ok(u64::try_from(stands - to).unwrap_or(0))
}

pub(super) async fn skip_lost(
    db: &Database,
    consumer: i64,
    lost: &Lost,
    reason: &str,
    now: Timestamp,
) -> Result<u64> {
    check_reason(reason)?;
    let (at, tx) = ("going past a lost range", db.begin().await?);
    let (lane, from, through) = (lost.lane, lost.from.cast_signed(), lost.through.cast_signed());
    let stands = stands(&tx, consumer, lane).await?;
    let Some(stands) = stands.filter(|stands| from - 1 <= *stands && *stands < through) else {
        return Ok(0);
    };
    let (slot, chain) = (i32::from(lane.slot), lost.chain.0.as_slice());
    let params = [
        int8(&consumer),
        uuid(&lane.lineage.0),
        int4(&slot),
        int8(&through),
        bytea(&chain),
    ];
    tx.execute(at, include_str!("skip_lost/move.sql"), &params)
        .await?;
    let range = format!("lost {}..={through}", stands + 1);
    let record = Record {
        action: "skip-lost",
        reason,
        n: through,
        fingerprint: &range,
        now,
    };
    audit(&tx, consumer, lane, record).await?;
    tx.commit(at).await?;
    Ok(u64::try_from(through - stands).unwrap_or(0))
}

pub(super) async fn must_be_idle(db: &Database, consumer: i64) -> Result<()> {
    let tx = db.begin().await?;
    idle(&tx, db, consumer).await
}

async fn idle(tx: &Tx, db: &Database, consumer: i64) -> Result<()> {
    let now = Ticks::from_micros(ownership::lock(tx, consumer, db.now()).await?);
    let lanes = ownership::lanes(tx, consumer).await?;
    let held = lanes
        .iter()
        .filter(|lane| lane.owner.is_some() && now < lane.until)
        .count();
    let members = ownership::members(tx, consumer).await?;
    let alive = members.values().filter(|member| member.is_live(now)).count();
    if held == 0 && alive == 0 {
        return Ok(());
    }
    Err(Error::new(
        Code::OptionsInvalid,
        format!(
            "the consumer runs: {alive} members, {held} lanes held; stop it, or wait until its leases have run out"
        ),
    ))
}

pub(super) async fn forget_positions(db: &Database, consumer: i64) -> Result<u64> {
    let (at, tx) = ("forgetting positions", db.begin().await?);
    idle(&tx, db, consumer).await?;
    let params = [int8(&consumer)];
    let rows = tx
        .query(at, include_str!("remove/count_letters.sql"), &params)
        .await?;
    let letters: i64 = get(&row::one(rows)?, 0)?;
    if letters > 0 {
        return Err(Error::new(
            Code::OptionsInvalid,
            format!("{letters} events wait as dead letters; redrive or discard them first"),
        ));
    }
    tx.execute(at, include_str!("remove/attempts.sql"), &params)
        .await?;
    tx.execute(at, include_str!("remove/members.sql"), &params)
        .await?;
    let lanes = tx.execute(at, include_str!("remove/lanes.sql"), &params).await?;
    tx.commit(at).await?;
    Ok(lanes)
}

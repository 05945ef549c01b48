//! Reading settled history, and tables for people.

use tidegate_core::lane::LaneId;
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::outbox::{LaneRow, ParkedKey, Planned, Refill};
use tidegate_core::stream::Chain;
use tidegate_core::{Result, Timestamp};

use super::{Here, boot_of};
use crate::sqlite::columns::{chain, event, number, signed, token};
use crate::sqlite::{Clock, Sql};

/// Two statements on one snapshot.
pub(super) fn refill(
    sql: &Sql<'_>,
    here: Here,
    member: Nonce,
    (lane, token): (LaneId, Token),
    from: u64,
    limit: u32,
) -> Result<Refill> {
    let params = (here.id, lane.slot, member.0.to_be_bytes(), signed(token.0));
    let state = sql.first("refill", include_str!("lane.sql"), params, |row| {
        Ok((number(row, 0)?, chain(row, 1)?))
    })?;
    let Some((settled, settled_chain)) = state.filter(|_| lane.lineage == here.lineage) else {
        return Ok(Refill::Fenced);
    };
    if from > settled {
        return Ok(Refill::Events(Vec::new()));
    }
    let kept = kept(sql, here, lane, from, limit)?;
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
fn kept(sql: &Sql<'_>, here: Here, lane: LaneId, from: u64, limit: u32) -> Result<Vec<(Planned, Chain)>> {
    let params = (here.id, lane.slot, signed(from), limit);
    sql.query("refill", include_str!("refill.sql"), params, |row| {
        let planned = Planned {
            n: number(row, 0)?,
            event: event(row, 2)?,
        };
        Ok((planned, chain(row, 1)?))
    })
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
pub(super) fn lanes(sql: &Sql<'_>, here: Here, clock: &dyn Clock) -> Result<Vec<LaneRow>> {
    let (now, boot, id) = (clock.now().as_micros(), clock.boot().as_micros(), boot_of(clock));
    sql.query("outbox lanes", include_str!("lanes.sql"), [here.id], |row| {
        let owned = row.get::<_, Option<[u8; 16]>>(3)?.is_some();
        let same_boot = row.get::<_, Option<[u8; 16]>>(5)? == Some(id);
        let live = owned && same_boot && row.get::<_, i64>(4)? > boot;
        let label: Option<String> = row.get(2)?;
        let settled = number(row, 6)?;
        let oldest: Option<i64> = row.get(9)?;
        Ok(LaneRow {
            lane: here.lane(row.get(0)?),
            token: token(row, 1)?,
            owner: label.filter(|_| live),
            settled,
            planned: settled + number(row, 7)?,
            depth: number(row, 8)?,
            oldest_micros: oldest.map(|at| now.saturating_sub(at)),
            parked_keys: number(row, 10)?,
        })
    })
}

pub(super) fn parked(sql: &Sql<'_>, here: Here, limit: u32) -> Result<Vec<ParkedKey>> {
    sql.query(
        "outbox parked",
        include_str!("parked.sql"),
        (here.id, limit),
        |row| {
            let tagged: String = row.get(1)?;
            Ok(ParkedKey {
                lane: here.lane(row.get(0)?),
                key: tagged.get(2..).unwrap_or_default().to_owned(),
                events: number(row, 4)?,
                reason: row.get(2)?,
                attempts: row.get(3)?,
            })
        },
    )
}

/// Deletes from the oldest on and stops at the first row that stays, so that what is kept of a lane has no holes.
pub(super) fn sweep(sql: &Sql<'_>, here: Here, before: Timestamp, limit: u32) -> Result<u64> {
    let look = sql.query(
        "archive sweep",
        include_str!("sweep_look.sql"),
        (here.id, limit),
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
    )?;
    let old = look.into_iter().take_while(|(_, at)| *at < before.as_micros());
    let Some((last, _)) = old.last() else {
        return Ok(0);
    };
    let swept = sql.execute("archive sweep", include_str!("sweep.sql"), (here.id, last))?;
    Ok(swept as u64)
}

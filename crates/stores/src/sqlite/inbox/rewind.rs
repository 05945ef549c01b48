//! Going back: the only way in which a position moves down, by a person, with a reason.

use rusqlite::params;
use tidegate_core::dead_letter::check_reason;
use tidegate_core::inbox::Rewind;
use tidegate_core::{Code, Error, Result, Timestamp};

use crate::sqlite::Sql;

pub(super) fn rewind(
    sql: &Sql<'_>,
    consumer: i64,
    rewind: &Rewind,
    reason: &str,
    now: Timestamp,
) -> Result<u64> {
    check_reason(reason)?;
    go_back(sql, consumer, rewind, reason, now)
}

fn go_back(sql: &Sql<'_>, consumer: i64, rewind: &Rewind, reason: &str, now: Timestamp) -> Result<u64> {
    let step = "rewinding a lane";
    let (lineage, slot, to) = (
        rewind.lane.lineage.0.as_bytes(),
        rewind.lane.slot,
        rewind.to.cast_signed(),
    );
    let here = params![consumer, lineage, slot];
    let stands: Option<i64> = sql.first(step, include_str!("rewind/position.sql"), here, |row| row.get(0))?;
    let Some(stands) = stands else {
        return Err(Error::new(
            Code::NotFound,
            format!("no position in lane {}", rewind.lane),
        ));
    };
    if to > stands {
        return Err(Error::new(
            Code::OptionsInvalid,
            format!("lane {slot} is at {stands}; a rewind only goes back"),
        ));
    }
    if to == stands {
        return Ok(0);
    }
    let beyond = params![consumer, lineage, slot, to];
    sql.execute(step, include_str!("rewind/drop_queued.sql"), beyond)?;
    sql.execute(step, include_str!("rewind/recount_keys.sql"), here)?;
    sql.execute(step, include_str!("rewind/drop_keys.sql"), here)?;
    sql.execute(step, include_str!("rewind/drop_skipped.sql"), beyond)?;
    sql.execute(step, include_str!("rewind/drop_attempts.sql"), beyond)?;
    let moved = params![consumer, lineage, slot, to, rewind.chain.0];
    sql.execute(step, include_str!("rewind/move.sql"), moved)?;
    let audit = params![consumer, now.as_micros(), reason, lineage, slot, to];
    sql.execute(step, include_str!("rewind/audit.sql"), audit)?;
    Ok(u64::try_from(stands - to).unwrap_or(0))
}

//! Going past a range that the stream has declared lost: by a person, with a reason, audited.

use rusqlite::params;
use tidegate_core::dead_letter::check_reason;
use tidegate_core::stream::Lost;
use tidegate_core::{Result, Timestamp};

use crate::sqlite::Sql;
use crate::sqlite::columns::signed;

pub(super) fn skip_lost(
    sql: &Sql<'_>,
    consumer: i64,
    lost: &Lost,
    reason: &str,
    now: Timestamp,
) -> Result<u64> {
    check_reason(reason)?;
    go_past(sql, consumer, lost, reason, now)
}

fn go_past(sql: &Sql<'_>, consumer: i64, lost: &Lost, reason: &str, now: Timestamp) -> Result<u64> {
    let step = "going past a lost range";
    let (lineage, slot) = (lost.lane.lineage.0.as_bytes(), lost.lane.slot);
    let (from, through) = (signed(lost.from), signed(lost.through));
    let here = params![consumer, lineage, slot];
    let stands: Option<i64> = sql.first(step, include_str!("rewind/position.sql"), here, |row| row.get(0))?;
    let Some(stands) = stands.filter(|stands| from - 1 <= *stands && *stands < through) else {
        return Ok(0);
    };
    let moved = params![consumer, lineage, slot, through, lost.chain.0];
    sql.execute(step, include_str!("skip_lost/move.sql"), moved)?;
    let range = format!("lost {}..={through}", stands + 1);
    let audit = params![consumer, now.as_micros(), reason, lineage, slot, through, range];
    sql.execute(step, include_str!("skip_lost/audit.sql"), audit)?;
    Ok(u64::try_from(through - stands).unwrap_or(0))
}

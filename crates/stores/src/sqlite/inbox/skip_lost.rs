//! Going past a range that the stream has declared lost: by a person, with a reason, audited.

use rusqlite::params;
use tidegate_core::dead_letter::check_reason;
use tidegate_core::stream::Lost;
use tidegate_core::{Result, Timestamp};

use super::SqliteInbox;
use crate::sqlite::Sql;
use crate::sqlite::columns::signed;

impl SqliteInbox {
    /// Moves a lane's position to the end of a range that the stream has declared lost. Returns how many numbers that
    /// gives up: zero when the lane has no position right before the range or in it, so that nothing else is passed over.
    /// The books count them as discarded.
    ///
    /// One transaction: the position and its chain, a new token that refuses the present owner, and the audit with its
    /// reason.
    ///
    /// # Errors
    /// [`tidegate_core::Code::OptionsInvalid`] without a reason.
    pub async fn skip_lost(&self, lost: Lost, reason: String, now: Timestamp) -> Result<u64> {
        let consumer = self.consumer;
        let write = self.database.write(move |sql| {
            check_reason(&reason)?;
            go_past(sql, consumer, &lost, &reason, now)
        });
        write.await
    }
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

//! Forgetting where a consumer stands: a person's step, for one that will not come back or that begins anew.

use tidegate_core::{Code, Error, Result};

use super::ownership;
use crate::sqlite::{Clock, Sql};

pub(super) fn forget_positions(sql: &Sql<'_>, consumer: i64, clock: &dyn Clock) -> Result<u64> {
    must_be_idle(sql, consumer, clock)?;
    must_be_empty(sql, consumer)?;
    let at = "forgetting positions";
    sql.execute(at, include_str!("remove/attempts.sql"), [consumer])?;
    sql.execute(at, include_str!("remove/members.sql"), [consumer])?;
    let lanes = sql.execute(at, include_str!("remove/lanes.sql"), [consumer])?;
    Ok(u64::try_from(lanes).unwrap_or(u64::MAX))
}

pub(super) fn must_be_idle(sql: &Sql<'_>, consumer: i64, clock: &dyn Clock) -> Result<()> {
    let (boot, now) = (clock.boot_id(), clock.boot());
    let lanes = ownership::lanes(sql, consumer, boot)?;
    let held = lanes
        .iter()
        .filter(|lane| lane.owner.is_some() && now < lane.until)
        .count();
    let members = ownership::members(sql, consumer, boot)?;
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

fn must_be_empty(sql: &Sql<'_>, consumer: i64) -> Result<()> {
    let count = include_str!("remove/count_letters.sql");
    let letters: i64 = sql.one("forgetting positions", count, [consumer], |row| row.get(0))?;
    if letters == 0 {
        return Ok(());
    }
    Err(Error::new(
        Code::OptionsInvalid,
        format!("{letters} events wait as dead letters; redrive or discard them first"),
    ))
}

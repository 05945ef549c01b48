//! Poison: setting a key aside, and putting it back.

use tidegate_core::lease::Token;
use tidegate_core::outbox::{Park, ParkReply};
use tidegate_core::{Code, Error, Result, Timestamp, Uuid};

use super::Here;
use super::plan::Plan;
use crate::sqlite::Sql;
use crate::sqlite::columns::{json, json_of, number, signed, uuid};

/// A lane row under its fence.
pub(super) struct Lane {
    pub(super) settled: u64,
    pub(super) plan: Plan,
    floor: i64,
}

/// The key of a row: its text, or the id of an event without one.
struct Key {
    key: Option<String>,
    id: Uuid,
}

impl Key {
    fn tagged(&self) -> String {
        match &self.key {
            Some(key) => format!("k:{key}"),
            None => format!("e:{}", self.id),
        }
    }
}

pub(super) fn lane(sql: &Sql<'_>, here: Here, park: &Park) -> Result<Option<Lane>> {
    if park.lane.lineage != here.lineage {
        return Ok(None);
    }
    let member = park.member.0.to_be_bytes();
    let params = (here.id, park.lane.slot, member, signed(park.token.0));
    sql.first("park", include_str!("lane.sql"), params, |row| {
        Ok(Lane {
            settled: number(row, 0)?,
            plan: Plan::read(row.get_ref(2)?.as_blob()?),
            floor: row.get(3)?,
        })
    })
}

pub(super) fn park(sql: &Sql<'_>, here: Here, park: &Park, now: Timestamp) -> Result<ParkReply> {
    let Some(mut lane) = lane(sql, here, park)? else {
        return Ok(ParkReply::Fenced);
    };
    let (at, key) = poisoned(sql, here, park.n, &lane)?;
    let voids = voids(sql, here, park, &lane, at, &key)?;
    let waiting = sql.query(
        "park",
        include_str!("park_unplanned.sql"),
        (here.id, park.lane.slot, lane.floor, &key.key, key.id.as_bytes()),
        |row| row.get(0),
    )?;
    let seqs = voids.iter().filter_map(|at| lane.plan.0.get(*at)).copied();
    let seqs: Vec<i64> = seqs.chain(waiting).collect();
    let tagged = key.tagged();
    set_aside(sql, here, seqs.iter().map(|seq| (*seq, tagged.as_str())))?;
    let params = (here.id, &tagged, park.lane.slot, &park.reason, now.as_micros());
    sql.execute("park", include_str!("park_key.sql"), params)?;
    for at in &voids {
        if let Some(entry) = lane.plan.0.get_mut(*at) {
            *entry = Plan::VOID;
        }
    }
    let token = Token::next(park.token, now.as_micros(), Token(0));
    let params = (here.id, park.lane.slot, signed(token.0), lane.plan.bytes());
    sql.execute("park", include_str!("park_lane.sql"), params)?;
    let voided = voids.into_iter().map(|at| lane.settled + 1 + at as u64).collect();
    Ok(ParkReply::Parked { token, voided })
}

/// Where in the plan the number stands, and its row's key.
fn poisoned(sql: &Sql<'_>, here: Here, n: u64, lane: &Lane) -> Result<(usize, Key)> {
    let not_planned = || {
        Error::new(
            Code::Internal,
            format!("park: number {n} is not an event of the plan"),
        )
    };
    let offset = n
        .checked_sub(lane.settled + 1)
        .and_then(|at| usize::try_from(at).ok());
    let at = offset.ok_or_else(not_planned)?;
    let seq = lane.plan.0.get(at).copied().unwrap_or(Plan::VOID);
    let key = sql.first("park", include_str!("park_row.sql"), (here.id, seq), |row| {
        Ok(Key {
            key: row.get(0)?,
            id: uuid(row, 1)?,
        })
    })?;
    Ok((at, key.ok_or_else(not_planned)?))
}

/// Places in the plan that become void: the poisoned one, and its key's planned followers if asked.
fn voids(sql: &Sql<'_>, here: Here, park: &Park, lane: &Lane, at: usize, key: &Key) -> Result<Vec<usize>> {
    let mut voids = vec![at];
    if park.followers {
        let after = json(Plan::rows(&lane.plan.0[at + 1..]));
        let params = (here.id, after, &key.key, key.id.as_bytes());
        let same: Vec<i64> = sql.query("park", include_str!("park_planned.sql"), params, |row| row.get(0))?;
        let followers = lane.plan.0.iter().enumerate().skip(at + 1);
        voids.extend(followers.filter(|(_, seq)| same.contains(seq)).map(|(at, _)| at));
    }
    Ok(voids)
}

/// Moves rows to the parked table, each under its parked key. Two statements.
pub(super) fn set_aside<'a>(
    sql: &Sql<'_>,
    here: Here,
    rows: impl Iterator<Item = (i64, &'a str)> + Clone,
) -> Result<()> {
    let pairs = json_of(
        rows.clone()
            .map(|(seq, key)| format!("[{seq},{}]", serde_json::Value::from(key))),
    );
    sql.execute("set aside", include_str!("set_aside.sql"), (here.id, pairs))?;
    let seqs = json(rows.map(|(seq, _)| seq));
    sql.execute("set aside", include_str!("drop_rows.sql"), (here.id, seqs))?;
    Ok(())
}

/// Seven statements.
pub(super) fn release(sql: &Sql<'_>, here: Here, key: &str) -> Result<u64> {
    for tagged in [format!("k:{key}"), format!("e:{key}")] {
        let params = (here.id, &tagged);
        let lane: Option<i64> = sql.first("release", include_str!("release_key.sql"), params, |row| {
            row.get(0)
        })?;
        if let Some(lane) = lane {
            return release_rows(sql, here, &tagged, lane);
        }
    }
    Ok(0)
}

fn release_rows(sql: &Sql<'_>, here: Here, tagged: &str, lane: i64) -> Result<u64> {
    let params = (here.id, lane, tagged);
    let since: Vec<i64> = sql.query("release", include_str!("release_since.sql"), params, |row| {
        row.get(0)
    })?;
    let count = sql.execute("release", include_str!("release_rows.sql"), (here.id, tagged))?;
    sql.execute("release", include_str!("release_drop.sql"), (here.id, tagged))?;
    let since = json(since);
    sql.execute("release", include_str!("release_move.sql"), (here.id, &since))?;
    sql.execute("release", include_str!("drop_rows.sql"), (here.id, &since))?;
    sql.execute("release", include_str!("release_lane.sql"), (here.id, lane))?;
    Ok(count as u64)
}

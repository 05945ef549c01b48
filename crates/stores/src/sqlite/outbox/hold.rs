//! Ownership of lanes: the rule of [`tidegate_core::lane::share`] over the lane and member rows.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::Row as SqlRow;
use tidegate_core::lane::share::{Member, Row, apply_hold};
use tidegate_core::lane::{Held, Hold};
use tidegate_core::lease::Nonce;
use tidegate_core::outbox::LaneState;
use tidegate_core::{Result, Ticks, time};

use super::{Here, boot_of};
use crate::sqlite::columns::{NULL, Param, blob, chain, int, nonce, number, signed, text, token};
use crate::sqlite::values::Values;
use crate::sqlite::{Clock, Sql};

pub(super) static UPDATE: Values = Values::new(
    "hold",
    "update tidegate_lane
     set owner = v.column3, label = v.column4, token = v.column5, lease_until = v.column6, boot = v.column7
     from (values ",
    7,
    ") v where tidegate_lane.outbox = v.column1 and tidegate_lane.slot = v.column2",
);

/// The rule counts on one clock that also floors tokens; rows hold boot time. The difference shifts one to the other.
struct Frame {
    now: Ticks,
    shift: i64,
    boot: [u8; 16],
}

impl Frame {
    fn of(clock: &dyn Clock) -> Self {
        let wall = clock.now().as_micros();
        Self {
            now: Ticks::from_micros(wall),
            shift: wall.saturating_sub(clock.boot().as_micros()),
            boot: boot_of(clock),
        }
    }

    /// A time of another boot is long past.
    fn load(&self, boot_micros: i64, boot: Option<[u8; 16]>) -> Ticks {
        let past = boot.is_none_or(|boot| boot != self.boot);
        Ticks::from_micros(if past {
            0
        } else {
            boot_micros.saturating_add(self.shift)
        })
    }

    fn store(&self, ticks: Ticks) -> i64 {
        ticks.as_micros().saturating_sub(self.shift)
    }
}

/// Six statements.
pub(super) fn hold(sql: &Sql<'_>, here: Here, hold: &Hold, clock: &dyn Clock) -> Result<Held<LaneState>> {
    let frame = Frame::of(clock);
    let mut members = members(sql, here, &frame)?;
    let before = lanes(sql, here, &frame)?;
    let mut rows = before.clone();
    let held = apply_hold(&mut rows, &mut members, hold, frame.now);
    heartbeat(sql, here, hold, &frame)?;
    let changed: Vec<_> = rows
        .iter()
        .zip(&before)
        .filter(|(now, was)| now != was)
        .map(|(now, _)| now)
        .collect();
    write(sql, here, &changed, &frame)?;
    Ok(held)
}

fn members(sql: &Sql<'_>, here: Here, frame: &Frame) -> Result<BTreeMap<Nonce, Member>> {
    let rows = sql.query("hold", include_str!("members.sql"), [here.id], |row| {
        let member = Member {
            label: row.get(1)?,
            ttl: Duration::from_micros(number(row, 2)?),
            seen: frame.load(row.get(3)?, row.get(4)?),
        };
        Ok((nonce(row, 0)?, member))
    })?;
    Ok(rows
        .into_iter()
        .filter_map(|(nonce, member)| Some((nonce?, member)))
        .collect())
}

fn lanes(sql: &Sql<'_>, here: Here, frame: &Frame) -> Result<Vec<Row<LaneState>>> {
    sql.query("hold", include_str!("hold_lanes.sql"), [here.id], |row| {
        lane(row, here, frame)
    })
}

fn lane(row: &SqlRow<'_>, here: Here, frame: &Frame) -> rusqlite::Result<Row<LaneState>> {
    let settled = number(row, 6)?;
    let state = LaneState {
        settled,
        chain: chain(row, 7)?,
        planned: settled + number(row, 8)?,
    };
    Ok(Row {
        lane: here.lane(row.get(0)?),
        token: token(row, 1)?,
        owner: nonce(row, 2)?,
        label: row.get(3)?,
        until: frame.load(row.get(4)?, row.get(5)?),
        state,
    })
}

fn heartbeat(sql: &Sql<'_>, here: Here, hold: &Hold, frame: &Frame) -> Result<()> {
    let now = frame.store(frame.now);
    sql.execute(
        "hold",
        include_str!("members_gone.sql"),
        (here.id, frame.boot, now),
    )?;
    let member = hold.member.0.to_be_bytes();
    if hold.leave {
        sql.execute("hold", include_str!("member_leaves.sql"), (here.id, member))?;
    } else {
        let params = (
            here.id,
            member,
            &hold.label,
            now,
            time::micros(hold.ttl),
            frame.boot,
        );
        sql.execute("hold", include_str!("member_beats.sql"), params)?;
    }
    Ok(())
}

fn write(sql: &Sql<'_>, here: Here, rows: &[&Row<LaneState>], frame: &Frame) -> Result<()> {
    let owners: Vec<_> = rows
        .iter()
        .map(|row| row.owner.map(|o| o.0.to_be_bytes()))
        .collect();
    let mut params: Vec<Param<'_>> = Vec::with_capacity(rows.len() * 7);
    for (row, owner) in rows.iter().zip(&owners) {
        params.extend([
            int(here.id),
            int(row.lane.slot.into()),
            owner.as_ref().map_or(NULL, |o| blob(o)),
            text(&row.label),
            int(signed(row.token.0)),
            int(frame.store(row.until)),
            blob(&frame.boot),
        ]);
    }
    UPDATE.run(sql, &params).map(|_| ())
}

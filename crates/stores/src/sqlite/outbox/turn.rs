//! One turn over many lanes: fence, settle, load, poll, write. Each is one statement for all lanes, or none.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::Row;
use tidegate_core::lane::LaneId;
use tidegate_core::lease::Nonce;
use tidegate_core::outbox::{LaneTurn, LaneTurned, Planned, Turn, Turned, key_ref};
use tidegate_core::stream::Chain;
use tidegate_core::{Code, Error, Result, Timestamp, Uuid};

use super::Here;
use super::park::set_aside;
use super::plan::Plan;
use crate::sqlite::columns::{Param, blob, chain, event, int, json, number, signed, uuid};
use crate::sqlite::values::Values;
use crate::sqlite::{Database, Sql};
use crate::turn::{Gone, check_lanes, settled_differently};

const FENCE_WIDTH: usize = 5;
/// The lanes that are still this member's, and what a turn needs of them.
pub(super) static FENCE: Values = Values::new(
    "outbox turn",
    "select v.column1, l.slot, l.settled, l.chain, l.plan, l.floor, l.parked,
       exists (select 1 from tidegate_outbox o where o.outbox = l.outbox and o.lane = l.slot and o.seq > l.floor)
     from (values ",
    FENCE_WIDTH,
    ") v cross join tidegate_lane l on l.outbox = v.column2 and l.slot = v.column3
     where l.owner = v.column4 and l.token = v.column5",
);

const POLL_WIDTH: usize = 4;
/// Waiting rows lane by lane: the cost does not depend on the backlog.
pub(super) static POLL: Values = Values::new(
    "outbox poll",
    "select v.column1, o.seq, length(o.payload),
       o.event_id, o.topic, o.key, o.version, o.content_type, o.headers, o.payload, o.occurred_at
     from (values ",
    POLL_WIDTH,
    ") v cross join tidegate_outbox o on o.seq in (
       select i.seq from tidegate_outbox i
       where i.outbox = v.column2 and i.lane = v.column3 and i.seq > v.column4
       order by i.seq limit ?)",
);

const ARCHIVE_WIDTH: usize = 6;
/// A void marker has no row to copy.
pub(super) static ARCHIVE: Values = Values::new(
    "outbox archive",
    "insert into tidegate_outbox_archive
       (outbox, lane, n, prior, settled_at,
        event_id, topic, key, version, content_type, headers, payload, occurred_at)
     select v.column1, v.column2, v.column3, v.column4, v.column5,
       o.event_id, o.topic, o.key, o.version, o.content_type, o.headers, o.payload, o.occurred_at
     from (values ",
    ARCHIVE_WIDTH,
    ") v left join tidegate_outbox o on o.seq = v.column6
     where v.column1 is not null",
);

pub(super) static UPDATE: Values = Values::new(
    "outbox turn",
    "update tidegate_lane
     set settled = v.column3, chain = v.column4, plan = v.column5, floor = v.column6
     from (values ",
    6,
    ") v where tidegate_lane.outbox = v.column1 and tidegate_lane.slot = v.column2",
);

/// Runs the turn. Lanes whose planned rows are gone from the table, which nobody but Tidegate may delete from, are
/// left out and answered as fenced.
pub(super) async fn turn(db: &Database, here: Here, turn: Arc<Turn>, now: Timestamp) -> Result<Vec<Turned>> {
    check_lanes(&turn)?;
    let mut without = HashSet::new();
    loop {
        let (turn, skip) = (Arc::clone(&turn), without.clone());
        let reply = db.write(move |sql| run(sql, here, &turn, &skip, now)).await;
        match reply {
            Err(error) => match Gone::of(&error) {
                Some(lanes) if lanes.iter().any(|lane| without.insert(*lane)) => {}
                _ => return Err(error),
            },
            reply => return reply,
        }
    }
}

/// A lane that passed the fence, as the turn leaves it.
struct Lane {
    turn: LaneTurn,
    slot: u16,
    settled: u64,
    chain: Chain,
    plan: Plan,
    floor: i64,
    /// Keys of this lane that are set aside.
    parked: u32,
    /// Rows are left unplanned.
    more: bool,
    seen: u32,
    fresh: u32,
    full: bool,
    changed: bool,
    events: Vec<Planned>,
}

impl Lane {
    fn planned(&self) -> u64 {
        self.settled + self.plan.0.len() as u64
    }

    /// The part of the plan that is to be settled; `None` settles nothing.
    fn settling(&self) -> Option<(&[i64], Chain)> {
        let (through, chain) = self.turn.settle?;
        let count = usize::try_from(through.checked_sub(self.settled)?).ok()?;
        let seqs = self.plan.0.get(..count)?;
        (count > 0).then_some((seqs, chain))
    }
}

fn run(
    sql: &Sql<'_>,
    here: Here,
    turn: &Turn,
    skip: &HashSet<LaneId>,
    now: Timestamp,
) -> Result<Vec<Turned>> {
    let mut lanes = fence(sql, here, turn.member, turn, skip)?;
    settle(sql, here, &mut lanes, now)?;
    load(sql, here, &mut lanes)?;
    poll(sql, here, &mut lanes, turn.bytes_max)?;
    write(sql, here, &lanes)?;
    let mut done: HashMap<LaneId, Lane> = lanes.into_iter().map(|lane| (lane.turn.lane, lane)).collect();
    let outcome = |lane: Option<Lane>| match lane {
        None => LaneTurned::Fenced,
        Some(Lane { events, more, .. }) => LaneTurned::Planned { events, more },
    };
    let reply = turn.lanes.iter().map(|t| Turned {
        lane: t.lane,
        outcome: outcome(done.remove(&t.lane)),
    });
    Ok(reply.collect())
}

/// The lanes that are still mine, in the turn's order. Settling what is not planned is a stale owner's, as a wrong
/// token is.
fn fence(sql: &Sql<'_>, here: Here, member: Nonce, turn: &Turn, skip: &HashSet<LaneId>) -> Result<Vec<Lane>> {
    let asked: Vec<_> = turn
        .lanes
        .iter()
        .filter(|t| t.lane.lineage == here.lineage && !skip.contains(&t.lane))
        .collect();
    let member = member.0.to_be_bytes();
    let mut params = Vec::with_capacity(asked.len() * FENCE_WIDTH);
    for (t, at) in asked.iter().zip(0..) {
        let (slot, token) = (int(t.lane.slot.into()), int(signed(t.token.0)));
        params.extend([int(at), int(here.id), slot, blob(&member), token]);
    }
    let mut lanes = Vec::with_capacity(asked.len());
    FENCE.each(sql, &params, &[], |row| {
        let at: u32 = row.get(0)?;
        let turn = asked.get(at as usize).ok_or(rusqlite::Error::InvalidQuery)?;
        lanes.push(fenced(row, **turn)?);
        Ok(())
    })?;
    lanes.retain(|lane| lane.turn.settle.is_none_or(|(n, _)| n <= lane.planned()));
    Ok(lanes)
}

fn fenced(row: &Row<'_>, turn: LaneTurn) -> rusqlite::Result<Lane> {
    Ok(Lane {
        turn,
        slot: row.get(1)?,
        settled: number(row, 2)?,
        chain: chain(row, 3)?,
        plan: Plan::read(row.get_ref(4)?.as_blob()?),
        floor: row.get(5)?,
        parked: row.get(6)?,
        more: row.get(7)?,
        seen: 0,
        fresh: 0,
        full: false,
        changed: false,
        events: Vec::new(),
    })
}

// ---- settle ----

/// Deletes exactly the planned rows that were acknowledged, or moves them to the archive.
fn settle(sql: &Sql<'_>, here: Here, lanes: &mut [Lane], now: Timestamp) -> Result<()> {
    let settling = lanes.iter().filter_map(Lane::settling);
    let seqs: Vec<i64> = settling.flat_map(|(seqs, _)| Plan::rows(seqs)).collect();
    if lanes.iter().all(|lane| lane.settling().is_none()) {
        return Ok(());
    }
    let statement = if here.archive {
        include_str!("settled_ids.sql")
    } else {
        include_str!("settle.sql")
    };
    let rows = rows_of(sql, here, statement, &seqs)?;
    let gone: Vec<_> = lanes
        .iter()
        .filter(|lane| !rows.hold(lane))
        .map(|lane| lane.turn.lane)
        .collect();
    if !gone.is_empty() {
        return Err(Gone::error(gone));
    }
    let mut kept = Vec::new();
    for lane in lanes.iter_mut() {
        advance(lane, &rows, &mut kept)?;
    }
    if here.archive {
        archive(sql, here, &seqs, &kept, now)?;
    }
    Ok(())
}

/// Lane and event id of rows that were found.
struct Rows(HashMap<i64, (u16, Uuid)>);

impl Rows {
    /// Every row that this lane settles is there, and is of this lane.
    fn hold(&self, lane: &Lane) -> bool {
        let mine = |seq| self.0.get(&seq).is_some_and(|(slot, _)| *slot == lane.slot);
        lane.settling().is_none_or(|(seqs, _)| Plan::rows(seqs).all(mine))
    }
}

fn rows_of(sql: &Sql<'_>, here: Here, statement: &str, seqs: &[i64]) -> Result<Rows> {
    if seqs.is_empty() {
        return Ok(Rows(HashMap::new()));
    }
    let params = (here.id, json(seqs.iter().copied()));
    let mut rows = HashMap::with_capacity(seqs.len());
    sql.each("outbox settle", statement, params, |row| {
        rows.insert(row.get(0)?, (row.get(1)?, uuid(row, 2)?));
        Ok(())
    })?;
    Ok(Rows(rows))
}

/// What the archive stores beside the event.
struct Kept {
    slot: u16,
    n: u64,
    prior: Chain,
    /// [`Plan::VOID`]: no event.
    seq: i64,
}

/// Moves the lane's settled end. `kept` receives what the archive stores of each number.
fn advance(lane: &mut Lane, rows: &Rows, kept: &mut Vec<Kept>) -> Result<()> {
    let Some((seqs, wanted)) = lane.settling() else {
        return Ok(());
    };
    let count = seqs.len();
    let mut at = lane.chain;
    for (n, seq) in (lane.settled + 1..).zip(seqs) {
        kept.push(Kept {
            slot: lane.slot,
            n,
            prior: at,
            seq: *seq,
        });
        at = at.next(n, rows.0.get(seq).map(|(_, id)| *id));
    }
    if at != wanted {
        return Err(settled_differently(lane.turn.lane));
    }
    lane.chain = at;
    lane.settled += count as u64;
    lane.plan.0.drain(..count);
    lane.changed = true;
    Ok(())
}

fn archive(sql: &Sql<'_>, here: Here, seqs: &[i64], kept: &[Kept], now: Timestamp) -> Result<()> {
    let mut params = Vec::with_capacity(kept.len() * ARCHIVE_WIDTH);
    for row in kept {
        params.extend([
            int(here.id),
            int(row.slot.into()),
            int(signed(row.n)),
            blob(&row.prior.0),
            int(now.as_micros()),
            int(row.seq),
        ]);
    }
    ARCHIVE.run(sql, &params)?;
    let params = (here.id, json(seqs.iter().copied()));
    let dropped = sql.execute("outbox settle", include_str!("drop_rows.sql"), params)?;
    if dropped == seqs.len() {
        return Ok(());
    }
    Err(Error::new(
        Code::Internal,
        "outbox settle: other rows were deleted than were read",
    ))
}

// ---- plan ----

/// Hands back the unfinished plan of lanes that ask for it.
fn load(sql: &Sql<'_>, here: Here, lanes: &mut [Lane]) -> Result<()> {
    let asking = lanes.iter().filter(|lane| lane.turn.load);
    let seqs = json(asking.flat_map(|lane| Plan::rows(&lane.plan.0)));
    let mut found = HashMap::new();
    if seqs.len() > 2 {
        sql.each("outbox load", include_str!("load.sql"), (here.id, seqs), |row| {
            found.insert(row.get::<_, i64>(0)?, event(row, 1)?);
            Ok(())
        })?;
    }
    let mut gone = Vec::new();
    for lane in lanes.iter_mut().filter(|lane| lane.turn.load) {
        for (n, seq) in (lane.settled + 1..).zip(&lane.plan.0) {
            let event = found.remove(seq).flatten();
            if event.is_none() && *seq != Plan::VOID {
                gone.push(lane.turn.lane);
            }
            lane.events.push(Planned { n, event });
        }
    }
    if gone.is_empty() {
        return Ok(());
    }
    Err(Gone::error(gone))
}

/// Gives numbers to waiting rows, and sets rows of parked keys aside.
fn poll(sql: &Sql<'_>, here: Here, lanes: &mut [Lane], bytes_max: usize) -> Result<()> {
    let mut asking: Vec<_> = lanes
        .iter_mut()
        .filter(|lane| lane.turn.plan > 0 && lane.more)
        .collect();
    let Some(most) = asking.iter().map(|lane| lane.turn.plan).max() else {
        return Ok(());
    };
    let parked = parked_keys(sql, here, &asking)?;
    // One more than wanted, to know whether rows are left.
    let limit = i64::from(most) + 1;
    let mut params = Vec::with_capacity(asking.len() * POLL_WIDTH);
    for (lane, at) in asking.iter().zip(0..) {
        let place = [int(at), int(here.id), int(lane.slot.into()), int(lane.floor)];
        params.extend(place);
    }
    let mut room = bytes_max;
    let mut aside = Vec::new();
    let mut last = (0, 0);
    POLL.each(sql, &params, &[int(limit)], |row| {
        let at: (u32, i64) = (row.get(0)?, row.get(1)?);
        // Rows come in order by the shape of the query; publishing out of order would be silent, so look.
        if at <= last {
            return Err(rusqlite::Error::InvalidQuery);
        }
        last = at;
        let lane = asking
            .get_mut(at.0 as usize)
            .ok_or(rusqlite::Error::InvalidQuery)?;
        take(lane, at.1, row, &parked, &mut room, &mut aside)
    })?;
    for lane in asking {
        lane.more = lane.full;
    }
    if aside.is_empty() {
        return Ok(());
    }
    set_aside(sql, here, aside.iter().map(|(seq, key)| (*seq, key.as_str())))
}

/// Keys set aside in the lanes that have any: no statement when none has.
fn parked_keys(sql: &Sql<'_>, here: Here, lanes: &[&mut Lane]) -> Result<HashSet<String>> {
    let slots = json(
        lanes
            .iter()
            .filter(|lane| lane.parked > 0)
            .map(|lane| lane.slot.into()),
    );
    if slots.len() <= 2 {
        return Ok(HashSet::new());
    }
    let keys = sql.query(
        "outbox poll",
        include_str!("parked_keys_of.sql"),
        (here.id, slots),
        |row| row.get(0),
    )?;
    Ok(keys.into_iter().collect())
}

/// One waiting row: planned, set aside, or the reason to stop in this lane.
fn take(
    lane: &mut Lane,
    seq: i64,
    row: &Row<'_>,
    parked: &HashSet<String>,
    room: &mut usize,
    aside: &mut Vec<(i64, String)>,
) -> rusqlite::Result<()> {
    let bytes = row.get::<_, u32>(2)? as usize;
    // A parked key's row takes no room, so its key is looked at first; the payload is not read before it is wanted.
    let wanted = lane.seen < lane.turn.plan;
    if lane.full || !wanted {
        lane.full = true;
        return Ok(());
    }
    lane.seen += 1;
    if lane.parked > 0 {
        let event = event(row, 3)?.ok_or(rusqlite::Error::InvalidQuery)?;
        let key = key_ref(&event);
        if parked.contains(&key) {
            (lane.floor, lane.changed) = (seq, true);
            aside.push((seq, key));
            return Ok(());
        }
    }
    if lane.fresh > 0 && bytes > *room {
        lane.full = true;
        return Ok(());
    }
    lane.fresh += 1;
    *room = room.saturating_sub(bytes);
    let n = lane.planned() + 1;
    lane.plan.0.push(seq);
    (lane.floor, lane.changed) = (seq, true);
    let event = event(row, 3)?;
    lane.events.push(Planned { n, event });
    Ok(())
}

fn write(sql: &Sql<'_>, here: Here, lanes: &[Lane]) -> Result<()> {
    let changed: Vec<_> = lanes
        .iter()
        .filter(|lane| lane.changed)
        .map(|lane| (lane, lane.plan.bytes()))
        .collect();
    let mut params: Vec<Param<'_>> = Vec::with_capacity(changed.len() * 6);
    for (lane, plan) in &changed {
        params.extend([
            int(here.id),
            int(lane.slot.into()),
            int(signed(lane.settled)),
            blob(&lane.chain.0),
            blob(plan),
            int(lane.floor),
        ]);
    }
    UPDATE.run(sql, &params).map(|_| ())
}

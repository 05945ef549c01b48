//! One turn over many lanes: fence, settle, load, poll, write. Each is one statement for all lanes, or none.

use std::collections::{HashMap, HashSet};

use tidegate_core::lane::LaneId;
use tidegate_core::outbox::{LaneTurn, LaneTurned, Planned, Turn, Turned, key_ref};
use tidegate_core::stream::Chain;
use tidegate_core::{Code, Error, Event, Result, Uuid};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::park::{Aside, set_aside};
use super::plan::Plan;
use super::{Here, big, small};
use crate::postgres::columns::{chain, event, get, nonce_uuid, number};
use crate::postgres::db::{Database, Tx};
use crate::turn::{Gone, check_lanes, settled_differently};

const AT: &str = "outbox turn";

/// Runs the turn. Lanes whose planned rows are gone from the table, which nobody but Tidegate may delete from, are
/// left out and answered as fenced. The second value: rows were planned.
pub(super) async fn turn(db: &Database, here: Here, turn: &Turn) -> Result<(Vec<Turned>, bool)> {
    check_lanes(turn)?;
    let mut without = HashSet::new();
    loop {
        match run(db, here, turn, &without).await {
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
    slot: i16,
    settled: u64,
    chain: Chain,
    plan: Plan,
    /// Keys of this lane that are set aside.
    parked: i32,
    /// Rows are left unplanned.
    more: bool,
    seen: u32,
    fresh: u32,
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

async fn run(db: &Database, here: Here, turn: &Turn, skip: &HashSet<LaneId>) -> Result<(Vec<Turned>, bool)> {
    let tx = db.begin_by_index().await?;
    let asked: Vec<_> = turn
        .lanes
        .iter()
        .filter(|t| t.lane.lineage == here.lineage && !skip.contains(&t.lane))
        .copied()
        .collect();
    let idle = asked.iter().all(|t| t.settle.is_none() && !t.load);
    if let Some(mine) = if idle {
        nothing_waits(&tx, here, turn, &asked).await?
    } else {
        None
    } {
        return Ok((without_rows(turn, &mine), false));
    }
    let mut lanes = fence(&tx, here, turn, &asked).await?;
    settle(&tx, here, &mut lanes, db.now()).await?;
    load(&tx, here, &mut lanes).await?;
    poll(&tx, here, &mut lanes, turn.bytes_max).await?;
    if write(&tx, here, &lanes).await? {
        tx.commit(AT).await?;
    } else {
        tx.roll_back();
    }
    let fresh = lanes.iter().any(|lane| lane.fresh > 0);
    let mut done: HashMap<LaneId, Lane> = lanes.into_iter().map(|lane| (lane.turn.lane, lane)).collect();
    let outcome = |lane: Option<Lane>| match lane {
        None => LaneTurned::Fenced,
        Some(Lane { events, more, .. }) => LaneTurned::Planned { events, more },
    };
    let reply = turn.lanes.iter().map(|t| Turned {
        lane: t.lane,
        outcome: outcome(done.remove(&t.lane)),
    });
    Ok((reply.collect(), fresh))
}

/// The lanes that are still mine, when no row waits in any: an idle relay locks and writes nothing.
async fn nothing_waits(
    tx: &Tx,
    here: Here,
    turn: &Turn,
    asked: &[LaneTurn],
) -> Result<Option<HashSet<LaneId>>> {
    let rows = by_lane(tx, here, turn, asked, include_str!("look.sql")).await?;
    let mut mine = HashSet::with_capacity(rows.len());
    for row in &rows {
        if get(row, 1)? {
            return Ok(None);
        }
        let asked = asked.get(place(row)?).ok_or_else(|| strange("look"))?;
        mine.insert(asked.lane);
    }
    Ok(Some(mine))
}

fn without_rows(turn: &Turn, mine: &HashSet<LaneId>) -> Vec<Turned> {
    let outcome = |lane: &LaneId| {
        if mine.contains(lane) {
            LaneTurned::Planned {
                events: Vec::new(),
                more: false,
            }
        } else {
            LaneTurned::Fenced
        }
    };
    let turned = |t: &LaneTurn| Turned {
        lane: t.lane,
        outcome: outcome(&t.lane),
    };
    turn.lanes.iter().map(turned).collect()
}

/// Runs a statement over lanes with their tokens; none costs nothing.
async fn by_lane(tx: &Tx, here: Here, turn: &Turn, asked: &[LaneTurn], statement: &str) -> Result<Vec<Row>> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let slots: Vec<_> = asked.iter().map(|t| small(t.lane.slot)).collect();
    let tokens: Vec<_> = asked.iter().map(|t| big(t.token.0)).collect();
    let params = &[
        (&here.id as _, Type::INT8),
        (&nonce_uuid(turn.member) as _, Type::UUID),
        (&slots as _, Type::INT2_ARRAY),
        (&tokens as _, Type::INT8_ARRAY),
    ];
    tx.query(AT, statement, params).await
}

/// The lanes that are still mine, in the turn's order. Settling what is not planned is a stale owner's, as a wrong
/// token is.
async fn fence(tx: &Tx, here: Here, turn: &Turn, asked: &[LaneTurn]) -> Result<Vec<Lane>> {
    let rows = by_lane(tx, here, turn, asked, include_str!("fence.sql")).await?;
    let mut lanes = Vec::with_capacity(rows.len());
    for row in &rows {
        let at = place(row)?;
        let turn = asked.get(at).ok_or_else(|| strange("fence"))?;
        lanes.push((at, fenced(row, *turn)?));
    }
    // Locked in order of slot.
    lanes.sort_by_key(|(at, _)| *at);
    let lanes = lanes.into_iter().map(|(_, lane)| lane);
    Ok(lanes
        .filter(|lane| lane.turn.settle.is_none_or(|(n, _)| n <= lane.planned()))
        .collect())
}

/// The place in an array that a row stands for; the server counts from one.
fn place(row: &Row) -> Result<usize> {
    let nth = number(row, 0)?.checked_sub(1);
    nth.and_then(|at| usize::try_from(at).ok())
        .ok_or_else(|| strange("place"))
}

fn strange(what: &str) -> Error {
    Error::new(
        Code::Internal,
        format!("{AT}: the server answered {what} out of order"),
    )
}

fn fenced(row: &Row, turn: LaneTurn) -> Result<Lane> {
    Ok(Lane {
        turn,
        slot: small(turn.lane.slot),
        settled: number(row, 1)?,
        chain: chain(row, 2)?,
        plan: Plan(get(row, 3)?),
        parked: get(row, 4)?,
        more: false,
        seen: 0,
        fresh: 0,
        changed: false,
        events: Vec::new(),
    })
}

// ---- settle ----

/// Lanes and seqs of rows, as two arrays.
#[derive(Default)]
struct Places {
    lanes: Vec<i16>,
    seqs: Vec<i64>,
}

impl Places {
    fn push(&mut self, slot: i16, seqs: &[i64]) {
        for seq in Plan::rows(seqs) {
            self.lanes.push(slot);
            self.seqs.push(seq);
        }
    }

    /// Rows of these places; none costs nothing.
    async fn query(&self, tx: &Tx, here: Here, at: &'static str, statement: &str) -> Result<Vec<Row>> {
        if self.seqs.is_empty() {
            return Ok(Vec::new());
        }
        let params = &[
            (&here.id as _, Type::INT8),
            (&self.lanes as _, Type::INT2_ARRAY),
            (&self.seqs as _, Type::INT8_ARRAY),
        ];
        tx.query(at, statement, params).await
    }
}

/// Deletes exactly the planned rows that were acknowledged, or moves them to the archive.
async fn settle(tx: &Tx, here: Here, lanes: &mut [Lane], now: Option<i64>) -> Result<()> {
    let mut places = Places::default();
    let mut some = false;
    for lane in lanes.iter() {
        if let Some((seqs, _)) = lane.settling() {
            some = true;
            places.push(lane.slot, seqs);
        }
    }
    if !some {
        return Ok(());
    }
    let statement = if here.archive {
        include_str!("settled_ids.sql")
    } else {
        include_str!("settle.sql")
    };
    let rows = Rows::of(&places.query(tx, here, "outbox settle", statement).await?)?;
    let gone: Vec<_> = lanes
        .iter()
        .filter(|lane| !rows.hold(lane))
        .map(|lane| lane.turn.lane)
        .collect();
    if !gone.is_empty() {
        return Err(Gone::error(gone));
    }
    let mut kept = Kept::default();
    for lane in lanes.iter_mut() {
        advance(lane, &rows, &mut kept)?;
    }
    if here.archive {
        kept.archive(tx, here, now).await?;
    }
    Ok(())
}

/// Event ids of rows that were found, by lane and seq.
struct Rows(HashMap<(i16, i64), Uuid>);

impl Rows {
    fn of(rows: &[Row]) -> Result<Self> {
        let row = |row: &Row| Ok(((get(row, 1)?, get(row, 0)?), get(row, 2)?));
        rows.iter().map(row).collect::<Result<_>>().map(Self)
    }

    /// Every row that this lane settles is there.
    fn hold(&self, lane: &Lane) -> bool {
        let there = |seq| self.0.contains_key(&(lane.slot, seq));
        lane.settling()
            .is_none_or(|(seqs, _)| Plan::rows(seqs).all(there))
    }
}

/// What the archive stores beside the event, by column. [`Plan::VOID`]: no event.
#[derive(Default)]
struct Kept {
    lanes: Vec<i16>,
    numbers: Vec<i64>,
    priors: Vec<Vec<u8>>,
    seqs: Vec<i64>,
}

impl Kept {
    async fn archive(&self, tx: &Tx, here: Here, now: Option<i64>) -> Result<()> {
        let params = &[
            (&here.id as _, Type::INT8),
            (&now as _, Type::INT8),
            (&self.lanes as _, Type::INT2_ARRAY),
            (&self.numbers as _, Type::INT8_ARRAY),
            (&self.priors as _, Type::BYTEA_ARRAY),
            (&self.seqs as _, Type::INT8_ARRAY),
        ];
        tx.execute("outbox archive", include_str!("archive.sql"), params)
            .await
            .map(|_| ())
    }
}

/// Moves the lane's settled end. `kept` receives what the archive stores of each number.
fn advance(lane: &mut Lane, rows: &Rows, kept: &mut Kept) -> Result<()> {
    let Some((seqs, wanted)) = lane.settling() else {
        return Ok(());
    };
    let count = seqs.len();
    let mut at = lane.chain;
    for (n, seq) in (lane.settled + 1..).zip(seqs) {
        kept.lanes.push(lane.slot);
        kept.numbers.push(big(n));
        kept.priors.push(at.0.to_vec());
        kept.seqs.push(*seq);
        at = at.next(n, rows.0.get(&(lane.slot, *seq)).copied());
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

// ---- plan ----

async fn events_of(tx: &Tx, here: Here, places: &Places) -> Result<HashMap<i64, Event>> {
    let rows = places
        .query(tx, here, "outbox load", include_str!("load.sql"))
        .await?;
    let mut found = HashMap::with_capacity(rows.len());
    for row in &rows {
        if let Some(event) = event(row, 1)? {
            found.insert(get(row, 0)?, event);
        }
    }
    Ok(found)
}

/// Hands back the unfinished plan of lanes that ask for it.
async fn load(tx: &Tx, here: Here, lanes: &mut [Lane]) -> Result<()> {
    let mut places = Places::default();
    for lane in lanes.iter().filter(|lane| lane.turn.load) {
        places.push(lane.slot, &lane.plan.0);
    }
    let mut found = events_of(tx, here, &places).await?;
    let mut gone = Vec::new();
    for lane in lanes.iter_mut().filter(|lane| lane.turn.load) {
        for (n, seq) in (lane.settled + 1..).zip(&lane.plan.0) {
            let event = found.remove(seq);
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

/// Rows that a poll took.
#[derive(Default)]
struct Taken {
    room: usize,
    parked: HashSet<String>,
    aside: Aside,
    /// Planned rows whose payload the poll left out.
    bare: Places,
}

/// Gives numbers to waiting rows, and sets rows of parked keys aside.
async fn poll(tx: &Tx, here: Here, lanes: &mut [Lane], bytes_max: usize) -> Result<()> {
    if lanes.is_empty() {
        return Ok(());
    }
    let mut taken = Taken {
        room: bytes_max,
        parked: parked_keys(tx, here, lanes).await?,
        ..Taken::default()
    };
    let slots: Vec<_> = lanes.iter().map(|lane| lane.slot).collect();
    // One more than wanted, to know whether rows are left.
    let most: Vec<_> = lanes.iter().map(|lane| i64::from(lane.turn.plan) + 1).collect();
    let params = &[
        (&here.id as _, Type::INT8),
        (&slots as _, Type::INT2_ARRAY),
        (&most as _, Type::INT8_ARRAY),
        (&i64::try_from(bytes_max).unwrap_or(i64::MAX) as _, Type::INT8),
    ];
    let rows = tx.query("outbox poll", include_str!("poll.sql"), params).await?;
    let mut last = None;
    for row in &rows {
        let at = (place(row)?, get::<i64>(row, 1)?);
        // Publishing out of order would be silent, so look.
        if last.replace(at) >= Some(at) {
            return Err(strange("poll"));
        }
        let lane = lanes.get_mut(at.0).ok_or_else(|| strange("poll"))?;
        take(lane, at.1, row, &mut taken)?;
    }
    set_aside(tx, here, &taken.aside).await?;
    fill(tx, here, lanes, &taken.bare).await
}

/// Keys set aside in the lanes that have any: no statement when none has.
async fn parked_keys(tx: &Tx, here: Here, lanes: &[Lane]) -> Result<HashSet<String>> {
    let slots: Vec<_> = lanes
        .iter()
        .filter(|lane| lane.parked > 0)
        .map(|lane| lane.slot)
        .collect();
    if slots.is_empty() {
        return Ok(HashSet::new());
    }
    let params = &[(&here.id as _, Type::INT8), (&slots as _, Type::INT2_ARRAY)];
    let rows = tx
        .query("outbox poll", include_str!("parked_keys_of.sql"), params)
        .await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// One waiting row: planned, set aside, or the reason to stop in this lane.
fn take(lane: &mut Lane, seq: i64, row: &Row, taken: &mut Taken) -> Result<()> {
    if lane.more || lane.seen >= lane.turn.plan {
        lane.more = true;
        return Ok(());
    }
    lane.seen += 1;
    let event = event(row, 3)?.ok_or_else(|| strange("poll"))?;
    if lane.parked > 0 {
        let key = key_ref(&event);
        if taken.parked.contains(&key) {
            taken.aside.push(lane.slot, seq, key);
            lane.changed = true;
            return Ok(());
        }
    }
    // A parked key's row takes no room.
    let bytes = usize::try_from(get::<i32>(row, 2)?).unwrap_or(0);
    if lane.fresh > 0 && bytes > taken.room {
        lane.more = true;
        return Ok(());
    }
    lane.fresh += 1;
    taken.room = taken.room.saturating_sub(bytes);
    if event.payload.len() < bytes {
        taken.bare.push(lane.slot, &[seq]);
    }
    let n = lane.planned() + 1;
    lane.plan.0.push(seq);
    lane.changed = true;
    lane.events.push(Planned {
        n,
        event: Some(event),
    });
    Ok(())
}

/// Reads the payloads that the poll left out.
async fn fill(tx: &Tx, here: Here, lanes: &mut [Lane], bare: &Places) -> Result<()> {
    let mut found = events_of(tx, here, bare).await?;
    if found.len() < bare.seqs.len() {
        return Err(strange("payloads"));
    }
    for lane in lanes.iter_mut().filter(|lane| bare.lanes.contains(&lane.slot)) {
        let Some(first) = lane.events.first().map(|planned| planned.n) else {
            continue;
        };
        for planned in &mut lane.events {
            let skip = first.saturating_sub(lane.settled + 1);
            let at = usize::try_from(planned.n - first + skip).ok();
            let seq = at.and_then(|at| lane.plan.0.get(at));
            if let Some(event) = seq.and_then(|seq| found.remove(seq)) {
                planned.event = Some(event);
            }
        }
    }
    Ok(())
}

/// Whether there was something to write.
async fn write(tx: &Tx, here: Here, lanes: &[Lane]) -> Result<bool> {
    let changed: Vec<_> = lanes.iter().filter(|lane| lane.changed).collect();
    if changed.is_empty() {
        return Ok(false);
    }
    let slots: Vec<_> = changed.iter().map(|lane| lane.slot).collect();
    let settled: Vec<_> = changed.iter().map(|lane| big(lane.settled)).collect();
    let chains: Vec<_> = changed.iter().map(|lane| lane.chain.0.to_vec()).collect();
    let plans: Vec<_> = changed.iter().map(|lane| lane.plan.text()).collect();
    let params = &[
        (&here.id as _, Type::INT8),
        (&slots as _, Type::INT2_ARRAY),
        (&settled as _, Type::INT8_ARRAY),
        (&chains as _, Type::BYTEA_ARRAY),
        (&plans as _, Type::TEXT_ARRAY),
    ];
    tx.execute(AT, include_str!("write.sql"), params).await?;
    Ok(true)
}

//! Poison: setting a key aside, and putting it back.

use tidegate_core::outbox::{Park, ParkReply};
use tidegate_core::{Code, Error, Result, Uuid};
use tokio_postgres::types::Type;

use super::plan::Plan;
use super::{Here, big, small};
use crate::postgres::columns::{get, nonce_uuid, number, token};
use crate::postgres::db::{Database, Tx};

/// A lane row under its fence.
struct Lane {
    slot: i16,
    settled: u64,
    plan: Plan,
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

/// Rows to set aside, each under its parked key.
#[derive(Default)]
pub(super) struct Aside {
    lanes: Vec<i16>,
    seqs: Vec<i64>,
    keys: Vec<String>,
}

impl Aside {
    pub(super) fn push(&mut self, slot: i16, seq: i64, key: String) {
        self.lanes.push(slot);
        self.seqs.push(seq);
        self.keys.push(key);
    }
}

/// Moves rows to the parked table; none costs nothing.
pub(super) async fn set_aside(tx: &Tx, here: Here, rows: &Aside) -> Result<()> {
    if rows.seqs.is_empty() {
        return Ok(());
    }
    let params = &[
        (&here.id as _, Type::INT8),
        (&rows.lanes as _, Type::INT2_ARRAY),
        (&rows.seqs as _, Type::INT8_ARRAY),
        (&rows.keys as _, Type::TEXT_ARRAY),
    ];
    let moved = tx
        .execute("set aside", include_str!("set_aside.sql"), params)
        .await?;
    if moved == rows.seqs.len() as u64 {
        return Ok(());
    }
    Err(Error::new(
        Code::Internal,
        "set aside: other rows were moved than were read",
    ))
}

async fn lane(tx: &Tx, here: Here, park: &Park) -> Result<Option<Lane>> {
    if park.lane.lineage != here.lineage {
        return Ok(None);
    }
    let slot = small(park.lane.slot);
    let params = &[
        (&here.id as _, Type::INT8),
        (&slot as _, Type::INT2),
        (&nonce_uuid(park.member) as _, Type::UUID),
        (&big(park.token.0) as _, Type::INT8),
    ];
    let rows = tx.query("park", include_str!("lane.sql"), params).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(Lane {
        slot,
        settled: number(row, 0)?,
        plan: Plan(get(row, 2)?),
    }))
}

/// Six statements and a commit.
pub(super) async fn park(db: &Database, here: Here, park: &Park) -> Result<ParkReply> {
    let tx = db.begin_by_index().await?;
    let Some(mut lane) = lane(&tx, here, park).await? else {
        return Ok(ParkReply::Fenced);
    };
    let (at, key) = poisoned(&tx, here, park.n, &lane).await?;
    let same = rows_of(&tx, here, lane.slot, &key).await?;
    let voids = voids(park, &lane, at, &same);
    let mut aside = Aside::default();
    let planned = voids.iter().filter_map(|at| lane.plan.0.get(*at));
    let waiting = same.iter().filter(|seq| !lane.plan.0.contains(seq));
    for seq in planned.chain(waiting) {
        aside.push(lane.slot, *seq, key.tagged());
    }
    set_aside(&tx, here, &aside).await?;
    for at in &voids {
        if let Some(entry) = lane.plan.0.get_mut(*at) {
            *entry = Plan::VOID;
        }
    }
    let token = write(&tx, here, &lane, &key, &park.reason, db.now()).await?;
    tx.commit("park").await?;
    let voided = voids.into_iter().map(|at| lane.settled + 1 + at as u64).collect();
    Ok(ParkReply::Parked { token, voided })
}

async fn write(
    tx: &Tx,
    here: Here,
    lane: &Lane,
    key: &Key,
    reason: &str,
    now: Option<i64>,
) -> Result<tidegate_core::lease::Token> {
    let params = &[
        (&here.id as _, Type::INT8),
        (&key.tagged() as _, Type::TEXT),
        (&lane.slot as _, Type::INT2),
        (&reason as _, Type::TEXT),
        (&now as _, Type::INT8),
    ];
    tx.execute("park", include_str!("park_key.sql"), params).await?;
    let params = &[
        (&here.id as _, Type::INT8),
        (&lane.slot as _, Type::INT2),
        (&now as _, Type::INT8),
        (&lane.plan.0 as _, Type::INT8_ARRAY),
    ];
    let rows = tx.query("park", include_str!("park_lane.sql"), params).await?;
    let row = rows
        .first()
        .ok_or_else(|| Error::new(Code::Internal, "park: the lane is gone"))?;
    token(row, 0)
}

/// Where in the plan the number stands, and its row's key.
async fn poisoned(tx: &Tx, here: Here, n: u64, lane: &Lane) -> Result<(usize, Key)> {
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
    let params = &[
        (&here.id as _, Type::INT8),
        (&lane.slot as _, Type::INT2),
        (&seq as _, Type::INT8),
    ];
    let rows = tx.query("park", include_str!("park_row.sql"), params).await?;
    let row = rows.first().ok_or_else(not_planned)?;
    let key = Key {
        key: get(row, 0)?,
        id: get(row, 1)?,
    };
    Ok((at, key))
}

/// Every visible row of the key, in order of `seq`.
async fn rows_of(tx: &Tx, here: Here, slot: i16, key: &Key) -> Result<Vec<i64>> {
    let params = &[
        (&here.id as _, Type::INT8),
        (&slot as _, Type::INT2),
        (&key.key as _, Type::TEXT),
        (&key.id as _, Type::UUID),
    ];
    let rows = tx.query("park", include_str!("park_rows.sql"), params).await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// Places in the plan that become void: the poisoned one, and its key's planned followers if asked.
fn voids(park: &Park, lane: &Lane, at: usize, same: &[i64]) -> Vec<usize> {
    let mut voids = vec![at];
    if park.followers {
        let followers = lane.plan.0.iter().enumerate().skip(at + 1);
        voids.extend(followers.filter(|(_, seq)| same.contains(seq)).map(|(at, _)| at));
    }
    voids
}

/// Up to nine statements and a commit. Waits for open transactions that write events, at most for the lock time-out.
pub(super) async fn release(db: &Database, here: Here, key: &str) -> Result<u64> {
    let tx = db.begin_by_index().await?;
    let Some((tagged, slot)) = parked(&tx, here, key).await? else {
        return Ok(0);
    };
    let params = &[(&here.id as _, Type::INT8), (&slot as _, Type::INT2)];
    let rows = tx
        .query("release", include_str!("release_lock.sql"), params)
        .await?;
    let plan: Vec<i64> = rows.first().map_or(Ok(Vec::new()), |row| get(row, 0))?;
    let params = &[(&here.id as _, Type::INT8), (&tagged as _, Type::TEXT)];
    let dropped = tx
        .execute("release", include_str!("release_drop.sql"), params)
        .await?;
    if dropped == 0 {
        return Ok(0);
    }
    tx.execute("release", include_str!("release_wait.sql"), &[])
        .await?;
    let of = Key {
        key: tagged.strip_prefix("k:").map(ToOwned::to_owned),
        id: tagged
            .strip_prefix("e:")
            .and_then(|id| Uuid::parse_str(id).ok())
            .unwrap_or_default(),
    };
    let mut since = rows_of(&tx, here, slot, &of).await?;
    since.retain(|seq| !plan.contains(seq));
    let count = tx
        .execute("release", include_str!("release_rows.sql"), params)
        .await?;
    put_behind(&tx, here, slot, &since).await?;
    tx.commit("release").await?;
    db.ring();
    Ok(count)
}

/// The parked key of this text, or of the event with this id; and its lane.
async fn parked(tx: &Tx, here: Here, key: &str) -> Result<Option<(String, i16)>> {
    let keys = [format!("k:{key}"), format!("e:{key}")];
    let params = &[
        (&here.id as _, Type::INT8),
        (&keys.as_slice() as _, Type::TEXT_ARRAY),
    ];
    let rows = tx
        .query("release", include_str!("release_key.sql"), params)
        .await?;
    rows.first()
        .map(|row| Ok((get(row, 0)?, get(row, 1)?)))
        .transpose()
}

async fn put_behind(tx: &Tx, here: Here, slot: i16, since: &[i64]) -> Result<()> {
    if !since.is_empty() {
        let params = &[
            (&here.id as _, Type::INT8),
            (&slot as _, Type::INT2),
            (&since as _, Type::INT8_ARRAY),
        ];
        tx.execute("release", include_str!("release_move.sql"), params)
            .await?;
    }
    let params = &[(&here.id as _, Type::INT8), (&slot as _, Type::INT2)];
    tx.execute("release", include_str!("release_lane.sql"), params)
        .await?;
    Ok(())
}

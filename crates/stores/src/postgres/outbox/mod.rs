//! The outbox in Postgres: rows in the user's own transaction, lanes, plans, parked keys, archive.
//!
//! # Order
//! `seq` is drawn before the commit: a smaller one may become visible after a larger one was planned. A turn therefore
//! takes every visible row that is not in its lane's plan, in order of `seq`; there is no mark below which it does not
//! look. Events of a key are published in the order of commits when its writers hold a common lock up to the commit.
//!
//! # Locks
//! A turn locks its lanes in order of slot; a hold locks the outbox's settings, then every lane in the same order; parking
//! and releasing lock one lane. A release then waits for open transactions that write events: what they drew before must
//! not overtake what it puts back.
//!
//! # Cost
//! A turn over any number of lanes is five round trips: fence, settle, poll, write, commit. Parked keys, loading, the
//! archive and batches beyond the bytes add theirs only where they are used.

mod enqueue;
mod history;
mod hold;
mod park;
mod plan;
mod turn;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate_core::event::Event;
use tidegate_core::lane::{Held, Hold, LaneId, Lineage};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::outbox::{LaneRow, LaneState, Park, ParkReply, ParkedKey, Refill, Settings, Turn, Turned};
use tidegate_core::store::{BoxFuture, Doorbell, OutboxStore};
use tidegate_core::{Code, Error, Result, Timestamp, Uuid};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::Database;
use super::columns::{get, slot};
pub use crate::options::Wanted;
use crate::options::check_name;

/// Shortest and longest pause between two looks while nothing comes.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// One outbox of a database; cheap to clone.
#[derive(Debug, Clone)]
pub struct PostgresOutbox {
    db: Database,
    here: Here,
    name: Arc<str>,
    /// Waits since the last turn that planned something.
    idle: Arc<AtomicU32>,
}

/// What identifies the outbox inside the database.
#[derive(Debug, Clone, Copy)]
struct Here {
    id: i64,
    lineage: Lineage,
    lanes: u16,
    archive: bool,
}

impl Here {
    fn is(self, wanted: Wanted) -> bool {
        (self.lanes, self.archive) == (wanted.lanes, wanted.archive)
    }

    fn lane(self, slot: u16) -> LaneId {
        LaneId {
            lineage: self.lineage,
            slot,
        }
    }
}

impl PostgresOutbox {
    /// Opens the outbox, or makes it.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] for a name or number outside the limits; [`Code::SettingsDiffer`] when it exists with
    /// another number of lanes.
    pub async fn open(db: &Database, name: &str, wanted: Wanted) -> Result<Self> {
        check_name("outbox", name)?;
        wanted.check()?;
        let here = match find(db, name).await? {
            Some(here) => settle_on(db, name, here, wanted).await?,
            None => create(db, name, wanted).await?,
        };
        Ok(Self {
            db: db.clone(),
            here,
            name: name.into(),
            idle: Arc::default(),
        })
    }

    /// The database it lives in.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// Its identity.
    pub fn lineage(&self) -> Lineage {
        self.here.lineage
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Doubles with each wait that found nothing.
    fn pause(&self) -> Duration {
        let waits = self.idle.fetch_add(1, Ordering::Relaxed).min(8);
        (PAUSE.0 * (1 << waits)).min(PAUSE.1)
    }
}

async fn find(db: &Database, name: &str) -> Result<Option<Here>> {
    let params = &[(&name as _, Type::TEXT)];
    let rows = db
        .query("outbox open", include_str!("settings.sql"), params)
        .await?;
    let here = |row: &Row| {
        Ok(Here {
            id: get(row, 0)?,
            lineage: Lineage(get(row, 1)?),
            lanes: slot(row, 2)?,
            archive: get(row, 3)?,
        })
    };
    rows.first().map(here).transpose()
}

async fn settle_on(db: &Database, name: &str, here: Here, wanted: Wanted) -> Result<Here> {
    if here.is(wanted) {
        return Ok(here);
    }
    if here.lanes != wanted.lanes {
        let (has, asked) = (here.lanes, wanted.lanes);
        return Err(Error::new(
            Code::SettingsDiffer,
            format!("outbox {name} has {has} lanes; {asked} were asked for"),
        ));
    }
    let params = &[(&here.id as _, Type::INT8), (&wanted.archive as _, Type::BOOL)];
    db.query("outbox open", include_str!("set_archive.sql"), params)
        .await?;
    Ok(Here {
        archive: wanted.archive,
        ..here
    })
}

async fn create(db: &Database, name: &str, wanted: Wanted) -> Result<Here> {
    let params = &[
        (&name as _, Type::TEXT),
        (&Uuid::new_v4() as _, Type::UUID),
        (&small(wanted.lanes) as _, Type::INT2),
        (&wanted.archive as _, Type::BOOL),
    ];
    db.query("outbox create", include_str!("create.sql"), params)
        .await?;
    let made = find(db, name).await?;
    let made = made.ok_or_else(|| Error::new(Code::Internal, "the outbox went away"))?;
    settle_on(db, name, made, wanted).await
}

/// Slots and lanes are at most 1,024.
fn small(slot: u16) -> i16 {
    i16::try_from(slot).unwrap_or(i16::MAX)
}

/// Numbers and tokens stay far below 2^63.
fn big(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Doorbell for PostgresOutbox {
    fn rung(&self) -> BoxFuture<'_, ()> {
        let (rung, pause) = (self.db.rung(), self.pause());
        Box::pin(async move {
            let _ = tokio::time::timeout(pause, rung).await;
        })
    }
}

impl OutboxStore for PostgresOutbox {
    fn settings(&self) -> BoxFuture<'_, Result<Settings>> {
        let settings = Settings {
            lineage: self.here.lineage,
            name: self.name.to_string(),
            lanes: self.here.lanes,
            archive: self.here.archive,
        };
        Box::pin(async move { Ok(settings) })
    }

    fn enqueue(&self, events: Vec<Event>) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { enqueue::alone(&self.db, self.here, &events).await })
    }

    fn hold(&self, hold: Hold) -> BoxFuture<'_, Result<Held<LaneState>>> {
        Box::pin(async move { hold::hold(&self.db, self.here, &hold).await })
    }

    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Vec<Turned>>> {
        Box::pin(async move {
            let (turned, fresh) = turn::turn(&self.db, self.here, &turn).await?;
            if fresh {
                self.idle.store(0, Ordering::Relaxed);
            }
            Ok(turned)
        })
    }

    fn refill(
        &self,
        member: Nonce,
        lane: LaneId,
        token: Token,
        from: u64,
        limit: u32,
    ) -> BoxFuture<'_, Result<Refill>> {
        Box::pin(
            async move { history::refill(&self.db, self.here, member, (lane, token), from, limit).await },
        )
    }

    fn park(&self, park: Park) -> BoxFuture<'_, Result<ParkReply>> {
        Box::pin(async move { park::park(&self.db, self.here, &park).await })
    }

    fn release(&self, key: String) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move { park::release(&self.db, self.here, &key).await })
    }

    fn lanes(&self) -> BoxFuture<'_, Result<Vec<LaneRow>>> {
        Box::pin(history::lanes(&self.db, self.here))
    }

    fn parked(&self, limit: u32) -> BoxFuture<'_, Result<Vec<ParkedKey>>> {
        Box::pin(history::parked(&self.db, self.here, limit))
    }

    fn sweep_archive(&self, before: Timestamp, limit: u32) -> BoxFuture<'_, Result<u64>> {
        Box::pin(history::sweep(&self.db, self.here, before, limit))
    }
}

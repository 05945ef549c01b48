//! The outbox in a SQLite file: rows in the user's own transaction, lanes, plans, parked keys, archive.
//!
//! A turn over any number of lanes runs a constant number of statements: fence, settle, poll, write the lane rows;
//! loading, parked keys and the archive add theirs only where they are used.

mod enqueue;
mod history;
mod hold;
mod park;
mod plan;
#[cfg(test)]
mod tests;
mod turn;

use std::sync::Arc;

use tidegate_core::event::Event;
use tidegate_core::lane::{Held, Hold, LaneId, Lineage};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::outbox::{LaneRow, LaneState, Park, ParkReply, ParkedKey, Refill, Settings, Turn, Turned};
use tidegate_core::store::{BoxFuture, Doorbell, OutboxStore};
use tidegate_core::{Code, Error, Result, Timestamp, Uuid};

use super::columns::{int, uuid};
use super::{Clock, Database, Sql};
pub use crate::options::Wanted;
use crate::options::check_name;

/// One outbox of a database; cheap to clone.
#[derive(Debug, Clone)]
pub struct SqliteOutbox {
    db: Database,
    here: Here,
    name: Arc<str>,
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

impl SqliteOutbox {
    /// Opens the outbox, or makes it.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] for a name or number outside the limits; [`Code::SettingsDiffer`] when it exists with
    /// another number of lanes.
    pub async fn open(db: &Database, name: &str, wanted: Wanted) -> Result<Self> {
        check_name("outbox", name)?;
        wanted.check()?;
        let name: Arc<str> = name.into();
        let key = Arc::clone(&name);
        // One that is there as wanted is opened without waiting for writers.
        let stored = db.read(move |sql| find(sql, &key)).await?;
        let here = match stored.filter(|here| here.is(wanted)) {
            Some(here) => here,
            None => {
                let key = Arc::clone(&name);
                db.write(move |sql| open(sql, &key, wanted)).await?
            }
        };
        let db = db.clone();
        Ok(Self { db, here, name })
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

    fn now(&self) -> Timestamp {
        self.db.clock().now()
    }
}

fn find(sql: &Sql<'_>, name: &str) -> Result<Option<Here>> {
    sql.first("outbox open", include_str!("settings.sql"), [name], |row| {
        Ok(Here {
            id: row.get(0)?,
            lineage: Lineage(uuid(row, 1)?),
            lanes: row.get(2)?,
            archive: row.get(3)?,
        })
    })
}

fn open(sql: &Sql<'_>, name: &str, wanted: Wanted) -> Result<Here> {
    match find(sql, name)? {
        None => create(sql, name, wanted),
        Some(here) if here.lanes != wanted.lanes => Err(Error::new(
            Code::SettingsDiffer,
            format!(
                "outbox {name} has {} lanes; {} were asked for",
                here.lanes, wanted.lanes
            ),
        )),
        Some(here) if here.archive == wanted.archive => Ok(here),
        Some(here) => {
            let params = (here.id, wanted.archive);
            sql.execute("outbox open", include_str!("set_archive.sql"), params)?;
            Ok(Here {
                archive: wanted.archive,
                ..here
            })
        }
    }
}

fn create(sql: &Sql<'_>, name: &str, wanted: Wanted) -> Result<Here> {
    let lineage = Uuid::new_v4();
    let params = (name, lineage.as_bytes(), wanted.lanes, wanted.archive);
    let id = sql.one("outbox create", include_str!("create.sql"), params, |row| {
        row.get(0)
    })?;
    sql.execute(
        "outbox create",
        include_str!("create_lanes.sql"),
        [int(id), int(wanted.lanes.into())],
    )?;
    Ok(Here {
        id,
        lineage: Lineage(lineage),
        lanes: wanted.lanes,
        archive: wanted.archive,
    })
}

impl Doorbell for SqliteOutbox {
    fn rung(&self) -> BoxFuture<'_, ()> {
        self.db.rung()
    }
}

impl OutboxStore for SqliteOutbox {
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
        let here = self.here;
        if let Err(error) = events.iter().try_for_each(Event::validate) {
            return Box::pin(async move { Err(error) });
        }
        self.db.write(move |sql| enqueue::insert(sql, here, &events))
    }

    fn hold(&self, hold: Hold) -> BoxFuture<'_, Result<Held<LaneState>>> {
        let (here, clock) = (self.here, self.db.clock());
        self.db
            .write(move |sql| hold::hold(sql, here, &hold, clock.as_ref()))
    }

    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Vec<Turned>>> {
        let (here, now, turn) = (self.here, self.now(), Arc::new(turn));
        Box::pin(turn::turn(&self.db, here, turn, now))
    }

    fn refill(
        &self,
        member: Nonce,
        lane: LaneId,
        token: Token,
        from: u64,
        limit: u32,
    ) -> BoxFuture<'_, Result<Refill>> {
        let here = self.here;
        self.db
            .read(move |sql| history::refill(sql, here, member, (lane, token), from, limit))
    }

    fn park(&self, park: Park) -> BoxFuture<'_, Result<ParkReply>> {
        let (here, now) = (self.here, self.now());
        self.db.write(move |sql| park::park(sql, here, &park, now))
    }

    fn release(&self, key: String) -> BoxFuture<'_, Result<u64>> {
        let here = self.here;
        self.db.write(move |sql| park::release(sql, here, &key))
    }

    fn lanes(&self) -> BoxFuture<'_, Result<Vec<LaneRow>>> {
        let (here, clock) = (self.here, self.db.clock());
        self.db.read(move |sql| history::lanes(sql, here, clock.as_ref()))
    }

    fn parked(&self, limit: u32) -> BoxFuture<'_, Result<Vec<ParkedKey>>> {
        let here = self.here;
        self.db.read(move |sql| history::parked(sql, here, limit))
    }

    fn sweep_archive(&self, before: Timestamp, limit: u32) -> BoxFuture<'_, Result<u64>> {
        let here = self.here;
        self.db.write(move |sql| history::sweep(sql, here, before, limit))
    }
}

/// The clock of ownership: wall time floors tokens, boot time decides expiry.
fn boot_of(clock: &dyn Clock) -> [u8; 16] {
    *clock.boot_id().as_bytes()
}

//! The stream as a log in a SQLite file: a register for each lane, compared and advanced in the transaction that
//! writes the entries.
//!
//! An append over any number of lanes runs a constant number of statements for each 1,024 entries: registers,
//! positions, entries, registers.

mod append;
mod read;

use tidegate_core::lane::LaneId;
use tidegate_core::lease::Token;
use tidegate_core::store::{BoxFuture, Doorbell, Sink, StreamStore};
use tidegate_core::stream::{
    Appended, Capabilities, EntryId, LaneAppend, Lost, Page, Place, ReaderHold, Register, Registers,
};
use tidegate_core::{Result, Timestamp, Uuid, limits};

use super::columns::{json_of, signed};
use super::{Database, Sql};
use crate::options::check_name;

/// Most entries in one append call: four statements' worth.
const BATCH_MAX: usize = 4096;

/// Positions of a stream stand below the stream's id in the rowid, so that each stream is one range of the table.
const POSITION_BITS: u32 = 40;

/// One stream of a database; cheap to clone.
#[derive(Debug, Clone)]
pub struct SqliteStream {
    db: Database,
    id: i64,
    payload_max: usize,
}

impl SqliteStream {
    /// Opens the stream, or makes it.
    ///
    /// # Errors
    /// [`tidegate_core::Code::OptionsInvalid`] for a name outside the limits.
    pub async fn open(db: &Database, name: &str) -> Result<Self> {
        check_name("stream", name)?;
        let name = name.to_owned();
        // One that is there is opened without waiting for writers.
        let key = name.clone();
        let id = match db.read(move |sql| find(sql, &key)).await? {
            Some(id) => id,
            None => db.write(move |sql| open(sql, &name)).await?,
        };
        Ok(Self {
            db: db.clone(),
            id,
            payload_max: limits::PAYLOAD_BYTES_MAX,
        })
    }

    /// Refuses larger payloads as poison. Default: the limit at enqueue.
    #[must_use]
    pub fn with_payload_max(mut self, bytes: usize) -> Self {
        self.payload_max = bytes;
        self
    }

    /// The database it lives in.
    pub fn database(&self) -> &Database {
        &self.db
    }

    fn now(&self) -> Timestamp {
        self.db.clock().now()
    }
}

fn find(sql: &Sql<'_>, name: &str) -> Result<Option<i64>> {
    sql.first("stream open", include_str!("find.sql"), [name], |row| row.get(0))
}

fn open(sql: &Sql<'_>, name: &str) -> Result<i64> {
    if let Some(id) = find(sql, name)? {
        return Ok(id);
    }
    let incarnation = Uuid::new_v4();
    sql.one(
        "stream create",
        include_str!("create.sql"),
        (name, incarnation.as_bytes()),
        |row| row.get(0),
    )
}

/// The rowid of position zero.
fn base(stream: i64) -> i64 {
    stream << POSITION_BITS
}

/// The rowid of a position; positions beyond the stream's range stand at its end.
fn rowid(stream: i64, position: u64) -> i64 {
    let max = (1 << POSITION_BITS) - 1;
    base(stream) + signed(position).min(max)
}

fn json_lanes(lanes: impl IntoIterator<Item = LaneId>) -> String {
    let pair = |lane: LaneId| format!("[\"{}\",{}]", lane.lineage.0.as_simple(), lane.slot);
    json_of(lanes.into_iter().map(pair))
}

impl Doorbell for SqliteStream {
    fn rung(&self) -> BoxFuture<'_, ()> {
        self.db.rung()
    }
}

impl Sink for SqliteStream {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            compare_and_append: true,
            tokens: true,
            payload_bytes_max: self.payload_max,
            batch_max: BATCH_MAX,
        }
    }

    fn register(&self, lanes: Vec<(LaneId, Token)>) -> BoxFuture<'_, Result<Vec<Option<Register>>>> {
        let id = self.id;
        self.db.write(move |sql| append::raise(sql, id, &lanes))
    }

    fn append(&self, lanes: Vec<LaneAppend>) -> BoxFuture<'_, Result<Vec<Appended>>> {
        let (id, max, now) = (self.id, self.payload_max, self.now());
        self.db
            .write(move |sql| append::append(sql, id, &lanes, max, now))
    }

    fn declare_lost(&self, lost: Lost, token: Token) -> BoxFuture<'_, Result<Appended>> {
        let (id, now) = (self.id, self.now());
        self.db
            .write(move |sql| append::declare_lost(sql, id, &lost, token, now))
    }
}

impl StreamStore for SqliteStream {
    fn read(
        &self,
        after: EntryId,
        lanes: Option<Vec<LaneId>>,
        limit: u32,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Page>> {
        let id = self.id;
        self.db
            .read(move |sql| read::page(sql, id, after, lanes, limit, bytes_max))
    }

    fn registers(&self) -> BoxFuture<'_, Result<Registers>> {
        let id = self.id;
        self.db.read(move |sql| read::registers(sql, id))
    }

    fn locate(&self, from: Timestamp) -> BoxFuture<'_, Result<Vec<(LaneId, Place)>>> {
        let id = self.id;
        self.db.read(move |sql| read::locate(sql, id, from))
    }

    fn lost(&self) -> BoxFuture<'_, Result<Vec<Lost>>> {
        let id = self.id;
        self.db.read(move |sql| read::lost(sql, id))
    }

    fn publish_hold(&self, reader: String, below: EntryId) -> BoxFuture<'_, Result<()>> {
        let (id, now) = (self.id, self.now());
        self.db.write(move |sql| {
            let params = (id, reader, signed(below.1), now.as_micros());
            sql.execute("stream hold", include_str!("hold.sql"), params)
                .map(|_| ())
        })
    }

    fn holds(&self) -> BoxFuture<'_, Result<Vec<ReaderHold>>> {
        let id = self.id;
        self.db.read(move |sql| read::holds(sql, id))
    }

    fn drop_hold(&self, reader: String) -> BoxFuture<'_, Result<bool>> {
        let id = self.id;
        self.db.write(move |sql| {
            let dropped = sql.execute("stream hold", include_str!("drop_hold.sql"), (id, reader))?;
            Ok(dropped > 0)
        })
    }

    fn trim(&self, before: Timestamp, limit: u32) -> BoxFuture<'_, Result<u64>> {
        let id = self.id;
        self.db.write(move |sql| read::trim(sql, id, before, limit))
    }
}

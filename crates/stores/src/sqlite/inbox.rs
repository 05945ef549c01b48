//! The inbox in the database file that holds the effects.
//!
//! # What an apply costs
//! Begin, lock, advance, commit, and the handler's own statements; one more when a lane has parked keys. Lists travel
//! as one JSON parameter, so the number does not depend on lanes or events.
//!
//! # What to know
//! The whole apply transaction runs on the writer's thread, handler included: a handler that waits for something
//! outside holds back every other writer of the file.

mod dead_letter;
pub mod handler;
mod ownership;
mod remove;
mod rewind;
mod row;
mod skip_lost;
mod tx;

use std::sync::Arc;

use tidegate_core::inbox::apply::{apply, retry};
use tidegate_core::inbox::block::block_on;
use tidegate_core::inbox::handler::Handler;
use tidegate_core::inbox::transaction::{Commit, InboxDb};
use tidegate_core::inbox::{Applied, Batch, Position, Retried, Retry, Rewind};
use tidegate_core::lane::{Held, Hold, LaneId};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::store::{Applier, BoxFuture, Doorbell, InboxStore, Positions};
use tidegate_core::stream::{EntryId, Lost};
use tidegate_core::{Result, Timestamp};

use super::writer::Writer;
use super::{Database, Sql};

pub use crate::handler_error::HandlerError;
pub use crate::options::InboxOptions;
use crate::options::check_name;
pub use handler::{batch, each};
pub use tx::SqliteTx;

/// The inbox of one consumer; cheap to clone.
#[derive(Debug, Clone)]
pub struct SqliteInbox {
    database: Database,
    consumer: i64,
    options: InboxOptions,
}

impl SqliteInbox {
    /// Opens the inbox of the consumer called `name`, and makes it when it is new.
    ///
    /// # Errors
    /// [`tidegate_core::Code::OptionsInvalid`] for a name that is empty, longer than 63 bytes or not printable.
    pub async fn open(database: Database, name: &str, options: InboxOptions) -> Result<Self> {
        check_name("consumer", name)?;
        let name = name.to_owned();
        // One that is there is opened without waiting for writers.
        let key = name.clone();
        let consumer = match database.read(move |sql| find(sql, &key)).await? {
            Some(id) => id,
            None => database.write(move |sql| make(sql, &name)).await?,
        };
        Ok(Self {
            database,
            consumer,
            options,
        })
    }

    /// Runs `handler` in the apply transaction.
    pub fn applier<H>(&self, handler: H) -> SqliteApplier<H>
    where
        H: for<'t> Handler<SqliteTx<'t>> + Send + Sync + 'static,
    {
        SqliteApplier {
            inbox: self.clone(),
            handler: Arc::new(handler),
        }
    }

    /// The database it lives in.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

const OPENING: &str = "opening a consumer";

fn find(sql: &Sql<'_>, name: &str) -> Result<Option<i64>> {
    let one = "select id from tidegate_consumer where name = ?1";
    sql.first(OPENING, one, [name], |row| row.get(0))
}

fn make(sql: &Sql<'_>, name: &str) -> Result<i64> {
    let new = "insert into tidegate_consumer (name) values (?1)
        on conflict (name) do update set name = excluded.name returning id";
    sql.one(OPENING, new, [name], |row| row.get(0))
}

impl Doorbell for SqliteInbox {
    fn rung(&self) -> BoxFuture<'_, ()> {
        self.database.rung()
    }
}

impl InboxStore for SqliteInbox {
    fn register(&self, lanes: Vec<(LaneId, Position)>) -> BoxFuture<'_, Result<()>> {
        let consumer = self.consumer;
        self.database
            .write(move |sql| ownership::register(sql, consumer, &lanes))
    }

    fn hold(&self, hold: Hold) -> BoxFuture<'_, Result<Held<Position>>> {
        let (consumer, clock) = (self.consumer, self.database.clock());
        self.database
            .write(move |sql| ownership::hold(sql, consumer, &hold, clock.as_ref()))
    }

    fn move_cursors(
        &self,
        member: Nonce,
        cursors: Vec<(LaneId, Token, EntryId)>,
    ) -> BoxFuture<'_, Result<u64>> {
        let consumer = self.consumer;
        self.database
            .write(move |sql| ownership::move_cursors(sql, consumer, member, &cursors))
    }

    fn positions(&self) -> BoxFuture<'_, Result<Vec<(LaneId, Position)>>> {
        let consumer = self.consumer;
        self.database.read(move |sql| ownership::positions(sql, consumer))
    }
}

impl Positions for SqliteInbox {
    fn rewind(&self, rewind: Rewind, reason: String, now: Timestamp) -> BoxFuture<'_, Result<u64>> {
        let consumer = self.consumer;
        self.database
            .write(move |sql| rewind::rewind(sql, consumer, &rewind, &reason, now))
    }

    fn skip_lost(&self, lost: Lost, reason: String, now: Timestamp) -> BoxFuture<'_, Result<u64>> {
        let consumer = self.consumer;
        self.database
            .write(move |sql| skip_lost::skip_lost(sql, consumer, &lost, &reason, now))
    }

    fn must_be_idle(&self) -> BoxFuture<'_, Result<()>> {
        let (consumer, clock) = (self.consumer, self.database.clock());
        self.database
            .read(move |sql| remove::must_be_idle(sql, consumer, clock.as_ref()))
    }

    fn forget_positions(&self) -> BoxFuture<'_, Result<u64>> {
        let (consumer, clock) = (self.consumer, self.database.clock());
        self.database
            .write(move |sql| remove::forget_positions(sql, consumer, clock.as_ref()))
    }
}

/// A [`SqliteInbox`] with a handler.
#[derive(Debug)]
pub struct SqliteApplier<H> {
    inbox: SqliteInbox,
    handler: Arc<H>,
}

impl<H> Applier for SqliteApplier<H>
where
    H: for<'t> Handler<SqliteTx<'t>> + Send + Sync + 'static,
{
    fn apply(&self, batch: Batch) -> BoxFuture<'_, Result<Applied>> {
        let (handler, consumer, options) = self.parts();
        self.inbox.database.call(move |writer| {
            let db = OnWriter { writer, consumer };
            block_on(apply(&db, &*handler, &options.rules, &options.redactor, &batch))
        })
    }

    fn retry(&self, request: Retry) -> BoxFuture<'_, Result<Retried>> {
        let (handler, consumer, options) = self.parts();
        self.inbox.database.call(move |writer| {
            let db = OnWriter { writer, consumer };
            block_on(retry(&db, &*handler, &options.rules, &options.redactor, &request))
        })
    }
}

impl<H> SqliteApplier<H> {
    fn parts(&self) -> (Arc<H>, i64, InboxOptions) {
        (
            Arc::clone(&self.handler),
            self.inbox.consumer,
            self.inbox.options.clone(),
        )
    }
}

/// The database as seen from the writer's thread, where every future is ready at once.
struct OnWriter<'w> {
    writer: &'w Writer,
    consumer: i64,
}

impl InboxDb for OnWriter<'_> {
    type Tx<'a>
        = SqliteTx<'a>
    where
        Self: 'a;

    async fn begin(&self) -> Result<SqliteTx<'_>> {
        SqliteTx::begin(self.writer, self.consumer)
    }

    async fn commit<'a>(&'a self, tx: SqliteTx<'a>) -> Commit {
        tx.commit()
    }
}

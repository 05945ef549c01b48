//! The inbox in the database that holds the effects.
//!
//! # What an apply costs
//! Lock, advance, commit, and the handler's own statements; one more after each call of a handler, which looks whether it
//! left the transaction open, and one when a lane has parked keys. Begin rides with the lock. Lists travel as one
//! JSON parameter, so the number does not depend on lanes, nor on events where the handler takes a batch.
//!
//! # What to know
//! An apply runs on a thread of its own for as long as it takes, so that handlers need not be `Send`. Dropping the
//! future does not stop it.

mod dead_letter;
pub mod handler;
mod ownership;
mod positions;
mod row;
mod tx;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::inbox::apply::{apply, retry};
use tidegate_core::inbox::handler::Handler;
use tidegate_core::inbox::transaction::{Commit, InboxDb};
use tidegate_core::inbox::{Applied, Batch, Position, Retried, Retry, Rewind};
use tidegate_core::lane::{Held, Hold, LaneId};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::store::{Applier, BoxFuture, Doorbell, InboxStore, Positions};
use tidegate_core::stream::{EntryId, Lost};
use tidegate_core::{Error, Result, Timestamp};
use tokio::runtime::Handle;

use super::Database;
use super::columns::get;
use super::typed::text;

pub use crate::handler_error::HandlerError;
pub use crate::options::InboxOptions;
use crate::options::check_name;
pub use handler::{batch, each};
pub use tx::PostgresTx;

/// How often waiting workers look for what people decided.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The inbox of one consumer; cheap to clone.
#[derive(Debug, Clone)]
pub struct PostgresInbox {
    database: Database,
    consumer: i64,
    options: InboxOptions,
}

impl PostgresInbox {
    /// Opens the inbox of the consumer called `name`, and makes it when it is new.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] for a name that is empty, longer than 63 bytes or not printable.
    pub async fn open(database: Database, name: &str, options: InboxOptions) -> Result<Self> {
        check_name("consumer", name)?;
        let at = "opening a consumer";
        let find = "select id from tidegate.consumer where name = $1";
        let make = "insert into tidegate.consumer (name) values ($1)
            on conflict (name) do update set name = excluded.name returning id";
        // One that is there is opened without writing.
        let mut rows = database.query(at, find, &[text(&name)]).await?;
        if rows.is_empty() {
            rows = database.query(at, make, &[text(&name)]).await?;
        }
        let consumer = get(&row::one(rows)?, 0)?;
        Ok(Self {
            database,
            consumer,
            options,
        })
    }

    /// Runs `handler` in the apply transaction.
    pub fn applier<H>(&self, handler: H) -> PostgresApplier<H>
    where
        H: Handler<PostgresTx> + Send + Sync + 'static,
    {
        PostgresApplier {
            inbox: self.clone(),
            handler: Arc::new(handler),
        }
    }

    /// The database it lives in.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

impl Doorbell for PostgresInbox {
    fn rung(&self) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(LOOK_EVERY))
    }
}

impl InboxStore for PostgresInbox {
    fn register(&self, lanes: Vec<(LaneId, Position)>) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { ownership::register(&self.database, self.consumer, &lanes).await })
    }

    fn hold(&self, hold: Hold) -> BoxFuture<'_, Result<Held<Position>>> {
        Box::pin(async move { ownership::hold(&self.database, self.consumer, &hold).await })
    }

    fn move_cursors(
        &self,
        member: Nonce,
        cursors: Vec<(LaneId, Token, EntryId)>,
    ) -> BoxFuture<'_, Result<u64>> {
        Box::pin(
            async move { ownership::move_cursors(&self.database, self.consumer, member, &cursors).await },
        )
    }

    fn positions(&self) -> BoxFuture<'_, Result<Vec<(LaneId, Position)>>> {
        Box::pin(ownership::positions(&self.database, self.consumer))
    }
}

impl Positions for PostgresInbox {
    fn rewind(&self, rewind: Rewind, reason: String, now: Timestamp) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move { positions::rewind(&self.database, self.consumer, &rewind, &reason, now).await })
    }

    fn skip_lost(&self, lost: Lost, reason: String, now: Timestamp) -> BoxFuture<'_, Result<u64>> {
        Box::pin(
            async move { positions::skip_lost(&self.database, self.consumer, &lost, &reason, now).await },
        )
    }

    fn must_be_idle(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(positions::must_be_idle(&self.database, self.consumer))
    }

    fn forget_positions(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(positions::forget_positions(&self.database, self.consumer))
    }
}

/// A [`PostgresInbox`] with a handler.
#[derive(Debug)]
pub struct PostgresApplier<H> {
    inbox: PostgresInbox,
    handler: Arc<H>,
}

impl<H> Applier for PostgresApplier<H>
where
    H: Handler<PostgresTx> + Send + Sync + 'static,
{
    fn apply(&self, batch: Batch) -> BoxFuture<'_, Result<Applied>> {
        self.on_a_thread(move |inbox, handler, runtime| {
            let options = &inbox.options;
            runtime.block_on(apply(inbox, handler, &options.rules, &options.redactor, &batch))
        })
    }

    fn retry(&self, request: Retry) -> BoxFuture<'_, Result<Retried>> {
        self.on_a_thread(move |inbox, handler, runtime| {
            let options = &inbox.options;
            runtime.block_on(retry(inbox, handler, &options.rules, &options.redactor, &request))
        })
    }
}

impl<H: Send + Sync + 'static> PostgresApplier<H> {
    fn on_a_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&PostgresInbox, &H, &Handle) -> Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let (inbox, handler, runtime) = (self.inbox.clone(), Arc::clone(&self.handler), Handle::current());
        let running = tokio::task::spawn_blocking(move || work(&inbox, &handler, &runtime));
        Box::pin(async move {
            running
                .await
                .unwrap_or_else(|_| Err(Error::unknown("an apply ended without an answer")))
        })
    }
}

impl InboxDb for PostgresInbox {
    type Tx<'a> = PostgresTx;

    async fn begin(&self) -> Result<PostgresTx> {
        PostgresTx::begin(&self.database, self.consumer).await
    }

    async fn commit(&self, tx: PostgresTx) -> Commit {
        tx.commit().await
    }
}

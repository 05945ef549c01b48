//! Deletes what is older than it needs to be, in bounded batches.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::store::{BoxFuture, OutboxStore, StreamStore};
use tidegate_core::{Result, Timestamp};
#[cfg(feature = "sqlite")]
use tidegate_stores::sqlite::{Database, dedupe::DedupeStore};

use crate::clock;
use crate::sweep::{Context, Job, Step};

/// Rows of one step: a few milliseconds of the writer, so that nobody waits long behind it.
const BATCH: u32 = 500;

type Delete = dyn Fn(Timestamp, u32) -> BoxFuture<'static, Result<u64>> + Send + Sync;

/// Keeps things for a while. Deleting twice is harmless, so it needs no checkpoint.
pub struct Retention {
    keep: Duration,
    batch: u32,
    delete: Box<Delete>,
}

impl Retention {
    /// Whatever `delete` deletes: what is older than the given time, at most so many; it returns how many.
    pub fn of(
        keep: Duration,
        delete: impl Fn(Timestamp, u32) -> BoxFuture<'static, Result<u64>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            keep,
            batch: BATCH,
            delete: Box::new(delete),
        }
    }

    /// The archive of an outbox: what was settled longer ago than `keep`. A stream that loses its tail can be refilled
    /// from what remains.
    pub fn archive(outbox: Arc<dyn OutboxStore>, keep: Duration) -> Self {
        Self::of(keep, move |before, limit| {
            let outbox = Arc::clone(&outbox);
            Box::pin(async move { outbox.sweep_archive(before, limit).await })
        })
    }

    /// A stream: what was appended longer ago than `keep` and is below every reader's hold.
    pub fn stream(stream: Arc<dyn StreamStore>, keep: Duration) -> Self {
        Self::of(keep, move |before, limit| {
            let stream = Arc::clone(&stream);
            Box::pin(async move { stream.trim(before, limit).await })
        })
    }

    /// The seen events of a loop of the user's own, for as long as its store says.
    #[cfg(feature = "sqlite")]
    pub fn dedupe(db: Database, store: DedupeStore) -> Self {
        Self::of(Duration::ZERO, move |now, limit| {
            let store = store.clone();
            db.write(move |sql| Ok(store.sweep(sql.connection(), now, limit)? as u64))
        })
    }

    /// Another size of one step: at least 1; 500 unless asked otherwise.
    #[must_use]
    pub fn batch(mut self, rows: u32) -> Self {
        self.batch = rows.max(1);
        self
    }
}

impl Job for Retention {
    fn step<'a>(&'a self, _: &'a Context) -> BoxFuture<'a, Result<Step>> {
        Box::pin(async move {
            let before = clock::wall().before(self.keep);
            let done = (self.delete)(before, self.batch).await?;
            Ok(Step::of_batch(done, self.batch))
        })
    }
}

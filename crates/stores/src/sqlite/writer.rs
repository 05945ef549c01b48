//! The writer: one thread, one connection, jobs one after another. Grouped jobs that wait together share one commit.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tidegate_core::{Code, Effect, Error, Result};
use tokio::sync::{mpsc, oneshot};

use super::bell::Bell;
use super::error::{self, Failure};
use super::identity::Identity;
use super::sql::{Sql, Stats};

/// Most jobs in one commit: a reply waits for the whole group.
const GROUP_MAX: usize = 256;
/// A group takes no further job after this long.
const GROUP_TIME: Duration = Duration::from_millis(4);

/// The connection as a job of [`super::Database::call`] receives it.
#[derive(Debug)]
pub struct Writer {
    connection: Connection,
    stats: Arc<Stats>,
    identity: Arc<Identity>,
}

impl Deref for Writer {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Writer {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Writer {
    pub(super) fn new(connection: Connection, stats: Arc<Stats>, identity: Arc<Identity>) -> Self {
        Self {
            connection,
            stats,
            identity,
        }
    }

    /// Counted statements on this connection.
    pub fn sql(&self) -> Sql<'_> {
        Sql::new(&self.connection, &self.stats)
    }

    /// Runs `work` in one immediate transaction; commits when it returns `Ok`, rolls back when it returns `Err`.
    pub fn transaction<T>(&mut self, work: impl FnOnce(&Sql<'_>) -> Result<T>) -> Result<T> {
        self.begin().map_err(Failure::error)?;
        let result = work(&self.sql());
        if result.is_ok() {
            self.commit().map_err(Failure::error)?;
        } else {
            self.roll_back();
        }
        result
    }

    /// Takes the write lock.
    pub(super) fn begin(&self) -> Result<(), Failure> {
        self.identity.check()?;
        self.run("begin immediate").map_err(|e| Failure::of("begin", &e))
    }

    /// Makes the open transaction durable; on failure nothing stays open.
    pub(super) fn commit(&self) -> Result<(), Failure> {
        self.stats.commit();
        self.run("commit").map_err(|e| {
            self.roll_back();
            Failure::of_commit(&e)
        })
    }

    /// Ends whatever transaction is open.
    pub(super) fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            // When this fails the connection is broken, and the next begin says so.
            let _ = self.run("rollback");
        }
    }

    fn run(&self, sql: &str) -> rusqlite::Result<()> {
        self.stats.count();
        self.connection.prepare_cached(sql)?.execute([]).map(|_| ())
    }
}

/// A job for the writer.
pub(super) enum Job {
    Alone(Box<dyn FnOnce(&mut Writer) + Send>),
    Grouped(Box<dyn Grouped>),
}

/// A job that shares a commit. It is told how the commit went before it tells its caller.
pub(super) trait Grouped: Send {
    /// Does the work inside the open transaction; false: undo it.
    fn run(&mut self, sql: &Sql<'_>) -> bool;
    /// The group was committed, or failed as a whole.
    fn finish(self: Box<Self>, failed: Option<Failure>);
}

struct GroupedJob<F, T> {
    work: Option<F>,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<F, T> Grouped for GroupedJob<F, T>
where
    F: FnOnce(&Sql<'_>) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, sql: &Sql<'_>) -> bool {
        let result = self.work.take().map(|work| caught(|| work(sql)));
        let ok = matches!(result, Some(Ok(_)));
        self.result = result;
        ok
    }

    fn finish(self: Box<Self>, failed: Option<Failure>) {
        let result = match (self.result, failed) {
            // Its own error stands: it changed nothing either way.
            (Some(Err(error)), _) => Err(error),
            (_, Some(failure)) => Err(failure.error()),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(Error::new(Code::Internal, "a write was not run")),
        };
        // A caller that went away does not want the answer.
        let _ = self.reply.send(result);
    }
}

pub(super) fn grouped<T: Send + 'static>(
    work: impl FnOnce(&Sql<'_>) -> Result<T> + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T>>) {
    let (reply, answer) = oneshot::channel();
    let job = GroupedJob {
        work: Some(work),
        result: None,
        reply,
    };
    (Job::Grouped(Box::new(job)), answer)
}

pub(super) fn alone<T: Send + 'static>(
    work: impl FnOnce(&mut Writer) -> Result<T> + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T>>) {
    let (reply, answer) = oneshot::channel();
    let job = move |writer: &mut Writer| {
        let result = caught(|| work(writer));
        writer.roll_back();
        let _ = reply.send(result);
    };
    (Job::Alone(Box::new(job)), answer)
}

/// A panic is this job's failure, not the thread's.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic: Box<dyn Any + Send>| {
        drop(panic);
        Err(Error::new(Code::Internal, "a database job panicked").with_effect(Effect::Unknown))
    })
}

/// Serves jobs until every handle is gone.
pub(super) fn serve(writer: &mut Writer, mut jobs: mpsc::UnboundedReceiver<Job>, bell: &Bell) {
    let mut next = None;
    while let Some(job) = next.take().or_else(|| jobs.blocking_recv()) {
        let before = writer.total_changes();
        match job {
            Job::Alone(work) => work(writer),
            Job::Grouped(first) => next = serve_group(writer, first, &mut jobs),
        }
        if writer.total_changes() != before {
            bell.ring();
        }
    }
}

/// Runs a group, and returns the job that ended it, if one did.
fn serve_group(
    writer: &Writer,
    mut first: Box<dyn Grouped>,
    jobs: &mut mpsc::UnboundedReceiver<Job>,
) -> Option<Job> {
    if let Err(failure) = writer.begin() {
        first.finish(Some(failure));
        return None;
    }
    if !first.run(&writer.sql()) {
        // Nothing else is in the transaction yet, so the first job needs no savepoint.
        writer.roll_back();
        first.finish(None);
        return None;
    }
    let started = Instant::now();
    let mut group = vec![first];
    let mut next = None;
    while next.is_none() && group.len() < GROUP_MAX && started.elapsed() < GROUP_TIME {
        match jobs.try_recv() {
            Ok(Job::Grouped(mut job)) => {
                let alive = run_in_savepoint(writer, job.as_mut());
                group.push(job);
                if !alive {
                    break;
                }
            }
            Ok(alone) => next = Some(alone),
            Err(_) => break,
        }
    }
    finish_group(writer, group);
    next
}

/// True while the transaction stands. SQLite ends it by itself after some errors, such as a full disk.
fn run_in_savepoint(writer: &Writer, job: &mut dyn Grouped) -> bool {
    let sql = writer.sql();
    let step = |text| sql.execute("savepoint", text, []).is_ok();
    if !step("savepoint job") {
        return !writer.is_autocommit();
    }
    let kept = job.run(&sql);
    if writer.is_autocommit() {
        return false;
    }
    (kept || step("rollback to job")) && step("release job")
}

fn finish_group(writer: &Writer, group: Vec<Box<dyn Grouped>>) {
    let failed = if writer.is_autocommit() {
        Some(Failure::ended())
    } else {
        writer.commit().err()
    };
    for job in group {
        job.finish(failed);
    }
}

/// The answer of a job, or what its silence means.
pub(super) async fn answer<T>(answer: oneshot::Receiver<Result<T>>) -> Result<T> {
    answer
        .await
        .unwrap_or_else(|_| Err(Error::unknown("the database thread ended")))
}

/// The error of a database opened read-only.
pub(super) fn read_only() -> Error {
    Error::new(Code::StoreReadOnly, "the database was opened read-only")
}

/// Serves reads, each in a snapshot of its own.
pub(super) fn serve_reads(mut reader: Writer, mut jobs: mpsc::UnboundedReceiver<Job>) {
    while let Some(job) = jobs.blocking_recv() {
        match job {
            Job::Alone(work) => work(&mut reader),
            Job::Grouped(job) => job.finish(Some(Failure::ended())),
        }
    }
}

impl Writer {
    /// Runs `work` on one snapshot.
    pub(super) fn snapshot<T>(&mut self, work: impl FnOnce(&Sql<'_>) -> Result<T>) -> Result<T> {
        self.identity.check().map_err(Failure::error)?;
        self.run("begin").map_err(error::map("begin"))?;
        let result = work(&self.sql());
        self.roll_back();
        result
    }
}

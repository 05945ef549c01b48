//! An open database file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tidegate_core::store::BoxFuture;
use tidegate_core::{Code, Error, Result};
use tokio::sync::mpsc::{self, UnboundedSender};

use super::bell::Bell;
use super::clock::{Clock, SystemClock};
use super::closing::{self, Reading};
use super::error::{self, Failure};
use super::identity::Identity;
use super::schema::{self, Found};
use super::sql::{Sql, Stats};
use super::writer::{self, Job, Writer};

/// Below this, SQLite can lose commits when it resets the WAL.
const ENGINE_MIN: i32 = 3_051_003;
/// Statements kept prepared: every shape of every store, with room for a handler's own.
const STATEMENTS: usize = 256;
/// Pages of WAL before a commit also checkpoints: 16 MiB, so that bursts are not interrupted every 4.
const CHECKPOINT_PAGES: i64 = 4096;
/// The WAL file is cut back to this after a burst: 64 MiB.
const WAL_BYTES_MAX: i64 = 64 * 1024 * 1024;
/// Page cache of the writer, in KiB: the pages that batches of scattered keys change again and again.
const CACHE_KIB: i64 = 16 * 1024;
/// Page cache of the reader, in KiB: it reads a log from one end to the other, and small tables.
const READER_CACHE_KIB: i64 = 2 * 1024;

/// How to open a file.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools)] // Independent switches.
pub struct OpenOptions {
    /// Create the file when it is missing. Default true.
    pub create: bool,
    /// Add or upgrade Tidegate's tables. Default true. When false, a file without them is refused.
    pub migrate: bool,
    /// Change nothing. Default false.
    pub read_only: bool,
    /// How long a write waits for another process's transaction. Default 5 s: longer than any write of Tidegate's own.
    pub busy_timeout: Duration,
    /// Enforce foreign keys on the writer's connection, where handlers run. Default false, as SQLite has it.
    pub foreign_keys: bool,
    /// The clocks. Default: the machine's.
    pub clock: Arc<dyn Clock>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            create: true,
            migrate: true,
            read_only: false,
            busy_timeout: Duration::from_secs(5),
            foreign_keys: false,
            clock: Arc::new(SystemClock),
        }
    }
}

/// A database file: cheap to clone. Its threads end when the last clone is dropped.
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    identity: Arc<Identity>,
    stats: Arc<Stats>,
    bell: Arc<Bell>,
    writer: Option<UnboundedSender<Job>>,
    reader: UnboundedSender<Job>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.0.path)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Opens, checks and where asked sets up the file. Blocks for a few milliseconds; starts two threads.
    ///
    /// # Errors
    /// [`Code::NotFound`] when the file is missing and `create` is off; [`Code::NotADatabase`], [`Code::SchemaNewer`],
    /// [`Code::StoreCorrupt`] for a file that cannot be used, unchanged; [`Code::StoreReadOnly`] and
    /// [`Code::StoreBusy`] for one that cannot be used now; [`Code::EngineTooOld`] for the linked SQLite.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        check_engine(rusqlite::version_number())?;
        check_path(path, &options)?;
        let mut first = connect(path, &options)?;
        set_up(&mut first, &options)?;
        let path = path
            .canonicalize()
            .map_err(|e| unavailable("resolving the path", e))?;
        let identity = Arc::new(Identity::of(&path));
        let stats = Arc::new(Stats::default());
        let bell = Bell::of(&path);
        let (writer, second) = if options.read_only {
            (None, first)
        } else {
            let second = connect(&path, &options)?;
            tune(&second, &options)?;
            shrink(&second)?;
            let mut writer = Writer::new(first, Arc::clone(&stats), Arc::clone(&identity));
            let (bell, file) = (Arc::clone(&bell), path.clone());
            let jobs = spawn("tidegate-write", move |jobs| {
                writer::serve(&mut writer, jobs, &bell);
                // The last hold on the bell ends its watcher, which reads the file too.
                drop(bell);
                closing::close_writer(&file, writer);
            })?;
            (Some(jobs), second)
        };
        second
            .pragma_update(None, "query_only", true)
            .map_err(error::map("opening"))?;
        let second = Writer::new(second, Arc::clone(&stats), Arc::clone(&identity));
        let reading = Reading::of(&path);
        let reader = spawn("tidegate-read", move |jobs| {
            writer::serve_reads(second, jobs);
            drop(reading);
        })?;
        let clock = options.clock;
        Ok(Self(Arc::new(Inner {
            path,
            clock,
            identity,
            stats,
            bell,
            writer,
            reader,
        })))
    }

    /// Runs a job on the writer's thread, alone; it may open transactions of its own. What it leaves open is rolled
    /// back. A panic becomes [`Code::Internal`] with an unknown effect, and the connection goes on.
    ///
    /// Dropping the future does not stop the job.
    pub fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let (job, answer) = writer::alone(work);
        let sent = self.send(job);
        Box::pin(async move {
            sent?;
            writer::answer(answer).await
        })
    }

    /// Runs a small job inside a transaction that it may share with others that wait: `Ok` is durable, `Err` changed
    /// nothing (or [`tidegate_core::Effect::Unknown`]). The job must not begin, commit or roll back.
    ///
    /// Dropping the future does not stop the job.
    pub fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Sql<'_>) -> Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let (job, answer) = writer::grouped(work);
        let sent = self.send(job);
        Box::pin(async move {
            sent?;
            writer::answer(answer).await
        })
    }

    /// Runs a job on one snapshot, on the reader's thread; does not wait for writers.
    pub fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Sql<'_>) -> Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let (job, answer) = writer::alone(|reader| reader.snapshot(work));
        let sent = self.0.reader.send(job).map_err(|_| thread_ended());
        Box::pin(async move {
            sent?;
            writer::answer(answer).await
        })
    }

    /// Resolves at the next change by any process, from the call on.
    pub fn rung(&self) -> BoxFuture<'static, ()> {
        self.0.bell.rung()
    }

    /// Wakes those who wait in this process: after a commit on a connection of the user's own.
    pub fn ring(&self) {
        self.0.bell.ring();
    }

    /// Whether the path still names the file that is open. Every read and write asks this first; whoever only waits
    /// may ask too. About a microsecond.
    ///
    /// # Errors
    /// [`Code::StoreReplaced`] when it names another file or none: close every handle and open anew.
    pub fn check_file(&self) -> Result<()> {
        self.0.identity.check().map_err(Failure::error)
    }

    /// The clocks.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.0.clock)
    }

    /// The canonical path.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Statements executed by this handle and its clones.
    pub fn statements(&self) -> u64 {
        self.0.stats.statements.load(Ordering::Relaxed)
    }

    /// Commits of this handle and its clones.
    pub fn commits(&self) -> u64 {
        self.0.stats.commits.load(Ordering::Relaxed)
    }

    /// Operations of SQLite's virtual machine that those statements took: what they cost, without a clock. A
    /// handler's own statements are not in it.
    pub fn steps(&self) -> u64 {
        self.0.stats.steps.load(Ordering::Relaxed)
    }

    fn send(&self, job: Job) -> Result<()> {
        let writer = self.0.writer.as_ref().ok_or_else(writer::read_only)?;
        writer.send(job).map_err(|_| thread_ended())
    }
}

/// Database threads of this process. A connection is closed when its thread ends, and the last close of a file folds
/// its WAL back into it.
static LIVING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// Waits until every database of this process is closed, at most `limit`. Drop every handle first: a process that
/// ends without this loses nothing, and leaves the WAL beside the file for the next one to fold in.
pub fn wait_until_closed(limit: Duration) -> bool {
    let count = LIVING.0.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = LIVING.1.wait_timeout_while(count, limit, |count| *count > 0);
    *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
}

/// Counts a thread while it lives.
struct Living;

impl Living {
    fn one_more() -> Self {
        *LIVING.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        *LIVING.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        LIVING.1.notify_all();
    }
}

fn thread_ended() -> Error {
    Error::new(Code::Internal, "the database thread ended")
}

fn unavailable(at: &'static str, source: std::io::Error) -> Error {
    Error::new(Code::StoreUnavailable, at).with_source(source)
}

fn spawn(
    name: &str,
    serve: impl FnOnce(mpsc::UnboundedReceiver<Job>) + Send + 'static,
) -> Result<UnboundedSender<Job>> {
    // Unbounded: a caller waits for its answer, so there is one job for each caller at most.
    let (sender, jobs) = mpsc::unbounded_channel();
    let living = Living::one_more();
    thread::Builder::new()
        .name(name.into())
        .spawn(move || {
            serve(jobs);
            drop(living);
        })
        .map_err(|e| unavailable("starting a database thread", e))?;
    Ok(sender)
}

fn check_engine(version: i32) -> Result<()> {
    if version >= ENGINE_MIN {
        return Ok(());
    }
    let (major, minor, patch) = (version / 1_000_000, version / 1_000 % 1_000, version % 1_000);
    Err(Error::new(
        Code::EngineTooOld,
        format!("SQLite {major}.{minor}.{patch} is linked; 3.51.3 is the oldest that keeps every commit"),
    ))
}

fn check_path(path: &Path, options: &OpenOptions) -> Result<()> {
    if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
        return Err(Error::new(
            Code::OptionsInvalid,
            "the path must name a file: several connections share it",
        ));
    }
    if path.is_dir() {
        return Err(Error::new(
            Code::NotADatabase,
            format!("{} is a folder", path.display()),
        ));
    }
    let creating = options.create && !options.read_only;
    if !creating && !path.exists() {
        return Err(Error::new(Code::NotFound, format!("no file {}", path.display())));
    }
    match path.parent().filter(|p| !p.as_os_str().is_empty() && !p.is_dir()) {
        Some(folder) => Err(Error::new(
            Code::NotFound,
            format!("no folder {}", folder.display()),
        )),
        None => Ok(()),
    }
}

fn connect(path: &Path, options: &OpenOptions) -> Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags |= match (options.read_only, options.create) {
        (true, _) => OpenFlags::SQLITE_OPEN_READ_ONLY,
        (false, true) => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        (false, false) => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let connection = Connection::open_with_flags(path, flags).map_err(|e| cannot_open(path, &e))?;
    connection
        .busy_timeout(options.busy_timeout)
        .map_err(error::map("opening"))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Otherwise a plan depends on the values bound at first, and binding others prepares the statement again.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(error::map("opening"))?;
    Ok(connection)
}

/// A missing right shows as "cannot open": the file system knows better.
fn cannot_open(path: &Path, failed: &rusqlite::Error) -> Error {
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    match opened {
        Err(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Error::new(
                Code::StoreReadOnly,
                format!("{} cannot be written", path.display()),
            )
            .with_source(e)
        }
        _ => error::map("opening")(rusqlite::Error::SqliteFailure(
            failed
                .sqlite_error()
                .copied()
                .unwrap_or_else(|| rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN)),
            None,
        )),
    }
}

/// Looks before it changes anything, so that a foreign or newer file stays as it was.
fn set_up(connection: &mut Connection, options: &OpenOptions) -> Result<()> {
    let found = schema::inspect(connection)?;
    if found != Found::Current && (!options.migrate || options.read_only) {
        return Err(Error::new(
            Code::NotADatabase,
            "Tidegate's tables are missing or older; `tidegate migrate` adds them",
        ));
    }
    if options.read_only {
        return tune(connection, options);
    }
    if connection.is_readonly("main").map_err(error::map("opening"))? {
        return Err(Error::new(Code::StoreReadOnly, "the file cannot be written"));
    }
    use_wal(connection, options.busy_timeout)?;
    tune(connection, options)?;
    if found != Found::Current {
        schema::migrate(connection, options.clock.now())?;
    }
    Ok(())
}

/// Switching the journal needs a moment alone, which SQLite does not wait for by itself.
fn use_wal(connection: &Connection, patience: Duration) -> Result<()> {
    let started = Instant::now();
    loop {
        let mode = connection.query_row("pragma journal_mode = wal", [], |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(Error::new(
                    Code::StoreUnavailable,
                    format!("the journal mode stays {mode}; WAL is needed (is this a network file system?)"),
                ));
            }
            Err(e) if is_busy(&e) && started.elapsed() < patience => thread::sleep(Duration::from_millis(5)),
            Err(e) => return Err(error::map("switching to WAL")(e)),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
    )
}

fn shrink(connection: &Connection) -> Result<()> {
    connection
        .pragma_update(None, "cache_size", -READER_CACHE_KIB)
        .map_err(error::map("opening"))
}

fn tune(connection: &Connection, options: &OpenOptions) -> Result<()> {
    let set = || {
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", options.foreign_keys)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "journal_size_limit", WAL_BYTES_MAX)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "temp_store", "memory")
    };
    set().map_err(error::map("opening"))
}

//! A database: a pool of connections, transactions, and statements counted and bounded in time.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime};
use futures_util::FutureExt as _;
use tidegate_core::store::BoxFuture;
use tidegate_core::{Code, Effect, Error, Result, Timestamp};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Connection, Row, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{bell, error, schema, tls};
use crate::listener::Listener;

/// The schema of the statements as they are written.
const SCHEMA: &str = "tidegate";

/// Statistics of a queue are always old.
const BY_INDEX: &str = "set local enable_seqscan = off; set local enable_hashjoin = off; \
                        set local enable_mergejoin = off; set local enable_bitmapscan = off; set local jit = off";

/// A parameter and its type.
pub type Typed<'a> = (&'a (dyn ToSql + Sync), Type);

/// How to open a database.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Add or upgrade Tidegate's tables. Default true. When false, a database without them is refused.
    pub migrate: bool,
    /// The schema that holds Tidegate's tables. Default `tidegate`.
    pub schema: String,
    /// Most connections at once. Default 8; an outbox that waits for its doorbell has one more.
    pub connections: usize,
    /// Longest wait for a connection. Default 5 s.
    pub connect_timeout: Duration,
    /// Longest a statement may take, on the server. Default 30 s.
    pub statement_timeout: Duration,
    /// Longest wait for a lock. Default 5 s.
    pub lock_timeout: Duration,
    /// Longest a transaction may stand idle before the server ends it. Default 60 s: a handler may wait that long.
    pub idle_timeout: Duration,
    /// A pooler that gives a connection for one transaction only stands in between: no statement stays prepared.
    pub pooler: bool,
    /// What tells the time. Default: the server.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            migrate: true,
            schema: SCHEMA.into(),
            connections: 8,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(60),
            pooler: false,
            clock: None,
        }
    }
}

/// Makes connections outside the pool, for what needs a session of its own.
#[derive(Clone)]
pub(super) struct Dial {
    config: Config,
    tls: MakeRustlsConnect,
    timeout: Duration,
    channel: String,
}

/// What must be polled for a client to work.
pub(super) type Line = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

impl Dial {
    /// Connects. The second value must be polled for the first to work.
    pub(super) async fn connect(&self) -> Result<(Client, Line)> {
        let connecting = self.config.connect(self.tls.clone());
        match tokio::time::timeout(self.timeout, connecting).await {
            Ok(connected) => connected.map_err(error::map("connecting")),
            Err(_) => Err(error::timed_out("connecting", Effect::NotApplied)),
        }
    }

    /// What is listened to.
    pub(super) fn channel(&self) -> &str {
        &self.channel
    }
}

/// One channel for each schema, within the 63 bytes of a name.
fn channel_of(schema: &str) -> String {
    format!("tidegate_{}", &schema[..schema.len().min(54)])
}

/// A clock instead of the server's.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Wall time.
    fn now(&self) -> Timestamp;
}

/// What was asked of the server so far: for counting, not for timing.
#[derive(Debug, Default)]
pub(super) struct Stats {
    pub(super) statements: AtomicU64,
    pub(super) commits: AtomicU64,
}

impl Stats {
    fn statement(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
    }
}

/// An open database; cheap to clone. Connections close when the last clone is dropped.
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    pool: Pool,
    dial: Dial,
    listener: Listener,
    begin: String,
    begin_by_index: String,
    options: OpenOptions,
    stats: Stats,
    place: String,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("place", &self.0.place)
            .field("schema", &self.0.options.schema)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Connects, and checks or sets up the tables. `url` is `postgres://user:password@host:port/database?...` with the
    /// parameters of libpq that the driver knows, and `sslrootcert` (a PEM file).
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] for the URL or an option; [`Code::StoreUnavailable`], [`Code::StoreDenied`] and
    /// [`Code::NotFound`] when there is no way in; [`Code::NotADatabase`] without tables when `migrate` is off;
    /// [`Code::SchemaNewer`].
    pub async fn open(url: &str, options: OpenOptions) -> Result<Self> {
        check_schema(&options.schema)?;
        let (mut config, root) = parse(url)?;
        tls::settle_mode(&mut config);
        config.connect_timeout(options.connect_timeout);
        if config.get_application_name().is_none() {
            config.application_name("tidegate");
        }
        let tls = tls::connector(root.as_deref())?;
        let manager = Manager::from_config(
            config.clone(),
            tls.clone(),
            ManagerConfig {
                recycling_method: RecyclingMethod::Fast,
            },
        );
        let pool = Pool::builder(manager)
            .max_size(options.connections)
            .wait_timeout(Some(options.connect_timeout))
            .create_timeout(Some(options.connect_timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|e| Error::new(Code::Internal, "building the pool").with_source(e))?;
        let db = Self(Arc::new(Inner {
            pool,
            begin_by_index: format!("{}; {BY_INDEX}", begin_text(&options)),
            begin: begin_text(&options),
            place: place_of(&config),
            dial: Dial {
                config,
                tls,
                timeout: options.connect_timeout,
                channel: channel_of(&options.schema),
            },
            listener: Listener::default(),
            options,
            stats: Stats::default(),
        }));
        if db.0.options.migrate {
            schema::migrate(&db).await?;
        } else {
            schema::require(&db).await?;
        }
        Ok(db)
    }

    /// Begins a transaction. Costs no round trip of its own: the first statement carries it.
    pub(super) async fn begin(&self) -> Result<Tx> {
        self.begin_by(&self.0.begin).await
    }

    /// The same with the planner kept to indexes: for statements whose tables are empty now and full a second later.
    pub(super) async fn begin_by_index(&self) -> Result<Tx> {
        self.begin_by(&self.0.begin_by_index).await
    }

    async fn begin_by(&self, text: &str) -> Result<Tx> {
        let client = self.client().await?;
        let tx = Tx {
            client: Some(client),
            db: self.clone(),
            broken: AtomicBool::new(false),
        };
        // Sent now, answered before the first statement; when it fails, every statement of the transaction fails.
        if let Some(Err(e)) = tx.batch_execute(text).now_or_never() {
            tx.broken.store(true, Ordering::Relaxed);
            return Err(error::map("begin")(e));
        }
        Ok(tx)
    }

    /// Runs one statement as its own transaction.
    pub(super) async fn query(&self, at: &'static str, sql: &str, params: &[Typed<'_>]) -> Result<Vec<Row>> {
        let client = self.client().await?;
        self.0.stats.statement();
        let work = run(&client, self, sql, params);
        match tokio::time::timeout(self.patience(), work).await {
            Ok(rows) => rows.map_err(error::map_committing(at)),
            Err(_) => {
                discard(client);
                Err(error::timed_out(at, Effect::Unknown))
            }
        }
    }

    /// Resolves at the next change that was told, from the call on.
    pub(super) fn rung(&self) -> BoxFuture<'static, ()> {
        bell::rung(&self.0.listener, &self.0.dial, self.0.options.pooler)
    }

    /// Wakes those who wait in this process.
    pub fn ring(&self) {
        self.0.listener.ring();
    }

    /// What is listened to.
    pub(super) fn channel(&self) -> &str {
        &self.0.dial.channel
    }

    /// One answer of the server.
    ///
    /// # Errors
    /// The database's.
    pub async fn ping(&self) -> Result<()> {
        self.query("ping", "select 1", &[]).await.map(|_| ())
    }

    async fn client(&self) -> Result<Object> {
        self.0.pool.get().await.map_err(|e| match e {
            PoolError::Backend(e) => error::map("connecting")(e),
            PoolError::Timeout(_) => Error::new(
                Code::StoreUnavailable,
                "no connection became free within the time-out",
            ),
            other => Error::new(Code::StoreUnavailable, "connecting").with_source(other.to_string()),
        })
    }

    /// The statement with this database's schema in it.
    pub(super) fn text<'s>(&self, sql: &'s str) -> Cow<'s, str> {
        if self.0.options.schema == SCHEMA {
            return Cow::Borrowed(sql);
        }
        let schema = &self.0.options.schema;
        Cow::Owned(sql.replace("tidegate.", &format!("{schema}.")).replace(
            "schema if not exists tidegate;",
            &format!("schema if not exists {schema};"),
        ))
    }

    /// Microseconds of the clock that was given; `None`: the server tells the time. A parameter of every statement
    /// that needs the time: `coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)`.
    pub(super) fn now(&self) -> Option<i64> {
        self.0.options.clock.as_ref().map(|clock| clock.now().as_micros())
    }

    /// The schema of Tidegate's tables.
    pub fn schema(&self) -> &str {
        &self.0.options.schema
    }

    /// Host, port and database, without user and password.
    pub fn place(&self) -> &str {
        &self.0.place
    }

    /// How it was opened.
    pub fn options(&self) -> &OpenOptions {
        &self.0.options
    }

    /// Statements sent by this handle and its clones; a handler's own are not in it.
    pub fn statements(&self) -> u64 {
        self.0.stats.statements.load(Ordering::Relaxed)
    }

    /// Commits of this handle and its clones.
    pub fn commits(&self) -> u64 {
        self.0.stats.commits.load(Ordering::Relaxed)
    }

    /// A little longer than the server's own limit: it is the one to say so.
    fn patience(&self) -> Duration {
        self.0.options.statement_timeout + Duration::from_secs(2)
    }
}

/// An open transaction on a connection of the pool; derefs to the driver's client. Dropped, it rolls back.
pub struct Tx {
    client: Option<Object>,
    db: Database,
    /// A statement is still under way: the connection is of no more use.
    broken: AtomicBool,
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").field("db", &self.db).finish_non_exhaustive()
    }
}

impl Deref for Tx {
    type Target = Client;

    #[allow(clippy::expect_used)] // Taken by drop and commit only, which end the transaction.
    fn deref(&self) -> &Client {
        self.client.as_ref().expect("the transaction is open")
    }
}

impl Tx {
    /// Runs a statement of this crate.
    pub(super) async fn query(&self, at: &'static str, sql: &str, params: &[Typed<'_>]) -> Result<Vec<Row>> {
        let client = self.object()?;
        self.in_time(at, run(client, &self.db, sql, params)).await
    }

    /// Runs a statement of this crate; returns how many rows it changed.
    pub(super) async fn execute(&self, at: &'static str, sql: &str, params: &[Typed<'_>]) -> Result<u64> {
        let client = self.object()?;
        self.in_time(at, execute(client, &self.db, sql, params)).await
    }

    /// Runs a script without parameters.
    pub(super) async fn batch(&self, at: &'static str, text: &str) -> Result<()> {
        self.in_time(at, self.batch_execute(text)).await
    }

    async fn in_time<T>(
        &self,
        at: &'static str,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        self.db.0.stats.statement();
        let Ok(done) = tokio::time::timeout(self.db.patience(), work).await else {
            self.broken.store(true, Ordering::Relaxed);
            return Err(error::timed_out(at, Effect::NotApplied));
        };
        done.map_err(error::map(at))
    }

    /// Makes it durable. Only after a statement of this crate that succeeded: the server answers a commit of a failed
    /// transaction with success, having rolled back.
    ///
    /// # Errors
    /// [`Effect::Unknown`] when the reply was lost.
    pub(super) async fn commit(mut self, at: &'static str) -> Result<()> {
        self.db.0.stats.commits.fetch_add(1, Ordering::Relaxed);
        let committed = tokio::time::timeout(self.db.patience(), self.batch_execute("commit")).await;
        let Ok(committed) = committed else {
            self.broken.store(true, Ordering::Relaxed);
            return Err(error::timed_out(at, Effect::Unknown));
        };
        committed.map_err(error::map_committing(at))?;
        drop(self.client.take());
        Ok(())
    }

    /// Undoes it; costs no waiting.
    pub(super) fn roll_back(self) {
        drop(self);
    }

    /// The statement with this database's schema in it.
    pub(super) fn text<'s>(&self, sql: &'s str) -> Cow<'s, str> {
        self.db.text(sql)
    }

    fn object(&self) -> Result<&Object> {
        let ended = || Error::new(Code::Internal, "the transaction has ended");
        self.client.as_ref().ok_or_else(ended)
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else {
            return;
        };
        // The first poll queues the message before any later statement of this connection; the answer is not needed.
        let broken = self.broken.load(Ordering::Relaxed);
        let sent = !broken
            && client
                .batch_execute("rollback")
                .now_or_never()
                .is_none_or(|r| r.is_ok());
        if !sent {
            discard(client);
        }
    }
}

/// Closes the connection instead of giving it back.
fn discard(client: Object) {
    drop(Object::take(client));
}

async fn run(
    client: &Object,
    db: &Database,
    sql: &str,
    params: &[Typed<'_>],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let sql = db.text(sql);
    if db.0.options.pooler {
        return client.query_typed(&sql, params).await;
    }
    let types: Vec<_> = params.iter().map(|(_, t)| t.clone()).collect();
    let values: Vec<_> = params.iter().map(|(v, _)| *v).collect();
    let statement = client.prepare_typed_cached(&sql, &types).await?;
    client.query(&statement, &values).await
}

async fn execute(
    client: &Object,
    db: &Database,
    sql: &str,
    params: &[Typed<'_>],
) -> Result<u64, tokio_postgres::Error> {
    let sql = db.text(sql);
    if db.0.options.pooler {
        return client.execute_typed(&sql, params).await;
    }
    let types: Vec<_> = params.iter().map(|(_, t)| t.clone()).collect();
    let values: Vec<_> = params.iter().map(|(v, _)| *v).collect();
    let statement = client.prepare_typed_cached(&sql, &types).await?;
    client.execute(&statement, &values).await
}

/// Time-outs travel with each transaction: a pooler forgets those of a session.
fn begin_text(options: &OpenOptions) -> String {
    format!(
        "begin isolation level read committed; set local statement_timeout = {}; set local lock_timeout = {}; \
         set local idle_in_transaction_session_timeout = {}",
        options.statement_timeout.as_millis(),
        options.lock_timeout.as_millis(),
        options.idle_timeout.as_millis()
    )
}

fn check_schema(name: &str) -> Result<()> {
    let first = |c: char| c.is_ascii_lowercase() || c == '_';
    let other = |c: char| first(c) || c.is_ascii_digit();
    let fits = (1..=63).contains(&name.len()) && name.starts_with(first) && name.chars().all(other);
    if fits && !name.starts_with("pg_") {
        return Ok(());
    }
    Err(Error::new(
        Code::OptionsInvalid,
        format!("schema {name:?}: must be 1 to 63 of a-z, 0-9 and _, not starting with a digit or pg_"),
    ))
}

/// The driver's configuration, and the one parameter that it does not know. The text is never quoted: it may hold a
/// password.
fn parse(url: &str) -> Result<(Config, Option<PathBuf>)> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut root = None;
    let kept: Vec<_> = query
        .split('&')
        .filter(|pair| match pair.split_once('=') {
            Some(("sslrootcert", file)) => {
                root = Some(PathBuf::from(file));
                false
            }
            _ => !pair.is_empty(),
        })
        .collect();
    let rest = if kept.is_empty() {
        base.to_owned()
    } else {
        format!("{base}?{}", kept.join("&"))
    };
    let config = Config::from_str(&rest).map_err(|_| {
        Error::new(
            Code::OptionsInvalid,
            "the URL is not one that Postgres drivers know",
        )
    })?;
    Ok((config, root))
}

fn place_of(config: &Config) -> String {
    use tokio_postgres::config::Host;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".into(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let name = config
        .get_dbname()
        .or_else(|| config.get_user())
        .unwrap_or("postgres");
    format!("{host}:{port}/{name}")
}

//! The configuration as plain structs. Rules and reasons of each key are in `keys.rs` and `docs/configuration.md`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::Secret;

/// Everything that `tidegate run` needs. Names in `store`, `outbox`, `stream`, `consumer` and `sweep` are the user's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether unsafe defaults are refused.
    pub environment: Environment,
    /// Prefix of tables, keys and subjects.
    pub namespace: String,
    /// Databases and brokers.
    pub store: BTreeMap<String, Store>,
    /// Outboxes, each published to one stream.
    pub outbox: BTreeMap<String, Outbox>,
    /// Streams, where published events wait.
    pub stream: BTreeMap<String, Stream>,
    /// Consumers, each applying one stream to one database.
    pub consumer: BTreeMap<String, Consumer>,
    /// Interval jobs.
    pub sweep: BTreeMap<String, Sweep>,
    /// HTTP API and dashboard.
    pub http: Http,
    /// Shutdown.
    pub drain: Drain,
    /// Logging.
    pub log: Log,
}

/// A database or broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// `sqlite:` and a path, `postgres://...`, `redis://...` or `rediss://...`.
    pub url: Secret,
    /// What only Postgres has.
    pub postgres: Postgres,
}

/// Rows written in the users' transactions, waiting to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbox {
    /// Name of the store that holds the rows.
    pub store: String,
    /// Name of the stream that receives them.
    pub stream: String,
    /// Hash slots; a power of two, from 1 to 1024.
    pub lanes: u16,
    /// How long settled rows are kept; `None` deletes them when settled.
    pub archive: Option<Duration>,
    /// Age of the oldest unpublished row that raises the alarm.
    pub alarm: Duration,
    /// Lease of a relay on its lanes; from 1 s to 1 h.
    pub ttl: Duration,
}

/// Where published events wait for readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Name of the store that holds the entries.
    pub store: String,
    /// Age above which entries may be trimmed, once below every hold.
    pub retain: Duration,
}

/// A worker that applies a stream to a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Name of the stream to read.
    pub stream: String,
    /// Name of the store to apply to.
    pub store: String,
    /// Where a new consumer begins.
    pub start: Start,
    /// The projection that events are applied to.
    pub table: Table,
    /// Events in one transaction.
    pub batch_max: u32,
    /// Failed attempts before a key waits for a person.
    pub attempts_max: u32,
    /// What happens to an event that cannot be applied.
    pub policy: Policy,
    /// Distinct keys failing alike that mean an outage.
    pub breaker: u32,
    /// Longest pause between retries.
    pub backoff_max: Duration,
    /// Parked events of all keys.
    pub parked_max: u32,
    /// Parked events of one key.
    pub parked_key_max: u32,
    /// Lease of a consumer on its lanes; from 1 s to 1 h.
    pub ttl: Duration,
}

/// A table kept equal to its events, without code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The table.
    pub name: String,
    /// Its key column.
    pub key: String,
    /// The column that holds the event's version.
    pub version: Option<String>,
    /// Columns, and the payload field that fills each; at least one.
    pub columns: BTreeMap<String, String>,
}

/// An interval job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Pause between two runs.
    pub every: Duration,
    /// Name of the store to sweep.
    pub store: String,
}

/// HTTP API and dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Address to listen on.
    pub listen: SocketAddr,
}

/// Shutdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Longest wait for work in flight.
    pub timeout: Duration,
}

/// Logging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Least severe level that is written.
    pub level: Level,
    /// Shape of a line.
    pub format: Format,
}

/// Values that are picked from a list.
pub(super) trait Choice: Copy + 'static {
    /// Accepted spellings, in the order of `ALL`.
    const NAMES: &'static [&'static str];
    /// The values.
    const ALL: &'static [Self];
}

/// Where this process runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Environment {
    /// Anything goes.
    #[default]
    Development,
    /// Defaults that two deployments could share are refused.
    Production,
}

impl Choice for Environment {
    const NAMES: &'static [&'static str] = &["development", "production"];
    const ALL: &'static [Self] = &[Self::Development, Self::Production];
}

/// What happens to an event that cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Its key waits, in order; other keys go on.
    Park,
    /// It becomes a dead letter, and its key goes on.
    Skip,
    /// The lane stops.
    Halt,
}

impl Choice for Policy {
    const NAMES: &'static [&'static str] = &["park", "skip", "halt"];
    const ALL: &'static [Self] = &[Self::Park, Self::Skip, Self::Halt];
}

/// Where a new consumer begins; one with a position continues there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The oldest entry kept.
    Earliest,
    /// Entries published from now on.
    Now,
    /// The first entry published at or after this time.
    At(jiff::Timestamp),
}

/// Severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Something failed.
    Error,
    /// Something needs attention.
    Warn,
    /// Something happened that operators follow.
    #[default]
    Info,
    /// Decisions of the workers.
    Debug,
    /// Every step.
    Trace,
}

impl Choice for Level {
    const NAMES: &'static [&'static str] = &["error", "warn", "info", "debug", "trace"];
    const ALL: &'static [Self] = &[Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];
}

/// Shape of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

impl Choice for Format {
    const NAMES: &'static [&'static str] = &["text", "json"];
    const ALL: &'static [Self] = &[Self::Text, Self::Json];
}

impl Config {
    /// What `tidegate run` uses without a file: `./tidegate.db` with one outbox and one stream, all named `main`.
    pub fn default_embedded() -> Self {
        let main = || "main".to_owned();
        Self {
            environment: Environment::default(),
            namespace: "tidegate".to_owned(),
            store: BTreeMap::from([(
                main(),
                Store {
                    url: Secret::new("sqlite:tidegate.db"),
                    postgres: Postgres::default(),
                },
            )]),
            outbox: BTreeMap::from([(main(), Outbox::new(main(), main()))]),
            stream: BTreeMap::from([(main(), Stream::new(main()))]),
            consumer: BTreeMap::new(),
            sweep: BTreeMap::new(),
            http: Http::default(),
            drain: Drain::default(),
            log: Log {
                level: Level::default(),
                format: Format::default(),
            },
        }
    }
}

/// How a Postgres store is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postgres {
    /// Schema of Tidegate's tables.
    pub schema: String,
    /// Most connections.
    pub connections: u32,
    /// What stands between.
    pub pooler: Pooler,
}

impl Default for Postgres {
    fn default() -> Self {
        Self {
            schema: "tidegate".to_owned(),
            connections: 8,
            pooler: Pooler::None,
        }
    }
}

/// What stands between this process and Postgres.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooler {
    /// Nothing, or a pooler that keeps sessions.
    #[default]
    None,
    /// A pooler that gives a connection for one transaction only.
    Transaction,
}

impl Choice for Pooler {
    const NAMES: &'static [&'static str] = &["none", "transaction"];
    const ALL: &'static [Self] = &[Self::None, Self::Transaction];
}

/// The kind of a store, by the scheme of its URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// A file.
    Sqlite,
    /// A Postgres database.
    Postgres,
    /// A Redis server.
    Redis,
}

impl StoreKind {
    /// The kind behind a URL.
    pub fn of(url: &Secret) -> Option<Self> {
        match url.expose().split_once(':')?.0 {
            "sqlite" => Some(Self::Sqlite),
            "postgres" | "postgresql" => Some(Self::Postgres),
            "redis" | "rediss" => Some(Self::Redis),
            _ => None,
        }
    }

    /// As people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "Postgres",
            Self::Redis => "Redis",
        }
    }
}

impl Outbox {
    /// An outbox in `store` that feeds `stream`, with defaults for the rest.
    pub fn new(store: String, stream: String) -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self {
            store,
            stream,
            lanes: 64,
            archive: None,
            alarm: day,
            ttl: Duration::from_secs(10),
        }
    }
}

impl Stream {
    /// A stream in `store`, with defaults for the rest.
    pub fn new(store: String) -> Self {
        Self {
            store,
            retain: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7070)),
        }
    }
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
        }
    }
}

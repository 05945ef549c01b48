//! The table of keys: rules, defaults and documentation, each written once.
//!
//! `*` in a path stands for a name that the user chooses. Reading, problems, suggestions, `config explain` and
//! `docs/configuration.md` all come from here.

use std::time::Duration;

use super::duration;
use super::model::{Choice, Environment, Format, Level, Policy, Pooler};
use super::tree::Path;
use Fallback::{Required, Text, Unset};

/// One key.
pub(super) struct Key {
    pub(super) path: &'static str,
    pub(super) kind: Kind,
    pub(super) fallback: Fallback,
    /// One line: what it does, when to change it, and why the default is what it is.
    pub(super) doc: &'static str,
}

/// What a key means when nobody gives it.
#[derive(Clone, Copy)]
pub(super) enum Fallback {
    Required,
    Unset,
    Text(&'static str),
}

/// What a key accepts.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A name of ours: `[a-z][a-z0-9_-]{0,62}`.
    Name,
    /// A table or column: `[A-Za-z_][A-Za-z0-9_]{0,62}`.
    Sql,
    /// A field of the payload.
    Field,
    Url,
    SecretFile,
    SecretVariable,
    /// The name of something declared in this section.
    Declared(&'static str),
    Choice(&'static [&'static str]),
    Start,
    Duration {
        min: Duration,
        max: Duration,
    },
    /// A lease's duration: also long enough to renew.
    Ttl,
    Count {
        min: u32,
        max: u32,
    },
    Lanes,
    Listen,
}

pub(super) const NAME_BYTES_MAX: usize = 63;
pub(super) const FIELD_BYTES_MAX: usize = 255;
pub(super) const LANES_MAX: u32 = 1024;
pub(super) const TTL_MIN: Duration = Duration::from_secs(1);
pub(super) const TTL_MAX: Duration = Duration::from_secs(60 * 60);

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Ten years: longer is a typing error.
const KEPT_MAX: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// Sections of the design that this binary cannot run yet.
pub(super) const PLANNED_SECTIONS: [&str; 1] = ["debounce"];

impl Kind {
    /// What is allowed, to follow "must be".
    pub(super) fn allowed(self) -> String {
        match self {
            Self::Name => {
                format!(
                    "a name of a-z, 0-9, _ and -, starting with a letter, of at most {NAME_BYTES_MAX} characters"
                )
            }
            Self::Sql => {
                format!(
                    "an SQL name of letters, digits and _, not starting with a digit, of at most {NAME_BYTES_MAX} characters"
                )
            }
            Self::Field => format!("the name of a payload field, of 1 to {FIELD_BYTES_MAX} bytes"),
            Self::Url => "a store URL such as sqlite:tidegate.db".to_owned(),
            Self::SecretFile => "the path of a file that holds the value".to_owned(),
            Self::SecretVariable => "the name of an environment variable that holds the value".to_owned(),
            Self::Declared(section) => format!("the name of a declared {section}"),
            Self::Choice(names) => either(names),
            Self::Start => "earliest, now or at:TIME, such as at:2026-01-31T00:00:00Z".to_owned(),
            Self::Duration { min, max } => duration_range(min, max),
            Self::Ttl => duration_range(TTL_MIN, TTL_MAX),
            Self::Count { min, max } => format!("a whole number from {min} to {max}"),
            Self::Lanes => format!("a power of two from 1 to {LANES_MAX}"),
            Self::Listen => "an IP address and a port, such as 127.0.0.1:7070".to_owned(),
        }
    }

    /// Whether TOML writes it as a number.
    pub(super) fn is_number(self) -> bool {
        matches!(self, Self::Count { .. } | Self::Lanes)
    }
}

fn duration_range(min: Duration, max: Duration) -> String {
    format!(
        "a duration from {} to {}",
        duration::format(min),
        duration::format(max)
    )
}

/// `a, b or c`.
pub(super) fn either(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

impl Key {
    const fn new(path: &'static str, kind: Kind, fallback: Fallback, doc: &'static str) -> Self {
        Self {
            path,
            kind,
            fallback,
            doc,
        }
    }

    /// The path with each `*` replaced by the next of `names`.
    pub(super) fn path_for(&self, names: &[&str]) -> Path {
        let mut names = names.iter();
        let component = |part: &str| match part {
            "*" => names
                .next()
                .map_or_else(|| part.to_owned(), |name| (*name).to_owned()),
            _ => part.to_owned(),
        };
        self.path.split('.').map(component).collect()
    }
}

/// What the table says about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Unknown,
    Table,
    Value,
    /// A value that may also be a table: a secret.
    Either,
}

/// Finds `path` in the table.
pub(super) fn place(path: &[String]) -> Place {
    let matching = ALL.iter().filter(|key| starts_with(key, path));
    let (values, tables): (Vec<&&Key>, Vec<&&Key>) = matching.partition(|key| components(key) == path.len());
    match (values.is_empty(), tables.is_empty()) {
        (true, true) => Place::Unknown,
        (true, false) => Place::Table,
        (false, true) => Place::Value,
        (false, false) => Place::Either,
    }
}

/// Names that the table knows directly below `table`, in its order; none when the user chooses them.
pub(super) fn known_below(table: &[String]) -> Vec<&'static str> {
    let mut known = Vec::new();
    for key in ALL.iter().filter(|key| starts_with(key, table)) {
        match key.path.split('.').nth(table.len()) {
            Some(name) if name != "*" && !known.contains(&name) => known.push(name),
            _ => {}
        }
    }
    known
}

/// Another place whose last component is `name`.
pub(super) fn elsewhere(name: &str) -> Option<&'static str> {
    ALL.iter()
        .map(|key| key.path)
        .find(|path| path.rsplit('.').next() == Some(name))
}

fn components(key: &Key) -> usize {
    key.path.split('.').count()
}

fn starts_with(key: &Key, path: &[String]) -> bool {
    let parts: Vec<_> = key.path.split('.').collect();
    parts.len() >= path.len()
        && parts
            .iter()
            .zip(path)
            .all(|(part, given)| *part == "*" || part == given)
}

pub(super) const DEFAULT_NAMESPACE: &str = "tidegate";

pub(super) static ENVIRONMENT: Key = Key::new(
    "environment",
    Kind::Choice(Environment::NAMES),
    Text("development"),
    "Where this process runs. `production` refuses defaults that two deployments could share by accident.",
);
pub(super) static NAMESPACE: Key = Key::new(
    "namespace",
    Kind::Name,
    Text(DEFAULT_NAMESPACE),
    "Prefix of tables, keys and subjects. Give each deployment its own; the default is refused in production.",
);

pub(super) static STORE_URL: Key = Key::new(
    "store.*.url",
    Kind::Url,
    Required,
    "Where the store is: `sqlite:` and a path, `postgres://`, `redis://` or `rediss://`. Write a secret one as `{ file = \"...\" }` or `{ env = \"...\" }`.",
);
pub(super) static STORE_URL_FILE: Key = Key::new(
    "store.*.url.file",
    Kind::SecretFile,
    Unset,
    "File that holds the URL, as container platforms mount secrets. A final line end is ignored.",
);
pub(super) static STORE_URL_ENV: Key = Key::new(
    "store.*.url.env",
    Kind::SecretVariable,
    Unset,
    "Environment variable that holds the URL.",
);

pub(super) static STORE_SCHEMA: Key = Key::new(
    "store.*.schema",
    Kind::Sql,
    Text("tidegate"),
    "Postgres: schema of Tidegate's tables. Another one keeps two deployments in one database apart.",
);
pub(super) static STORE_CONNECTIONS: Key = Key::new(
    "store.*.connections",
    Kind::Count { min: 2, max: 1_000 },
    Text("8"),
    "Postgres: most connections of this process, without the one that listens. 8 serve a dozen workers: each uses one for milliseconds.",
);
pub(super) static STORE_POOLER: Key = Key::new(
    "store.*.pooler",
    Kind::Choice(Pooler::NAMES),
    Text("none"),
    "Postgres: `transaction` when a pooler gives out connections by transaction, as pgbouncer does. Nothing then stays prepared, and new rows are polled for.",
);

pub(super) static OUTBOX_STORE: Key = Key::new(
    "outbox.*.store",
    Kind::Declared("store"),
    Required,
    "Store whose transactions write the events; the one that holds the service's own rows.",
);
pub(super) static OUTBOX_STREAM: Key = Key::new(
    "outbox.*.stream",
    Kind::Declared("stream"),
    Required,
    "Stream that the events are published to.",
);
pub(super) static OUTBOX_LANES: Key = Key::new(
    "outbox.*.lanes",
    Kind::Lanes,
    Text("64"),
    "Hash slots: the unit of order and parallelism. 64 lets dozens of processes share; fixed once the outbox exists.",
);
pub(super) static OUTBOX_ARCHIVE: Key = Key::new(
    "outbox.*.archive",
    Kind::Duration {
        min: SECOND,
        max: KEPT_MAX,
    },
    Unset,
    "How long settled rows are kept, to refill a stream that lost data and to replay. Unset deletes them when settled.",
);
pub(super) static OUTBOX_ALARM: Key = Key::new(
    "outbox.*.alarm",
    Kind::Duration {
        min: SECOND,
        max: KEPT_MAX,
    },
    Text("24h"),
    "Age of the oldest unpublished row that raises the alarm. Lower it to what readers tolerate; a day outlasts most outages.",
);
pub(super) static OUTBOX_TTL: Key = Key::new(
    "outbox.*.ttl",
    Kind::Ttl,
    Text("10s"),
    "Lease of a relay on its lanes. A crashed one is replaced after ttl + 1s; shorter costs more renewals, one each ttl/3.",
);

pub(super) static STREAM_STORE: Key = Key::new(
    "stream.*.store",
    Kind::Declared("store"),
    Required,
    "Store that holds the published events.",
);
pub(super) static STREAM_RETAIN: Key = Key::new(
    "stream.*.retain",
    Kind::Duration {
        min: SECOND,
        max: KEPT_MAX,
    },
    Text("7d"),
    "Age above which events are trimmed, once no consumer holds them. A week covers a weekend and the repair after it.",
);

pub(super) static CONSUMER_STREAM: Key = Key::new(
    "consumer.*.stream",
    Kind::Declared("stream"),
    Required,
    "Stream to read.",
);
pub(super) static CONSUMER_STORE: Key = Key::new(
    "consumer.*.store",
    Kind::Declared("store"),
    Required,
    "Store to apply to. Effects, dedupe marks and position commit there in one transaction.",
);
pub(super) static CONSUMER_START: Key = Key::new(
    "consumer.*.start",
    Kind::Start,
    Required,
    "Where a new consumer begins. No default: `now` skips what came before, `earliest` applies all of it, `at:TIME` what \
     the stream took then or later.",
);
pub(super) static TABLE_NAME: Key = Key::new(
    "consumer.*.table.name",
    Kind::Sql,
    Required,
    "Table that the events are projected into.",
);
pub(super) static TABLE_KEY: Key = Key::new(
    "consumer.*.table.key",
    Kind::Sql,
    Required,
    "Key column: one row for each value, unique in the table.",
);
pub(super) static TABLE_VERSION: Key = Key::new(
    "consumer.*.table.version",
    Kind::Sql,
    Unset,
    "Column that holds the event's version; with it, an older event never overwrites a newer row, and one without a version is parked.",
);
pub(super) static TABLE_COLUMN: Key = Key::new(
    "consumer.*.table.columns.*",
    Kind::Field,
    Required,
    "Payload field that fills this column. An event without the field is parked, and so is one without a key. At least one column.",
);
pub(super) static CONSUMER_BATCH_MAX: Key = Key::new(
    "consumer.*.batch_max",
    Kind::Count { min: 1, max: 10_000 },
    Text("500"),
    "Events in one transaction. 500 gets most of the speed; lower it when the transaction locks rows that others need.",
);
pub(super) static CONSUMER_ATTEMPTS_MAX: Key = Key::new(
    "consumer.*.attempts_max",
    Kind::Count { min: 1, max: 1_000 },
    Text("8"),
    "Failed retries before a parked key waits for a person. They come after 1 s, 2 s, 4 s and so on up to 5 min: 8 take four minutes.",
);
pub(super) static CONSUMER_POLICY: Key = Key::new(
    "consumer.*.policy",
    Kind::Choice(Policy::NAMES),
    Text("park"),
    "An event that cannot be applied: `park` holds its key back in order, `skip` makes it a dead letter, `halt` stops the lane.",
);
pub(super) static CONSUMER_BREAKER: Key = Key::new(
    "consumer.*.breaker",
    Kind::Count { min: 2, max: 10_000 },
    Text("16"),
    "Distinct keys failing alike that mean an outage: the consumer pauses, and each pause parks at most one more. Raise it for noisy data.",
);
pub(super) static CONSUMER_BACKOFF_MAX: Key = Key::new(
    "consumer.*.backoff_max",
    Kind::Duration {
        min: Duration::from_millis(100),
        max: HOUR,
    },
    Text("30s"),
    "Longest pause of the consumer in an outage, and so the longest wait after its end. Parked keys have a schedule of their own: see `attempts_max`.",
);
pub(super) static CONSUMER_PARKED_MAX: Key = Key::new(
    "consumer.*.parked_max",
    Kind::Count {
        min: 1,
        max: 10_000_000,
    },
    Text("100000"),
    "Parked events of all keys. At the bound the lane halts until there is room: nothing is dropped. 100000 cost healthy keys nothing.",
);
pub(super) static CONSUMER_PARKED_KEY_MAX: Key = Key::new(
    "consumer.*.parked_key_max",
    Kind::Count {
        min: 1,
        max: 10_000_000,
    },
    Text("10000"),
    "Parked events of one key, at most `parked_max`. At the bound the lane halts.",
);
pub(super) static CONSUMER_TTL: Key = Key::new(
    "consumer.*.ttl",
    Kind::Ttl,
    Text("10s"),
    "Lease of a consumer on its lanes. A crashed one is replaced after ttl + 1s; shorter costs more renewals, one each ttl/3.",
);

pub(super) static SWEEP_EVERY: Key = Key::new(
    "sweep.*.every",
    Kind::Duration {
        min: SECOND,
        max: Duration::from_secs(30 * 24 * 60 * 60),
    },
    Text("1m"),
    "Pause between two runs. A minute keeps each run small; more often only adds load.",
);
pub(super) static SWEEP_STORE: Key = Key::new(
    "sweep.*.store",
    Kind::Declared("store"),
    Required,
    "Store to sweep.",
);

pub(super) static HTTP_LISTEN: Key = Key::new(
    "http.listen",
    Kind::Listen,
    Text("127.0.0.1:7070"),
    "Address of `/metrics`, `/healthz` and `/readyz`. The default is reachable from this machine only.",
);
pub(super) static DRAIN_TIMEOUT: Key = Key::new(
    "drain.timeout",
    Kind::Duration {
        min: Duration::from_millis(100),
        max: HOUR,
    },
    Text("30s"),
    "Longest wait at a stop for work in flight. Keep it below the platform's kill time-out, often 30s to 90s.",
);
pub(super) static LOG_LEVEL: Key = Key::new(
    "log.level",
    Kind::Choice(Level::NAMES),
    Text("info"),
    "Least severe level that is written. `debug` shows the decisions of the workers.",
);
pub(super) static LOG_FORMAT: Key = Key::new(
    "log.format",
    Kind::Choice(Format::NAMES),
    Text("text"),
    "Shape of a log line: `text` for people, `json` for collectors.",
);

/// Every key, in the order of explanation and reference.
pub(super) static ALL: &[&Key] = &[
    &ENVIRONMENT,
    &NAMESPACE,
    &STORE_URL,
    &STORE_URL_FILE,
    &STORE_URL_ENV,
    &STORE_SCHEMA,
    &STORE_CONNECTIONS,
    &STORE_POOLER,
    &OUTBOX_STORE,
    &OUTBOX_STREAM,
    &OUTBOX_LANES,
    &OUTBOX_ARCHIVE,
    &OUTBOX_ALARM,
    &OUTBOX_TTL,
    &STREAM_STORE,
    &STREAM_RETAIN,
    &CONSUMER_STREAM,
    &CONSUMER_STORE,
    &CONSUMER_START,
    &TABLE_NAME,
    &TABLE_KEY,
    &TABLE_VERSION,
    &TABLE_COLUMN,
    &CONSUMER_BATCH_MAX,
    &CONSUMER_ATTEMPTS_MAX,
    &CONSUMER_POLICY,
    &CONSUMER_BREAKER,
    &CONSUMER_BACKOFF_MAX,
    &CONSUMER_PARKED_MAX,
    &CONSUMER_PARKED_KEY_MAX,
    &CONSUMER_TTL,
    &SWEEP_EVERY,
    &SWEEP_STORE,
    &HTTP_LISTEN,
    &DRAIN_TIMEOUT,
    &LOG_LEVEL,
    &LOG_FORMAT,
];

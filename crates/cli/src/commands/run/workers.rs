//! From declarations to workers, not yet started.

use std::sync::Arc;

use tidegate::inbox::projection::{Column, Projection};
use tidegate::inbox::{self, Start};
use tidegate::outbox::relay;
use tidegate::stores::sqlite::projection::SqliteProjection;
use tidegate::stores::sqlite::{Database, InboxOptions, SqliteInbox, SqliteStream};
use tidegate::{Code, Consumer, Error, Relay, Timestamp, Worker};

use crate::config::{self, Config, Policy};
use crate::error::Failure;
use crate::places::Places;
use crate::sweeps;

/// One relay for each outbox, one consumer for each consumer, one sweeper for each sweep.
pub(super) async fn build(config: &Config, places: &Places) -> Result<Vec<Worker>, Failure> {
    let mut workers = Vec::new();
    for (name, declared) in &config.stream {
        SqliteStream::open(places.database(&declared.store)?, name).await?;
    }
    for (name, declared) in &config.outbox {
        workers.push(relay(config, places, name, declared).await?);
    }
    for (name, declared) in &config.consumer {
        workers.push(consumer(config, places, name, declared).await?);
    }
    for (name, (store, every)) in sweeps::declared(config) {
        workers.push(sweeps::worker(config, places, &name, &store, every, &label()).await?);
    }
    Ok(workers)
}

/// For people: `outbox lanes` shows it.
fn label() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

async fn stream(config: &Config, places: &Places, name: &str) -> Result<Arc<SqliteStream>, Failure> {
    let declared = config
        .stream
        .get(name)
        .ok_or_else(|| Failure::not_found(format!("no stream {name}")))?;
    Ok(Arc::new(
        SqliteStream::open(places.database(&declared.store)?, name).await?,
    ))
}

async fn relay(
    config: &Config,
    places: &Places,
    name: &str,
    declared: &config::Outbox,
) -> Result<Worker, Failure> {
    let outbox = places.make_outbox(name, declared).await?.it;
    let mut options = relay::Options::default();
    options.hold.ttl = declared.ttl;
    options.hold.label = label();
    let sink = stream(config, places, &declared.stream).await?;
    Ok(Relay::new(name, outbox, sink).options(options).build()?)
}

async fn consumer(
    config: &Config,
    places: &Places,
    name: &str,
    declared: &config::Consumer,
) -> Result<Worker, Failure> {
    let database = places.database(&declared.store)?.clone();
    let projection = projection(&declared.table, &database)
        .await
        .map_err(|error| table_error(name, &database, error))?;
    let inbox = SqliteInbox::open(database, name, inbox_options(declared)).await?;
    let applier = Arc::new(inbox.applier(projection));
    let stream = stream(config, places, &declared.stream).await?;
    let consumer = Consumer::new(name, stream, Arc::new(inbox), applier, start(declared.start));
    let consumer = consumer.options(|options| {
        options.hold.ttl = declared.ttl;
        options.hold.label = label();
        options.batch_max = declared.batch_max;
        options.breaker_keys = declared.breaker as usize;
        options.backoff_max = declared.backoff_max;
    });
    Ok(consumer.build()?)
}

fn start(declared: config::Start) -> Start {
    match declared {
        config::Start::Earliest => Start::Earliest,
        config::Start::Now => Start::Now,
        config::Start::At(time) => Start::At(Timestamp::from_micros(time.as_microsecond())),
    }
}

fn inbox_options(declared: &config::Consumer) -> InboxOptions {
    InboxOptions {
        rules: inbox::Options {
            policy: match declared.policy {
                Policy::Park => inbox::Policy::Park,
                Policy::Skip => inbox::Policy::Skip,
                Policy::Halt => inbox::Policy::Halt,
            },
            attempts_max: declared.attempts_max,
            key_events_max: declared.parked_key_max.into(),
            parked_events_max: declared.parked_max.into(),
            ..inbox::Options::default()
        },
        ..InboxOptions::default()
    }
}

fn table_error(consumer: &str, database: &Database, error: Error) -> Error {
    let file = database.path().display();
    let context = format!(
        "consumer.{consumer}.table cannot be written in {file}; Tidegate fills the table and does not create or change it"
    );
    match error.code() {
        Code::OptionsInvalid => Error::new(Code::ConfigInvalid, context).with_source(error),
        _ => error,
    }
}

/// The declared table. The key column receives the event's key and the version column its version, whatever `columns`
/// says of them.
async fn projection(table: &config::Table, database: &Database) -> tidegate::Result<SqliteProjection> {
    let own = |column: &str| {
        let version = table.version.as_deref();
        column.eq_ignore_ascii_case(&table.key) || version.is_some_and(|v| column.eq_ignore_ascii_case(v))
    };
    let columns = table.columns.iter().filter(|(column, _)| !own(column));
    let projection = SqliteProjection::new(Projection {
        table: table.name.clone(),
        key: table.key.clone(),
        columns: columns
            .map(|(column, field)| Column::new(column, field))
            .collect(),
        version: table.version.clone(),
    })?;
    let checked = projection.clone();
    database.read(move |sql| checked.check(sql.connection())).await?;
    Ok(projection)
}

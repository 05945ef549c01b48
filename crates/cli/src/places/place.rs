//! What the commands need of a store, whatever is behind its URL.

use std::sync::Arc;

use tidegate::inbox::Options;
use tidegate::outbox::Settings;
use tidegate::store::{
    Applier, BoxFuture, DeadLetters, InboxStore, LeaseStore, OutboxStore, Positions, Sink, StreamStore,
};
use tidegate::{Code, Error, Result};

use crate::config::Table;

/// A stream that is published to and read.
pub(crate) trait Stream: StreamStore + Sink {}
impl<T: StreamStore + Sink> Stream for T {}

/// A consumer's inbox as workers and people use it.
pub(crate) trait Inbox: InboxStore + DeadLetters + Positions {}
impl<T: InboxStore + DeadLetters + Positions> Inbox for T {}

/// An inbox, and what applies events to the declared table beside it.
pub(crate) type Consumer = (Arc<dyn Inbox>, Arc<dyn Applier>);

/// What a store holds, by name.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) outboxes: Vec<Settings>,
    pub(crate) streams: Vec<String>,
    pub(crate) consumers: Vec<String>,
}

/// An open store. What a kind of store cannot hold is refused when the configuration is read.
pub(crate) trait Place: Send + Sync {
    /// Where it is, for people: a path, or host, port and database. Equal for two names of one place.
    fn describe(&self) -> String;

    /// What `migrate` brings it to; `None`: it has no schema.
    fn schema(&self) -> Option<i64>;

    /// Why only a new start can use what is there now.
    fn replaced(&self) -> Option<Error> {
        None
    }

    /// One answer.
    fn ping(&self) -> BoxFuture<'_, Result<()>>;

    /// Everything it holds.
    fn catalog(&self) -> BoxFuture<'_, Result<Catalog>>;

    /// Its leases.
    fn leases(&self) -> Arc<dyn LeaseStore>;

    /// Opens an outbox, or makes it.
    fn outbox(&self, name: &str, lanes: u16, archive: bool) -> BoxFuture<'_, Result<Arc<dyn OutboxStore>>> {
        let error = cannot_hold("an outbox", name);
        let _ = (lanes, archive);
        Box::pin(async move { Err(error) })
    }

    /// Opens a stream, or makes it.
    fn stream(&self, name: &str) -> BoxFuture<'_, Result<Arc<dyn Stream>>> {
        let error = cannot_hold("a stream", name);
        Box::pin(async move { Err(error) })
    }

    /// Opens an inbox, to look and decide.
    fn inbox(&self, name: &str) -> BoxFuture<'_, Result<Arc<dyn Inbox>>> {
        let error = cannot_hold("a consumer", name);
        Box::pin(async move { Err(error) })
    }

    /// Opens an inbox, or makes it, with a declared table.
    fn consumer(&self, name: &str, rules: Options, table: &Table) -> BoxFuture<'_, Result<Consumer>> {
        let error = cannot_hold("a consumer", name);
        let _ = (rules, table);
        Box::pin(async move { Err(error) })
    }
}

fn cannot_hold(what: &str, name: &str) -> Error {
    Error::new(
        Code::ConfigInvalid,
        format!("{name}: this kind of store cannot hold {what}"),
    )
}

/// The mapping of a declared table. The key column receives the event's key and the version column its version,
/// whatever `columns` says of them.
pub(super) fn projection(table: &Table) -> tidegate::inbox::projection::Projection {
    use tidegate::inbox::projection::{Column, Projection};
    let own = |column: &str| {
        let version = table.version.as_deref();
        column.eq_ignore_ascii_case(&table.key) || version.is_some_and(|v| column.eq_ignore_ascii_case(v))
    };
    let columns = table.columns.iter().filter(|(column, _)| !own(column));
    Projection {
        table: table.name.clone(),
        key: table.key.clone(),
        columns: columns
            .map(|(column, field)| Column::new(column, field))
            .collect(),
        version: table.version.clone(),
    }
}

/// Says which table: the database's error does not.
pub(super) fn table_error(consumer: &str, place: &str, error: Error) -> Error {
    let context = format!(
        "consumer.{consumer}.table cannot be written in {place}; Tidegate fills the table and does not create or change it"
    );
    match error.code() {
        Code::OptionsInvalid => Error::new(Code::ConfigInvalid, context).with_source(error),
        _ => error,
    }
}

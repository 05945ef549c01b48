//! Writing rows: in a transaction of our own, or in the user's.

use rusqlite::Connection;
use tidegate_core::lane::slot_of;
use tidegate_core::{Code, Draft, Error, Event, Result, Uuid};

use super::{Here, SqliteOutbox};
use crate::sqlite::columns::{EVENT_WIDTH, Param, headers_text, int, push_event};
use crate::sqlite::values::Values;
use crate::sqlite::{Clock, Sql};

#[cfg(feature = "sqlx-sqlite")]
mod with_sqlx;

static INSERT: Values = Values::insert(
    "enqueue",
    "insert into tidegate_outbox (outbox, lane, event_id, topic, key, version, content_type, headers, payload, \
     occurred_at) select * from (values ",
    2 + EVENT_WIDTH,
);

/// One statement for up to 1,024 events.
pub(super) fn insert(sql: &Sql<'_>, here: Here, events: &[Event]) -> Result<()> {
    with_params(here, events, |params| INSERT.run(sql, params).map(|_| ()))
}

fn with_params<T>(here: Here, events: &[Event], work: impl FnOnce(&[Param<'_>]) -> Result<T>) -> Result<T> {
    let headers = events.iter().map(headers_text).collect::<Result<Vec<_>>>()?;
    let mut params = Vec::with_capacity(events.len() * (2 + EVENT_WIDTH));
    for (event, headers) in events.iter().zip(&headers) {
        let slot = slot_of(event.key.as_deref(), event.id, here.lanes);
        params.extend([int(here.id), int(slot.into())]);
        push_event(&mut params, Some(event), headers.as_deref());
    }
    work(&params)
}

/// Checks limits; gives ids (version 7, so that they sort by time) and the time.
fn seal(clock: &dyn Clock, drafts: impl IntoIterator<Item = Draft>) -> Result<Vec<Event>> {
    let now = clock.now();
    drafts
        .into_iter()
        .map(|draft| draft.seal(Uuid::now_v7(), now))
        .collect()
}

fn ids(events: &[Event]) -> Vec<Uuid> {
    events.iter().map(|event| event.id).collect()
}

fn not_open() -> Error {
    Error::new(
        Code::OptionsInvalid,
        "enqueue: no transaction is open on this connection; begin one, and commit it with your change",
    )
}

fn not_here() -> Error {
    Error::new(
        Code::OptionsInvalid,
        "enqueue: the transaction is on another database than the outbox",
    )
}

impl SqliteOutbox {
    /// Enqueues inside the user's own transaction on this database file: the events exist if it commits.
    ///
    /// Returns the ids. Two statements for up to 1,024 events. Readers in other processes notice the commit within
    /// milliseconds; those in this process at once after [`super::super::Database::ring`].
    ///
    /// # Errors
    /// [`Code::EventInvalid`]; [`Code::OptionsInvalid`] when no transaction is open (the rows would stand alone, whatever
    /// becomes of the user's change) or when it is on another database.
    pub fn enqueue_in(
        &self,
        transaction: &Connection,
        drafts: impl IntoIterator<Item = Draft>,
    ) -> Result<Vec<Uuid>> {
        if transaction.is_autocommit() {
            return Err(not_open());
        }
        let events = seal(self.db.clock().as_ref(), drafts)?;
        let sql = Sql::on(transaction);
        let params = (self.here.id, self.here.lineage.0.as_bytes());
        let here = sql.first("enqueue", include_str!("is_here.sql"), params, |_| Ok(()));
        match here {
            Ok(Some(())) => insert(&sql, self.here, &events)?,
            Ok(None) => return Err(not_here()),
            Err(error) if error.code() == Code::Internal => return Err(not_here()),
            Err(error) => return Err(error),
        }
        Ok(ids(&events))
    }
}

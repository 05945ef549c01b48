//! Writing rows: in a transaction of our own, or in the user's.

use tidegate_core::lane::slot_of;
use tidegate_core::{Code, Draft, Error, Event, Result, Timestamp, Uuid};
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::{Here, PostgresOutbox, small};
use crate::postgres::columns::headers_text;
use crate::postgres::db::{Database, Typed};
use crate::postgres::error;

#[cfg(feature = "sqlx-postgres")]
mod with_sqlx;

const AT: &str = "enqueue";
const INSERT: &str = include_str!("enqueue.sql");

/// Events by column.
#[derive(Default)]
struct Columns<'e> {
    lanes: Vec<i16>,
    ids: Vec<Uuid>,
    topics: Vec<&'e str>,
    keys: Vec<Option<&'e str>>,
    versions: Vec<Option<i64>>,
    content_types: Vec<&'e str>,
    headers: Vec<Option<String>>,
    payloads: Vec<&'e [u8]>,
    times: Vec<i64>,
}

impl<'e> Columns<'e> {
    fn of(here: Here, events: &'e [Event]) -> Result<Self> {
        let mut columns = Self::default();
        for event in events {
            let slot = slot_of(event.key.as_deref(), event.id, here.lanes);
            columns.lanes.push(small(slot));
            columns.ids.push(event.id);
            columns.topics.push(&event.topic);
            columns.keys.push(event.key.as_deref());
            columns.versions.push(event.version);
            columns.content_types.push(&event.content_type);
            columns.headers.push(headers_text(event)?);
            columns.payloads.push(&event.payload);
            columns.times.push(event.occurred_at.as_micros());
        }
        Ok(columns)
    }

    fn params<'p>(&'p self, outbox: &'p i64) -> [Typed<'p>; 10] {
        [
            (outbox, Type::INT8),
            (&self.lanes, Type::INT2_ARRAY),
            (&self.ids, Type::UUID_ARRAY),
            (&self.topics, Type::TEXT_ARRAY),
            (&self.keys, Type::TEXT_ARRAY),
            (&self.versions, Type::INT8_ARRAY),
            (&self.content_types, Type::TEXT_ARRAY),
            (&self.headers, Type::TEXT_ARRAY),
            (&self.payloads, Type::BYTEA_ARRAY),
            (&self.times, Type::INT8_ARRAY),
        ]
    }
}

/// One statement, which is its own transaction.
pub(super) async fn alone(db: &Database, here: Here, events: &[Event]) -> Result<()> {
    events.iter().try_for_each(Event::validate)?;
    if events.is_empty() {
        return Ok(());
    }
    let columns = Columns::of(here, events)?;
    db.query(AT, INSERT, &columns.params(&here.id)).await?;
    db.ring();
    Ok(())
}

fn ids(events: &[Event]) -> Vec<Uuid> {
    events.iter().map(|event| event.id).collect()
}

fn not_here() -> Error {
    Error::new(
        Code::OptionsInvalid,
        "enqueue: the transaction is on another database than the outbox",
    )
}

impl PostgresOutbox {
    /// Checks limits; gives ids (version 7, so that they sort by time) and the time.
    fn seal(&self, drafts: impl IntoIterator<Item = Draft>) -> Result<Vec<Event>> {
        let now = self.db.now().unwrap_or_else(|| {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            since.map_or(0, tidegate_core::time::micros)
        });
        drafts
            .into_iter()
            .map(|draft| draft.seal(Uuid::now_v7(), Timestamp::from_micros(now)))
            .collect()
    }

    /// Enqueues inside the user's own transaction: the events exist if it commits. `transaction` is a transaction of
    /// tokio-postgres or of deadpool; on a plain client each call stands alone.
    ///
    /// Returns the ids. Two round trips for any number of events. Relays in this process notice the commit at once after
    /// [`Database::ring`], others within 50 ms.
    ///
    /// # Errors
    /// [`Code::EventInvalid`]; [`Code::OptionsInvalid`] when the transaction is on another database. After an error the
    /// transaction can only be rolled back.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the events in the transaction: roll it back.
    pub async fn enqueue_in(
        &self,
        transaction: &impl GenericClient,
        drafts: impl IntoIterator<Item = Draft> + Send,
    ) -> Result<Vec<Uuid>> {
        let events = self.seal(drafts)?;
        let there = self.db.text(include_str!("is_here.sql"));
        let lineage = self.here.lineage.0.to_string();
        let params: &[Typed<'_>] = &[(&self.here.id, Type::INT8), (&lineage, Type::TEXT)];
        match transaction.query_typed(&there, params).await {
            Ok(rows) if rows.is_empty() => return Err(not_here()),
            Ok(_) => {}
            Err(e) => {
                let error = error::map(AT)(e);
                return Err(if error.code() == Code::NotADatabase {
                    not_here()
                } else {
                    error
                });
            }
        }
        let columns = Columns::of(self.here, &events)?;
        let insert = self.db.text(INSERT);
        transaction
            .query_typed(&insert, &columns.params(&self.here.id))
            .await
            .map_err(error::map(AT))?;
        Ok(ids(&events))
    }
}

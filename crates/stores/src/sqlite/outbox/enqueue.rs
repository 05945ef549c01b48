//! Writing rows: in a transaction of our own, or in the user's.

use rusqlite::Connection;
use tidegate_core::lane::slot_of;
use tidegate_core::{Code, Draft, Error, Event, Result, Uuid};

use super::{Here, SqliteOutbox};
use crate::sqlite::columns::{EVENT_WIDTH, Param, headers_text, int, push_event};
use crate::sqlite::values::Values;
use crate::sqlite::{Clock, Sql};

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
            return Err(Error::new(
                Code::OptionsInvalid,
                "enqueue: no transaction is open on this connection; begin one, and commit it with your change",
            ));
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

#[cfg(feature = "sqlx-sqlite")]
mod with_sqlx {
    use rusqlite::types::{ToSqlOutput, Value, ValueRef};
    use sqlx::query::Query;
    use sqlx::sqlite::{Sqlite, SqliteArguments};
    use sqlx::{AssertSqlSafe, Transaction};

    use super::{
        Code, Draft, Error, INSERT, Param, Result, SqliteOutbox, Uuid, ids, not_here, seal, with_params,
    };

    impl SqliteOutbox {
        /// As [`SqliteOutbox::enqueue_in`], inside a transaction of sqlx.
        ///
        /// # Errors
        /// As there.
        ///
        /// # Cancel safety
        /// Dropping the future may leave some of the events in the transaction: roll it back.
        pub async fn enqueue_sqlx(
            &self,
            transaction: &mut Transaction<'_, Sqlite>,
            drafts: impl IntoIterator<Item = Draft>,
        ) -> Result<Vec<Uuid>> {
            let events = seal(self.db.clock().as_ref(), drafts)?;
            let here = sqlx::query(include_str!("is_here.sql"))
                .bind(self.here.id)
                .bind(self.here.lineage.0.as_bytes().to_vec())
                .fetch_optional(&mut **transaction)
                .await
                .map_err(|e| failed(&e))?;
            if here.is_none() {
                return Err(not_here());
            }
            let statements = with_params(self.here, &events, |params| {
                let chunks = INSERT.chunks(params);
                Ok(chunks
                    .map(|(text, chunk, nulls)| (text.to_owned(), owned(chunk, nulls)))
                    .collect::<Vec<_>>())
            })?;
            for (text, values) in statements {
                let query = values.into_iter().fold(sqlx::query(AssertSqlSafe(text)), bind);
                query.execute(&mut **transaction).await.map_err(|e| failed(&e))?;
            }
            Ok(ids(&events))
        }
    }

    fn owned(params: &[Param<'_>], nulls: usize) -> Vec<Value> {
        let value = |param: &Param<'_>| match param {
            ToSqlOutput::Borrowed(ValueRef::Text(text)) => {
                Value::Text(String::from_utf8_lossy(text).into_owned())
            }
            ToSqlOutput::Borrowed(ValueRef::Blob(blob)) => Value::Blob(blob.to_vec()),
            ToSqlOutput::Owned(value) => value.clone(),
            _ => Value::Null,
        };
        params
            .iter()
            .map(value)
            .chain(std::iter::repeat_n(Value::Null, nulls))
            .collect()
    }

    fn bind(query: Query<'_, Sqlite, SqliteArguments>, value: Value) -> Query<'_, Sqlite, SqliteArguments> {
        match value {
            Value::Null => query.bind(None::<i64>),
            Value::Integer(value) => query.bind(value),
            Value::Real(value) => query.bind(value),
            Value::Text(value) => query.bind(value),
            Value::Blob(value) => query.bind(value),
        }
    }

    /// sqlx's error can quote the database's message: only its code is kept.
    fn failed(error: &sqlx::Error) -> Error {
        let code = error
            .as_database_error()
            .and_then(|e| e.code().map(std::borrow::Cow::into_owned));
        let context = match code {
            Some(code) => format!("enqueue: SQLite code {code}"),
            None => "enqueue: sqlx could not run the statement".to_owned(),
        };
        Error::new(Code::StoreUnavailable, context)
    }
}

//! The same inside a transaction of sqlx.

use rusqlite::ffi;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments};
use sqlx::{AssertSqlSafe, Transaction};
use tidegate_core::{Code, Draft, Error, Result, Uuid};

use super::{INSERT, SqliteOutbox, ids, not_here, not_open, seal, with_params};
use crate::sqlite::columns::Param;
use crate::sqlite::error;

const AT: &str = "enqueue";

impl SqliteOutbox {
    /// As [`SqliteOutbox::enqueue_in`], inside a transaction of sqlx. One statement more.
    ///
    /// # Errors
    /// As there. [`Code::StoreBusy`]: another connection writes; roll back, begin again.
    ///
    /// # Cancel safety
    /// Dropping the future may leave some of the events in the transaction: roll it back.
    pub async fn enqueue_sqlx(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        drafts: impl IntoIterator<Item = Draft>,
    ) -> Result<Vec<Uuid>> {
        must_be_open(transaction).await?;
        let events = seal(self.db.clock().as_ref(), drafts)?;
        self.must_be_here(transaction).await?;
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

    async fn must_be_here(&self, transaction: &mut Transaction<'_, Sqlite>) -> Result<()> {
        let found = sqlx::query(include_str!("../is_here.sql"))
            .bind(self.here.id)
            .bind(self.here.lineage.0.as_bytes().to_vec())
            .fetch_optional(&mut **transaction)
            .await
            .map_err(|e| failed(&e));
        match found {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(not_here()),
            Err(error) if error.code() == Code::Internal => Err(not_here()),
            Err(error) => Err(error),
        }
    }
}

/// SQLite ends a transaction by itself after some failures, and sqlx does not notice: rows written then would stand
/// alone. A transaction that is open refuses a second `begin`.
async fn must_be_open(transaction: &mut Transaction<'_, Sqlite>) -> Result<()> {
    let begun = sqlx::query("begin").execute(&mut **transaction).await;
    match begun {
        Ok(_) => {
            let ended = sqlx::query("rollback").execute(&mut **transaction).await;
            ended.map_err(|e| failed(&e))?;
            Err(not_open())
        }
        Err(error) if extended_code(&error) == Some(ffi::SQLITE_ERROR) => Ok(()),
        Err(error) => Err(failed(&error)),
    }
}

fn owned(params: &[Param<'_>], nulls: usize) -> Vec<Value> {
    let value = |param: &Param<'_>| match param {
        ToSqlOutput::Borrowed(ValueRef::Text(text)) => {
            Value::Text(String::from_utf8_lossy(text).into_owned())
        }
        ToSqlOutput::Borrowed(ValueRef::Blob(blob)) => Value::Blob(blob.to_vec()),
        ToSqlOutput::Borrowed(ValueRef::Integer(value)) => Value::Integer(*value),
        ToSqlOutput::Borrowed(ValueRef::Real(value)) => Value::Real(*value),
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

fn extended_code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// sqlx's error can quote the database's message: only its code is kept.
fn failed(error: &sqlx::Error) -> Error {
    match extended_code(error) {
        Some(code) => error::of_extended(AT, code),
        None => Error::new(
            Code::StoreUnavailable,
            format!("{AT}: sqlx could not run the statement"),
        ),
    }
}

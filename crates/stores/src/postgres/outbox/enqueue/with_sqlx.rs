//! The same inside a transaction of sqlx.

use sqlx::{AssertSqlSafe, PgConnection};
use tidegate_core::{Code, Draft, Error, Result, Uuid};

use super::{AT, Columns, INSERT, PostgresOutbox, ids, not_here};

impl PostgresOutbox {
    /// As [`PostgresOutbox::enqueue_in`], inside a transaction of sqlx: `enqueue_sqlx(&mut transaction, drafts)`.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the events in the transaction: roll it back.
    pub async fn enqueue_sqlx(
        &self,
        transaction: &mut PgConnection,
        drafts: impl IntoIterator<Item = Draft>,
    ) -> Result<Vec<Uuid>> {
        let events = self.seal(drafts)?;
        let there = self.db.text(include_str!("../is_here.sql")).into_owned();
        let found = sqlx::query(AssertSqlSafe(there))
            .bind(self.here.id)
            .bind(self.here.lineage.0.to_string())
            .fetch_optional(&mut *transaction)
            .await;
        match found {
            Ok(Some(_)) => {}
            Ok(None) => return Err(not_here()),
            Err(error) => return Err(failed(&error)),
        }
        let columns = Columns::of(self.here, &events)?;
        let insert = self.db.text(INSERT).into_owned();
        sqlx::query(AssertSqlSafe(insert))
            .bind(self.here.id)
            .bind(&columns.lanes)
            .bind(columns.ids.iter().map(Uuid::to_string).collect::<Vec<_>>())
            .bind(&columns.topics)
            .bind(&columns.keys)
            .bind(&columns.versions)
            .bind(&columns.content_types)
            .bind(&columns.headers)
            .bind(&columns.payloads)
            .bind(&columns.times)
            .execute(&mut *transaction)
            .await
            .map_err(|error| failed(&error))?;
        Ok(ids(&events))
    }
}

/// sqlx's error can quote the database's message: only its code is kept.
fn failed(error: &sqlx::Error) -> Error {
    let code = match error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
    {
        Some(state) if state == "42P01" || state == "3F000" => return not_here(),
        Some(state) => crate::postgres::error::code_of_state(&state),
        None => Code::StoreUnavailable,
    };
    Error::new(code, format!("{AT}: sqlx could not run the statement"))
}

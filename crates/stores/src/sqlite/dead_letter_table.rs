//! A dead-letter sink that copies to a table of the user's, for reports and alerts.

use rusqlite::params;
use tidegate_core::Result;
use tidegate_core::dead_letter::Detail;
use tidegate_core::store::{BoxFuture, DeadLetterSink};

use super::checkpoint::check_table;
use super::{Database, Sql};

/// One row per dead letter, redacted; telling a letter again replaces its row. Redrives read the original, never this
/// copy.
#[derive(Debug, Clone)]
pub struct TableSink {
    database: Database,
    table: String,
}

impl TableSink {
    /// Makes the table where it is missing: `id, state, key, class, fingerprint, message, attempts, waiting, event_id,
    /// topic, headers, payload, failed_at`.
    ///
    /// # Errors
    /// [`tidegate_core::Code::OptionsInvalid`] unless the name is letters, digits and `_`, at most 63.
    pub async fn open(database: Database, table: &str) -> Result<Self> {
        check_table(table)?;
        let text = format!(
            "create table if not exists \"{table}\" (
               id text not null primary key, state text not null, key text not null, class text not null,
               fingerprint text not null, message text not null, attempts integer not null, waiting integer not null,
               event_id text not null, topic text not null, headers text not null, payload text not null,
               failed_at integer not null
             ) strict"
        );
        database
            .write(move |sql| sql.execute("creating a table", &text, []))
            .await?;
        Ok(Self {
            database,
            table: table.into(),
        })
    }
}

impl DeadLetterSink for TableSink {
    fn accept<'a>(&'a self, detail: &'a Detail) -> BoxFuture<'a, Result<()>> {
        let (table, detail) = (self.table.clone(), detail.clone());
        self.database.write(move |sql| insert(sql, &table, &detail))
    }
}

fn insert(sql: &Sql<'_>, table: &str, detail: &Detail) -> Result<()> {
    let letter = &detail.letter;
    let text = format!(
        "insert or replace into \"{table}\" (id, state, key, class, fingerprint, message, attempts, waiting, event_id, \
         topic, headers, payload, failed_at) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
    );
    sql.execute(
        "copying a dead letter",
        &text,
        params![
            letter.id.to_string(),
            letter.state.as_str(),
            letter.key.as_str(),
            letter.class,
            letter.fingerprint,
            letter.message.as_str(),
            letter.attempts,
            letter.waiting.cast_signed(),
            letter.event_id.to_string(),
            letter.topic,
            detail.headers.as_str(),
            detail.payload.as_str(),
            letter.failed_at.as_micros(),
        ],
    )?;
    Ok(())
}

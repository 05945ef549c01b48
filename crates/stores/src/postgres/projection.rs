//! A declared projection as a handler: one upsert and one delete for each run of events with different keys.
//!
//! Rows travel as one JSON list; the server gives each value its column's type. A value that does not fit is the
//! event's: the search for it runs smaller and smaller batches.

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};
use tidegate_core::inbox::handler::{Handler, LocalBoxFuture, Mode};
use tidegate_core::inbox::projection::{Cell, Numbers, Projection, Run};
use tidegate_core::inbox::{Delivered, Verdict};
use tidegate_core::{Code, Error, Result};
use tokio_postgres::types::Type;

use super::Database;
use super::inbox::{HandlerError, PostgresTx};
use super::typed::{string, text};

/// Writes events to a table as [`Projection`] declares.
#[derive(Debug, Clone)]
pub struct PostgresProjection {
    projection: Projection,
    upsert: String,
    delete: String,
}

impl PostgresProjection {
    /// Prepares the statements, and checks them against the database: that table and columns exist, that the key is
    /// unique, that they may be written.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] listing every invalid name, or naming the table; the database's.
    pub async fn open(db: &Database, projection: Projection) -> Result<Self> {
        projection.validate()?;
        let this = Self {
            upsert: upsert(&projection),
            delete: delete(&projection),
            projection,
        };
        let tx = db.begin().await?;
        for text in [&this.upsert, &this.delete] {
            // Planned with no rows: nothing is written.
            let tried = tx.execute_typed(text, &[(&"[]", Type::TEXT)]).await;
            tried.map_err(|error| this.refused(&error))?;
        }
        let sql = include_str!("projection/is_own.sql");
        let (table, schema) = (quoted_table(&this.projection.table), db.schema());
        let params = [string(&table), text(&schema)];
        let rows = tx.query("looking at the table", sql, &params).await?;
        tx.roll_back();
        if !rows.is_empty() {
            return Err(Error::new(
                Code::OptionsInvalid,
                format!("projection into {table}: tables of Tidegate cannot be written"),
            ));
        }
        Ok(this)
    }

    fn refused(&self, error: &tokio_postgres::Error) -> Error {
        let table = &self.projection.table;
        match error.as_db_error() {
            // Before a row was looked at: the text names tables and columns only.
            Some(db) => Error::new(
                Code::OptionsInvalid,
                format!("projection into {table:?}: {}", db.message()),
            ),
            None => Error::new(Code::StoreUnavailable, format!("projection into {table:?}")),
        }
    }

    async fn apply_all(&self, tx: &PostgresTx, events: &[Delivered]) -> Verdict {
        let rows = match self.projection.rows(events, Numbers::Any) {
            Ok(rows) => rows,
            Err((index, failure)) => {
                return Verdict::Failed {
                    index: Some(index),
                    failure,
                };
            }
        };
        for run in rows.runs(false) {
            if let Err(error) = self.write(tx, run).await {
                return error.verdict(None);
            }
        }
        Verdict::Applied
    }

    async fn write(&self, tx: &PostgresTx, run: Run) -> Result<(), HandlerError> {
        if !run.upserts.is_empty() {
            let rows = self.objects(run.upserts)?;
            tx.execute_typed(&self.upsert, &[(&rows, Type::TEXT)]).await?;
        }
        if !run.deletes.is_empty() {
            let keys = serde_json::to_string(&run.deletes)?;
            tx.execute_typed(&self.delete, &[(&keys, Type::TEXT)]).await?;
        }
        Ok(())
    }

    fn objects(&self, rows: Vec<Vec<Cell>>) -> serde_json::Result<String> {
        let cell = |(name, cell): (&str, Cell)| Ok((name.to_owned(), json(cell)?));
        let object = |row: Vec<Cell>| self.projection.names().zip(row).map(cell).collect();
        let objects = rows
            .into_iter()
            .map(object)
            .collect::<serde_json::Result<Vec<BTreeMap<String, Box<RawValue>>>>>()?;
        serde_json::to_string(&objects)
    }
}

impl Handler<PostgresTx> for PostgresProjection {
    fn mode(&self) -> Mode {
        Mode::Batch
    }

    fn apply<'a>(&'a self, tx: &'a mut PostgresTx, events: &'a [Delivered]) -> LocalBoxFuture<'a, Verdict> {
        Box::pin(self.apply_all(tx, events))
    }
}

/// Numbers keep their digits, objects and lists are what they are.
fn json(cell: Cell) -> serde_json::Result<Box<RawValue>> {
    match cell {
        Cell::Null => to_raw_value(&()),
        Cell::Bool(yes) => to_raw_value(&yes),
        Cell::Integer(whole) => to_raw_value(&whole),
        Cell::Text(text) => to_raw_value(&text),
        Cell::Number(raw) | Cell::Json(raw) => RawValue::from_string(raw),
    }
}

fn upsert(projection: &Projection) -> String {
    let table = quoted_table(&projection.table);
    let names: Vec<String> = projection.names().map(quoted).collect();
    let sets: Vec<String> = names[1..]
        .iter()
        .map(|name| format!("{name} = excluded.{name}"))
        .collect();
    let newer = projection.version.as_deref().map_or_else(String::new, |version| {
        let version = quoted(version);
        format!(" where target.{version} is null or target.{version} < excluded.{version}")
    });
    let action = if sets.is_empty() {
        "nothing".to_owned()
    } else {
        format!("update set {}{newer}", sets.join(", "))
    };
    let (list, key) = (names.join(", "), &names[0]);
    format!(
        "insert into {table} as target ({list}) \
         select {list} from json_populate_recordset(null::{table}, $1::text::json) on conflict ({key}) do {action}"
    )
}

fn delete(projection: &Projection) -> String {
    let (table, key) = (quoted_table(&projection.table), quoted(&projection.key));
    let older = projection.version.as_deref().map_or_else(String::new, |version| {
        let version = quoted(version);
        format!(" and (target.{version} is null or target.{version} <= (gone.value ->> 1)::numeric)")
    });
    format!(
        "delete from {table} as target using json_array_elements($1::text::json) as gone(value) \
         where target.{key} = (select r.{key} from json_populate_record(null::{table}, json_build_object('{name}', gone.value -> 0)) r){older}",
        name = projection.key
    )
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

fn quoted_table(table: &str) -> String {
    table.split('.').map(quoted).collect::<Vec<_>>().join(".")
}

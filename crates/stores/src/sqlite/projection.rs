//! A declared projection as a handler: one upsert and one delete for each run of events with different keys.
//!
//! Values fold where the table refuses by type alone: no CHECK, no trigger, no foreign key, no unique index but the key's, no
//! generated column, no indexed expression.
//! Which it is is asked of the schema in the apply transaction, and only when a key repeats in the batch.

use std::sync::Arc;

use rusqlite::{Connection, params_from_iter};
use tidegate_core::inbox::handler::{Handler, LocalBoxFuture, Mode};
use tidegate_core::inbox::projection::{Cell, Numbers, Projection, Run};
use tidegate_core::inbox::{Delivered, Verdict};
use tidegate_core::{Code, Error, Result};

use super::columns::{NULL, Param, int, text};
use super::inbox::{HandlerError, SqliteTx};
use super::values::{Values, padded};

/// Writes events to a table as [`Projection`] declares.
#[derive(Debug, Clone)]
pub struct SqliteProjection {
    projection: Projection,
    upsert: Arc<Values>,
    delete: String,
}

impl SqliteProjection {
    /// Prepares the statements.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] listing every invalid name.
    pub fn new(projection: Projection) -> Result<Self> {
        projection.validate()?;
        Ok(Self {
            upsert: Arc::new(upsert(&projection)),
            delete: delete(&projection),
            projection,
        })
    }

    /// Checks the statements against the tables: that they exist, and that the key is unique.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] with SQLite's words, which name tables and columns.
    pub fn check(&self, connection: &Connection) -> Result<()> {
        for text in [self.upsert.text(0), &self.delete] {
            connection.prepare(text).map_err(|e| {
                let table = &self.projection.table;
                Error::new(Code::OptionsInvalid, format!("projection into {table:?}: {e}"))
            })?;
        }
        Ok(())
    }

    fn write(&self, tx: &Connection, run: &Run) -> Result<(), HandlerError> {
        if !run.upserts.is_empty() {
            self.upsert(tx, &run.upserts)?;
        }
        if !run.deletes.is_empty() {
            let keys = serde_json::to_string(&run.deletes)?;
            tx.prepare_cached(&self.delete)?.execute([keys])?;
        }
        Ok(())
    }

    fn upsert(&self, tx: &Connection, rows: &[Vec<Cell>]) -> Result<(), HandlerError> {
        let params = rows.iter().flatten().map(param).collect::<Result<Vec<_>, _>>()?;
        for (text, chunk, missing) in self.upsert.chunks(&params) {
            tx.prepare_cached(text)?
                .execute(params_from_iter(padded(chunk, missing)))?;
        }
        Ok(())
    }

    fn apply_all(&self, tx: &Connection, events: &[Delivered]) -> Verdict {
        let rows = match self.projection.rows(events, Numbers::Bits64) {
            Ok(rows) => rows,
            Err((index, failure)) => {
                return Verdict::Failed {
                    index: Some(index),
                    failure,
                };
            }
        };
        let write = || {
            let fold = rows.repeat_a_key() && self.folds(tx)?;
            rows.runs(fold).iter().try_for_each(|run| self.write(tx, run))
        };
        write().map_or_else(|error: HandlerError| error.verdict(None), |()| Verdict::Applied)
    }

    fn folds(&self, tx: &Connection) -> Result<bool, HandlerError> {
        let name = &self.projection.table;
        let table = match name.split_once('.') {
            None => name,
            Some(("main", table)) => table,
            // What an attached database refuses is not asked for.
            Some(_) => return Ok(false),
        };
        let params = [table, &self.projection.key];
        let mut ask = tx.prepare_cached(include_str!("projection/refuses_by_type_alone.sql"))?;
        Ok(ask.query_row(params, |row| row.get(0))?)
    }
}

impl Handler<SqliteTx<'_>> for SqliteProjection {
    fn mode(&self) -> Mode {
        Mode::Batch
    }

    fn apply<'a>(&'a self, tx: &'a mut SqliteTx<'_>, events: &'a [Delivered]) -> LocalBoxFuture<'a, Verdict> {
        Box::pin(std::future::ready(self.apply_all(tx, events)))
    }
}

/// A boolean is an integer, an object or a list its text.
fn param(cell: &Cell) -> serde_json::Result<Param<'_>> {
    Ok(match cell {
        Cell::Null => NULL,
        Cell::Bool(yes) => int((*yes).into()),
        Cell::Integer(whole) => int(*whole),
        Cell::Number(real) => serde_json::from_str::<f64>(real)?.into(),
        Cell::Text(words) | Cell::Json(words) => text(words),
    })
}

fn upsert(projection: &Projection) -> Values {
    let table = quoted_table(&projection.table);
    let names: Vec<String> = projection.names().map(quoted).collect();
    let sets: Vec<String> = names[1..]
        .iter()
        .map(|name| format!("{name} = excluded.{name}"))
        .collect();
    let action = if sets.is_empty() {
        "nothing".to_owned()
    } else {
        format!("update set {}", sets.join(", "))
    };
    let newer = projection.version.as_deref().map_or_else(String::new, |version| {
        let version = quoted(version);
        format!(" where target.{version} is null or target.{version} < excluded.{version}")
    });
    let head = format!(
        "insert into {table} as target ({}) select * from (values ",
        names.join(", ")
    );
    let tail = format!(
        ") v where v.column1 is not null on conflict ({}) do {action}{newer}",
        names[0]
    );
    Values::of("projection", head.into(), names.len(), tail.into())
}

/// The inner join finds the rows by their index; a correlated condition would read the whole table.
fn delete(projection: &Projection) -> String {
    let (table, key) = (quoted_table(&projection.table), quoted(&projection.key));
    let older = projection.version.as_deref().map_or_else(String::new, |version| {
        let version = quoted(version);
        format!(" where target.{version} is null or target.{version} <= gone.value ->> 1")
    });
    format!(
        "delete from {table} where {key} in (select target.{key} from json_each(?1) as gone \
         join {table} as target on target.{key} = gone.value ->> 0{older})"
    )
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

fn quoted_table(table: &str) -> String {
    table.split('.').map(quoted).collect::<Vec<_>>().join(".")
}

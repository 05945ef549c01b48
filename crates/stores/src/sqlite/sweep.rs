//! Checkpoints of sweeps, in the database that holds their effects.
//!
//! A job does its step and saves its checkpoint in one transaction:
//!
//! ```no_run
//! # use tidegate_core::{Result, sweep::{Mark, Step}};
//! # use tidegate_stores::sqlite::{Database, sweep};
//! # async fn step(db: Database, mark: Mark) -> Result<Step> {
//! db.write(move |tx| {
//!     let done = tx.execute("sweeping", "delete from visits where id <= ?1", [1000])?;
//!     sweep::save_checkpoint(tx.connection(), &mark, b"1000")?;
//!     Ok(Step::last(done as u64))
//! })
//! .await
//! # }
//! ```

use rusqlite::{Connection, Row};
use tidegate_core::store::{BoxFuture, LeaseStore, SweepStore};
use tidegate_core::sweep::{Mark, Place};
use tidegate_core::{Code, Error, Result};

use super::lease::{Leases, register, unsigned};
use super::{Database, Sql};

/// The checkpoints of one database file.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    db: Database,
    fences: Leases,
}

impl Checkpoints {
    /// Over an open file.
    pub fn new(db: Database) -> Self {
        Self {
            fences: Leases::new(db.clone()),
            db,
        }
    }
}

impl SweepStore for Checkpoints {
    fn fences(&self) -> &dyn LeaseStore {
        &self.fences
    }

    fn place(&self, name: String) -> BoxFuture<'_, Result<Place>> {
        self.db.read(move |sql| read(sql, &name))
    }
}

/// Where the job called `name` stands, as this transaction sees it.
///
/// # Errors
/// The store's.
pub fn checkpoint(tx: &Connection, name: &str) -> Result<Place> {
    read(&Sql::on(tx), name)
}

/// Saves a job's checkpoint in the caller's transaction, together with the step's effect. Returns the new version, for
/// a step that saves more than once.
///
/// The transaction must be an immediate one. Fence and version are compared here, so that a checkpoint never goes back:
/// neither after a hand-over nor when a step that was cut commits late.
///
/// # Errors
/// [`Code::LeaseLost`] when another term or a later step saves now: the caller must roll back. [`Code::OptionsInvalid`]
/// for more than 4 KiB, and the store's own.
pub fn save_checkpoint(tx: &Connection, mark: &Mark, bytes: &[u8]) -> Result<u64> {
    if tx.is_autocommit() {
        return Err(Error::new(
            Code::Internal,
            "a checkpoint is saved in a transaction, with what it stands for",
        ));
    }
    let sql = Sql::on(tx);
    let version = read(&sql, &mark.name)?.version;
    mark.admits(register(&sql, &mark.scope)?, version, bytes)?;
    let text = include_str!("sweep/save.sql");
    sql.one("saving a checkpoint", text, (&mark.name, bytes), |row| {
        unsigned(row, 0)
    })
}

fn read(sql: &Sql<'_>, name: &str) -> Result<Place> {
    let text = include_str!("sweep/read.sql");
    let place = sql.first("reading a checkpoint", text, [name], place)?;
    Ok(place.unwrap_or_default())
}

fn place(row: &Row<'_>) -> rusqlite::Result<Place> {
    Ok(Place {
        version: unsigned(row, 0)?,
        bytes: Some(row.get(1)?),
    })
}

#[cfg(test)]
mod tests;

//! Counted, cached statements.

use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, Params, Row, Statement, StatementStatus};
use tidegate_core::{Error, Result};

use super::error;

/// What was executed, for tests that gate work per event.
#[derive(Debug, Default)]
pub(super) struct Stats {
    pub(super) statements: AtomicU64,
    pub(super) commits: AtomicU64,
    /// Operations of SQLite's virtual machine.
    pub(super) steps: AtomicU64,
}

impl Stats {
    pub(super) fn count(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs statements on a connection, inside whatever transaction is open on it. `at` names the step in errors.
#[derive(Debug, Clone, Copy)]
pub struct Sql<'c> {
    connection: &'c Connection,
    stats: Option<&'c Stats>,
}

impl<'c> Sql<'c> {
    pub(super) fn new(connection: &'c Connection, stats: &'c Stats) -> Self {
        Self {
            connection,
            stats: Some(stats),
        }
    }

    /// On a connection of the user's own; counts nothing.
    pub fn on(connection: &'c Connection) -> Self {
        Self {
            connection,
            stats: None,
        }
    }

    /// The connection itself; what is run on it is not counted.
    pub fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Runs a statement and returns the rows it changed.
    pub fn execute(&self, at: &'static str, sql: &str, params: impl Params) -> Result<usize> {
        self.count();
        let run = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let changed = statement.execute(params)?;
            self.count_steps(&statement);
            Ok(changed)
        };
        run().map_err(error::map(at))
    }

    /// Runs a statement and hands each row to `row`.
    pub fn each(
        &self,
        at: &'static str,
        sql: &str,
        params: impl Params,
        mut row: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<()> {
        self.each_while(at, sql, params, |r| row(r).map(|()| true))
    }

    /// Hands each row to `row` until it says to stop.
    pub fn each_while(
        &self,
        at: &'static str,
        sql: &str,
        params: impl Params,
        mut row: impl FnMut(&Row<'_>) -> rusqlite::Result<bool>,
    ) -> Result<()> {
        self.count();
        let run = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            while let Some(next) = rows.next()? {
                if !row(next)? {
                    break;
                }
            }
            drop(rows);
            self.count_steps(&statement);
            Ok(())
        };
        run().map_err(error::map(at))
    }

    /// Runs a statement and collects what `row` makes of each row.
    pub fn query<T>(
        &self,
        at: &'static str,
        sql: &str,
        params: impl Params,
        mut row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        self.each(at, sql, params, |r| {
            all.push(row(r)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// The first row, if there is one.
    pub fn first<T>(
        &self,
        at: &'static str,
        sql: &str,
        params: impl Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.query(at, sql, params, row)?.into_iter().next())
    }

    /// The only row of a statement that always has one.
    pub fn one<T>(
        &self,
        at: &'static str,
        sql: &str,
        params: impl Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.first(at, sql, params, row)?
            .ok_or_else(|| Error::new(tidegate_core::Code::Internal, format!("{at}: no row")))
    }

    fn count(&self) {
        if let Some(stats) = self.stats {
            stats.count();
        }
    }

    fn count_steps(&self, statement: &Statement<'_>) {
        if let Some(stats) = self.stats {
            let steps = statement.reset_status(StatementStatus::VmStep);
            stats
                .steps
                .fetch_add(steps.unsigned_abs().into(), Ordering::Relaxed);
        }
    }
}

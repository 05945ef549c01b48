//! The tables, one file per noun, and how a database gets them.

use std::fmt::Write as _;

use rusqlite::{Connection, TransactionBehavior};
use tidegate_core::{Result, Timestamp};

use super::error;
pub use crate::migration::Migration;
use crate::migration::admit;

/// The schema this build knows.
pub const VERSION: i64 = 1;

/// `TGat`: marks files that Tidegate created itself. A user's own file keeps its mark.
const APPLICATION_ID: i64 = 0x5447_6174;

const BOOKS: &str = include_str!("schema/schema.sql");

/// Every step, in order. A released step never changes.
pub const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    parts: &[
        include_str!("schema/outbox.sql"),
        include_str!("schema/stream.sql"),
        include_str!("schema/inbox.sql"),
        include_str!("schema/lease.sql"),
        include_str!("schema/checkpoint.sql"),
        include_str!("schema/dedupe.sql"),
        include_str!("schema/sweep.sql"),
    ],
}];

/// Everything `migrate` would run on an empty database, its own record of the version included: a file made with it is
/// one that `migrate` made.
pub fn sql() -> String {
    let mut text = format!("begin immediate;\n{BOOKS}");
    for migration in MIGRATIONS {
        for part in migration.parts {
            text.push('\n');
            text.push_str(part);
        }
        let (version, checksum) = (migration.version, migration.checksum());
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\ninsert into tidegate_schema (version, checksum, applied_at)\n  \
             values ({version}, '{checksum}', cast(strftime('%s', 'now') as integer) * 1000000);\n"
        );
    }
    text.push_str("\ncommit;\n");
    text
}

/// What a database file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// No tables of ours.
    Nothing,
    /// An older version of them.
    Older(i64),
    /// Ours.
    Current,
}

/// Looks, and refuses what this build must not touch.
pub(super) fn inspect(connection: &Connection) -> Result<Found> {
    let at = error::map("reading the schema version");
    let known: bool = connection
        .query_row(
            "select exists (select 1 from sqlite_schema where type = 'table' and name = 'tidegate_schema')",
            [],
            |row| row.get(0),
        )
        .map_err(&at)?;
    if !known {
        return Ok(Found::Nothing);
    }
    let applied = connection
        .prepare("select version, checksum from tidegate_schema order by version")
        .and_then(|mut rows| {
            rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<Vec<(i64, String)>>>()
        })
        .map_err(&at)?;
    applied
        .iter()
        .try_for_each(|(version, sum)| admit(MIGRATIONS, *version, sum))?;
    Ok(match applied.last() {
        None => Found::Nothing,
        Some((version, _)) if *version < VERSION => Found::Older(*version),
        Some(_) => Found::Current,
    })
}

/// Brings the database to [`VERSION`]. One transaction; any number of processes may try at once.
pub(super) fn migrate(connection: &mut Connection, now: Timestamp) -> Result<()> {
    let at = error::map("migrating");
    let tx = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(&at)?;
    let from = match inspect(&tx)? {
        Found::Current => return Ok(()),
        Found::Older(version) => version,
        Found::Nothing => 0,
    };
    let empty: bool = tx
        .query_row("select not exists (select 1 from sqlite_schema)", [], |row| {
            row.get(0)
        })
        .map_err(&at)?;
    if empty {
        tx.pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(&at)?;
    }
    tx.execute_batch(BOOKS).map_err(&at)?;
    for migration in MIGRATIONS.iter().filter(|m| m.version > from) {
        apply(&tx, migration, now)?;
    }
    tx.commit().map_err(|e| error::Failure::of_commit(&e).error())
}

fn apply(connection: &Connection, migration: &Migration, now: Timestamp) -> Result<()> {
    let at = error::map("migrating");
    for part in migration.parts {
        connection.execute_batch(part).map_err(&at)?;
    }
    connection
        .execute(
            "insert into tidegate_schema (version, checksum, applied_at) values (?1, ?2, ?3)",
            (migration.version, migration.checksum(), now.as_micros()),
        )
        .map_err(&at)?;
    Ok(())
}

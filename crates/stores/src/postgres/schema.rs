//! The tables, one file per noun, and how a database gets them.

use tidegate_core::{Code, Error, Result};
use tokio_postgres::types::Type;

use super::columns::get;
use super::db::{Database, Tx};
pub use crate::migration::Migration;
use crate::migration::admit;

/// The schema this build knows.
pub const VERSION: i64 = 1;

const BOOKS: &str = include_str!("schema/schema.sql");
const AT: &str = "migrating";

/// Every step, in order. A released step never changes.
pub const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    parts: &[
        include_str!("schema/outbox.sql"),
        include_str!("schema/inbox.sql"),
        include_str!("schema/lease.sql"),
        include_str!("schema/sweep.sql"),
    ],
}];

const ROLES: &str = include_str!("schema/roles.sql");

/// Makes the roles `tidegate_producer`, `tidegate_relay` and `tidegate_auditor`, which have no login, and gives each what
/// it needs in this schema. To be run by the owner of the tables; may be run again.
pub fn roles_sql(schema: &str) -> String {
    ROLES
        .replace("tidegate.", &format!("{schema}."))
        .replace("schema tidegate ", &format!("schema {schema} "))
}

/// The statement that notes a step.
fn record(step: &Migration) -> String {
    format!(
        "insert into tidegate.schema (version, checksum, applied_at)\n  \
         values ({}, '{}', (extract(epoch from clock_timestamp()) * 1000000)::bigint);\n",
        step.version,
        step.checksum()
    )
}

/// Everything `migrate` would run on an empty database, its own record of the version included.
pub fn sql() -> String {
    let mut text = format!("begin;\n{BOOKS}");
    for migration in MIGRATIONS {
        for part in migration.parts {
            text.push('\n');
            text.push_str(part);
        }
        text.push('\n');
        text.push_str(&record(migration));
    }
    text.push_str("\ncommit;\n");
    text
}

/// The version that is there; `None`: no tables of ours. Refuses what this build must not touch.
pub(super) async fn inspect(tx: &Tx) -> Result<Option<i64>> {
    let table = tx.text("tidegate.schema");
    let known = "select to_regclass($1) is not null";
    let known = tx.query(AT, known, &[(&&*table, Type::TEXT)]).await?;
    if !known.first().map_or(Ok(false), |row| get(row, 0))? {
        return Ok(None);
    }
    let applied = "select version, checksum from tidegate.schema order by version";
    let mut last = None;
    for row in tx.query(AT, applied, &[]).await? {
        let version = get(&row, 0)?;
        admit(MIGRATIONS, version, get(&row, 1)?)?;
        last = Some(version);
    }
    Ok(last)
}

/// Refuses a database that was not migrated to [`VERSION`].
pub(super) async fn require(db: &Database) -> Result<()> {
    let tx = db.begin().await?;
    let found = inspect(&tx).await?;
    tx.roll_back();
    match found {
        Some(VERSION) => Ok(()),
        Some(older) => Err(Error::new(
            Code::NotADatabase,
            format!("the database has schema {older}; this build needs {VERSION}: run tidegate migrate"),
        )),
        None => Err(Error::new(
            Code::NotADatabase,
            format!(
                "the database has no Tidegate tables in schema {}: run tidegate migrate",
                db.schema()
            ),
        )),
    }
}

/// Brings the database to [`VERSION`]. One transaction; any number of processes may try at once, one does it.
pub(super) async fn migrate(db: &Database) -> Result<()> {
    let tx = db.begin().await?;
    if inspect(&tx).await? == Some(VERSION) {
        tx.roll_back();
        return Ok(());
    }
    // An own number: the lock is this database's, whatever the schema is called.
    let lock = "select pg_advisory_xact_lock(x'74696465'::int, hashtext($1))";
    tx.query(AT, lock, &[(&db.schema(), Type::TEXT)]).await?;
    let from = inspect(&tx).await?.unwrap_or(0);
    let mut text = String::from(BOOKS);
    for migration in MIGRATIONS.iter().filter(|m| m.version > from) {
        for part in migration.parts {
            text.push_str(part);
            text.push('\n');
        }
        text.push_str(&record(migration));
    }
    let text = tx.text(&text).into_owned();
    tx.batch(AT, &text).await?;
    tx.commit(AT).await
}

//! SQLite: outbox, stream, inbox, leases and checkpoints in ordinary database files, with no server to start.
//!
//! # What to know
//! A file may be the user's own: Tidegate's tables carry the prefix `tidegate_` and nothing else is touched. One
//! thread per [`Database`] writes; small writes that wait together share one commit. Readers do not block it (WAL).
//! Commits are durable when they return (`synchronous = FULL`).
//!
//! # Which clock
//! Ownership expires by the boot-time clock of this machine, with the boot's id beside it: another boot's leases have
//! expired. Wall time is stored for people and as the floor of tokens.

mod bell;
mod catalog;
mod clock;
mod db;
mod error;
mod schema;
mod sql;
#[cfg(test)]
mod tests;
mod writer;

pub use catalog::Catalog;
pub use clock::{Clock, SystemClock};
pub use db::{Database, OpenOptions};
pub use error::map as map_error;
pub use rusqlite;
pub use schema::{MIGRATIONS, Migration, VERSION as SCHEMA_VERSION, sql as schema_sql};
pub use sql::Sql;
pub use writer::Writer;

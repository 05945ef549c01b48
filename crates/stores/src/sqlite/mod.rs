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
pub mod checkpoint;
mod clock;
mod closing;
mod columns;
mod db;
pub mod dead_letter_table;
pub mod dedupe;
mod error;
mod identity;
pub mod inbox;
pub mod lease;
pub mod outbox;
pub mod projection;
mod schema;
mod sql;
pub mod stream;
pub mod sweep;
#[cfg(test)]
mod tests;
mod values;
mod writer;

pub use catalog::Catalog;
pub use clock::{Clock, SystemClock};
pub use db::{Database, OpenOptions, wait_until_closed};
pub use error::map as map_error;
pub use inbox::{HandlerError, InboxOptions, SqliteInbox, batch, each};
pub use outbox::{SqliteOutbox, Wanted};
pub use rusqlite;
pub use schema::{MIGRATIONS, Migration, VERSION as SCHEMA_VERSION, sql as schema_sql};
pub use sql::Sql;
pub use stream::SqliteStream;
pub use writer::Writer;

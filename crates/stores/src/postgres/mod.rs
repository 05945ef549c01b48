//! Postgres: outbox, inbox, leases and checkpoints in a schema of the service's own database.
//!
//! # What to know
//! Everything lives in one schema, `tidegate` unless [`OpenOptions::schema`] says otherwise; nothing else is touched.
//! Statements name it in full, so `search_path` does not matter. Every transaction is READ COMMITTED: safety rests on
//! row locks and compare-and-set updates. No statement needs a session: a transaction pooler may stand in between.
//!
//! # Which clock
//! The server's (`clock_timestamp()`), unless [`OpenOptions::clock`] gives another.

mod bell;
mod catalog;
mod columns;
mod db;
mod error;
pub mod inbox;
pub mod lease;
pub mod outbox;
pub mod projection;
mod schema;
pub mod sweep;
mod tls;
mod typed;

pub use catalog::Catalog;
pub use db::{Clock, Database, OpenOptions, Tx, Typed};
pub use error::{Driver, map as map_error};
pub use inbox::{HandlerError, InboxOptions, PostgresInbox, batch, each};
pub use outbox::PostgresOutbox;
pub use schema::{MIGRATIONS, Migration, VERSION as SCHEMA_VERSION, roles_sql, sql as schema_sql};
pub use tokio_postgres;

//! Redis: streams and leases.
//!
//! # What to know
//! Every key carries the prefix and, in braces, what belongs together, so that it stays on one node of a cluster. Nothing
//! scans the keyspace. Scripts compare and write in one step; the server's clock tells the time.
//!
//! Redis may lose what it acknowledged (a flush, a failover, a restart). Nothing of Tidegate's safety rests on that it does
//! not: the outbox's database numbers events, and a stream that lost its end is refilled.

mod bell;
mod db;
mod error;
pub mod lease;
mod script;
pub mod stream;

pub use db::{Clock, Database, OpenOptions};
pub use error::{Driver, map as map_error};
pub use redis;
pub use stream::RedisStream;

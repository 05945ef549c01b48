//! Private servers for tests: real ones, on ports of their own, in temporary folders, gone with the test.
//!
//! A server that is not installed fails the test and says which package has it: nothing is skipped.

mod postgres;
mod redis;
mod server;

pub use postgres::Postgres;
pub use redis::Redis;

//! A service's Postgres, a Redis, another Postgres that follows, and two daemons: the whole, through faults.

// Helpers are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bank;
mod faults;
mod world;

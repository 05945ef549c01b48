//! The places where Tidegate keeps things: the only crate that knows vendor clients, one feature each.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod handler_error;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod listener;
pub mod loud;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod migration;
pub mod options;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod turn;

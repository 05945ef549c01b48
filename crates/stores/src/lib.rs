//! The places where Tidegate keeps things: the only crate that knows vendor clients, one feature each.

pub mod loud;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;

//! The places where Tidegate keeps things: the only crate that knows vendor clients, one feature each.

#[cfg(feature = "sqlite")]
pub mod sqlite;

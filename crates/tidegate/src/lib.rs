//! Events out of a service's database and into others: nothing lost, doubled or reordered.
//!
//! This crate is what a service adds to its `Cargo.toml`: workers that drive the rules of [`tidegate_core`] over the
//! places of [`tidegate_stores`] on tokio. It re-exports both.

pub mod clock;
pub mod consumer;
pub mod crash;
pub mod drain;
pub mod lease;
mod metric;
pub mod publish;
pub mod relay;
mod stuck;
pub mod sweep;
pub mod worker;

pub use consumer::Consumer;
pub use drain::Drain;
pub use relay::Relay;
pub use sweep::Sweeper;
pub use tidegate_core::{Code, Draft, Effect, Error, Event, Kind, Result, Retry, Timestamp, Uuid};
pub use tidegate_core::{dead_letter, inbox, lane, lease as leases, limits, outbox, store, stream};
pub use tidegate_stores as stores;
pub use worker::{Drained, State, Status, Worker};

/// The README's Rust block, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// The page of dead letters: its Rust blocks, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/concepts/dead-letter.md")]
pub struct DeadLetterPage;

/// The page of the outbox: its Rust blocks, compiled and run.
#[cfg(all(doctest, feature = "sqlx-sqlite"))]
#[doc = include_str!("../../../docs/concepts/outbox.md")]
pub struct OutboxPage;

//! The rules of Tidegate: pure state machines, store contracts, and the memory store.
//!
//! Nothing here reads a clock, draws a random number, does I/O or knows a runtime. Every worker is a machine with
//! `step(&mut self, now, input) -> effects` and a `wake_at`; a driver performs the effects and feeds the replies back.
//! What the simulator drives is what ships (ADR-0004).

pub mod dead_letter;
pub mod error;
pub mod event;
pub mod inbox;
pub mod lane;
pub mod lease;
pub mod limits;
pub mod memory;
pub mod outbox;
pub mod store;
pub mod stream;
pub mod sweep;
pub mod time;

pub use error::{Code, Effect, Error, Kind, Reply, Result, Retry};
pub use event::{Draft, Event};
pub use time::{Ticks, Timestamp};
pub use uuid::Uuid;

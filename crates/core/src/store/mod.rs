//! Store contracts: one small trait per noun, the same in every backend.
//!
//! Methods return boxed futures so that workers hold stores as trait objects; a box per round trip costs nothing
//! beside the round trip. Errors say whether the call took effect; see [`crate::error::Effect`].

pub mod dead_letter;
pub mod inbox;
pub mod lease;
pub mod outbox;
pub mod stream;
pub mod sweep;

use std::future::Future;
use std::pin::Pin;

pub use dead_letter::{DeadLetterSink, DeadLetters};
pub use inbox::{Applier, InboxStore, Positions};
pub use lease::LeaseStore;
pub use outbox::OutboxStore;
pub use stream::{Sink, StreamStore};
pub use sweep::SweepStore;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Tells a waiting worker that something may have changed.
pub trait Doorbell: Send + Sync {
    /// Resolves at the next change by this or another process, at most a few milliseconds late; may also resolve for
    /// nothing. Dropping the future loses no ring that comes after the next call: workers poll once more before they
    /// wait. A bell is a hint: correctness never rests on it.
    fn rung(&self) -> BoxFuture<'_, ()>;
}

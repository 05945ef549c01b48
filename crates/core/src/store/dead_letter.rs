//! Dead letters as people see and decide about them. Values of [`DeadLetters`] are bound to one consumer.

use crate::dead_letter::{
    Audit, Books, Decided, Detail, Filter, Id, Letter, ParkedKeys, Told, Untold, Which,
};
use crate::error::Result;
use crate::store::BoxFuture;
use crate::time::Timestamp;

/// Each call is one transaction; a decision and its audit commit together.
///
/// Decisions take the lane's row lock and so wait for an apply transaction that is under way, and it for them. Every
/// one is idempotent.
///
/// # Errors
/// [`crate::Code::NotFound`]: nothing waits there. [`crate::Code::OptionsInvalid`]: the reason is missing, or the
/// decision does not fit the state; the text says which one would.
pub trait DeadLetters: Send + Sync {
    /// Heads of parked keys, and skipped events; oldest first.
    fn ls(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Letter>>>;

    /// One waiting or skipped event, redacted.
    fn show(&self, id: Id) -> BoxFuture<'_, Result<Option<Detail>>>;

    /// Makes keys due at once with all their attempts, head first as ever; the lane's owner tries them. Returns how
    /// many keys this changed: a repeat before the owner came changes none.
    fn redrive(&self, which: Which, reason: String, now: Timestamp) -> BoxFuture<'_, Result<u64>>;

    /// Gives one event up: it is deleted and its position audited. The events behind it are then tried; with none the
    /// key is un-parked.
    fn discard(&self, id: Id, reason: String, now: Timestamp) -> BoxFuture<'_, Result<Decided>>;

    /// Has a skipped event applied after all, out of order: newer events of its key have been applied. Until it is,
    /// events of the key queue behind it.
    fn release(&self, id: Id, reason: String, now: Timestamp) -> BoxFuture<'_, Result<Decided>>;

    /// What people decided, newest first.
    fn audit(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Audit>>>;

    /// Every lane's books, from one snapshot.
    fn books(&self) -> BoxFuture<'_, Result<Vec<Books>>>;

    /// How many keys are parked now, from one snapshot.
    fn parked_keys(&self) -> BoxFuture<'_, Result<ParkedKeys>>;

    /// Dead and skipped events that no sink has taken yet, oldest first.
    fn untold(&self, which: Untold) -> BoxFuture<'_, Result<Vec<Detail>>>;

    /// A sink has taken these. One that was redriven meanwhile and died again is another letter and stays untold.
    fn told(&self, letters: Vec<Told>) -> BoxFuture<'_, Result<()>>;
}

/// Where a user wants to hear of dead letters. It receives redacted copies only, at least once each.
///
/// # Errors
/// Any error leaves the dead letter where it is, in the database: it is offered again after a pause, never dropped.
pub trait DeadLetterSink: Send + Sync {
    /// Takes one.
    fn accept<'a>(&'a self, letter: &'a Detail) -> BoxFuture<'a, Result<()>>;
}

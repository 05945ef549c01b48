//! Where a consumer keeps what it has applied. Values of these traits are bound to one consumer.

use crate::error::Result;
use crate::inbox::{Applied, Batch, Position, Retried, Retry, Rewind};
use crate::lane::{Held, Hold, LaneId};
use crate::lease::{Nonce, Token};
use crate::store::{BoxFuture, Doorbell};
use crate::stream::{EntryId, Lost};
use crate::time::Timestamp;

/// Ownership and positions, outside the apply transaction.
pub trait InboxStore: Doorbell {
    /// Creates positions for lanes that have none; never changes one that exists.
    fn register(&self, lanes: Vec<(LaneId, Position)>) -> BoxFuture<'_, Result<()>>;

    /// Ownership of lanes: see [`Hold`]. A granted lane's `clean` mark is cleared in the same step, and the reply
    /// holds the mark as it was; a release sets it.
    fn hold(&self, hold: Hold) -> BoxFuture<'_, Result<Held<Position>>>;

    /// Moves the cursors of idle owned lanes forward, fenced by member and token. Returns how many moved.
    fn move_cursors(
        &self,
        member: Nonce,
        cursors: Vec<(LaneId, Token, EntryId)>,
    ) -> BoxFuture<'_, Result<u64>>;

    /// Every lane's position, for people.
    fn positions(&self) -> BoxFuture<'_, Result<Vec<(LaneId, Position)>>>;
}

/// The apply transaction with the user's handler inside: the generic protocol of [`crate::inbox`] over one database.
///
/// # Errors
/// Failures of infrastructure come back in the reply, with what was committed before them; an error of the call means
/// that nothing was done.
///
/// # Cancel safety
/// Dropping the future does not stop the transaction; treat the batch as unknown and give it again.
pub trait Applier: Send + Sync {
    /// Takes in a batch.
    fn apply(&self, batch: Batch) -> BoxFuture<'_, Result<Applied>>;

    /// Tries parked keys that are due, head first.
    fn retry(&self, retry: Retry) -> BoxFuture<'_, Result<Retried>>;
}

/// What people do about a consumer's positions. Each call is one transaction, audited with its reason where it has one.
pub trait Positions: Send + Sync {
    /// Moves a lane's position back, so that the events after it are applied again. Returns how many that are; zero
    /// when the lane stands there already.
    ///
    /// The position, the removal of what waits beyond it (parked and skipped events come again), a new token that
    /// refuses the present owner, and the audit commit together.
    ///
    /// # Errors
    /// [`crate::Code::NotFound`] for a lane without a position; [`crate::Code::OptionsInvalid`] without a reason, or for
    /// a number above the position.
    fn rewind(&self, rewind: Rewind, reason: String, now: Timestamp) -> BoxFuture<'_, Result<u64>>;

    /// Moves a lane's position to the end of a range that the stream has declared lost. Returns how many numbers that
    /// gives up: zero when the lane has no position right before the range or in it, so that nothing else is passed
    /// over. The books count them as discarded. A new token refuses the present owner.
    ///
    /// # Errors
    /// [`crate::Code::OptionsInvalid`] without a reason.
    fn skip_lost(&self, lost: Lost, reason: String, now: Timestamp) -> BoxFuture<'_, Result<u64>>;

    /// Nothing of this consumer runs.
    ///
    /// # Errors
    /// [`crate::Code::OptionsInvalid`] while a member is alive or holds lanes.
    fn must_be_idle(&self) -> BoxFuture<'_, Result<()>>;

    /// Forgets the consumer's positions: it begins anew, where its start says. Effects and audit stay. Returns how many
    /// lanes that were.
    ///
    /// # Errors
    /// [`crate::Code::OptionsInvalid`] while a member is alive or holds lanes, or while dead letters wait: they would be
    /// lost.
    fn forget_positions(&self) -> BoxFuture<'_, Result<u64>>;
}

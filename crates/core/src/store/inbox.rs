//! Where a consumer keeps what it has applied. Values of these traits are bound to one consumer.

use crate::error::Result;
use crate::inbox::{Applied, Batch, Position, Retried, Retry};
use crate::lane::{Held, Hold, LaneId};
use crate::lease::{Nonce, Token};
use crate::store::{BoxFuture, Doorbell};
use crate::stream::EntryId;

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

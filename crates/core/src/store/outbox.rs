//! Where events wait to be published. A value of this trait is bound to one outbox.

use crate::error::Result;
use crate::event::Event;
use crate::lane::{Held, Hold, LaneId};
use crate::lease::{Nonce, Token};
use crate::outbox::{LaneRow, LaneState, Park, ParkReply, ParkedKey, Refill, Settings, Turn, Turned};
use crate::store::{BoxFuture, Doorbell};

/// Each call is one transaction.
///
/// # Errors
/// [`crate::Effect::NotApplied`]: try again after a pause. [`crate::Effect::Unknown`]: drop what you believe of the
/// lanes named in the call and load them again; every step compares, so a repeat is safe.
pub trait OutboxStore: Doorbell {
    /// The stored settings.
    fn settings(&self) -> BoxFuture<'_, Result<Settings>>;

    /// Writes events in a transaction of its own; for producers without one to share. Returns when durable.
    fn enqueue(&self, events: Vec<Event>) -> BoxFuture<'_, Result<()>>;

    /// Ownership of lanes: see [`Hold`].
    fn hold(&self, hold: Hold) -> BoxFuture<'_, Result<Held<LaneState>>>;

    /// Settle, plan and poll: see [`Turn`]. A plan is durable when this returns.
    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Vec<Turned>>>;

    /// Settled events of a lane from number `from` on, at most `limit`, for refilling a stream.
    fn refill(
        &self,
        member: Nonce,
        lane: LaneId,
        token: Token,
        from: u64,
        limit: u32,
    ) -> BoxFuture<'_, Result<Refill>>;

    /// Sets a poisoned event and its key aside: see [`Park`].
    fn park(&self, park: Park) -> BoxFuture<'_, Result<ParkReply>>;

    /// Puts a parked key's rows back in `seq` order, before anything of the key that was enqueued since. Returns how
    /// many rows; zero when the key is not parked.
    fn release(&self, key: String) -> BoxFuture<'_, Result<u64>>;

    /// Every lane, for people.
    fn lanes(&self) -> BoxFuture<'_, Result<Vec<LaneRow>>>;

    /// Parked keys, at most `limit`.
    fn parked(&self, limit: u32) -> BoxFuture<'_, Result<Vec<ParkedKey>>>;

    /// Deletes archived events settled before `before` (microseconds on the store's clock), at most `limit` rows.
    fn sweep_archive(&self, before: crate::Timestamp, limit: u32) -> BoxFuture<'_, Result<u64>>;
}

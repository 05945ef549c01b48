//! Where resumable sweeps keep their place: the database that holds their effects.

use crate::error::Result;
use crate::store::{BoxFuture, LeaseStore};
use crate::sweep::Place;

/// Reads checkpoints; a job saves them in its own transaction, by a function of the store.
pub trait SweepStore: Send + Sync {
    /// The fence registers of the same database.
    fn fences(&self) -> &dyn LeaseStore;

    /// Where the job stands. One read.
    fn place(&self, name: String) -> BoxFuture<'_, Result<Place>>;
}

//! Where leases are kept.

use crate::error::Result;
use crate::lease::{Acquire, Acquired, Nonce, Raised, Record, Released, Renewed, Scope, Term, Token};
use crate::store::{BoxFuture, Doorbell};

/// Each call is one atomic step on the store's clock, and one round trip.
///
/// # Errors
/// [`crate::Effect::Unknown`] when the reply was lost: repeat with the same nonce, or let trust run out.
///
/// # Cancel safety
/// Dropping a future leaves either state; treat it as an unknown effect.
pub trait LeaseStore: Doorbell {
    /// Takes a vacant or expired lease, or confirms the one this nonce holds: the same token (raised to the minimum
    /// asked for), and a whole ttl from the store's now. A record's own ttl decides expiry.
    fn acquire(&self, ask: Acquire) -> BoxFuture<'_, Result<Acquired>>;

    /// Extends each term by its recorded ttl, if it is held and not expired. Replies in the same order.
    fn renew(&self, terms: Vec<Term>) -> BoxFuture<'_, Result<Vec<Renewed>>>;

    /// Makes the record vacant if it is held under this token and nonce; the token stays. Rings the doorbell.
    fn release(&self, term: Term) -> BoxFuture<'_, Result<Released>>;

    /// Raises the token of a held lease above `above`. When the reply is lost the holder no longer knows its token:
    /// the next renewal is lost, and the lease is acquired again.
    fn raise(&self, term: Term, above: Token) -> BoxFuture<'_, Result<Raised>>;

    /// Makes a record vacant whoever holds it (an operator's step): the holder's next renewal is lost. Returns the
    /// record as it was; `None` when nobody held it. Rings the doorbell.
    fn break_lease(&self, scope: Scope) -> BoxFuture<'_, Result<Option<Record>>>;

    /// Every record, in order of scope.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Record>>>;

    /// Opens the fence register `scope` of this database for a term: see [`crate::lease::Opened`].
    fn open_fence(
        &self,
        scope: Scope,
        token: Token,
        nonce: Nonce,
    ) -> BoxFuture<'_, Result<crate::lease::Opened>>;
}

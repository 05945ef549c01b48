//! Lanes: the fixed hash slots of an outbox, the unit of order, ownership and parallelism (ADR-0001).
//!
//! # What identifies a lane
//! The outbox's lineage (a UUID made when the outbox was created) and a slot number. A key's slot is a prefix of
//! SHA-256 of the tagged key, modulo the number of lanes; an event without a key hashes its id under another tag.
//!
//! # Who owns a lane
//! At most one member believes it does, by a lease with token and nonce kept in the lane's own row: see
//! [`ownership`]. Safety never rests on that belief: every write carries token and nonce and is compared where it
//! lands.

pub mod ownership;
pub mod share;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::lease::{Nonce, Token};

/// The identity of an outbox: made once, kept in its database, carried by every entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lineage(pub Uuid);

/// The full name of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId {
    /// The outbox it belongs to.
    pub lineage: Lineage,
    /// The slot, from zero.
    pub slot: u16,
}

impl fmt::Display for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.lineage.0.as_simple(), self.slot)
    }
}

/// The slot of an event: the first eight bytes, big-endian, of `SHA-256("k:" key)` or `SHA-256("e:" id)`, modulo
/// `lanes`. `docs/adr/0001` holds test vectors for other languages.
pub fn slot_of(key: Option<&str>, id: Uuid, lanes: u16) -> u16 {
    let mut hash = Sha256::new();
    match key {
        Some(key) => {
            hash.update(b"k:");
            hash.update(key.as_bytes());
        }
        None => {
            hash.update(b"e:");
            hash.update(id.as_bytes());
        }
    }
    let digest = hash.finalize();
    let prefix = digest
        .iter()
        .take(8)
        .fold(0u64, |acc, byte| (acc << 8) | u64::from(*byte));
    // The remainder is below `lanes`, which is a u16.
    u16::try_from(prefix % u64::from(lanes.max(1))).unwrap_or(0)
}

/// One round trip of ownership: heartbeat, release what was drained, renew what is mine, claim up to a fair share.
///
/// Fair share is `ceil(lanes / live members)`. A member is live until its heartbeat is older than its own recorded
/// `ttl`. A lane may be claimed when vacant or when its recorded lease has run out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hold {
    /// Who asks: one nonce per process start, never a host name.
    pub member: Nonce,
    /// For people only: shown by `outbox lanes`.
    pub label: String,
    /// How long the grant lasts, on the store's clock.
    pub ttl: Duration,
    /// Lanes given up, each with the token it was held under; a wrong token releases nothing.
    pub release: Vec<(LaneId, Token)>,
    /// True: remove the heartbeat and claim nothing (a worker that drains).
    pub leave: bool,
}

/// Everything the member owns after a [`Hold`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Held<S> {
    /// Live members, this one included unless it left.
    pub members: u32,
    /// Lanes there are in all.
    pub lanes: u32,
    /// Every lane now held by this member, in order of lane.
    pub owned: Vec<Owned<S>>,
}

/// One owned lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owned<S> {
    /// Which.
    pub lane: LaneId,
    /// The token of this tenure; strictly greater than any before it for this lane.
    pub token: Token,
    /// What the store keeps for the lane, read in the same transaction.
    pub state: S,
}

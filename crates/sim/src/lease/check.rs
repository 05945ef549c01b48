//! The promises, each checked by somebody who sees everything and shares no code with those who must keep them.

use std::collections::HashSet;

use tidegate_core::lease::{Nonce, Token};

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its id.
    pub id: &'static str,
    /// What was seen.
    pub what: String,
    /// When, in microseconds of the world's time.
    pub at: i64,
}

/// What the observer knows of the store and the sink.
#[derive(Debug, Default)]
pub(super) struct Observer {
    pub(super) violation: Option<Violation>,
    now: i64,
    /// The lease as it should be recorded: who, under which token, until when and for how long, on the store's clock.
    lease: Option<Recorded>,
    /// The last term of this life of the store.
    last: Option<(Token, Nonce)>,
    /// Lease and last term as they were before the store was flushed.
    before_flush: (Option<Recorded>, Option<(Token, Nonce)>),
    /// The term whose write was accepted last, and all before it.
    writer: Option<(Token, Nonce)>,
    former: HashSet<(Token, Nonce)>,
    /// Belief may overlap before this: the store forgot something, or a person broke the lease.
    excused_until: i64,
}

#[derive(Debug, Clone, Copy)]
struct Recorded {
    token: Token,
    nonce: Nonce,
    until: i64,
    ttl: i64,
}

impl Observer {
    pub(super) fn at(&mut self, now: i64) {
        self.now = now;
    }

    pub(super) fn must(&mut self, holds: bool, id: &'static str, what: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(Violation {
                id,
                what: what(),
                at: self.now,
            });
        }
    }

    /// L1: at most one believes.
    pub(super) fn believers(&mut self, who: &[usize]) {
        if self.now >= self.excused_until {
            self.must(who.len() <= 1, "L1", || format!("nodes {who:?} believe"));
        }
    }

    /// Belief rests on a store that lost nothing; what it rests on next begins with the next ttl.
    pub(super) fn excuse(&mut self, until: i64) {
        self.excused_until = self.excused_until.max(until);
    }

    /// The store forgot everything: another life of it begins.
    pub(super) fn flushed(&mut self) {
        self.before_flush = (self.lease.take(), self.last.take());
    }

    /// The store is what it was before the flush.
    pub(super) fn restored(&mut self) {
        let before = (self.lease, self.last);
        (self.lease, self.last) = std::mem::replace(&mut self.before_flush, before);
    }

    /// L2 and L8.
    pub(super) fn granted(&mut self, clock: i64, token: Token, nonce: Nonce, ttl: i64) {
        let live = self.lease.filter(|lease| clock < lease.until);
        self.must(live.is_none_or(|lease| lease.nonce == nonce), "L8", || {
            format!("granted to {nonce:?} while {live:?} had time left")
        });
        let again = live.is_some_and(|lease| (lease.token, lease.nonce) == (token, nonce));
        self.new_token(token, nonce, again);
        self.lease = Some(Recorded {
            token,
            nonce,
            until: clock + ttl,
            ttl,
        });
    }

    fn new_token(&mut self, token: Token, nonce: Nonce, again: bool) {
        let last = self.last.replace((token, nonce));
        self.must(again || last.is_none_or(|(last, _)| token > last), "L2", || {
            format!("token {token} after {last:?}")
        });
    }

    pub(super) fn raised(&mut self, token: Token, nonce: Nonce) {
        self.new_token(token, nonce, false);
        if let Some(lease) = &mut self.lease {
            lease.token = token;
        }
    }

    /// L7: what holds was held.
    pub(super) fn renewed(&mut self, clock: i64, token: Token, nonce: Nonce) {
        let lease = self.lease;
        let held = |lease: Recorded| (lease.token, lease.nonce) == (token, nonce) && clock < lease.until;
        self.must(lease.is_some_and(held), "L7", || {
            format!("renewed {token} of {nonce:?} at {clock}, but the lease is {lease:?}")
        });
        if let Some(lease) = &mut self.lease {
            lease.until = clock + lease.ttl;
        }
    }

    pub(super) fn vacant(&mut self) {
        self.lease = None;
    }

    /// L3: nobody writes after somebody later has.
    pub(super) fn wrote(&mut self, token: Token, nonce: Nonce) {
        let term = (token, nonce);
        let late = self.former.contains(&term);
        let writer = self.writer;
        self.must(!late, "L3", || format!("{term:?} wrote after {writer:?} had"));
        if let Some(before) = self.writer.replace(term).filter(|before| *before != term) {
            self.former.insert(before);
        }
    }
}

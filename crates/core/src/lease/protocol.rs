//! The machine's states, inputs and effects.

use std::time::Duration;

use super::{Nonce, Term, Token};
use crate::time::Ticks;

/// Numbers the requests of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Attempt(pub u64);

/// Where the machine is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum State {
    /// Somebody else leads, or nobody does.
    Follower {
        /// Asks then, or at a bell.
        next_try: Ticks,
        /// A bell makes it ask no sooner than this.
        not_before: Ticks,
    },
    /// An acquire is on its way.
    Asking {
        /// Its number.
        attempt: Attempt,
        /// When it was sent: trust counts from here.
        sent: Ticks,
        /// A bell rang meanwhile, so a busy reply is old news.
        rung: bool,
    },
    /// The work runs.
    Leading(Tenure),
    /// The work was told to stop and has not stopped yet.
    Draining {
        /// Of which tenure; still renewed and trusted when the reason is [`Why::Stop`].
        tenure: Tenure,
        /// The reason.
        why: Why,
        /// The work is dropped then; `None` once it was told so.
        abort_at: Option<Ticks>,
    },
    /// The work has stopped; a release is on its way, and harmless if it fails.
    Releasing {
        /// Its number.
        attempt: Attempt,
        /// When it was sent.
        sent: Ticks,
    },
    /// For good.
    Stopped,
}

/// One term as its holder sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tenure {
    /// The term; its token grows by raises.
    pub term: Term,
    /// Trust ends here.
    pub until: Ticks,
    /// The next renewal.
    pub renew_at: Ticks,
    /// The request on its way.
    pub asked: Option<Asked>,
}

/// A request made while leading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Asked {
    /// Its number.
    pub attempt: Attempt,
    /// When it was sent.
    pub sent: Ticks,
    /// A raise; otherwise a renewal.
    pub raise: bool,
}

/// Why work was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// The store says that the lease is not held.
    Lost,
    /// No renewal succeeded in time.
    Expired,
    /// The owner of the machine said so.
    Stop,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// A bell: a lease may be vacant.
    Wake,
    /// Another lease of this process is about to be renewed: join if half the interval has passed.
    Join,
    /// Stop for good. Work may take `within` to end; a second stop can only shorten that.
    Stop {
        /// Zero drops the work at once.
        within: Duration,
    },
    /// The acquire was granted.
    Granted {
        /// Of the acquire.
        attempt: Attempt,
        /// The term's token.
        token: Token,
    },
    /// Somebody else holds the lease.
    Busy {
        /// Of the acquire.
        attempt: Attempt,
        /// By the recorded ttl, whatever mine is (L8).
        remaining: Duration,
    },
    /// Any request failed, or its outcome is unknown.
    Failed {
        /// Of the request.
        attempt: Attempt,
    },
    /// The renewal holds.
    Renewed {
        /// Of the renewal.
        attempt: Attempt,
    },
    /// A renewal or raise found the lease not held.
    Lost {
        /// Of the request.
        attempt: Attempt,
    },
    /// The lease is still held, under a higher token.
    Raised {
        /// Of the raise.
        attempt: Attempt,
        /// The new token.
        token: Token,
    },
    /// The release was answered, either way.
    Released {
        /// Of the release.
        attempt: Attempt,
    },
    /// A sink's register refused the tenure: it holds a token that is not older.
    FenceRefused {
        /// Of the tenure.
        nonce: Nonce,
        /// What the register holds.
        register: Token,
    },
    /// The work has ended: told to, by itself, or by a crash.
    Drained {
        /// Of the tenure.
        nonce: Nonce,
    },
}

/// What to do, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Ask for the lease; reply with granted, busy or failed.
    Acquire {
        /// Comes back with the reply.
        attempt: Attempt,
        /// The same until a tenure under it has ended: a lost reply is repeated safely.
        nonce: Nonce,
        /// Above every token that a sink or store has shown to this machine.
        min_token: Token,
    },
    /// Renew; reply with renewed, lost or failed.
    Renew {
        /// Comes back with the reply.
        attempt: Attempt,
        /// What to renew.
        term: Term,
    },
    /// Raise the token; reply with raised, lost or failed.
    Raise {
        /// Comes back with the reply.
        attempt: Attempt,
        /// What to raise.
        term: Term,
        /// The new token is greater than this.
        above: Token,
    },
    /// Release; reply with released or failed.
    Release {
        /// Comes back with the reply.
        attempt: Attempt,
        /// What to release.
        term: Term,
    },
    /// Start the work under this term; say drained when it ends.
    StartWork(Term),
    /// Tell the work to stop; say drained when it has.
    CancelWork(Nonce),
    /// The work's time to stop is over: drop it, then say drained.
    AbortWork(Nonce),
}

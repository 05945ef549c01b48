//! The lease: liveness from the lease, safety from the sink (ADR-0003).
//!
//! # What it promises
//! At most one holder *believes*, given clock-rate drift below the margin and a store that lost nothing. At most one
//! term's writes are *accepted*, given nothing at all about clocks or the lease store, when the sink keeps a
//! [`Fence`] register.
//!
//! # What identifies what
//! A **scope** names the job. A **term** is one tenure: `(scope, token, nonce)`. Tokens strictly increase per scope
//! within a store's life; the nonce is drawn per term, so that an acquire whose reply was lost can be repeated.
//!
//! # Which clock, which margin
//! The holder trusts `t_send + ttl - margin` on its own monotonic clock, counted from when the request that succeeded
//! was *sent*. Errors shorten the remaining trust, never extend it. The store's clock decides expiry for others.
//!
//! ```text
//!   Follower ──next_try──▶ Asking ──granted──▶ Leading ──lost, expired, stop──▶ Draining ──▶ Releasing ──▶ Follower
//!      ▲                     │                                                                              or Stopped
//!      └──────busy, failed───┘
//! ```
//!
//! # What it does not promise
//! Work without a fence can run twice when a process is paused for longer than the ttl and wakes in mid-write.

pub(crate) mod draw;
pub mod machine;
mod options;
mod protocol;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use crate::error::{Code, Error, Result};
use crate::event::text;
use crate::limits;
use crate::time::Ticks;

/// The shortest lease that can be renewed: a renewal that fails can be repeated once while trust lasts.
pub const TTL_MIN: Duration = Duration::from_millis(600);
/// The longest lease: nobody waits more than an hour for the job of a process that crashed.
pub const TTL_MAX: Duration = Duration::from_secs(3600);

/// The name of a job that must run on one process at a time: 1 to 200 bytes without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(String);

impl Scope {
    /// Checks the limits.
    ///
    /// # Errors
    /// [`crate::Code::EventInvalid`] naming the size and the limit.
    pub fn new(scope: impl Into<String>) -> Result<Self> {
        let scope = scope.into();
        text("scope", &scope, 1, limits::SCOPE_BYTES_MAX)?;
        Ok(Self(scope))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A fencing token: `max(previous + 1, store time in microseconds, minimum asked for)`; below 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token(pub u64);

impl Token {
    /// Tokens stay below this, so that every JSON reader keeps them whole.
    pub const MAX: u64 = (1 << 53) - 1;

    /// The token after `previous` at store time `now_micros`, at least `min`.
    #[must_use]
    pub fn next(previous: Token, now_micros: i64, min: Token) -> Token {
        let clock = u64::try_from(now_micros).unwrap_or(0);
        Token(previous.0.saturating_add(1).max(clock).max(min.0))
    }

    /// Checks a token that came from a caller.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] at [`Token::MAX`] and above: there would be no next one.
    pub fn check(self) -> Result<()> {
        if self.0 < Token::MAX {
            return Ok(());
        }
        Err(Error::new(
            Code::OptionsInvalid,
            format!("token is {self}; tokens stay below {}", Token::MAX),
        ))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// 128 random bits that tell two holders of an equal token apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub u128);

/// One tenure of one scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Term {
    /// The job.
    pub scope: Scope,
    /// The fencing token.
    pub token: Token,
    /// Drawn for this tenure.
    pub nonce: Nonce,
    /// As recorded by the store.
    pub ttl: Duration,
}

/// Ask for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquire {
    /// The job.
    pub scope: Scope,
    /// Drawn by the asker; a repeat with the same nonce returns the same term.
    pub nonce: Nonce,
    /// How long, on the store's clock. Recorded, and honoured by every candidate.
    pub ttl: Duration,
    /// The granted token is at least this.
    pub min_token: Token,
    /// For people: shown by `lease ls`. Never compared.
    pub holder: String,
}

impl Acquire {
    /// Checks the limits; every store calls it first.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] naming the field, its value and the limit.
    pub fn check(&self) -> Result<()> {
        if self.ttl.is_zero() || self.ttl > TTL_MAX {
            return Err(Error::new(
                Code::OptionsInvalid,
                format!(
                    "ttl is {:?}; a lease lasts more than zero and at most {TTL_MAX:?}",
                    self.ttl
                ),
            ));
        }
        self.min_token.check()?;
        text("holder", &self.holder, 0, limits::SCOPE_BYTES_MAX)
    }
}

/// Reply to [`Acquire`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// The lease is held under this token.
    Granted(Token),
    /// Somebody else holds it.
    Busy {
        /// Time left on the recorded ttl.
        remaining: Duration,
        /// Its label.
        holder: String,
    },
}

/// Reply to a renewal. Renewing never creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// Held for another recorded ttl from the store's now.
    Held,
    /// Not held under that token and nonce, or already expired.
    Lost,
}

/// Reply to a release: the record becomes vacant and keeps its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// It was mine and is vacant now.
    Vacant,
    /// It was not mine; nothing changed.
    NotHeld,
}

/// Reply to a raise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raised {
    /// Still held, now under this higher token.
    To(Token),
    /// Not held under that token and nonce.
    NotHeld,
}

/// A lease record, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The job.
    pub scope: Scope,
    /// The current or last token.
    pub token: Token,
    /// The holder's label; `None` when vacant.
    pub holder: Option<String>,
    /// The recorded ttl.
    pub ttl: Duration,
    /// Time left; zero when expired or vacant.
    pub remaining: Duration,
}

/// What a fence register in a sink's database answers to `open(token, nonce)`.
///
/// Opens when the token is greater than the stored one, or equal with the same nonce. An equal token with another
/// nonce is refused: tokens floored by time can tie after a store lost its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// Writes under this term are accepted from here on, and under no earlier one.
    Open,
    /// The register holds this token, which is not older.
    Refused(Token),
}

/// The value of a fence register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fence {
    /// Highest token accepted.
    pub token: Token,
    /// Its nonce.
    pub nonce: Nonce,
}

impl Fence {
    /// The register's rule, shared by every store.
    pub fn admits(current: Option<Fence>, token: Token, nonce: Nonce) -> bool {
        current.is_none_or(|fence| token > fence.token || (token == fence.token && nonce == fence.nonce))
    }

    /// Whether a guarded write under this term is accepted: only the term that opened the register last writes.
    pub fn accepts(current: Option<Fence>, token: Token, nonce: Nonce) -> bool {
        current == Some(Fence { token, nonce })
    }
}

/// How long a holder may believe: the local check, with no I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trust {
    /// On the holder's own clock; not included.
    pub until: Ticks,
}

impl Trust {
    /// No trust at any time.
    pub const NONE: Trust = Trust {
        until: Ticks::from_micros(i64::MIN),
    };

    /// Whether the holder may still believe at `now`.
    pub const fn holds(self, now: Ticks) -> bool {
        now.as_micros() < self.until.as_micros()
    }
}

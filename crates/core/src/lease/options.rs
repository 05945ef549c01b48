//! How a holder behaves, and every duration that follows from the ttl.

use std::time::Duration;

use super::{TTL_MAX, TTL_MIN};
use crate::error::{Code, Error, Result};

/// Clocks of two machines may differ in rate; margins below this are noise.
const MARGIN_MIN: Duration = Duration::from_millis(100);
/// Work gets at most this long to stop once trust has ended.
const STOP_BUDGET_MAX: Duration = Duration::from_secs(1);

/// How a holder behaves. Everything but these two follows from the ttl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// How long the store keeps the lease without a renewal: [`TTL_MIN`] to [`TTL_MAX`]. Shorter: a crash is taken
    /// over sooner. Longer: a slow or absent store is survived for longer. 10 s unless asked otherwise.
    pub ttl: Duration,
    /// One tenure and no more: a run that lost its lease must not take it again and go on as if nothing had happened.
    pub scoped: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(10),
            scoped: false,
        }
    }
}

impl Options {
    /// Between renewals, before up to 10 % of jitter is taken off: a third of the ttl.
    pub fn renew_every(&self) -> Duration {
        self.ttl / 3
    }

    /// A request without a reply for this long is repeated: a fifth of the ttl.
    pub fn attempt_timeout(&self) -> Duration {
        self.ttl / 5
    }

    /// How long work may take to stop once trust has ended.
    pub fn stop_budget(&self) -> Duration {
        (self.ttl / 10).min(STOP_BUDGET_MAX)
    }

    /// How much sooner than the store the holder ends: clock-rate drift, and the time work takes to stop.
    pub fn margin(&self) -> Duration {
        (self.ttl / 10).max(MARGIN_MIN) + self.stop_budget()
    }

    /// How long one grant or renewal is trusted, from the time it was sent.
    pub fn trust(&self) -> Duration {
        self.ttl.saturating_sub(self.margin())
    }

    /// Checks the limits.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] naming the ttl and the limit.
    pub fn check(&self) -> Result<()> {
        if self.ttl < TTL_MIN {
            return Err(Error::new(
                Code::OptionsInvalid,
                format!(
                    "ttl is {:?}; a lease needs at least {TTL_MIN:?}, or a failed renewal could not be repeated in time",
                    self.ttl
                ),
            ));
        }
        if self.ttl > TTL_MAX {
            return Err(Error::new(
                Code::OptionsInvalid,
                format!(
                    "ttl is {:?}; it may be at most {TTL_MAX:?}, since a crash is waited out",
                    self.ttl
                ),
            ));
        }
        Ok(())
    }

    /// Before a failed request is repeated: a twentieth of the ttl.
    pub(super) fn pause(&self) -> Duration {
        self.ttl / 20
    }
}

//! A clock that a test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::time::{Ticks, micros};

/// Microseconds that pass only by [`Clock::advance`]; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Clock(Arc<AtomicI64>);

impl Clock {
    /// The time.
    pub fn now(&self) -> Ticks {
        Ticks::from_micros(self.0.load(Ordering::SeqCst))
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(micros(by), Ordering::SeqCst);
    }
}

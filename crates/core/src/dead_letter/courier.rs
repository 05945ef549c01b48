//! Brings dead letters to a user's sink: at least once, never hot, and without touching the row.

use std::time::Duration;

use crate::error::Result;
use crate::store::{DeadLetterSink, DeadLetters};
use crate::time::Ticks;

/// Letters offered in one round.
const ROUND: u32 = 100;
/// First pause after a failure.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause: a sink that is mended is noticed within five minutes.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// Remembers when a failing sink may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Courier {
    not_before: Option<Ticks>,
    failures: u32,
}

impl Courier {
    /// Offers what no sink has taken, oldest first, unless a failure was too recent. Returns how many were taken.
    ///
    /// # Errors
    /// The sink's or the store's. What was taken before it is marked; the rest stays where it is.
    pub async fn round(
        &mut self,
        letters: &dyn DeadLetters,
        sink: &dyn DeadLetterSink,
        now: Ticks,
    ) -> Result<usize> {
        if self.not_before.is_some_and(|at| now < at) {
            return Ok(0);
        }
        let offered = offer(letters, sink).await;
        match offered {
            Ok(_) => *self = Self::default(),
            Err(_) => self.failed(now),
        }
        offered
    }

    /// When the next round may run; `None`: at once.
    pub fn not_before(&self) -> Option<Ticks> {
        self.not_before
    }

    fn failed(&mut self, now: Ticks) {
        let doubled = PAUSE_MIN.saturating_mul(1 << self.failures.min(16));
        self.not_before = Some(now.after(doubled.min(PAUSE_MAX)));
        self.failures = self.failures.saturating_add(1);
    }
}

async fn offer(letters: &dyn DeadLetters, sink: &dyn DeadLetterSink) -> Result<usize> {
    let mut taken = Vec::new();
    let mut refused = Ok(());
    for detail in letters.untold(ROUND).await? {
        refused = sink.accept(&detail).await;
        if refused.is_err() {
            break;
        }
        taken.push(detail.letter.id);
    }
    let count = taken.len();
    if count > 0 {
        letters.told(taken).await?;
    }
    refused.map(|()| count)
}

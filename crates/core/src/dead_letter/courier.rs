//! Brings dead letters to a user's sink: at least once, never hot, and without touching the row.

use std::time::Duration;

use super::{Detail, Place, Told, Untold};
use crate::error::Result;
use crate::lane::LaneId;
use crate::store::{DeadLetterSink, DeadLetters};
use crate::time::Ticks;

/// Letters read at once: each may hold a payload of 1 MiB.
const ROUND: u32 = 16;
/// First pause after a failure.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause: a sink that is mended is noticed within five minutes.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// Remembers when a failing sink may be tried again, and with which letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Courier {
    not_before: Option<Ticks>,
    failures: u32,
    /// The last letter that was refused: others have their turn before it.
    after: Option<Place>,
}

impl Courier {
    /// Offers what no sink has taken, oldest first, unless a failure was too recent; of these lanes, when given. Returns
    /// how many were taken: none when nothing is left.
    ///
    /// Each letter is marked before the next is offered, so that a crash repeats one of them at most. A refusal ends the
    /// round; the next begins with the letter behind it.
    ///
    /// # Errors
    /// The sink's or the store's. What was taken before it is marked; the rest stays where it is.
    ///
    /// # Cancel safety
    /// Dropping the future may leave one letter taken and not marked: it is offered again.
    pub async fn round(
        &mut self,
        letters: &dyn DeadLetters,
        sink: &dyn DeadLetterSink,
        lanes: Option<&[LaneId]>,
        now: Ticks,
    ) -> Result<usize> {
        if self.not_before.is_some_and(|at| now < at) {
            return Ok(0);
        }
        let mut taken = 0;
        let ended = self.offer(letters, sink, lanes, &mut taken).await;
        if taken > 0 || ended.is_ok() {
            (self.failures, self.not_before) = (0, None);
        }
        if ended.is_err() {
            self.failed(now);
        }
        ended.map(|()| taken)
    }

    /// When the next round may run; `None`: at once.
    pub fn not_before(&self) -> Option<Ticks> {
        self.not_before
    }

    async fn offer(
        &mut self,
        letters: &dyn DeadLetters,
        sink: &dyn DeadLetterSink,
        lanes: Option<&[LaneId]>,
        taken: &mut usize,
    ) -> Result<()> {
        for detail in self.page(letters, lanes).await? {
            let letter = &detail.letter;
            let accepted = sink.accept(&detail).await;
            if accepted.is_err() {
                self.after = Some((letter.since, letter.id));
                return accepted;
            }
            let told = Told {
                id: letter.id,
                failed_at: letter.failed_at,
            };
            letters.told(vec![told]).await?;
            *taken += 1;
        }
        Ok(())
    }

    /// The next letters, from the beginning when there are none behind the last refusal.
    async fn page(&mut self, letters: &dyn DeadLetters, lanes: Option<&[LaneId]>) -> Result<Vec<Detail>> {
        let untold = |after| Untold {
            lanes: lanes.map(<[LaneId]>::to_vec),
            after,
            limit: ROUND,
        };
        let page = letters.untold(untold(self.after)).await?;
        if page.is_empty() && self.after.take().is_some() {
            return letters.untold(untold(None)).await;
        }
        Ok(page)
    }

    fn failed(&mut self, now: Ticks) {
        let doubled = PAUSE_MIN.saturating_mul(1 << self.failures.min(16));
        self.not_before = Some(now.after(doubled.min(PAUSE_MAX)));
        self.failures = self.failures.saturating_add(1);
    }
}

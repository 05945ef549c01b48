//! A sink of your own: publish anywhere that a function can reach.
//!
//! [`AtLeastOnce`] makes a full [`Sink`] of a [`Publish`]. It has no register to compare with, so it promises *at
//! least once*: after a lost reply, a crash or a take-over, events whose acknowledgement was not settled are published
//! again, in order per key within one owner. Give the event's id to the other side as its idempotency key.

use std::sync::Arc;

use tidegate_core::lane::LaneId;
use tidegate_core::lease::Token;
use tidegate_core::store::{BoxFuture, Sink};
use tidegate_core::stream::{Appended, Capabilities, LaneAppend, Lost, Register};
use tidegate_core::{Event, Result, limits};

/// What became of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// The other side has it.
    Done,
    /// It can never be taken: its key is parked at the source and other keys flow. Say why, without payload.
    Poison(String),
    /// It cannot be taken now: nothing is blamed, the lane pauses and tries again.
    Unavailable(String),
}

/// Where one event at a time is sent.
pub trait Publish: Send + Sync {
    /// Sends one event and waits for the other side's word. Called in order within a lane, one at a time.
    fn publish<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, Published>;
}

impl<F> Publish for F
where
    F: for<'a> Fn(&'a Event) -> BoxFuture<'a, Published> + Send + Sync,
{
    fn publish<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, Published> {
        self(event)
    }
}

/// A sink without registers over a [`Publish`].
pub struct AtLeastOnce {
    publish: Arc<dyn Publish>,
}

impl AtLeastOnce {
    /// Wraps it.
    pub fn new(publish: impl Publish + 'static) -> Self {
        Self {
            publish: Arc::new(publish),
        }
    }

    async fn lane(&self, append: LaneAppend) -> Appended {
        let mut through = append.entries.first().map_or(0, |e| e.n.saturating_sub(1));
        let before = through;
        for entry in &append.entries {
            let outcome = match &entry.event {
                Some(event) => self.publish.publish(event).await,
                None => Published::Done,
            };
            match outcome {
                Published::Done => through = entry.n,
                // What was sent before it is confirmed first; the next append starts at this event.
                _ if through > before => return Appended::Through(through),
                Published::Poison(reason) => return Appended::Poison { n: entry.n, reason },
                Published::Unavailable(reason) => return Appended::Paused(reason),
            }
        }
        Appended::Through(through)
    }
}

impl Sink for AtLeastOnce {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            compare_and_append: false,
            tokens: false,
            payload_bytes_max: limits::PAYLOAD_BYTES_MAX,
            batch_max: 1000,
        }
    }

    fn register(&self, lanes: Vec<(LaneId, Token)>) -> BoxFuture<'_, Result<Vec<Option<Register>>>> {
        Box::pin(async move { Ok(vec![None; lanes.len()]) })
    }

    fn append(&self, lanes: Vec<LaneAppend>) -> BoxFuture<'_, Result<Vec<Appended>>> {
        Box::pin(async move {
            let mut outcomes = Vec::with_capacity(lanes.len());
            for append in lanes {
                outcomes.push(self.lane(append).await);
            }
            Ok(outcomes)
        })
    }

    fn declare_lost(&self, lost: Lost, _: Token) -> BoxFuture<'_, Result<Appended>> {
        Box::pin(async move { Ok(Appended::Through(lost.through)) })
    }
}

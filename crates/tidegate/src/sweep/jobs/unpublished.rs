//! The alarm for events that nobody publishes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::outbox::LaneRow;
use tidegate_core::store::{BoxFuture, OutboxStore};
use tidegate_core::{Result, Ticks};

use crate::clock;
use crate::metric::quietly;
use crate::sweep::{Context, Job, Step};

/// An alarm that lasts is repeated once an hour: often enough to be seen, rare enough to be read.
const REPEAT: Duration = Duration::from_secs(3600);

/// Watches the age of the oldest event that waits in an outbox.
///
/// Sets the gauges `tidegate_outbox_oldest_age_seconds` and `tidegate_outbox_depth` (label `outbox`) at each run. Over
/// the limit it logs one error each period, which names the lane, its owner and what seems to block it. It changes
/// nothing: rows are never dropped at the source.
pub struct Unpublished {
    name: String,
    outbox: Arc<dyn OutboxStore>,
    limit: Duration,
    repeat: Duration,
    raised: Mutex<Option<Ticks>>,
}

impl Unpublished {
    /// Of the outbox called `name`. An event that has waited for longer than `limit` raises the alarm.
    pub fn new(name: impl Into<String>, outbox: Arc<dyn OutboxStore>, limit: Duration) -> Self {
        Self {
            name: name.into(),
            outbox,
            limit,
            repeat: REPEAT,
            raised: Mutex::default(),
        }
    }

    /// Another period: an hour unless asked otherwise.
    #[must_use]
    pub fn repeat(mut self, period: Duration) -> Self {
        self.repeat = period;
        self
    }

    /// Measures, and raises the alarm if it is due.
    pub(in crate::sweep) fn look(&self, lanes: &[LaneRow], now: Ticks) {
        let late = Late::among(lanes, self.limit);
        self.measure(lanes);
        if self.raises(late.is_some(), now)
            && let Some(late) = late
        {
            tracing::error!(
                outbox = %self.name,
                lane = %late.worst.lane,
                owner = late.worst.owner.as_deref().unwrap_or("nobody"),
                oldest_age = ?age(late.worst),
                waiting = late.worst.depth,
                lanes = late.lanes,
                cause = late.cause(),
                "events wait longer than {:?} to be published",
                self.limit,
            );
        }
    }

    fn measure(&self, lanes: &[LaneRow]) {
        let oldest = lanes.iter().map(age).max().unwrap_or_default();
        let depth = lanes.iter().map(|lane| lane.depth).sum::<u64>();
        quietly(|| {
            let outbox = || self.name.clone();
            metrics::gauge!("tidegate_outbox_oldest_age_seconds", "outbox" => outbox())
                .set(oldest.as_secs_f64());
            metrics::gauge!("tidegate_outbox_depth", "outbox" => outbox()).set(gauge(depth));
        });
    }

    /// True once a period while it is late; a recovery ends the period.
    fn raises(&self, late: bool, now: Ticks) -> bool {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        if !late {
            *raised = None;
            return false;
        }
        let due = raised.is_none_or(|at| now.since(at) >= self.repeat);
        if due {
            *raised = Some(now);
        }
        due
    }
}

impl Job for Unpublished {
    fn step<'a>(&'a self, _: &'a Context) -> BoxFuture<'a, Result<Step>> {
        Box::pin(async move {
            let lanes = self.outbox.lanes().await?;
            self.look(&lanes, clock::ticks());
            Ok(Step::last(0))
        })
    }
}

/// Lanes whose oldest event waits for too long.
struct Late<'a> {
    worst: &'a LaneRow,
    lanes: usize,
}

impl<'a> Late<'a> {
    fn among(lanes: &'a [LaneRow], limit: Duration) -> Option<Self> {
        let late = || lanes.iter().filter(|lane| age(lane) > limit);
        Some(Self {
            worst: late().max_by_key(|lane| age(lane))?,
            lanes: late().count(),
        })
    }

    fn cause(&self) -> &'static str {
        match self.worst {
            LaneRow { owner: None, .. } => "no relay owns the lane",
            LaneRow { settled, planned, .. } if planned > settled => {
                "the owner has planned events that the stream does not take"
            }
            LaneRow { .. } => "the owner does not get to them",
        }
    }
}

fn age(lane: &LaneRow) -> Duration {
    let micros = lane.oldest_micros.unwrap_or(0);
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Gauges are floats: exact up to 2^53 rows.
#[allow(clippy::cast_precision_loss)]
fn gauge(count: u64) -> f64 {
    count as f64
}

//! Named places that a run passed, so that a world that stopped going wrong is noticed.

use std::collections::BTreeMap;

/// How often each point was met.
#[derive(Debug, Clone, Default)]
pub struct Coverage(BTreeMap<&'static str, u64>);

/// Points that must be met over the seeds of one CI run.
pub const POINTS: &[&str] = &[
    "relay gained a lane",
    "relay met an unfinished plan",
    "relay lost a lane",
    "relay was fenced",
    "relay published",
    "relay met entries already there",
    "relay saw a stream loss",
    "relay refilled",
    "relay declared a loss",
    "relay parked a key",
    "relay voided a follower",
    "relay outage",
    "relay drained with work in flight",
    "stream lost entries that nobody settled",
    "stream refused a moved append",
    "stream refused a stale token",
    "stream paused a lane",
    "consumer started in the middle",
    "source key released",
    "transaction rolled back",
    "event without a key",
    "consumer gained a lane",
    "consumer gained an unclean lane",
    "consumer lost a lane",
    "consumer was fenced",
    "consumer met a gap",
    "consumer saw the stream restart",
    "consumer outage",
    "consumer breaker",
    "consumer drained with work in flight",
    "careful batch",
    "event applied",
    "duplicate dropped",
    "void passed",
    "key parked",
    "event queued behind its key",
    "key un-parked",
    "event skipped",
    "dead key redriven",
    "dead letter discarded",
    "event dead after crashes",
    "stale write refused",
    "crash",
    "crash before an effect",
    "crash after an effect",
    "pause longer than the ttl",
    "late execution",
    "second execution",
    "lost request",
    "lost reply",
    "refused request",
    "commit refused",
    "commit unknown and stands",
    "commit unknown and lost",
    "stream tail lost",
    "stream flushed",
    "stream trimmed",
    "loss stopped a consumer for good",
    "ring lost",
    "drain ended clean",
    "drain cut by a second signal",
    "drain cut",
    "surplus lane handed over",
];

impl Coverage {
    /// Meets a point.
    pub fn hit(&mut self, point: &'static str) {
        debug_assert!(POINTS.contains(&point), "{point} is not a coverage point");
        *self.0.entry(point).or_default() += 1;
    }

    /// Meets a point if `condition` holds.
    pub fn hit_if(&mut self, condition: bool, point: &'static str) {
        if condition {
            self.hit(point);
        }
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Coverage) {
        for (point, count) in &other.0 {
            *self.0.entry(point).or_default() += count;
        }
    }

    /// How often a point was met.
    pub fn count(&self, point: &str) -> u64 {
        self.0.get(point).copied().unwrap_or(0)
    }

    /// Points never met.
    pub fn missing(&self) -> Vec<&'static str> {
        POINTS.iter().copied().filter(|p| self.count(p) == 0).collect()
    }
}

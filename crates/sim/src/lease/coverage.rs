//! Named places that a run passed, so that a world that stopped going wrong is noticed.

use std::collections::BTreeMap;

/// How often each point was met.
#[derive(Debug, Clone, Default)]
pub struct Coverage(BTreeMap<&'static str, u64>);

/// Points that must be met over the seeds of one CI run.
pub const POINTS: &[&str] = &[
    "granted",
    "granted again to the same nonce",
    "busy",
    "renewed",
    "renewal lost",
    "released",
    "raised",
    "raise refused",
    "stale reply",
    "trust ran out",
    "cancelled by a loss",
    "stopped while leading",
    "stopped while asking",
    "work dropped",
    "work ended by itself",
    "woken by a bell",
    "fence opened",
    "fence refused",
    "fence refused an equal token",
    "write accepted",
    "write refused",
    "crash while leading",
    "pause longer than the ttl",
    "request lost",
    "reply lost",
    "request refused",
    "request carried out twice",
    "request late",
    "outage",
    "lease broken by a person",
    "store flushed",
    "store restored",
];

impl Coverage {
    /// Meets a point.
    pub fn hit(&mut self, point: &'static str) {
        debug_assert!(POINTS.contains(&point), "{point} is not a coverage point");
        *self.0.entry(point).or_default() += 1;
    }

    /// Adds another run's points.
    pub fn add(&mut self, other: &Coverage) {
        for (point, count) in &other.0 {
            *self.0.entry(point).or_default() += count;
        }
    }

    /// Points that no run met.
    pub fn missing(&self) -> Vec<&'static str> {
        POINTS
            .iter()
            .copied()
            .filter(|point| !self.0.contains_key(point))
            .collect()
    }
}

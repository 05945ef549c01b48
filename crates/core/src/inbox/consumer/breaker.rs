//! Tells an outage of something that the handler needs from events that are poison: many keys that fail alike.

use std::collections::{BTreeMap, BTreeSet};

use crate::inbox::{Counts, Failed, KeyRef};

/// Closed, it counts keys by fingerprint over calls that follow each other. Open, it counts trips.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    keys: BTreeMap<String, BTreeSet<KeyRef>>,
    open: Option<(String, u32)>,
}

impl Breaker {
    /// The fingerprint that opened it, while it is open.
    pub(super) fn open(&self) -> Option<&str> {
        self.open.as_ref().map(|(fingerprint, _)| fingerprint.as_str())
    }

    pub(super) fn close(&mut self) {
        self.open = None;
        self.keys.clear();
    }

    /// Keys that may fail before it opens; at least one.
    pub(super) fn room(&self, keys_max: usize) -> usize {
        keys_max
            .saturating_sub(self.worst().map_or(0, |(_, keys)| keys))
            .max(1)
    }

    /// Looks at a call. `Some`: pause now, for a pause doubled so many times.
    pub(super) fn watch(&mut self, keys_max: usize, counts: Counts, failures: &[Failed]) -> Option<u32> {
        // Events that only wait behind their keys say nothing.
        if counts.applied == 0 && failures.is_empty() {
            return None;
        }
        if let Some((fingerprint, trips)) = &mut self.open {
            if failures.iter().any(|failed| failed.fingerprint == *fingerprint) {
                *trips = trips.saturating_add(1);
                return Some(*trips);
            }
            self.close();
        }
        self.count(failures);
        let (fingerprint, _) = self.worst().filter(|(_, keys)| *keys >= keys_max)?;
        self.open = Some((fingerprint.to_owned(), 0));
        self.keys.clear();
        Some(0)
    }

    /// A fingerprint that a call does not meet is forgotten.
    fn count(&mut self, failures: &[Failed]) {
        self.keys
            .retain(|fingerprint, _| failures.iter().any(|failed| failed.fingerprint == *fingerprint));
        for failed in failures {
            let keys = self.keys.entry(failed.fingerprint.clone()).or_default();
            keys.insert(failed.key.clone());
        }
    }

    fn worst(&self) -> Option<(&str, usize)> {
        let sizes = self
            .keys
            .iter()
            .map(|(fingerprint, keys)| (fingerprint.as_str(), keys.len()));
        sizes.max_by_key(|(_, keys)| *keys)
    }
}

//! Lanes that cannot go on, for status: which, and why.

use std::collections::BTreeMap;

use tidegate_core::lane::LaneId;

#[derive(Default)]
pub(crate) struct Stuck(BTreeMap<LaneId, String>);

impl Stuck {
    /// A lane stopped, for this reason.
    pub(crate) fn note(&mut self, lane: LaneId, why: String) {
        self.0.insert(lane, why);
    }

    /// Forgets the lanes that go on.
    pub(crate) fn keep(&mut self, is_stuck: impl Fn(LaneId) -> bool) {
        self.0.retain(|lane, _| is_stuck(*lane));
    }

    /// The first of them, and how many more there are; `next` is the command that shows them.
    pub(crate) fn text(&self, next: &str) -> Option<String> {
        let (lane, why) = self.0.first_key_value()?;
        let more = match self.0.len() - 1 {
            0 => String::new(),
            1 => " and 1 lane more".to_owned(),
            more => format!(" and {more} lanes more"),
        };
        Some(format!("lane {}: {why}{more}; {next}", lane.slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Uuid;
    use tidegate_core::lane::Lineage;

    #[test]
    fn the_first_lane_is_told_with_its_reason_and_the_rest_are_counted() {
        let lane = |slot| LaneId {
            lineage: Lineage(Uuid::nil()),
            slot,
        };
        let mut stuck = Stuck::default();
        assert_eq!(stuck.text("look"), None);
        for slot in [7, 3, 9] {
            stuck.note(lane(slot), format!("reason {slot}"));
        }
        assert_eq!(
            stuck.text("look").as_deref(),
            Some("lane 3: reason 3 and 2 lanes more; look")
        );
        stuck.keep(|lane| lane.slot > 7);
        assert_eq!(stuck.text("look").as_deref(), Some("lane 9: reason 9; look"));
        stuck.keep(|_| false);
        assert_eq!(stuck.text("look"), None);
    }
}

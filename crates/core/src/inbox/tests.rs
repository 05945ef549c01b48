//! The pure parts of the apply transaction; the rest is proved by the conformance suite over real transactions.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use uuid::Uuid;

use super::sift::{Blame, Pass, Route, View, Waits, due, route};
use super::transaction::Locked;
use super::{Class, Failure, LaneApplied, LaneBatch, Options, Position};
use crate::event::Event;
use crate::lane::{LaneId, Lineage};
use crate::lease::Token;
use crate::stream::{Chain, Entry, EntryId};
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp::from_micros(0);

fn lane(slot: u16) -> LaneId {
    LaneId {
        lineage: Lineage(Uuid::nil()),
        slot,
    }
}

/// Events 1, 2, 3 … of a lane with these physical ids; a zero is a void marker.
fn entries(slot: u16, ids: &[u64]) -> Vec<Entry> {
    let mut chain = Chain::START;
    let numbered = ids.iter().zip(1u64..);
    numbered
        .map(|(id, n)| {
            let event = (*id > 0).then(|| event(n));
            chain = chain.next(n, event.as_ref().map(|event| event.id));
            Entry {
                id: EntryId(0, *id),
                lane: lane(slot),
                n,
                chain,
                event,
            }
        })
        .collect()
}

fn event(n: u64) -> Event {
    Event {
        id: Uuid::from_u128(n.into()),
        topic: "t".into(),
        key: Some(format!("k{}", n % 3)),
        version: None,
        content_type: "x".into(),
        headers: vec![],
        payload: Bytes::new(),
        occurred_at: NOW,
    }
}

fn batch(slot: u16, entries: Vec<Entry>) -> LaneBatch {
    LaneBatch {
        lane: lane(slot),
        token: Token(1),
        entries,
        cursor: EntryId(9, 9),
    }
}

fn routed(lanes: &[LaneBatch], limit: usize, blame: Option<&Blame>) -> Route {
    let mut view = View::new();
    for (index, lane) in lanes.iter().enumerate() {
        let locked = Locked {
            lane: lane.lane,
            position: Position::EARLIEST,
            parked: 0,
        };
        view.push(index, lane, 0, locked);
    }
    view.merge();
    let pass = Pass {
        options: &Options::default(),
        now: NOW,
        blame,
        limit,
    };
    route(&view, &mut Waits::default(), &pass)
}

fn delivered(route: &Route) -> Vec<(u16, u64)> {
    route.deliver.iter().map(|d| (d.lane.slot, d.n)).collect()
}

#[test]
fn lanes_are_merged_in_stream_order() {
    let lanes = [batch(0, entries(0, &[1, 4, 5])), batch(1, entries(1, &[2, 3, 6]))];
    let order = [(0, 1), (1, 1), (1, 2), (0, 2), (0, 3), (1, 3)];
    assert_eq!(delivered(&routed(&lanes, usize::MAX, None)), order);
}

#[test]
fn a_limit_cuts_before_the_next_delivery_and_leaves_the_rest_open() {
    let lanes = [batch(0, entries(0, &[1, 4, 5])), batch(1, entries(1, &[2, 3]))];
    let route = routed(&lanes, 3, None);
    assert_eq!(delivered(&route), [(0, 1), (1, 1), (1, 2)]);
    assert!(route.lanes[0].outcome.is_none());
    assert!(matches!(route.lanes[1].outcome, Some(LaneApplied::At(at)) if at.cursor == EntryId(9, 9)));
    assert_eq!(route.lanes[0].to.cursor, EntryId(0, 1));
}

#[test]
fn blame_ends_the_pass_after_its_event() {
    let lanes = [batch(0, entries(0, &[1, 2, 3]))];
    let blame = Blame {
        lane: lane(0),
        n: 2,
        failure: Failure {
            class: Class::Handler,
            fingerprint: "f".into(),
            message: String::new(),
        },
        dead: false,
    };
    let route = routed(&lanes, usize::MAX, Some(&blame));
    assert_eq!(
        (delivered(&route), route.wait.len(), route.park.len()),
        (vec![(0, 1)], 1, 1)
    );
    assert_eq!((route.lanes[0].to.hw, route.blamed), (2, Some((lane(0), 2))));
}

#[test]
fn pauses_double_up_to_five_minutes() {
    let seconds = |retries| due(&Options::default(), retries, NOW).since(NOW).as_secs();
    let pauses: Vec<u64> = (0..11).map(seconds).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert_eq!(seconds(u32::MAX), 300);
    let slow = Options {
        backoff_micros: 3_600_000_000,
        ..Options::default()
    };
    assert_eq!(due(&slow, 0, NOW).since(NOW), Duration::from_secs(3600));
}

proptest! {
    /// Whatever the page holds, in whatever order and with whatever ids: what is taken in is 1, 2, 3 … without a hole.
    #[test]
    fn only_contiguous_numbers_are_taken_in(
        ids in prop::collection::vec(0u64..50, 1..30),
        picks in prop::collection::vec(0usize..30, 0..60),
    ) {
        let all = entries(0, &ids);
        let page: Vec<Entry> = picks.iter().filter_map(|at| all.get(*at).cloned()).collect();
        let lanes = [batch(0, page)];
        let route = routed(&lanes, usize::MAX, None);
        let hw = route.lanes[0].to.hw;
        let expected: Vec<(u16, u64)> = (1..=hw)
            .zip(&all)
            .filter(|(_, entry)| entry.event.is_some())
            .map(|(n, _)| (0, n))
            .collect();
        prop_assert_eq!(delivered(&route), expected);
        let tally = route.lanes[0].tally;
        prop_assert_eq!(u64::try_from(tally.applied + tally.voids).unwrap(), hw);
    }
}

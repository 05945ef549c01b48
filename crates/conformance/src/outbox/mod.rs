//! Outboxes: what every store must do.

mod archive;
mod ownership;
mod parking;
mod random;
mod rows;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::lane::{Held, Hold, LaneId, slot_of};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::memory::Clock;
use tidegate_core::outbox::{LaneState, LaneTurn, LaneTurned, Planned, Turn, Turned};
use tidegate_core::store::{BoxFuture, OutboxStore};
use tidegate_core::stream::Chain;
use tidegate_core::{Event, Timestamp, Uuid};

pub use archive::*;
pub use ownership::*;
pub use parking::*;
pub use random::*;
pub use rows::*;
pub use turns::*;

/// A store under test, on a clock that the suite moves. Wall time is the same clock.
pub trait Subject: Send + Sync {
    /// The outbox, made with these settings when there is none yet. Each call may open another handle, as another
    /// process would.
    fn outbox(&self, lanes: u16, archive: bool) -> BoxFuture<'_, Arc<dyn OutboxStore>>;

    /// The clock.
    fn clock(&self) -> Clock;
}

/// Makes a test of each case. `$subject` is an expression that makes a new subject.
#[macro_export]
macro_rules! outbox_suite {
    ($subject:expr) => {
        $crate::outbox_suite!(@each $subject;
            o_001_events_come_back_as_they_went_in
            o_002_a_payload_may_fill_its_limit_and_no_more
            o_003_every_field_has_a_limit
            o_004_a_batch_with_one_bad_event_leaves_nothing
            o_005_an_empty_batch_is_nothing
            o_006_an_event_lies_in_the_lane_of_its_key
            o_007_settings_are_as_they_were_made
            o_008_depth_and_age_are_told
            o_009_an_enqueue_rings
            o_010_one_member_owns_every_lane
            o_011_two_members_share_after_a_release
            o_012_an_expired_lane_goes_to_another_under_a_higher_token
            o_013_a_stale_owner_settles_and_plans_nothing
            o_014_a_late_renewal_keeps_what_nobody_took
            o_015_a_member_that_leaves_does_not_count
            o_016_a_wrong_token_releases_nothing
            o_017_a_dead_member_does_not_count
            o_018_a_hold_tells_where_each_lane_stands
            o_019_another_outbox_of_the_lane_is_fenced
            o_020_numbers_are_dense_and_follow_the_order_of_enqueueing
            o_021_settling_deletes_exactly_what_was_acknowledged
            o_022_settling_again_changes_nothing
            o_023_what_was_never_planned_cannot_be_settled
            o_024_a_chain_that_differs_settles_nothing_anywhere
            o_025_loading_a_plan_twice_gives_it_twice
            o_026_a_new_owner_gets_the_plan_and_then_new_rows
            o_027_at_most_so_many_rows_are_planned_and_more_is_said
            o_028_bytes_are_bounded_and_one_row_always_fits
            o_029_one_turn_settles_and_plans
            o_030_lanes_of_one_turn_do_not_meet
            o_031_a_lane_is_named_once
            o_032_a_plan_of_nothing_plans_nothing
            o_040_a_poisoned_event_becomes_void_and_the_lane_goes_on
            o_041_planned_followers_are_voided_too
            o_042_planned_followers_stay_when_not_asked
            o_043_new_rows_of_a_parked_key_wait_behind_it
            o_044_a_release_keeps_the_order_of_the_key
            o_045_an_event_without_a_key_parks_alone
            o_046_parking_raises_the_token
            o_047_only_a_planned_event_can_be_parked
            o_048_releasing_what_is_not_parked_is_nothing
            o_049_parked_keys_are_told
            o_050_voids_are_settled_like_events
            o_051_a_parked_key_may_be_parked_again
            o_060_settled_events_come_back_from_the_archive
            o_061_without_an_archive_history_is_missing
            o_062_a_swept_archive_says_where_it_begins
            o_063_nothing_lies_beyond_what_is_settled
            o_064_only_the_owner_refills
            o_065_voids_are_archived
            o_066_sweeping_is_bounded_and_by_age
            o_070_random_histories_equal_those_of_the_memory_store
        );
    };
    (@each $subject:expr; $($case:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::outbox::$case(&$subject).await;
                $crate::counts::add("conformance.outbox.cases", 1);
            }
        )+
    };
}

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const A: Nonce = Nonce(0xa);
pub(crate) const B: Nonce = Nonce(0xb);

/// An event of `key`, told apart by `n`.
pub(crate) fn event(key: &str, n: u128) -> Event {
    Event {
        id: Uuid::from_u128(n),
        topic: "orders".into(),
        key: Some(key.into()),
        version: None,
        content_type: "text/plain".into(),
        headers: Vec::new(),
        payload: format!("{key} {n}").into_bytes().into(),
        occurred_at: Timestamp::from_micros(1),
    }
}

pub(crate) fn events(key: &str, ids: std::ops::RangeInclusive<u128>) -> Vec<Event> {
    ids.map(|n| event(key, n)).collect()
}

/// A key whose events lie in this slot.
pub(crate) fn key_in(slot: u16, lanes: u16, nth: usize) -> String {
    let candidates = (0..).map(|i| format!("key-{i}"));
    let mut here = candidates.filter(|key| slot_of(Some(key), Uuid::nil(), lanes) == slot);
    here.nth(nth).unwrap()
}

/// One member's view of the outbox: it believes what the last hold said.
pub(crate) struct Relay {
    pub(crate) store: Arc<dyn OutboxStore>,
    pub(crate) member: Nonce,
    pub(crate) lanes: Vec<(LaneId, Token)>,
    pub(crate) held: Held<LaneState>,
}

impl Relay {
    pub(crate) async fn start(store: &Arc<dyn OutboxStore>, member: Nonce) -> Self {
        let held = store.hold(hold(member)).await.unwrap();
        Self {
            store: Arc::clone(store),
            member,
            lanes: held.owned.iter().map(|o| (o.lane, o.token)).collect(),
            held,
        }
    }

    /// The only lane of a one-lane outbox.
    pub(crate) fn lane(&self) -> LaneId {
        self.lanes[0].0
    }

    pub(crate) fn token(&self) -> Token {
        self.lanes[0].1
    }

    pub(crate) fn part(&self, plan: u32) -> LaneTurn {
        LaneTurn {
            lane: self.lane(),
            token: self.token(),
            settle: None,
            plan,
            load: false,
        }
    }

    pub(crate) async fn send(&self, lanes: Vec<LaneTurn>) -> Vec<Turned> {
        let turn = Turn {
            member: self.member,
            lanes,
            bytes_max: usize::MAX,
        };
        self.store.turn(turn).await.unwrap()
    }

    /// A turn of the only lane.
    pub(crate) async fn turn(&self, lane: LaneTurn) -> LaneTurned {
        self.send(vec![lane]).await.remove(0).outcome
    }

    pub(crate) async fn plan(&self, count: u32) -> Vec<Planned> {
        planned(self.turn(self.part(count)).await).0
    }

    pub(crate) async fn load(&self) -> Vec<Planned> {
        let part = LaneTurn {
            load: true,
            ..self.part(0)
        };
        planned(self.turn(part).await).0
    }

    /// Settles through the last of these, which begin after `from`.
    pub(crate) async fn settle(&self, from: Chain, acknowledged: &[Planned]) -> LaneTurned {
        let part = LaneTurn {
            settle: Some(end(from, acknowledged)),
            ..self.part(0)
        };
        self.turn(part).await
    }

    pub(crate) async fn depth(&self) -> u64 {
        let rows = self.store.lanes().await.unwrap();
        rows.iter().map(|row| row.depth).sum()
    }
}

pub(crate) fn hold(member: Nonce) -> Hold {
    Hold {
        member,
        label: format!("relay-{:x}", member.0),
        ttl: TTL,
        release: Vec::new(),
        leave: false,
    }
}

/// The number and chain after these.
pub(crate) fn end(from: Chain, planned: &[Planned]) -> (u64, Chain) {
    let next = |(_, chain): (u64, Chain), p: &Planned| (p.n, chain.next(p.n, p.event.as_ref().map(|e| e.id)));
    planned.iter().fold((0, from), next)
}

pub(crate) fn planned(outcome: LaneTurned) -> (Vec<Planned>, bool) {
    match outcome {
        LaneTurned::Planned { events, more } => (events, more),
        LaneTurned::Fenced => panic!("the lane is mine"),
    }
}

pub(crate) fn numbers(planned: &[Planned]) -> Vec<u64> {
    planned.iter().map(|p| p.n).collect()
}

/// Event ids, and zero for void markers.
pub(crate) fn ids(planned: &[Planned]) -> Vec<u128> {
    let id = |p: &Planned| p.event.as_ref().map_or(0, |e| e.id.as_u128());
    planned.iter().map(id).collect()
}

/// A one-lane outbox with one owner.
pub(crate) async fn single(subject: &dyn Subject, archive: bool) -> Relay {
    subject.clock().advance(Duration::from_secs(1));
    let store = subject.outbox(1, archive).await;
    Relay::start(&store, A).await
}

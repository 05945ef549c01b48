//! Lanes and their owners.

use std::time::Duration;

use tidegate_core::Uuid;
use tidegate_core::lane::{Hold, LaneId, Lineage};
use tidegate_core::lease::Token;
use tidegate_core::outbox::{LaneTurn, LaneTurned};
use tidegate_core::stream::Chain;

use super::{A, B, Relay, Subject, TTL, end, events, hold, ids, numbers, single};

pub async fn o_010_one_member_owns_every_lane(subject: &dyn Subject) {
    let store = subject.outbox(8, false).await;
    let a = Relay::start(&store, A).await;
    assert_eq!((a.held.members, a.held.lanes), (1, 8));
    let slots: Vec<_> = a.lanes.iter().map(|(lane, _)| lane.slot).collect();
    assert_eq!(slots, [0, 1, 2, 3, 4, 5, 6, 7]);
    let again = Relay::start(&store, A).await;
    assert_eq!(again.lanes, a.lanes, "a repeat renews under the same tokens");
}

pub async fn o_011_two_members_share_after_a_release(subject: &dyn Subject) {
    let store = subject.outbox(8, false).await;
    let a = Relay::start(&store, A).await;
    let b = Relay::start(&store, B).await;
    assert_eq!((b.held.members, b.lanes.len()), (2, 0));
    let release = a.lanes[4..].to_vec();
    let a = store.hold(Hold { release, ..hold(A) }).await.unwrap();
    assert_eq!(a.owned.len(), 4, "not claimed back above the share");
    let b = Relay::start(&store, B).await;
    assert_eq!(b.lanes.len(), 4);
    assert!(
        b.lanes
            .iter()
            .all(|(lane, _)| a.owned.iter().all(|o| o.lane != *lane))
    );
}

pub async fn o_012_an_expired_lane_goes_to_another_under_a_higher_token(subject: &dyn Subject) {
    let a = single(subject, false).await;
    subject
        .clock()
        .advance(TTL.saturating_sub(Duration::from_micros(1)));
    assert!(Relay::start(&a.store, B).await.lanes.is_empty(), "not yet");
    subject.clock().advance(Duration::from_micros(2));
    let b = Relay::start(&a.store, B).await;
    assert!(b.token() > a.token());
    assert!(
        Relay::start(&a.store, A).await.lanes.is_empty(),
        "not mine any more"
    );
}

pub async fn o_013_a_stale_owner_settles_and_plans_nothing(subject: &dyn Subject) {
    let a = single(subject, false).await;
    a.store.enqueue(events("k", 1..=4)).await.unwrap();
    let plan = a.plan(2).await;
    subject.clock().advance(TTL + Duration::from_secs(1));
    let b = Relay::start(&a.store, B).await;
    assert_eq!(a.settle(Chain::START, &plan).await, LaneTurned::Fenced);
    assert_eq!(a.turn(a.part(2)).await, LaneTurned::Fenced);
    let load = LaneTurn {
        load: true,
        ..a.part(0)
    };
    assert_eq!(a.turn(load).await, LaneTurned::Fenced);
    assert_eq!((b.depth().await, numbers(&b.load().await)), (4, vec![1, 2]));
    let my_token_his_name = LaneTurn {
        token: a.token(),
        ..b.part(1)
    };
    assert_eq!(b.turn(my_token_his_name).await, LaneTurned::Fenced);
}

pub async fn o_014_a_late_renewal_keeps_what_nobody_took(subject: &dyn Subject) {
    let a = single(subject, false).await;
    subject.clock().advance(TTL * 3);
    let again = Relay::start(&a.store, A).await;
    assert_eq!(again.lanes, a.lanes);
    assert!(Relay::start(&a.store, B).await.lanes.is_empty(), "renewed");
}

pub async fn o_015_a_member_that_leaves_does_not_count(subject: &dyn Subject) {
    let store = subject.outbox(2, false).await;
    let a = Relay::start(&store, A).await;
    let leaving = Hold {
        leave: true,
        release: a.lanes[..1].to_vec(),
        ..hold(A)
    };
    let left = store.hold(leaving).await.unwrap();
    assert_eq!(
        (left.members, left.owned.len()),
        (0, 1),
        "what is not drained is kept"
    );
    let b = Relay::start(&store, B).await;
    assert_eq!((b.held.members, b.lanes.len()), (1, 1));
    let leaving = Hold {
        leave: true,
        release: a.lanes,
        ..hold(A)
    };
    store.hold(leaving).await.unwrap();
    assert_eq!(Relay::start(&store, B).await.lanes.len(), 2);
}

pub async fn o_016_a_wrong_token_releases_nothing(subject: &dyn Subject) {
    let a = single(subject, false).await;
    let release = vec![(a.lane(), Token(a.token().0 + 1))];
    a.store.hold(Hold { release, ..hold(A) }).await.unwrap();
    let thief = Hold {
        release: a.lanes.clone(),
        ..hold(B)
    };
    assert!(a.store.hold(thief).await.unwrap().owned.is_empty());
    assert_eq!(Relay::start(&a.store, A).await.lanes, a.lanes);
}

pub async fn o_017_a_dead_member_does_not_count(subject: &dyn Subject) {
    let store = subject.outbox(4, false).await;
    Relay::start(&store, A).await;
    subject.clock().advance(TTL + Duration::from_secs(1));
    let b = Relay::start(&store, B).await;
    assert_eq!((b.held.members, b.lanes.len()), (1, 4));
}

pub async fn o_018_a_hold_tells_where_each_lane_stands(subject: &dyn Subject) {
    let a = single(subject, false).await;
    a.store.enqueue(events("k", 1..=5)).await.unwrap();
    let plan = a.plan(4).await;
    a.settle(Chain::START, &plan[..3]).await;
    let state = Relay::start(&a.store, A).await.held.owned[0].state;
    assert_eq!((state.settled, state.planned), (3, 4));
    assert_eq!((3, state.chain), end(Chain::START, &plan[..3]));
}

pub async fn o_019_another_outbox_of_the_lane_is_fenced(subject: &dyn Subject) {
    let a = single(subject, false).await;
    a.store.enqueue(events("k", 1..=1)).await.unwrap();
    let foreign = LaneId {
        lineage: Lineage(Uuid::from_u128(99)),
        ..a.lane()
    };
    let beyond = LaneId { slot: 7, ..a.lane() };
    for lane in [foreign, beyond] {
        let part = LaneTurn { lane, ..a.part(1) };
        assert_eq!(a.turn(part).await, LaneTurned::Fenced);
    }
    assert_eq!(ids(&a.plan(1).await), [1]);
}

//! Settled history.

use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::lease::Token;
use tidegate_core::outbox::{Park, ParkReply, Planned, Refill};
use tidegate_core::stream::Chain;

use super::{Relay, Subject, end, event, events, ids, numbers, single};

async fn refill(relay: &Relay, from: u64, limit: u32) -> Refill {
    let refill = relay
        .store
        .refill(relay.member, relay.lane(), relay.token(), from, limit);
    refill.await.unwrap()
}

fn kept(refill: Refill) -> (Vec<Planned>, Vec<Chain>) {
    match refill {
        Refill::Events(events) => events.into_iter().unzip(),
        other => panic!("events are kept, not {other:?}"),
    }
}

/// Ten rows, planned and settled in three steps one second apart.
async fn settled(subject: &dyn Subject, archive: bool) -> (Relay, Vec<Planned>) {
    let relay = single(subject, archive).await;
    relay.store.enqueue(events("k", 1..=12)).await.unwrap();
    let plan = relay.plan(10).await;
    let mut at = (0, Chain::START);
    for part in [&plan[..4], &plan[4..5], &plan[5..]] {
        relay.settle(at.1, part).await;
        at = end(at.1, part);
        subject.clock().advance(Duration::from_secs(1));
    }
    (relay, plan)
}

pub async fn o_060_settled_events_come_back_from_the_archive(subject: &dyn Subject) {
    let (a, plan) = settled(subject, true).await;
    let (events, chains) = kept(refill(&a, 1, 100).await);
    assert_eq!(events, plan);
    assert_eq!((10, chains[9]), end(Chain::START, &plan));
    let (events, chains) = kept(refill(&a, 4, 3).await);
    assert_eq!(numbers(&events), [4, 5, 6]);
    assert_eq!((4, chains[0]), end(Chain::START, &plan[..4]));
    assert_eq!(a.depth().await, 2, "the archive is no backlog");
}

pub async fn o_061_without_an_archive_history_is_missing(subject: &dyn Subject) {
    let (a, plan) = settled(subject, false).await;
    let (_, chain) = end(Chain::START, &plan);
    assert_eq!(refill(&a, 1, 10).await, Refill::Missing { oldest: 11, chain });
}

pub async fn o_062_a_swept_archive_says_where_it_begins(subject: &dyn Subject) {
    let (a, plan) = settled(subject, true).await;
    let now = Timestamp::from_micros(subject.clock().now().as_micros());
    assert_eq!(
        a.store
            .sweep_archive(now.before(Duration::from_secs(2)), 100)
            .await
            .unwrap(),
        4
    );
    let (_, chain) = end(Chain::START, &plan[..4]);
    assert_eq!(refill(&a, 1, 10).await, Refill::Missing { oldest: 5, chain });
    assert_eq!(refill(&a, 4, 10).await, Refill::Missing { oldest: 5, chain });
    assert_eq!(kept(refill(&a, 5, 10).await).0, plan[4..]);
}

pub async fn o_063_nothing_lies_beyond_what_is_settled(subject: &dyn Subject) {
    let (a, _) = settled(subject, true).await;
    for from in [11, 12, u64::MAX] {
        assert_eq!(refill(&a, from, 10).await, Refill::Events(vec![]));
    }
}

pub async fn o_064_only_the_owner_refills(subject: &dyn Subject) {
    let (mut a, _) = settled(subject, true).await;
    a.lanes[0].1 = Token(a.token().0 - 1);
    assert_eq!(refill(&a, 1, 10).await, Refill::Fenced);
}

pub async fn o_065_voids_are_archived(subject: &dyn Subject) {
    let mut a = single(subject, true).await;
    let rows = vec![event("p", 1), event("q", 2), event("p", 3)];
    a.store.enqueue(rows).await.unwrap();
    a.plan(3).await;
    let park = Park {
        member: a.member,
        lane: a.lane(),
        token: a.token(),
        n: 1,
        followers: true,
        reason: "poison".into(),
    };
    let ParkReply::Parked { token, .. } = a.store.park(park).await.unwrap() else {
        panic!("the lane is mine");
    };
    a.lanes[0].1 = token;
    let plan = a.load().await;
    a.settle(Chain::START, &plan).await;
    let (events, chains) = kept(refill(&a, 1, 10).await);
    assert_eq!(ids(&events), [0, 2, 0]);
    assert_eq!((3, chains[2]), end(Chain::START, &plan));
}

pub async fn o_066_sweeping_is_bounded_and_by_age(subject: &dyn Subject) {
    let (a, _) = settled(subject, true).await;
    let now = Timestamp::from_micros(subject.clock().now().as_micros());
    let sweep = |before, limit| a.store.sweep_archive(before, limit);
    assert_eq!(
        sweep(now.before(Duration::from_secs(3)), 100).await.unwrap(),
        0,
        "not older than that"
    );
    assert_eq!(sweep(now, 3).await.unwrap(), 3);
    assert_eq!(sweep(now.before(Duration::from_secs(1)), 100).await.unwrap(), 2);
    assert_eq!(sweep(now, 100).await.unwrap(), 5);
    assert_eq!(sweep(now, 100).await.unwrap(), 0);
}

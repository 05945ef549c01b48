//! Plan, load, settle.

use std::time::Duration;

use tidegate_core::outbox::{LaneTurn, LaneTurned, Turn};
use tidegate_core::stream::Chain;
use tidegate_core::{Code, Event};

use super::{A, B, Relay, Subject, TTL, end, event, events, ids, key_in, numbers, planned, single};

pub async fn o_020_numbers_are_dense_and_follow_the_order_of_enqueueing(subject: &dyn Subject) {
    let a = single(subject, false).await;
    let other = subject.outbox(1, false).await;
    for batch in 0..20u128 {
        let store = if batch % 2 == 0 { &a.store } else { &other };
        store
            .enqueue(events("k", batch * 10 + 1..=batch * 10 + 10))
            .await
            .unwrap();
    }
    let mut all = Vec::new();
    for count in [1, 7, 50, 200] {
        all.extend(a.plan(count).await);
    }
    assert_eq!(numbers(&all), (1..=200).collect::<Vec<_>>());
    assert_eq!(ids(&all), (1..=200).collect::<Vec<_>>());
}

pub async fn o_021_settling_deletes_exactly_what_was_acknowledged(subject: &dyn Subject) {
    let a = single(subject, false).await;
    a.store.enqueue(events("k", 1..=10)).await.unwrap();
    let plan = a.plan(8).await;
    a.settle(Chain::START, &plan[..3]).await;
    assert_eq!(a.depth().await, 7);
    assert_eq!(ids(&a.load().await), [4, 5, 6, 7, 8]);
    let (_, chain) = end(Chain::START, &plan[..3]);
    a.settle(chain, &plan[3..]).await;
    assert_eq!((a.depth().await, ids(&a.plan(9).await)), (2, vec![9, 10]));
}

pub async fn o_022_settling_again_changes_nothing(subject: &dyn Subject) {
    let a = single(subject, false).await;
    a.store.enqueue(events("k", 1..=5)).await.unwrap();
    let plan = a.plan(5).await;
    for count in [3, 3, 2] {
        planned(a.settle(Chain::START, &plan[..count]).await);
        assert_eq!((a.depth().await, ids(&a.load().await)), (2, vec![4, 5]));
    }
}

pub async fn o_023_what_was_never_planned_cannot_be_settled(subject: &dyn Subject) {
    let a = single(subject, false).await;
    a.store.enqueue(events("k", 1..=5)).await.unwrap();
    a.plan(2).await;
    let beyond = LaneTurn {
        settle: Some((3, Chain::START)),
        ..a.part(5)
    };
    assert_eq!(a.turn(beyond).await, LaneTurned::Fenced);
    assert_eq!((a.depth().await, ids(&a.load().await)), (5, vec![1, 2]));
}

pub async fn o_024_a_chain_that_differs_settles_nothing_anywhere(subject: &dyn Subject) {
    let store = subject.outbox(2, false).await;
    let a = Relay::start(&store, A).await;
    for slot in 0..2 {
        store.enqueue(events(&key_in(slot, 2, 0), 1..=2)).await.unwrap();
    }
    let part = |at: usize, plan, settle| LaneTurn {
        lane: a.lanes[at].0,
        token: a.lanes[at].1,
        settle,
        plan,
        load: false,
    };
    let turned = a.send(vec![part(0, 2, None), part(1, 2, None)]).await;
    let (plan, _) = planned(turned[0].outcome.clone());
    let right = end(Chain::START, &plan);
    let wrong = (right.0, Chain([7; 16]));
    let turn = Turn {
        member: A,
        lanes: vec![part(0, 0, Some(right)), part(1, 0, Some(wrong))],
        bytes_max: 1,
    };
    assert_eq!(store.turn(turn).await.unwrap_err().code(), Code::Fork);
    assert_eq!(a.depth().await, 4);
    planned(a.send(vec![part(0, 0, Some(right))]).await.remove(0).outcome);
    assert_eq!(a.depth().await, 2);
}

pub async fn o_025_loading_a_plan_twice_gives_it_twice(subject: &dyn Subject) {
    let a = single(subject, false).await;
    a.store.enqueue(events("k", 1..=4)).await.unwrap();
    let plan = a.plan(3).await;
    assert_eq!(a.load().await, plan);
    assert_eq!(a.load().await, plan);
    assert_eq!(ids(&a.plan(3).await), [4], "loading plans nothing");
}

pub async fn o_026_a_new_owner_gets_the_plan_and_then_new_rows(subject: &dyn Subject) {
    let a = single(subject, false).await;
    a.store.enqueue(events("k", 1..=6)).await.unwrap();
    let plan = a.plan(4).await;
    a.settle(Chain::START, &plan[..1]).await;
    subject.clock().advance(TTL + Duration::from_secs(1));
    let b = Relay::start(&a.store, B).await;
    let part = LaneTurn {
        load: true,
        ..b.part(1)
    };
    let (events, more) = planned(b.turn(part).await);
    assert_eq!(
        (numbers(&events), ids(&events)),
        (vec![2, 3, 4, 5], vec![2, 3, 4, 5])
    );
    assert!(more);
}

pub async fn o_027_at_most_so_many_rows_are_planned_and_more_is_said(subject: &dyn Subject) {
    let a = single(subject, false).await;
    a.store.enqueue(events("k", 1..=5)).await.unwrap();
    for (count, expect, left) in [
        (2, vec![1, 2], true),
        (0, vec![], true),
        (3, vec![3, 4, 5], false),
    ] {
        let (events, more) = planned(a.turn(a.part(count)).await);
        assert_eq!((ids(&events), more), (expect, left));
    }
    assert_eq!(planned(a.turn(a.part(9)).await), (vec![], false));
}

pub async fn o_028_bytes_are_bounded_and_one_row_always_fits(subject: &dyn Subject) {
    let a = single(subject, false).await;
    let sized = |n: u128, bytes: usize| Event {
        payload: vec![1; bytes].into(),
        ..event("k", n)
    };
    let rows = vec![
        sized(1, 100),
        sized(2, 60),
        sized(3, 40),
        sized(4, 1),
        sized(5, 0),
    ];
    a.store.enqueue(rows).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let turn = Turn {
            member: A,
            lanes: vec![a.part(10)],
            bytes_max: 100,
        };
        let outcome = a.store.turn(turn).await.unwrap().remove(0).outcome;
        let (events, more) = planned(outcome);
        seen.push((ids(&events), more));
    }
    let expected = [
        (vec![1], true),
        (vec![2, 3], true),
        (vec![4, 5], false),
        (vec![], false),
    ];
    assert_eq!(seen, expected);
}

pub async fn o_029_one_turn_settles_and_plans(subject: &dyn Subject) {
    let a = single(subject, false).await;
    a.store.enqueue(events("k", 1..=6)).await.unwrap();
    let plan = a.plan(3).await;
    let part = LaneTurn {
        settle: Some(end(Chain::START, &plan)),
        load: true,
        ..a.part(2)
    };
    let (events, more) = planned(a.turn(part).await);
    assert_eq!(
        (numbers(&events), ids(&events), more),
        (vec![4, 5], vec![4, 5], true)
    );
    assert_eq!(a.depth().await, 3);
}

pub async fn o_030_lanes_of_one_turn_do_not_meet(subject: &dyn Subject) {
    subject.clock().advance(Duration::from_secs(1));
    let store = subject.outbox(64, false).await;
    let a = Relay::start(&store, A).await;
    for slot in 0..64u16 {
        let count = u128::from(slot % 5);
        store
            .enqueue(events(&key_in(slot, 64, 0), 1..=count))
            .await
            .unwrap();
    }
    // Backwards, and one of them is not mine.
    let parts = a.lanes.iter().rev().map(|(lane, token)| LaneTurn {
        lane: *lane,
        token: if lane.slot == 9 {
            tidegate_core::lease::Token(1)
        } else {
            *token
        },
        settle: None,
        plan: 3,
        load: true,
    });
    let turned = a.send(parts.collect()).await;
    for (at, turned) in turned.into_iter().enumerate() {
        let slot = 63 - u16::try_from(at).unwrap();
        assert_eq!(turned.lane.slot, slot, "replies in the order asked");
        if slot == 9 {
            assert_eq!(turned.outcome, LaneTurned::Fenced);
            continue;
        }
        let count = u64::from(slot % 5);
        let (events, more) = planned(turned.outcome);
        assert_eq!(
            (numbers(&events), more),
            ((1..=count.min(3)).collect(), count > 3)
        );
    }
}

pub async fn o_031_a_lane_is_named_once(subject: &dyn Subject) {
    let a = single(subject, false).await;
    a.store.enqueue(events("k", 1..=2)).await.unwrap();
    let twice = Turn {
        member: A,
        lanes: vec![a.part(1), a.part(1)],
        bytes_max: 1,
    };
    assert_eq!(a.store.turn(twice).await.unwrap_err().code(), Code::Internal);
    assert_eq!(numbers(&a.plan(1).await), [1]);
}

pub async fn o_032_a_plan_of_nothing_plans_nothing(subject: &dyn Subject) {
    let a = single(subject, false).await;
    assert_eq!(planned(a.turn(a.part(10)).await), (vec![], false));
    assert!(a.send(Vec::new()).await.is_empty());
    let state = Relay::start(&a.store, A).await.held.owned[0].state;
    assert_eq!((state.settled, state.planned, state.chain), (0, 0, Chain::START));
}

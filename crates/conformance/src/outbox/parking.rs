//! Poison: set aside and put back.

use tidegate_core::lease::Token;
use tidegate_core::outbox::{LaneTurned, Park, ParkReply, Planned};
use tidegate_core::stream::Chain;
use tidegate_core::{Code, Event};

use super::{A, Relay, Subject, end, event, ids, numbers, planned, single};

fn ask(relay: &Relay, n: u64, followers: bool) -> Park {
    Park {
        member: relay.member,
        lane: relay.lane(),
        token: relay.token(),
        n,
        followers,
        reason: "too large".into(),
    }
}

/// Parks, and goes on under the new token.
async fn park(relay: &mut Relay, n: u64, followers: bool) -> Vec<u64> {
    match relay.store.park(ask(relay, n, followers)).await.unwrap() {
        ParkReply::Parked { token, voided } => {
            relay.lanes[0].1 = token;
            voided
        }
        ParkReply::Fenced => panic!("the lane is mine"),
    }
}

/// Two keys, alternating: odd ids of `p`, even ones of `q`.
async fn two_keys(subject: &dyn Subject, count: u128) -> Relay {
    let relay = single(subject, false).await;
    let rows = (1..=count)
        .map(|n| event(if n % 2 == 1 { "p" } else { "q" }, n))
        .collect();
    relay.store.enqueue(rows).await.unwrap();
    relay
}

pub async fn o_040_a_poisoned_event_becomes_void_and_the_lane_goes_on(subject: &dyn Subject) {
    let mut a = two_keys(subject, 6).await;
    assert_eq!(ids(&a.plan(4).await), [1, 2, 3, 4]);
    assert_eq!(park(&mut a, 2, true).await, [2, 4]);
    assert_eq!(ids(&a.load().await), [1, 0, 3, 0]);
    assert_eq!(ids(&a.plan(9).await), [5], "6 waits behind 2");
    assert_eq!(a.depth().await, 3);
}

pub async fn o_041_planned_followers_are_voided_too(subject: &dyn Subject) {
    let mut a = two_keys(subject, 6).await;
    a.plan(6).await;
    assert_eq!(park(&mut a, 3, true).await, [3, 5], "not the one before it");
    assert_eq!(ids(&a.load().await), [1, 2, 0, 4, 0, 6]);
}

pub async fn o_042_planned_followers_stay_when_not_asked(subject: &dyn Subject) {
    let mut a = two_keys(subject, 6).await;
    a.plan(4).await;
    assert_eq!(park(&mut a, 1, false).await, [1]);
    assert_eq!(ids(&a.load().await), [0, 2, 3, 4]);
    assert_eq!(ids(&a.plan(9).await), [6], "unplanned ones wait all the same");
}

pub async fn o_043_new_rows_of_a_parked_key_wait_behind_it(subject: &dyn Subject) {
    let mut a = two_keys(subject, 2).await;
    a.plan(2).await;
    park(&mut a, 1, true).await;
    a.store
        .enqueue(vec![event("p", 3), event("q", 4), event("p", 5)])
        .await
        .unwrap();
    assert_eq!(
        planned(a.turn(a.part(1)).await),
        (vec![], true),
        "3 was looked at and set aside"
    );
    let (rows, more) = planned(a.turn(a.part(9)).await);
    assert_eq!((numbers(&rows), ids(&rows), more), (vec![3], vec![4], false));
    let parked = a.store.parked(10).await.unwrap();
    assert_eq!((parked.len(), parked[0].events), (1, 3));
    assert_eq!(a.depth().await, 2, "2 and 4");
}

pub async fn o_044_a_release_keeps_the_order_of_the_key(subject: &dyn Subject) {
    let mut a = two_keys(subject, 6).await;
    a.plan(4).await;
    park(&mut a, 1, true).await;
    a.plan(9).await;
    a.store
        .enqueue(vec![event("p", 7), event("q", 8), event("p", 9)])
        .await
        .unwrap();
    assert_eq!(a.store.release("p".into()).await.unwrap(), 3, "1, 3 and 5");
    a.store.enqueue(vec![event("p", 11)]).await.unwrap();
    let rows: Vec<Planned> = a.plan(20).await;
    let of = |key: &str| {
        let mine = rows.iter().filter_map(|p| p.event.as_ref());
        let mine = mine.filter(|e| e.key.as_deref() == Some(key));
        mine.map(|e| e.id.as_u128()).collect::<Vec<_>>()
    };
    assert_eq!(of("p"), [1, 3, 5, 7, 9, 11]);
    assert_eq!(of("q"), [8]);
    assert!(a.store.parked(10).await.unwrap().is_empty());
    let first = rows
        .iter()
        .filter_map(|p| p.event.as_ref())
        .find(|e| e.id.as_u128() == 1);
    assert_eq!(first, Some(&event("p", 1)), "unchanged");
    let all = a.load().await;
    assert_eq!(numbers(&all), (1..=all.len() as u64).collect::<Vec<_>>());
    planned(a.settle(Chain::START, &all).await);
    assert_eq!(a.depth().await, 0);
}

pub async fn o_045_an_event_without_a_key_parks_alone(subject: &dyn Subject) {
    let mut a = single(subject, false).await;
    let bare = |n| Event {
        key: None,
        ..event("", n)
    };
    a.store.enqueue((1..=4).map(bare).collect()).await.unwrap();
    a.plan(3).await;
    assert_eq!(park(&mut a, 2, true).await, [2]);
    assert_eq!(ids(&a.plan(9).await), [4]);
    let key = bare(2).id.to_string();
    assert_eq!(a.store.parked(9).await.unwrap()[0].key, key);
    assert_eq!(a.store.release(key).await.unwrap(), 1);
    assert_eq!(ids(&a.plan(9).await), [2]);
}

pub async fn o_046_parking_raises_the_token(subject: &dyn Subject) {
    let mut a = two_keys(subject, 2).await;
    a.plan(2).await;
    let before = ask(&a, 1, true);
    let old = a.part(1);
    park(&mut a, 1, true).await;
    assert!(a.token() > before.token);
    assert_eq!(a.store.park(before).await.unwrap(), ParkReply::Fenced, "a repeat");
    assert_eq!(a.turn(old).await, LaneTurned::Fenced);
    let held = Relay::start(&a.store, A).await;
    assert_eq!(held.lanes, a.lanes, "the hold says the new token");
}

pub async fn o_047_only_a_planned_event_can_be_parked(subject: &dyn Subject) {
    let mut a = two_keys(subject, 6).await;
    let plan = a.plan(4).await;
    a.settle(Chain::START, &plan[..1]).await;
    park(&mut a, 2, false).await;
    for n in [0, 1, 2, 5, u64::MAX] {
        let error = a.store.park(ask(&a, n, true)).await.unwrap_err();
        assert_eq!(error.code(), Code::Internal, "{n}");
    }
    let stale = Park {
        token: Token(1),
        ..ask(&a, 3, true)
    };
    assert_eq!(a.store.park(stale).await.unwrap(), ParkReply::Fenced);
    assert_eq!(ids(&a.load().await), [0, 3, 4]);
}

pub async fn o_048_releasing_what_is_not_parked_is_nothing(subject: &dyn Subject) {
    let a = two_keys(subject, 4).await;
    assert_eq!(a.store.release("p".into()).await.unwrap(), 0);
    assert_eq!(ids(&a.plan(9).await), [1, 2, 3, 4]);
}

pub async fn o_049_parked_keys_are_told(subject: &dyn Subject) {
    let mut a = two_keys(subject, 6).await;
    a.plan(6).await;
    park(&mut a, 1, true).await;
    park(&mut a, 4, true).await;
    let parked = a.store.parked(10).await.unwrap();
    let told: Vec<_> = parked
        .iter()
        .map(|p| (p.key.as_str(), p.events, p.attempts))
        .collect();
    assert_eq!(told, [("p", 3, 1), ("q", 2, 1)]);
    assert_eq!(parked[0].reason, "too large");
    assert_eq!(a.store.parked(1).await.unwrap().len(), 1);
    assert_eq!(a.store.lanes().await.unwrap()[0].parked_keys, 2);
    a.store.release("p".into()).await.unwrap();
    assert_eq!(a.store.lanes().await.unwrap()[0].parked_keys, 1);
}

pub async fn o_050_voids_are_settled_like_events(subject: &dyn Subject) {
    let mut a = two_keys(subject, 4).await;
    a.plan(4).await;
    park(&mut a, 1, true).await;
    let plan = a.load().await;
    assert_eq!(ids(&plan), [0, 2, 0, 4]);
    planned(a.settle(Chain::START, &plan[..1]).await);
    let (_, chain) = end(Chain::START, &plan[..1]);
    planned(a.settle(chain, &plan[1..]).await);
    let state = Relay::start(&a.store, A).await.held.owned[0].state;
    assert_eq!((state.settled, state.chain), end(Chain::START, &plan));
    assert_eq!(a.depth().await, 0);
}

pub async fn o_051_a_parked_key_may_be_parked_again(subject: &dyn Subject) {
    let mut a = two_keys(subject, 6).await;
    a.plan(6).await;
    park(&mut a, 1, false).await;
    assert_eq!(park(&mut a, 3, true).await, [3, 5]);
    let parked = a.store.parked(10).await.unwrap();
    assert_eq!((parked[0].events, parked[0].attempts), (3, 2));
    a.store.release("p".into()).await.unwrap();
    assert_eq!(ids(&a.plan(9).await), [1, 3, 5]);
    park(&mut a, 7, true).await;
    assert_eq!(a.store.parked(10).await.unwrap()[0].events, 3);
}

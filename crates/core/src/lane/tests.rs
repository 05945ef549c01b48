use std::time::Duration;

use uuid::Uuid;

use super::ownership::{Change, Options, Ownership};
use super::{Held, LaneId, Lineage, Owned, slot_of};
use crate::lease::{Nonce, Token};
use crate::time::Ticks;

fn lane(slot: u16) -> LaneId {
    LaneId {
        lineage: Lineage(Uuid::from_u128(7)),
        slot,
    }
}

fn at(millis: i64) -> Ticks {
    Ticks::from_micros(millis * 1000)
}

fn held(members: u32, lanes: &[(u16, u64)]) -> Held<()> {
    let owned = lanes
        .iter()
        .map(|(s, t)| Owned {
            lane: lane(*s),
            token: Token(*t),
            state: (),
        })
        .collect();
    Held {
        members,
        lanes: 4,
        owned,
    }
}

fn two_seconds() -> Ownership {
    let options = Options {
        ttl: Duration::from_secs(2),
        label: "t".into(),
    };
    Ownership::new(Nonce(1), options)
}

#[test]
fn slots_match_the_shared_vectors() {
    let id = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    assert_eq!(
        slot_of(Some("order-1"), id, 64),
        slot_of(Some("order-1"), Uuid::nil(), 64)
    );
    let vectors = ["order-1", "ORD", "å", ""].map(|k| slot_of(Some(k), id, 64));
    assert_eq!(vectors, [45, 56, 62, 5]);
    assert_eq!(slot_of(None, id, 64), 1);
}

#[test]
fn trust_is_counted_from_the_send_time() {
    let mut own = two_seconds();
    own.due(at(0)).unwrap();
    own.held(at(1500), held(1, &[(0, 5)]));
    // 2 s ttl, 200 ms drift and 200 ms stop budget: trust ends 1.6 s after the send, not after the reply.
    assert!(own.expire(at(1599)).is_empty());
    assert_eq!(own.expire(at(1600)), vec![lane(0)]);
}

#[test]
fn a_grant_that_arrives_too_late_is_no_grant() {
    let mut own = two_seconds();
    own.due(at(0)).unwrap();
    assert!(own.held(at(1600), held(1, &[(0, 5)])).is_empty());
    assert_eq!(own.token(lane(0)), None);
}

#[test]
fn a_failed_hold_does_not_extend_trust() {
    let mut own = two_seconds();
    own.due(at(0)).unwrap();
    own.held(at(1), held(1, &[(0, 5)]));
    own.due(at(700)).unwrap();
    own.failed(at(1000));
    assert_eq!(own.expire(at(1600)), vec![lane(0)]);
}

#[test]
fn lanes_above_the_fair_share_are_drained_then_released() {
    let mut own = two_seconds();
    own.due(at(0)).unwrap();
    own.held(at(1), held(1, &[(0, 5), (1, 5), (2, 5), (3, 5)]));
    own.due(at(700)).unwrap();
    own.held(at(701), held(2, &[(0, 5), (1, 5), (2, 5), (3, 5)]));
    assert_eq!(own.draining(), vec![lane(2), lane(3)]);
    own.drained(lane(3), at(702));
    let hold = own.due(at(702)).unwrap();
    assert_eq!(hold.release, vec![(lane(3), Token(5))]);
    let changes = own.held(at(703), held(2, &[(0, 5), (1, 5), (2, 5)]));
    assert!(
        !changes
            .iter()
            .any(|c| matches!(c, Change::Lost(l) if *l == lane(3)))
    );
    assert_eq!(own.draining(), vec![lane(2)]);
}

#[test]
fn another_token_is_a_loss_and_a_gain() {
    let mut own = two_seconds();
    own.due(at(0)).unwrap();
    own.held(at(1), held(1, &[(0, 5)]));
    own.due(at(700)).unwrap();
    let changes = own.held(at(701), held(1, &[(0, 6)]));
    assert!(matches!(
        changes[..],
        [Change::Lost(_), Change::Gained { token: Token(6), .. }]
    ));
}

#[test]
fn a_stopping_worker_leaves_after_everything_is_drained() {
    let mut own = two_seconds();
    own.due(at(0)).unwrap();
    own.held(at(1), held(1, &[(0, 5), (1, 5)]));
    own.stop(at(10));
    assert_eq!(own.draining().len(), 2);
    own.drained(lane(0), at(11));
    own.drained(lane(1), at(11));
    let hold = own.due(at(11)).unwrap();
    assert!(hold.leave && hold.release.len() == 2);
    assert!(!own.left());
    own.held(at(12), held(0, &[]));
    assert!(own.left());
}

#[test]
fn a_leaving_member_releases_what_it_had_lost_sight_of() {
    let mut own = two_seconds();
    own.stop(at(0));
    assert!(own.due(at(0)).unwrap().leave);
    own.held(at(10), held(0, &[(2, 5)]));
    assert!(!own.left(), "the store still counts a lane as mine");
    own.drained(lane(2), at(10));
    let hold = own.due(at(11)).unwrap();
    assert_eq!(hold.release, vec![(lane(2), Token(5))]);
    own.held(at(20), held(0, &[]));
    assert!(own.left());
}

#[test]
fn an_answer_from_before_a_raise_does_not_lower_the_token() {
    let mut own = two_seconds();
    own.due(at(0)).unwrap();
    own.held(at(10), held(1, &[(0, 5)]));
    own.due(at(1000)).unwrap();
    own.retoken(lane(0), Token(9));
    assert_eq!(own.held(at(1010), held(1, &[(0, 5)])), vec![]);
    assert_eq!(own.token(lane(0)), Some(Token(9)));
    assert_eq!(own.expire(at(1700)), vec![lane(0)], "and trust is not extended");
}

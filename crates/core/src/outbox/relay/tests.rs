use std::time::Duration;

use uuid::Uuid;

use super::{Effect, Input, Machine, Note, Options};
use crate::error::{Error, Reply};
use crate::event::{Draft, Event};
use crate::lane::{Held, LaneId, Lineage, Owned};
use crate::lease::{Nonce, Token};
use crate::outbox::{LaneState, LaneTurned, Planned, Refill, Turned};
use crate::stream::{Appended, Chain, Register};
use crate::time::{Ticks, Timestamp};

const LANE: LaneId = LaneId {
    lineage: Lineage(Uuid::from_u128(1)),
    slot: 0,
};

fn at(millis: i64) -> Ticks {
    Ticks::from_micros(millis * 1000)
}

fn event(n: u64) -> Event {
    Draft::new("t", "k")
        .seal(Uuid::from_u128(u128::from(n)), Timestamp::default())
        .unwrap()
}

fn plan(numbers: impl Iterator<Item = u64>) -> Vec<Planned> {
    numbers
        .map(|n| Planned {
            n,
            event: Some(event(n)),
        })
        .collect()
}

fn chain(n: u64) -> Chain {
    (1..=n).fold(Chain::START, |chain, n| chain.next(n, Some(event(n).id)))
}

fn turned(events: Vec<Planned>) -> Input {
    let outcome = LaneTurned::Planned { events, more: false };
    Input::Turned(Reply::Done(vec![Turned { lane: LANE, outcome }]))
}

fn register(n: u64) -> Input {
    let register = Register {
        n,
        token: Token(5),
        chain: chain(n),
    };
    Input::Registered(Reply::Done(vec![Some(register)]))
}

fn held(settled: u64, planned: u64) -> Input {
    let state = LaneState {
        settled,
        chain: chain(settled),
        planned,
    };
    let owned = vec![Owned {
        lane: LANE,
        token: Token(5),
        state,
    }];
    Input::Held(Reply::Done(Held {
        members: 1,
        lanes: 1,
        owned,
    }))
}

/// A relay that owns the lane, with `settled` settled and an unfinished plan up to `planned`; the stream at `n`.
fn owning(settled: u64, planned: u64, n: u64) -> (Machine, Vec<Effect>) {
    let mut m = Machine::new(Options::default(), Nonce(1));
    m.step(at(0), Input::Tick);
    let effects = m.step(at(1), held(settled, planned));
    assert!(matches!(
        effects[..],
        [
            Effect::Note(Note::Gained(..)),
            Effect::Register(_),
            Effect::Turn(_)
        ]
    ));
    m.step(at(2), turned(plan(settled + 1..=planned)));
    let effects = m.step(at(3), register(n));
    (m, effects)
}

fn appended(effects: &[Effect]) -> Option<Vec<u64>> {
    effects.iter().find_map(|e| match e {
        Effect::Append(lanes) => Some(lanes[0].entries.iter().map(|e| e.n).collect()),
        _ => None,
    })
}

#[test]
fn o5_a_successor_appends_only_what_the_stream_lacks() {
    let (_, effects) = owning(0, 3, 2);
    assert!(effects.contains(&Effect::Note(Note::AlreadyThere(2))));
    assert_eq!(appended(&effects), Some(vec![3]));
}

#[test]
fn o1_only_acknowledged_numbers_are_settled() {
    let (mut m, effects) = owning(0, 3, 0);
    assert_eq!(appended(&effects), Some(vec![1, 2, 3]));
    let effects = m.step(at(4), Input::Appended(Reply::Done(vec![Appended::Through(3)])));
    let settle = effects.iter().find_map(|e| match e {
        Effect::Turn(turn) => turn.lanes[0].settle,
        _ => None,
    });
    assert_eq!(settle, Some((3, chain(3))));
}

#[test]
fn an_unknown_append_is_resolved_by_the_register_before_anything_is_sent() {
    let (mut m, _) = owning(0, 3, 0);
    let effects = m.step(at(4), Input::Appended(Reply::Unknown(Error::unknown("lost"))));
    assert_eq!(appended(&effects), None);
    let effects = m.step(at(200), Input::Tick);
    assert!(effects.iter().any(|e| matches!(e, Effect::Register(_))) && appended(&effects).is_none());
    assert_eq!(appended(&m.step(at(201), register(1))), Some(vec![2, 3]));
}

#[test]
fn an_outage_pauses_and_settles_nothing() {
    let (mut m, _) = owning(0, 3, 0);
    let down = Error::new(crate::Code::StoreUnavailable, "down");
    let effects = m.step(at(4), Input::Appended(Reply::Refused(down)));
    assert!(
        matches!(effects[..], [Effect::Note(Note::Outage(..))]),
        "{effects:?}"
    );
    assert_eq!(appended(&m.step(at(100), Input::Tick)), Some(vec![1, 2, 3]));
}

#[test]
fn a_register_below_what_is_settled_is_refilled_in_the_same_numbers() {
    let (mut m, effects) = owning(5, 5, 2);
    assert!(effects.contains(&Effect::Note(Note::StreamLost {
        lane: LANE,
        register: 2,
        settled: 5
    })));
    assert!(
        effects
            .iter()
            .any(|e| matches!(e, Effect::Refill { from: 3, .. }))
    );
    let history = plan(3..=5).into_iter().map(|p| (p.clone(), chain(p.n))).collect();
    let effects = m.step(at(4), Input::Refilled(Reply::Done(Refill::Events(history))));
    assert_eq!(appended(&effects), Some(vec![3, 4, 5]));
    let effects = m.step(at(5), Input::Appended(Reply::Done(vec![Appended::Through(5)])));
    assert!(effects.contains(&Effect::Note(Note::Refilled(LANE, 3))));
}

#[test]
fn what_no_archive_holds_is_declared_with_its_exact_range() {
    let (mut m, _) = owning(5, 5, 2);
    let missing = Refill::Missing {
        oldest: 6,
        chain: chain(5),
    };
    let effects = m.step(at(4), Input::Refilled(Reply::Done(missing)));
    let declared = effects.iter().find_map(|e| match e {
        Effect::Declare(lost, _) => Some((lost.from, lost.through)),
        _ => None,
    });
    assert_eq!(declared, Some((3, 5)));
}

#[test]
fn a_history_whose_chain_does_not_follow_is_a_fork() {
    let (mut m, _) = owning(5, 5, 2);
    let history = plan(3..=5).into_iter().map(|p| (p, Chain([9; 16]))).collect();
    let effects = m.step(at(4), Input::Refilled(Reply::Done(Refill::Events(history))));
    assert!(
        effects
            .iter()
            .any(|e| matches!(e, Effect::Note(Note::Forked(..))))
    );
    assert_eq!(m.status().forked, 1);
}

#[test]
fn a_register_beyond_the_plan_is_a_fork_only_after_reloading_says_so_again() {
    let (mut m, mut effects) = owning(0, 2, 7);
    for attempt in 0..2 {
        assert_eq!(m.status().forked, 0, "attempt {attempt}");
        assert!(
            effects.iter().any(|e| matches!(e, Effect::Hold(_))),
            "{effects:?}"
        );
        let now = 10 + attempt * 10;
        m.step(at(now), held(0, 2));
        m.step(at(now + 1), turned(plan(1..=2)));
        effects = m.step(at(now + 2), register(7));
    }
    assert_eq!(m.status().forked, 1);
}

#[test]
fn a_fenced_append_drops_the_lane() {
    let (mut m, _) = owning(0, 3, 0);
    let effects = m.step(
        at(4),
        Input::Appended(Reply::Done(vec![Appended::Fenced(Token(6))])),
    );
    assert!(effects.contains(&Effect::Note(Note::Fenced(LANE))));
    assert_eq!(m.status().lanes, 0);
}

#[test]
fn nothing_is_appended_after_trust_ran_out() {
    let (mut m, _) = owning(0, 3, 0);
    let effects = m.step(
        at(20_000),
        Input::Appended(Reply::Done(vec![Appended::Moved(Register::default())])),
    );
    assert_eq!(appended(&effects), None);
    assert_eq!(m.status().lanes, 0);
}

#[test]
fn s1_a_stop_settles_what_was_acknowledged_then_leaves() {
    let (mut m, _) = owning(0, 3, 0);
    // First the membership ends, so that others may claim a larger share; the lane is kept until it is drained.
    let effects = m.step(at(4), Input::Stop);
    let [Effect::Hold(hold)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(hold.leave && hold.release.is_empty());
    m.step(at(4), held(0, 3));
    let effects = m.step(at(5), Input::Appended(Reply::Done(vec![Appended::Through(3)])));
    assert!(
        matches!(&effects[..], [Effect::Note(_), Effect::Turn(_)]),
        "{effects:?}"
    );
    let effects = m.step(at(6), turned(Vec::new()));
    let [Effect::Hold(hold)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(hold.leave && hold.release == vec![(LANE, Token(5))]);
    let left = Held {
        members: 0,
        lanes: 1,
        owned: Vec::new(),
    };
    assert_eq!(
        m.step(at(7), Input::Held(Reply::Done(left))),
        vec![Effect::Stopped]
    );
    assert_eq!(m.wake_at(), None);
}

#[test]
fn a_plan_that_does_not_extend_mine_reloads_the_lane() {
    let (mut m, _) = owning(0, 0, 0);
    let effects = m.step(at(4), Input::Rung);
    assert!(
        effects.iter().any(|e| matches!(e, Effect::Turn(_))),
        "{effects:?}"
    );
    let effects = m.step(at(5), turned(plan(3..=4)));
    assert!(
        effects.iter().any(|e| matches!(e, Effect::Hold(_))),
        "{effects:?}"
    );
    assert_eq!(appended(&effects), None);
    assert!(m.wake_at().unwrap() <= at(5).after(Duration::from_secs(1)));
}

#[test]
fn a_small_batch_plans_without_panic() {
    let options = Options {
        batch_max: 4,
        ..Options::default()
    };
    let mut m = Machine::new(options, Nonce(1));
    m.step(at(0), Input::Tick);
    let effects = m.step(at(1), held(0, 0));
    let plan = effects.iter().find_map(|e| match e {
        Effect::Turn(turn) => Some(turn.lanes[0].plan),
        _ => None,
    });
    assert_eq!(plan, Some(4));
}

#[test]
fn what_is_in_flight_does_not_wake_the_machine() {
    let mut m = Machine::new(Options::default(), Nonce(1));
    m.step(at(0), Input::Tick);
    m.step(at(1), held(0, 0));
    // A register and a turn are in flight, and both are due again.
    m.step(at(5000), Input::Tick);
    assert!(m.wake_at().unwrap() > at(5000), "{:?}", m.wake_at());
}

#[test]
fn a_poll_without_room_comes_with_the_next_reply() {
    for (planned, acknowledged) in [(1500, vec![1000]), (2000, vec![1000, 2000])] {
        let (mut m, _) = owning(0, planned, 0);
        let polls = |e: &Effect| matches!(e, Effect::Turn(turn) if turn.lanes[0].plan > 0);
        let mut effects = m.step(at(1500), Input::Tick);
        m.step(at(1501), register(0));
        for through in acknowledged {
            assert!(!effects.iter().any(polls));
            assert!(m.wake_at().unwrap() > at(1501), "{:?}", m.wake_at());
            effects = m.step(
                at(1502),
                Input::Appended(Reply::Done(vec![Appended::Through(through)])),
            );
        }
        assert!(effects.iter().any(polls), "{effects:?}");
    }
}

fn refilling() -> Machine {
    let (mut m, _) = owning(5, 5, 2);
    let history = plan(3..=5).into_iter().map(|p| (p.clone(), chain(p.n))).collect();
    m.step(at(4), Input::Refilled(Reply::Done(Refill::Events(history))));
    m
}

fn holds(effects: &[Effect]) -> bool {
    effects.iter().any(|e| matches!(e, Effect::Hold(_)))
}

#[test]
fn a_refill_that_meets_another_loss_starts_over() {
    let mut m = refilling();
    let lost = Register {
        n: 1,
        token: Token(5),
        chain: chain(1),
    };
    let effects = m.step(at(5), Input::Appended(Reply::Done(vec![Appended::Moved(lost)])));
    assert_eq!(appended(&effects), None);
    assert!(holds(&effects), "the lane is loaded again: {effects:?}");
}

#[test]
fn a_refill_whose_reply_is_lost_starts_over() {
    let mut m = refilling();
    m.step(at(5), Input::Appended(Reply::Unknown(Error::unknown("lost"))));
    let effects = m.step(at(200), Input::Tick);
    assert!(holds(&effects), "the lane is loaded again: {effects:?}");
}

#[test]
fn settled_history_that_the_sink_refuses_now_is_an_outage_not_poison() {
    let mut m = refilling();
    let poison = Appended::Poison {
        n: 4,
        reason: "too large".into(),
    };
    let effects = m.step(at(5), Input::Appended(Reply::Done(vec![poison])));
    assert!(
        matches!(effects[..], [Effect::Note(Note::Outage(..))]),
        "{effects:?}"
    );
    let wake = m.wake_at().unwrap();
    assert_eq!(appended(&m.step(wake, Input::Tick)), Some(vec![3, 4, 5]));
}

#[test]
fn rows_planned_by_a_turn_that_was_given_up_are_loaded() {
    let (mut m, _) = owning(0, 0, 0);
    let effects = m.step(at(1200), Input::Tick);
    assert!(holds(&effects), "{effects:?}");
    m.step(at(1201), turned(Vec::new()));
    let effects = m.step(at(1501), held(0, 4));
    assert!(holds(&effects), "a longer plan than mine is a doubt: {effects:?}");
    let effects = m.step(at(1502), held(0, 4));
    let loads = |e: &Effect| matches!(e, Effect::Turn(turn) if turn.lanes[0].load);
    assert!(effects.iter().any(loads), "{effects:?}");
}

#[test]
fn a_turn_sent_before_a_reload_is_not_taken_for_the_plan() {
    let (mut m, _) = owning(0, 2, 0);
    m.step(at(4), Input::Rung);
    // The stream lost what it had acknowledged, while a turn is in flight.
    m.step(at(5), Input::Appended(Reply::Done(vec![Appended::Through(2)])));
    let effects = m.step(at(2500), Input::Tick);
    let asks = |e: &Effect| matches!(e, Effect::Register(_));
    assert!(effects.iter().any(asks), "{effects:?}");
    m.step(at(2501), held(0, 2));
    m.step(at(2502), register(0));
    let effects = m.step(at(2503), Input::Tick);
    assert!(!holds(&effects), "the turn comes first: {effects:?}");
    let effects = m.step(at(2504), turned(Vec::new()));
    assert!(holds(&effects), "{effects:?}");
    m.step(at(2505), held(0, 2));
    m.step(at(2506), turned(plan(1..=2)));
    assert_eq!(appended(&m.step(at(2507), register(0))), Some(vec![1, 2]));
}

#[test]
fn s1_a_stopping_relay_starts_no_chore() {
    let (mut m, _) = owning(0, 3, 0);
    m.step(at(4), Input::Stop);
    let poison = Appended::Poison {
        n: 1,
        reason: "too large".into(),
    };
    let effects = m.step(at(5), Input::Appended(Reply::Done(vec![poison])));
    assert_eq!(effects, vec![]);
    let effects = m.step(at(6), held(0, 3));
    let [Effect::Hold(hold)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(hold.release, vec![(LANE, Token(5))]);
}

#[test]
fn a_settle_that_contradicts_the_plan_reloads_until_one_lane_is_forked() {
    let (mut m, _) = owning(0, 2, 0);
    m.step(at(4), Input::Appended(Reply::Done(vec![Appended::Through(2)])));
    let fork = Error::new(crate::Code::Fork, "another history");
    m.step(at(5), Input::Turned(Reply::Refused(fork)));
    let effects = m.step(at(100), Input::Tick);
    assert!(holds(&effects), "{effects:?}");
}

/// Renewals fail again and again while a store is locked; that must not turn seconds into the longest pause.
#[test]
fn failures_during_a_pause_do_not_lengthen_it() {
    let (mut m, _) = owning(0, 0, 0);
    let pause = |effects: Vec<Effect>| {
        effects.into_iter().find_map(|e| match e {
            Effect::Note(Note::Outage(_, pause)) => Some(pause),
            _ => None,
        })
    };
    let down = || Input::Held(Reply::Unknown(Error::unknown("locked")));
    assert_eq!(pause(m.step(at(1000), down())), Some(Duration::from_millis(50)));
    assert_eq!(pause(m.step(at(1020), down())), Some(Duration::from_millis(30)));
    assert_eq!(pause(m.step(at(1040), down())), Some(Duration::from_millis(10)));
    assert_eq!(pause(m.step(at(1060), down())), Some(Duration::from_millis(100)));
}

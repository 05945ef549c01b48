use std::time::Duration;

use uuid::Uuid;

use super::{Effect, Input, Machine, Note, Options};
use crate::error::Reply;
use crate::event::Draft;
use crate::inbox::{Applied, Counts, Failed, KeyRef, LaneApplied, Position, Retried, Start};
use crate::lane::{Held, LaneId, Lineage, Owned};
use crate::lease::{Nonce, Token};
use crate::stream::{Chain, Entry, EntryId, Page, Place, Register, Registers};
use crate::time::{Now, Ticks, Timestamp};

const LANE: LaneId = LaneId {
    lineage: Lineage(Uuid::from_u128(1)),
    slot: 0,
};

fn at(millis: i64) -> Now {
    Now {
        ticks: Ticks::from_micros(millis * 1000),
        wall: Timestamp::from_micros(millis * 1000),
    }
}

/// Entry `n` stands at position `n`.
fn entry(n: u64) -> Entry {
    let event = Draft::new("t", "k")
        .seal(Uuid::from_u128(u128::from(n)), Timestamp::default())
        .unwrap();
    Entry {
        id: EntryId(0, n),
        lane: LANE,
        n,
        chain: chain(n),
        event: Some(event),
    }
}

fn chain(n: u64) -> Chain {
    (1..=n).fold(Chain::START, |chain, n| {
        chain.next(n, Some(Uuid::from_u128(u128::from(n))))
    })
}

fn position(hw: u64) -> Position {
    Position {
        hw,
        chain: chain(hw),
        cursor: EntryId(0, hw),
        clean: true,
    }
}

fn held(lanes: u32, owned: Vec<(LaneId, Position)>) -> Input {
    let owned = owned.into_iter().map(|(lane, state)| Owned {
        lane,
        token: Token(5),
        state,
    });
    Input::Held(Reply::Done(Held {
        members: 1,
        lanes,
        owned: owned.collect(),
    }))
}

fn registers(n: u64) -> Input {
    let register = Register {
        n,
        token: Token(5),
        chain: chain(n),
    };
    Input::Registers(Reply::Done(Registers {
        incarnation: Uuid::from_u128(1),
        lanes: vec![(LANE, register)],
    }))
}

fn page(numbers: impl Iterator<Item = u64>, last: u64) -> Input {
    Input::Page(Reply::Done(Page {
        incarnation: Uuid::from_u128(1),
        entries: numbers.map(entry).collect(),
        scanned: EntryId(0, last),
        last: EntryId(0, last),
    }))
}

fn applied(outcome: LaneApplied) -> Input {
    Input::Applied(Reply::Done(Applied {
        lanes: vec![(LANE, outcome)],
        ..Applied::default()
    }))
}

/// A look every second: what the machine said of a gap meanwhile. Every read finds the stream empty.
fn looks(m: &mut Machine, seconds: std::ops::Range<i64>, register: u64) -> Vec<Note> {
    let mut notes = Vec::new();
    for second in seconds {
        let mut effects = m.step(at(second * 1000), Input::Tick);
        while let Some(effect) = effects.pop() {
            let reply = match effect {
                Effect::Registers => registers(register),
                Effect::Read { .. } => page(std::iter::empty(), 0),
                Effect::Retry(_) => Input::Retried(Reply::Done(super::Retried::default())),
                Effect::MoveCursors(_) => Input::CursorsMoved(Reply::Done(0)),
                Effect::Hold(_) => held(1, vec![(LANE, position(0))]),
                Effect::Note(note @ Note::Gap { .. }) => {
                    notes.push(note);
                    continue;
                }
                _ => continue,
            };
            effects.extend(m.step(at(second * 1000 + 1), reply));
        }
    }
    notes
}

/// A consumer that owns the lane at `hw`, past its first look at parked keys; a read is in flight.
fn owning(hw: u64) -> Machine {
    let mut options = Options::new(Start::Earliest);
    options.hold.ttl = Duration::from_secs(3600);
    let mut m = Machine::new(options, Nonce(1));
    m.step(at(0), Input::Tick);
    m.step(at(1), held(1, vec![(LANE, position(hw))]));
    m.step(at(2), registers(hw));
    m.step(at(3), Input::Discovered(Reply::Done(())));
    m.step(at(4), Input::Retried(Reply::Done(super::Retried::default())));
    m.step(at(5), Input::CursorsMoved(Reply::Done(0)));
    m.step(at(6), held(1, vec![(LANE, position(hw))]));
    m
}

fn given(effects: &[Effect]) -> Option<Vec<u64>> {
    effects.iter().find_map(|e| match e {
        Effect::Apply(batch) => Some(batch.lanes[0].entries.iter().map(|e| e.n).collect()),
        _ => None,
    })
}

fn reads_after(effects: &[Effect]) -> Option<u64> {
    effects.iter().find_map(|e| match e {
        Effect::Read { after, .. } => Some(after.1),
        _ => None,
    })
}

#[test]
fn what_is_read_is_given_to_the_apply_in_order() {
    let mut m = owning(3);
    assert_eq!(given(&m.step(at(7), page(4..=6, 6))), Some(vec![4, 5, 6]));
    m.step(at(8), applied(LaneApplied::At(position(6))));
    assert_eq!(m.status().behind, 0);
}

#[test]
fn what_is_in_flight_does_not_wake_the_machine() {
    let mut m = owning(3);
    m.step(at(7), page(4..=6, 6));
    m.step(at(8), Input::Rung);
    m.step(at(5000), Input::Tick);
    assert!(m.wake_at().unwrap() > at(5000).ticks, "{:?}", m.wake_at());
}

#[test]
fn a_consumer_without_lanes_sleeps_and_knows_that_it_is_quiet() {
    let mut m = Machine::new(Options::new(Start::Earliest), Nonce(1));
    m.step(at(0), Input::Tick);
    m.step(at(1), registers(9));
    assert_eq!(m.step(at(2), held(1, Vec::new())), vec![Effect::Registers]);
    m.step(at(3), registers(9));
    m.step(at(3), Input::Discovered(Reply::Done(())));
    m.step(at(4), held(1, Vec::new()));
    assert!(m.status().quiet);
    assert!(m.wake_at().unwrap() > at(500).ticks, "{:?}", m.wake_at());
}

#[test]
fn an_empty_stream_is_asked_once_a_ring() {
    let mut m = Machine::new(Options::new(Start::Earliest), Nonce(1));
    m.step(at(0), Input::Tick);
    let none = || {
        Input::Registers(Reply::Done(Registers {
            incarnation: Uuid::from_u128(1),
            lanes: Vec::new(),
        }))
    };
    assert_eq!(m.step(at(1), none()), vec![]);
    assert_eq!(m.step(at(2), Input::Rung), vec![Effect::Registers]);
    assert_eq!(m.step(at(3), none()), vec![]);
}

#[test]
fn a_page_asked_for_before_a_rewind_moves_nothing() {
    let mut m = owning(3);
    m.step(at(7), page(4..=6, 6));
    let effects = m.step(at(8), Input::Rung);
    assert_eq!(reads_after(&effects), Some(6));
    // The commit is unknown: the lane is read again after 3, and the page after 6 says nothing about 4 to 6.
    let unknown = Reply::Unknown(crate::Error::unknown("lost"));
    m.step(at(9), Input::Applied(unknown));
    let effects = m.step(at(100), page(std::iter::empty(), 9));
    assert_eq!(reads_after(&effects), Some(3), "{effects:?}");
    let moved = |e: &Effect| matches!(e, Effect::MoveCursors(moves) if !moves.is_empty());
    assert!(!effects.iter().any(moved));
    let effects = m.step(at(101), page(4..=9, 9));
    assert_eq!(given(&effects), Some(vec![4, 5, 6, 7, 8, 9]));
}

#[test]
fn a_gap_is_read_again_from_the_beginning_then_waited_for() {
    let mut m = owning(3);
    m.step(at(7), page(6..=6, 6));
    let gap = || applied(LaneApplied::Gap { hw: 3, next: 6 });
    let effects = m.step(at(8), gap());
    assert!(effects.contains(&Effect::Note(Note::Gap {
        lane: LANE,
        hw: 3,
        next: 6
    })));
    assert_eq!(reads_after(&effects), Some(0));
    m.step(at(9), page(6..=6, 6));
    let effects = m.step(at(10), gap());
    assert_eq!(reads_after(&effects), None, "{effects:?}");
    assert_eq!(m.status().gaps, 1);
    let effects = m.step(at(10).after(Duration::from_secs(5)), Input::Tick);
    assert_eq!(reads_after(&effects), Some(0));
}

trait After {
    fn after(self, by: Duration) -> Self;
}

impl After for Now {
    fn after(self, by: Duration) -> Self {
        Now {
            ticks: self.ticks.after(by),
            wall: self.wall.after(by),
        }
    }
}

#[test]
fn careful_mode_outlives_a_gap() {
    let mut m = Machine::new(
        Options {
            batch_max: 3,
            ..Options::new(Start::Earliest)
        },
        Nonce(1),
    );
    m.step(at(0), Input::Tick);
    let unclean = Position {
        clean: false,
        ..position(3)
    };
    m.step(at(1), held(1, vec![(LANE, unclean)]));
    m.step(at(2), Input::Retried(Reply::Done(super::Retried::default())));
    // A cursor of an earlier life of the stream passes 4 to 8.
    let effects = m.step(at(3), page(9..=9, 9));
    assert_eq!(given(&effects), Some(vec![9]), "{effects:?}");
    m.step(at(4), applied(LaneApplied::Gap { hw: 3, next: 9 }));
    let effects = m.step(at(5), page(4..=6, 9));
    let careful = |e: &Effect| matches!(e, Effect::Apply(batch) if batch.careful);
    assert!(effects.iter().any(careful), "{effects:?}");
}

fn two_lanes(first: u64, second: u64) -> Input {
    let lane = |slot, n| {
        let register = Register {
            n,
            token: Token(5),
            chain: chain(n),
        };
        (LaneId { slot, ..LANE }, register)
    };
    Input::Registers(Reply::Done(Registers {
        incarnation: Uuid::from_u128(1),
        lanes: vec![lane(0, first), lane(1, second)],
    }))
}

/// Where each lane is to start.
fn starts(effects: &[Effect]) -> Option<Vec<(u16, u64)>> {
    effects.iter().find_map(|e| match e {
        Effect::Discover(lanes) => Some(lanes.iter().map(|(id, p)| (id.slot, p.hw)).collect()),
        _ => None,
    })
}

#[test]
fn a_start_at_now_skips_nothing_that_came_after_the_first_look() {
    let mut m = Machine::new(Options::new(Start::Now), Nonce(1));
    m.step(at(0), Input::Tick);
    m.step(at(1), held(0, Vec::new()));
    assert_eq!(starts(&m.step(at(2), registers(9))), Some(vec![(0, 9)]));
    m.step(at(3), Input::Discovered(Reply::Done(())));
    // A lane that the stream did not have then has three events now.
    m.step(at(1100), Input::Tick);
    assert_eq!(starts(&m.step(at(1101), two_lanes(9, 3))), Some(vec![(1, 0)]));
}

fn located(first: u64, second: u64) -> Input {
    let place = |slot, n| {
        let place = Place {
            n,
            chain: chain(n),
            cursor: EntryId(0, n),
        };
        (LaneId { slot, ..LANE }, place)
    };
    Input::Located(Reply::Done(vec![place(0, first), place(1, second)]))
}

#[test]
fn a_start_at_a_time_asks_where_that_is_and_lanes_met_later_start_at_their_first_event() {
    let time = Timestamp::from_micros(77);
    let mut m = Machine::new(Options::new(Start::At(time)), Nonce(1));
    m.step(at(0), Input::Tick);
    m.step(at(1), held(0, Vec::new()));
    assert_eq!(m.step(at(2), registers(9)), vec![Effect::Locate(time)]);
    assert!(!m.status().quiet);
    // A lane that was not there at the look has its place in the reply.
    assert!(m.step(at(3), located(4, 2)).contains(&Effect::Registers));
    assert_eq!(
        starts(&m.step(at(4), two_lanes(9, 3))),
        Some(vec![(0, 4), (1, 2)])
    );
}

#[test]
fn a_start_at_a_time_waits_until_the_place_is_known() {
    let mut m = Machine::new(Options::new(Start::At(Timestamp::default())), Nonce(1));
    m.step(at(0), Input::Tick);
    m.step(at(1), held(0, Vec::new()));
    m.step(at(2), registers(9));
    m.step(
        at(3),
        Input::Located(Reply::Refused(crate::Error::new(crate::Code::Gap, "trimmed"))),
    );
    let mut located_again = false;
    for millis in (100..5_000).step_by(100) {
        for effect in m.step(at(millis), Input::Tick) {
            assert!(!matches!(effect, Effect::Discover(_)), "nothing is passed over");
            if effect == Effect::Registers {
                let effects = m.step(at(millis), registers(9));
                located_again |= effects.iter().any(|e| matches!(e, Effect::Locate(_)));
                assert_eq!(starts(&effects), None);
            }
        }
    }
    assert!(located_again);
}

#[test]
fn a_start_at_a_time_is_for_a_new_consumer_only() {
    let mut m = Machine::new(Options::new(Start::At(Timestamp::default())), Nonce(1));
    m.step(at(0), Input::Tick);
    m.step(at(1), held(2, vec![(LANE, position(4))]));
    let effects = m.step(at(2), two_lanes(9, 3));
    assert!(!effects.iter().any(|e| matches!(e, Effect::Locate(_))));
    assert_eq!(starts(&effects), Some(vec![(0, 0), (1, 0)]));
}

#[test]
fn a_start_at_now_is_for_a_new_consumer_only() {
    let mut m = Machine::new(Options::new(Start::Now), Nonce(1));
    m.step(at(0), Input::Tick);
    assert_eq!(starts(&m.step(at(1), two_lanes(9, 3))), None, "not known yet");
    m.step(at(2), held(1, Vec::new()));
    let effects = m.step(at(3), two_lanes(9, 3));
    assert_eq!(
        starts(&effects),
        Some(vec![(0, 0), (1, 0)]),
        "one that has none is new"
    );
}

#[test]
fn an_unknown_apply_that_stands_is_learnt_from_the_next_hold() {
    let mut m = owning(3);
    m.step(at(7), page(4..=6, 6));
    let unknown = Reply::Unknown(crate::Error::unknown("lost"));
    m.step(at(8), Input::Applied(unknown));
    // Meanwhile the stream lost the entries for good, so that reading again tells nothing.
    m.step(at(100), page(std::iter::empty(), 0));
    m.step(at(1200), Input::Tick);
    m.step(at(1201), registers(6));
    assert_eq!(m.status().behind, 3);
    m.step(at(1202), held(1, vec![(LANE, position(6))]));
    assert_eq!(m.status().behind, 0);
}

/// Renewals fail again and again while a store is locked; that must not turn seconds into the longest pause.
#[test]
fn failures_during_a_pause_do_not_lengthen_it() {
    let mut m = owning(0);
    let outages = |effects: &[Effect]| -> Vec<Duration> {
        let pause = |e: &Effect| match e {
            Effect::Note(Note::Outage(_, pause)) => Some(*pause),
            _ => None,
        };
        effects.iter().filter_map(pause).collect()
    };
    let down = || Reply::Unknown(crate::Error::unknown("locked"));
    assert_eq!(
        outages(&m.step(at(1000), Input::Held(down()))),
        [Duration::from_millis(50)]
    );
    for millis in [1010, 1020, 1030] {
        let left = Duration::from_millis(1050 - u64::try_from(millis).unwrap());
        assert_eq!(outages(&m.step(at(millis), Input::Held(down()))), [left]);
    }
    assert_eq!(
        outages(&m.step(at(1060), Input::Held(down()))),
        [Duration::from_millis(100)]
    );
}

/// Each order of the first replies: nothing may look finished before the stream's lanes are met, owned and read.
#[test]
fn a_consumer_is_not_quiet_before_it_owns_the_lanes_of_the_stream() {
    for registers_first in [true, false] {
        let mut m = Machine::new(Options::new(Start::Earliest), Nonce(1));
        m.step(at(0), Input::Tick);
        let (one, other) = (registers(3), held(0, Vec::new()));
        let (first, second) = if registers_first {
            (one, other)
        } else {
            (other, one)
        };
        m.step(at(1), first);
        assert!(!m.status().quiet);
        m.step(at(2), second);
        assert!(!m.status().quiet);
        m.step(at(3), registers(3));
        m.step(at(4), Input::Discovered(Reply::Done(())));
        assert!(!m.status().quiet, "the lanes are met, and not yet owned");
        m.step(at(5), held(1, vec![(LANE, Position::EARLIEST)]));
        assert!(!m.status().quiet, "they are owned, and three events wait");
    }
}

/// A stream that lost its end and has nothing newer shows no entry after the gap; its register does.
#[test]
fn a_loss_that_no_later_entry_shows_is_a_gap() {
    let mut m = owning(0);
    m.step(at(7), page(std::iter::empty(), 0));
    let gap = Note::Gap {
        lane: LANE,
        hw: 0,
        next: 4,
    };
    let notes = looks(&mut m, 1..8, 3);
    assert_eq!(notes, vec![gap.clone()], "said once");
    assert_eq!(m.status().gaps, 1);
    looks(&mut m, 8..60, 3);
    assert_eq!(m.status().gaps, 1, "and does not come and go");
    looks(&mut m, 60..70, 0);
    assert_eq!(m.status().gaps, 0);
}

fn failing(keys: std::ops::Range<u64>, hw: u64) -> Input {
    let key = |n: u64| KeyRef {
        lineage: LANE.lineage,
        key: format!("k:{n}"),
    };
    let failed = |n: u64| Failed {
        key: key(n),
        fingerprint: "down".into(),
    };
    Input::Applied(Reply::Done(Applied {
        lanes: vec![(LANE, LaneApplied::At(position(hw)))],
        failures: keys.map(failed).collect(),
        ..Applied::default()
    }))
}

fn fine(events: u64, hw: u64) -> Input {
    Input::Applied(Reply::Done(Applied {
        lanes: vec![(LANE, LaneApplied::At(position(hw)))],
        counts: Counts {
            applied: events,
            ..Counts::default()
        },
        ..Applied::default()
    }))
}

/// Answers what the machine asks for, but the apply.
struct Driver {
    m: Machine,
    asked: Vec<Effect>,
    last: u64,
}

impl Driver {
    /// A stream of `last` events, a lane at `hw`, and the first apply given.
    fn new(hw: u64, last: u64) -> Self {
        let mut m = owning(hw);
        assert!(given(&m.step(at(10), page(hw + 1..=last, last))).is_some());
        let asked = Vec::new();
        Self { m, asked, last }
    }

    fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let effects = self.m.step(now, input);
        self.asked.extend(effects.iter().cloned());
        effects
    }

    /// How many entries the next apply has, and how many of them may fail; `None` when there is none now.
    fn apply(&mut self, now: Now) -> Option<(usize, usize)> {
        self.step(now, Input::Tick);
        while !self.asked.is_empty() {
            match self.asked.remove(0) {
                Effect::Apply(batch) => return Some((batch.lanes[0].entries.len(), batch.failures_max)),
                effect => drop(self.answer(&effect).map(|input| self.step(now, input))),
            }
        }
        None
    }

    fn answer(&self, effect: &Effect) -> Option<Input> {
        match effect {
            Effect::Read { after, .. } => Some(page(after.1 + 1..=self.last, self.last)),
            Effect::Retry(_) => Some(Input::Retried(Reply::Done(Retried::default()))),
            Effect::Registers => Some(registers(self.last)),
            Effect::MoveCursors(_) => Some(Input::CursorsMoved(Reply::Done(0))),
            _ => None,
        }
    }
}

fn breaker_pause(effects: &[Effect]) -> Option<Duration> {
    effects.iter().find_map(|e| match e {
        Effect::Note(Note::Breaker(fingerprint, pause)) if fingerprint == "down" => Some(*pause),
        _ => None,
    })
}

#[test]
fn the_breaker_opens_tries_a_little_after_longer_and_longer_pauses_and_closes() {
    let mut d = Driver::new(0, 500);
    let mut now = at(20);
    let mut pause = breaker_pause(&d.step(now, failing(0..16, 16))).unwrap();
    assert_eq!(d.m.status().breaker.as_deref(), Some("down"));
    let mut pauses = vec![pause];
    for n in 16..28 {
        let early = now.after(pause / 2);
        assert_eq!(d.apply(early), None, "it pauses");
        now = now.after(pause);
        assert_eq!(d.apply(now), Some((8, 1)), "a few events, one failure");
        now = now.after(Duration::from_millis(1));
        pause = breaker_pause(&d.step(now, failing(n..n + 1, n + 1))).unwrap();
        pauses.push(pause);
    }
    assert!(
        pauses
            .windows(2)
            .all(|p| p[1] == (p[0] * 2).min(Duration::from_secs(30))),
        "{pauses:?}"
    );
    assert_eq!(pauses.last(), Some(&Duration::from_secs(30)));
    now = now.after(pause);
    assert_eq!(d.apply(now), Some((8, 1)));
    now = now.after(Duration::from_millis(1));
    assert_eq!(
        given(&d.step(now, fine(8, 36))).map(|entries| entries.len()),
        Some(464),
        "full speed"
    );
    assert_eq!(d.m.status().breaker, None);
}

#[test]
fn events_that_wait_behind_their_keys_do_not_close_the_breaker() {
    let mut d = Driver::new(0, 500);
    let pause = breaker_pause(&d.step(at(20), failing(0..16, 16))).unwrap();
    let now = at(20).after(pause);
    assert_eq!(d.apply(now), Some((8, 1)));
    d.step(now.after(Duration::from_millis(1)), fine(0, 24));
    assert_eq!(d.m.status().breaker.as_deref(), Some("down"));
}

#[test]
fn a_retry_that_succeeds_closes_the_breaker() {
    let mut d = Driver::new(0, 16);
    d.step(at(20), failing(0..16, 16));
    let effects = d.step(at(1100), Input::Tick);
    assert!(
        effects.iter().any(|e| matches!(e, Effect::Retry(_))),
        "{effects:?}"
    );
    let mut retried = Retried::default();
    retried.counts.applied = 1;
    d.step(at(1101), Input::Retried(Reply::Done(retried)));
    assert_eq!(d.m.status().breaker, None);
}

/// One key that fails now and then, beside those that do not, is no outage; sixteen in a row of calls are one.
#[test]
fn keys_are_counted_over_calls_that_follow_each_other() {
    let mut d = Driver::new(0, 500);
    assert_eq!(breaker_pause(&d.step(at(20), failing(0..10, 10))), None);
    assert_eq!(d.apply(at(21)).map(|(_, max)| max), Some(6), "six are left");
    assert_eq!(
        breaker_pause(&d.step(at(30), failing(0..10, 20))),
        None,
        "the same keys"
    );
    d.apply(at(31));
    d.step(at(40), fine(1, 21));
    d.apply(at(41));
    assert_eq!(
        breaker_pause(&d.step(at(50), failing(10..20, 31))),
        None,
        "it began afresh"
    );
    d.apply(at(51));
    assert!(breaker_pause(&d.step(at(60), failing(20..26, 40))).is_some());
}

#[test]
fn a_halted_lane_is_tried_again_and_says_so_once() {
    let mut d = Driver::new(3, 6);
    let halted = || {
        applied(LaneApplied::Halted {
            hw: 4,
            reason: "full".into(),
        })
    };
    let said = |effects: &[Effect]| {
        effects
            .iter()
            .any(|e| matches!(e, Effect::Note(Note::Halted(..))))
    };
    assert!(said(&d.step(at(11), halted())));
    assert_eq!(d.m.status().stopped, 1);
    let mut now = at(11);
    for _ in 0..3 {
        assert_eq!(d.apply(now.after(Duration::from_millis(4900))), None);
        now = now.after(Duration::from_secs(5));
        assert_eq!(d.apply(now), Some((2, 16)));
        assert_eq!(d.m.status().stopped, 1, "also while it is tried");
        assert!(!said(&d.step(now, halted())));
    }
    now = now.after(Duration::from_secs(5));
    assert!(d.apply(now).is_some());
    d.step(now, applied(LaneApplied::At(position(6))));
    assert_eq!((d.m.status().stopped, d.m.status().behind), (0, 0));
}

#[test]
fn a_forked_lane_stays_stopped() {
    let mut d = Driver::new(3, 6);
    d.step(at(11), applied(LaneApplied::Fork { n: 4 }));
    assert_eq!(d.apply(at(60_000)), None);
    assert_eq!(d.m.status().stopped, 1);
}

/// What would only be given back is not given: the lane is not read again after each few events.
#[test]
fn doubtful_events_are_given_a_few_at_a_time() {
    let mut d = Driver::new(0, 500);
    let doubtful = |hw, doubtful| {
        Input::Applied(Reply::Done(Applied {
            lanes: vec![(LANE, LaneApplied::At(position(hw)))],
            doubtful,
            ..Applied::default()
        }))
    };
    d.step(at(20), doubtful(8, true));
    assert_eq!(d.apply(at(20)), Some((8, 16)));
    d.step(at(30), doubtful(16, true));
    let reads = d
        .asked
        .iter()
        .filter(|e| matches!(e, Effect::Read { .. }))
        .count();
    assert_eq!((d.apply(at(30)), reads), (Some((8, 16)), 0));
    d.step(at(40), doubtful(24, false));
    assert_eq!(d.apply(at(40)), Some((476, 16)));
}

/// A target that is restored while it runs stands lower than the machine remembers: what follows is read again.
#[test]
fn a_database_that_went_back_is_followed_from_where_it_stands() {
    let mut d = Driver::new(3, 6);
    d.step(at(11), fine(3, 6));
    d.last = 8;
    assert!(d.apply(at(2000)).is_some());
    d.step(at(2010), applied(LaneApplied::Gap { hw: 2, next: 7 }));
    assert_eq!(d.apply(at(2020)).map(|(entries, _)| entries), Some(6), "3 to 8");
}

/// Poison seldom comes alone: the call after one with failures is small, and calls that go well grow.
#[test]
fn a_call_with_failures_is_followed_by_a_small_one() {
    let mut options = Options::new(Start::Earliest);
    options.breaker_keys = 1000;
    let mut d = Driver::new(0, 500);
    d.m.options = options;
    let various = |keys: std::ops::Range<u64>, hw| match failing(keys, hw) {
        Input::Applied(Reply::Done(mut all)) => {
            for (n, failed) in all.failures.iter_mut().enumerate() {
                failed.fingerprint = format!("cause {n}");
            }
            Input::Applied(Reply::Done(all))
        }
        other => other,
    };
    d.step(at(20), various(0..1, 16));
    assert_eq!(d.apply(at(21)).map(|(entries, _)| entries), Some(32));
    d.step(at(30), fine(32, 48));
    assert_eq!(d.apply(at(31)).map(|(entries, _)| entries), Some(64));
}

/// While the breaker is open one failure ends a retry too: it would cost the writer two commits for each key.
#[test]
fn a_retry_is_bounded_like_an_apply() {
    let bound = |effects: Vec<Effect>| {
        effects.into_iter().find_map(|effect| match effect {
            Effect::Retry(retry) => Some(retry.failures_max),
            _ => None,
        })
    };
    let mut closed = Driver::new(0, 500);
    closed.step(at(20), fine(500, 500));
    assert_eq!(bound(closed.step(at(5000), Input::Tick)), Some(16));
    let mut open = Driver::new(0, 500);
    open.step(at(20), failing(0..16, 16));
    assert_eq!(bound(open.step(at(5000), Input::Tick)), Some(1));
}

//! The interval rule and the life of a run, step by step and at random.

use std::time::Duration;

use proptest::prelude::*;

use super::machine::{Effect, How, Input, Machine, Note, Options, Outcome, Start, StepId};
use super::{Mark, Step, scope};
use crate::error::Code;
use crate::lease::{Fence, Nonce, Token};
use crate::limits;
use crate::time::Ticks;

const EVERY: Duration = Duration::from_secs(60);
const LAST: Step = Step::last(1);
const MORE: Step = Step { done: 1, more: true };

fn at(seconds: f64) -> Ticks {
    Ticks::default().after(Duration::from_secs_f64(seconds))
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn machine(start: Start) -> Machine {
    let options = Options {
        every: EVERY,
        step_limit: secs(10),
    };
    Machine::new(options, Nonce(7), start).unwrap()
}

/// One whose first run is due at zero.
fn at_once() -> Machine {
    let mut probe = machine(Start::Spread { failures: 0 });
    tick(&mut probe, 0.0);
    let pause = probe.wake_at().unwrap().since(at(0.0));
    let mut machine = machine(Start::Spread { failures: 0 });
    machine.step(at(0.0).before(pause), Input::Tick);
    machine
}

fn tick(machine: &mut Machine, seconds: f64) -> Vec<Effect> {
    machine.step(at(seconds), Input::Tick)
}

fn step(effects: &[Effect]) -> Option<StepId> {
    effects.iter().find_map(|effect| match effect {
        Effect::Step(step) => Some(*step),
        _ => None,
    })
}

fn missed(effects: &[Effect]) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        Effect::Note(Note::Began { missed }) => Some(*missed),
        _ => None,
    })
}

fn ended(effects: &[Effect]) -> Option<(How, u64)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Note(Note::Ended { how, done, .. }) => Some((*how, *done)),
        _ => None,
    })
}

fn hand_over(effects: &[Effect]) -> bool {
    effects.contains(&Effect::Stopped { hand_over: true })
}

/// Ends the step that runs.
fn answer(machine: &mut Machine, seconds: f64, outcome: Outcome) -> Vec<Effect> {
    let step = machine.stepping().expect("no step runs");
    machine.step(at(seconds), Input::Stepped(step, outcome))
}

/// Runs once at `seconds`, and ends well.
fn run(machine: &mut Machine, seconds: f64) -> Vec<Effect> {
    let began = tick(machine, seconds);
    assert!(step(&began).is_some(), "no run at {seconds}");
    answer(machine, seconds, Outcome::Done(LAST));
    began
}

#[test]
fn an_interval_outside_its_limits_is_refused_with_value_and_limit() {
    let options = Options {
        every: Duration::from_millis(99),
        ..Options::default()
    };
    let error = options.check().unwrap_err();
    assert_eq!(error.code(), Code::OptionsInvalid);
    assert_eq!(
        error.context(),
        "every is 99ms; a sweep runs at intervals between 100ms and 30 days"
    );
    let options = Options {
        step_limit: Duration::ZERO,
        ..Options::default()
    };
    assert!(
        options
            .check()
            .unwrap_err()
            .context()
            .starts_with("step_limit is 0ns")
    );
}

#[test]
fn the_first_run_waits_a_random_while_of_at_most_a_tenth() {
    let starts: Vec<_> = (0..100)
        .map(|seed| {
            let options = Options {
                every: EVERY,
                ..Options::default()
            };
            let mut machine = Machine::new(options, Nonce(seed), Start::Spread { failures: 0 }).unwrap();
            assert!(ended(&tick(&mut machine, 1000.0)).is_none());
            machine.wake_at().unwrap().since(at(1000.0))
        })
        .collect();
    assert!(starts.iter().all(|wait| *wait <= secs(10)), "{starts:?}");
    let late = starts.iter().filter(|wait| **wait > secs(3)).count();
    assert!(
        (25..75).contains(&late),
        "{late} of 100 start after more than 3 s"
    );
}

#[test]
fn runs_stand_on_a_grid_however_long_they_take() {
    let mut machine = at_once();
    tick(&mut machine, 0.0);
    answer(&mut machine, 20.0, Outcome::Failed);
    assert!(step(&tick(&mut machine, 21.0)).is_some());
    answer(&mut machine, 25.0, Outcome::Done(LAST));
    assert_eq!(machine.wake_at(), Some(at(60.0)));
    assert!(step(&tick(&mut machine, 59.9)).is_none());
    run(&mut machine, 60.5);
    assert_eq!(machine.wake_at(), Some(at(120.0)));
}

#[test]
fn missed_runs_collapse_into_one() {
    let mut machine = at_once();
    run(&mut machine, 0.0);
    let began = run(&mut machine, 605.0);
    assert_eq!(missed(&began), Some(9));
    assert_eq!(machine.wake_at(), Some(at(660.0)));
    assert!(step(&tick(&mut machine, 606.0)).is_none());
}

#[test]
fn a_run_longer_than_the_interval_is_followed_by_one() {
    let mut machine = at_once();
    let mut effects = tick(&mut machine, 0.0);
    for second in 1..=200 {
        effects = machine.step(
            at(f64::from(second)),
            Input::Stepped(step(&effects).unwrap(), Outcome::Done(MORE)),
        );
    }
    let last = answer(&mut machine, 201.0, Outcome::Done(LAST));
    assert_eq!(ended(&last), Some((How::Done, 201)));
    assert_eq!(missed(&last), Some(2));
    answer(&mut machine, 202.0, Outcome::Done(LAST));
    assert_eq!(machine.wake_at(), Some(at(240.0)));
}

#[test]
fn a_run_goes_step_by_step_and_one_step_is_out_at_a_time() {
    let mut machine = at_once();
    let first = step(&tick(&mut machine, 0.0)).unwrap();
    assert!(step(&tick(&mut machine, 1.0)).is_none());
    let second = step(&machine.step(at(1.0), Input::Stepped(first, Outcome::Done(MORE)))).unwrap();
    assert_ne!(first, second);
    assert_eq!(machine.stepping(), Some(second));
    let end = machine.step(at(1.0), Input::Stepped(second, Outcome::Done(LAST)));
    assert_eq!(ended(&end), Some((How::Done, 2)));
}

#[test]
fn a_reply_to_another_step_changes_nothing() {
    let mut machine = at_once();
    let first = step(&tick(&mut machine, 0.0)).unwrap();
    machine.step(at(0.0), Input::Stepped(first, Outcome::Done(MORE)));
    let before = machine.clone();
    for outcome in [Outcome::Done(LAST), Outcome::Panicked, Outcome::Lost] {
        assert!(machine.step(at(0.5), Input::Stepped(first, outcome)).is_empty());
    }
    assert_eq!(machine, before);
}

#[test]
fn a_step_that_did_nothing_and_wants_more_is_not_asked_at_once() {
    let mut machine = at_once();
    tick(&mut machine, 0.0);
    let waits = Step { done: 0, more: true };
    assert!(step(&answer(&mut machine, 0.0, Outcome::Done(waits))).is_none());
    assert_eq!(machine.wake_at(), Some(at(1.0)));
    let effects = tick(&mut machine, 1.0);
    assert!(
        step(&effects).is_some() && missed(&effects).is_none(),
        "{effects:?}"
    );
}

#[test]
fn failures_are_spaced_out_and_a_good_run_forgets_them() {
    let mut machine = machine(Start::Spread { failures: 4 });
    tick(&mut machine, 0.0);
    let pause = machine.wake_at().unwrap().since(at(0.0));
    assert!((secs(7)..=secs(8)).contains(&pause), "{pause:?}");
    tick(&mut machine, 8.0);
    answer(&mut machine, 8.0, Outcome::Failed);
    let pause = machine.wake_at().unwrap().since(at(8.0));
    assert!((secs(14)..=secs(16)).contains(&pause), "{pause:?}");
    tick(&mut machine, 24.0);
    answer(&mut machine, 24.0, Outcome::Done(LAST));
    assert_eq!(machine.failures(), 0);
}

#[test]
fn a_pause_is_never_longer_than_the_interval_or_five_minutes() {
    for (every, most) in [(EVERY, EVERY), (secs(86_400), secs(300))] {
        let options = Options {
            every,
            ..Options::default()
        };
        let start = Start::Spread { failures: u32::MAX };
        let mut machine = Machine::new(options, Nonce(7), start).unwrap();
        tick(&mut machine, 0.0);
        assert!(machine.wake_at().unwrap() <= at(0.0).after(most));
    }
}

#[test]
fn the_third_failure_in_a_row_hands_the_lease_over() {
    let mut machine = at_once();
    for (second, last) in [(0.0, false), (1.0, false), (3.0, true)] {
        tick(&mut machine, second);
        let effects = answer(&mut machine, second, Outcome::Failed);
        assert_eq!(ended(&effects), Some((How::Failed, 0)));
        assert_eq!(hand_over(&effects), last);
    }
    assert_eq!((machine.wake_at(), machine.failures()), (None, 3));
}

#[test]
fn a_panic_or_a_fence_hands_the_lease_over_at_once() {
    for (outcome, how, failures) in [
        (Outcome::Panicked, How::Panicked, 1),
        (Outcome::Lost, How::Lost, 0),
    ] {
        let mut machine = at_once();
        tick(&mut machine, 0.0);
        let effects = answer(&mut machine, 1.0, outcome);
        assert_eq!(ended(&effects), Some((how, 0)));
        assert!(hand_over(&effects));
        assert_eq!(machine.failures(), failures);
        assert!(tick(&mut machine, 1000.0).is_empty());
    }
}

#[test]
fn a_step_past_its_limit_is_cut_and_its_late_reply_is_no_news() {
    let mut machine = at_once();
    let late = step(&tick(&mut machine, 0.0)).unwrap();
    assert_eq!(machine.wake_at(), Some(at(10.0)));
    let effects = machine.step(at(10.0), Input::Stepped(late, Outcome::Done(LAST)));
    assert_eq!(effects[0], Effect::Cut(late));
    assert_eq!(ended(&effects), Some((How::Cut, 0)));
    assert_eq!(machine.failures(), 1);
}

#[test]
fn a_single_run_begins_at_once_and_is_the_last_however_it_went() {
    for outcome in [Outcome::Done(LAST), Outcome::Failed] {
        let mut machine = machine(Start::Once);
        assert!(step(&tick(&mut machine, 0.0)).is_some());
        let late = answer(&mut machine, 1.0, Outcome::Done(MORE));
        assert!(step(&late).is_some());
        // The next run would be due by now.
        for second in [9.0, 17.0, 25.0, 33.0, 41.0, 49.0, 57.0, 61.0] {
            answer(&mut machine, second, Outcome::Done(MORE));
        }
        let end = answer(&mut machine, 62.0, outcome);
        assert_eq!(end.last(), Some(&Effect::Stopped { hand_over: false }));
        assert!(tick(&mut machine, 1000.0).is_empty());
    }
}

#[test]
fn a_stop_waits_for_the_step_and_begins_no_other() {
    let mut machine = at_once();
    let first = step(&tick(&mut machine, 0.0)).unwrap();
    assert!(machine.step(at(1.0), Input::Stop).is_empty());
    let effects = machine.step(at(2.0), Input::Stepped(first, Outcome::Done(MORE)));
    assert_eq!(ended(&effects), Some((How::Stopped, 1)));
    assert_eq!(effects.last(), Some(&Effect::Stopped { hand_over: false }));
}

#[test]
fn a_stop_between_runs_ends_at_once() {
    let mut machine = at_once();
    run(&mut machine, 0.0);
    let effects = machine.step(at(1.0), Input::Stop);
    assert_eq!(effects, [Effect::Stopped { hand_over: false }]);
}

#[test]
fn a_run_is_owed_from_when_it_was_due_until_it_ends_well() {
    let mut machine = at_once();
    run(&mut machine, 0.0);
    assert_eq!(machine.owed(at(59.0)), None);
    assert_eq!(machine.owed(at(61.0)), Some(at(60.0)));
    tick(&mut machine, 190.0);
    answer(&mut machine, 191.0, Outcome::Failed);
    tick(&mut machine, 193.0);
    assert_eq!(machine.owed(at(193.0)), Some(at(60.0)));
    answer(&mut machine, 194.0, Outcome::Done(LAST));
    assert_eq!(machine.owed(at(194.0)), None);
}

fn mark() -> Mark {
    Mark {
        name: "nightly".into(),
        scope: scope("nightly").unwrap(),
        token: Token(5),
        nonce: Nonce(1),
        version: 3,
    }
}

#[test]
fn a_save_is_admitted_only_under_the_term_and_the_version_it_began_from() {
    let fence = |token, nonce| {
        Some(Fence {
            token: Token(token),
            nonce: Nonce(nonce),
        })
    };
    let refused = |fence, version| mark().admits(fence, version, b"x").unwrap_err();
    assert!(mark().admits(fence(5, 1), 3, b"x").is_ok());
    for fence in [None, fence(6, 2), fence(5, 2), fence(4, 1)] {
        assert_eq!(
            refused(fence, 3).to_string(),
            "TG0050 the lease was lost while the work ran: sweep/nightly: a later term has taken over"
        );
    }
    for version in [2, 4] {
        assert_eq!(
            refused(fence(5, 1), version).context(),
            "sweep/nightly: a later step has saved already"
        );
    }
}

#[test]
fn a_checkpoint_over_4_kib_is_refused_with_its_size() {
    let bytes = vec![0; limits::CHECKPOINT_BYTES_MAX + 1];
    let error = mark().admits(None, 3, &bytes).unwrap_err();
    assert_eq!(
        error.context(),
        "the checkpoint of nightly has 4097 bytes; at most 4096 are kept"
    );
}

#[derive(Debug, Clone, Copy)]
enum World {
    Pass(u32),
    Reply(Outcome),
    Stale(Outcome),
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        (0..3_u64, any::<bool>()).prop_map(|(done, more)| Outcome::Done(Step { done, more })),
        Just(Outcome::Failed),
        Just(Outcome::Panicked),
        Just(Outcome::Lost),
    ]
}

fn any_world() -> impl Strategy<Value = World> {
    prop_oneof![
        (0..200_000_u32).prop_map(World::Pass),
        any_outcome().prop_map(World::Reply),
        any_outcome().prop_map(World::Stale),
    ]
}

proptest! {
    /// Whatever happens: at most one step is out, a live machine always says when to wake it, runs begin on the grid,
    /// and never more of them than time has earned.
    #[test]
    fn any_history_keeps_one_step_out_and_the_grid(seed: u64, worlds in prop::collection::vec(any_world(), 1..80)) {
        let mut machine = Machine::new(
            Options { every: EVERY, step_limit: secs(10) },
            Nonce(u128::from(seed)),
            Start::Spread { failures: 0 },
        ).unwrap();
        let (mut now, mut out, mut well, mut live) = (Ticks::default(), None, 0_u64, true);
        for world in worlds {
            let input = match world {
                World::Pass(millis) => {
                    now = now.after(Duration::from_millis(millis.into()));
                    Input::Tick
                }
                World::Reply(outcome) => out.map_or(Input::Tick, |step| Input::Stepped(step, outcome)),
                World::Stale(outcome) => Input::Stepped(StepId(u64::MAX), outcome),
            };
            if matches!(input, Input::Stepped(step, _) if Some(step) == out) {
                out = None;
            }
            for effect in machine.step(now, input) {
                prop_assert!(live, "an effect after the end");
                match effect {
                    Effect::Step(step) => prop_assert_eq!(out.replace(step), None),
                    Effect::Cut(step) => {
                        prop_assert!(out.is_none_or(|out| out == step));
                        out = None;
                    }
                    Effect::Note(Note::Ended { how: How::Done, .. }) => well += 1,
                    Effect::Note(_) => {}
                    Effect::Stopped { .. } => live = false,
                }
            }
            prop_assert_eq!(machine.wake_at().is_some(), live);
            let earned = now.since(Ticks::default()).as_secs() / EVERY.as_secs() + 1;
            prop_assert!(well <= earned, "{} runs in the time of {}", well, earned);
        }
    }
}

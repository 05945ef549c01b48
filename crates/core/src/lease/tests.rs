//! The machine against the invariants of a lease (ids as in docs/guarantees.md), and each measured fault of the
//! seed's lease as a regression.

use std::time::Duration;

use proptest::prelude::*;

use super::draw::Draw;
use super::machine::{Attempt, Effect, Input, Machine, Options, State, Why};
use super::{Fence, Nonce, Scope, TTL_MIN, Term, Token, Trust};
use crate::error::Code;
use crate::time::Ticks;

const TTL: Duration = Duration::from_secs(10);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: i64) -> Ticks {
    Ticks::from_micros(millis * 1000)
}

fn machine(options: Options) -> Machine {
    Machine::new(Scope::new("job").unwrap(), options, Nonce(7)).unwrap()
}

fn follower() -> Machine {
    machine(Options::default())
}

fn asked(effects: &[Effect]) -> Option<(Attempt, Nonce, Token)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Acquire {
            attempt,
            nonce,
            min_token,
        } => Some((*attempt, *nonce, *min_token)),
        _ => None,
    })
}

fn renewal(effects: &[Effect]) -> Option<Attempt> {
    effects.iter().find_map(|effect| match effect {
        Effect::Renew { attempt, .. } => Some(*attempt),
        _ => None,
    })
}

fn raise(effects: &[Effect]) -> Option<(Attempt, Token)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Raise { attempt, above, .. } => Some((*attempt, *above)),
        _ => None,
    })
}

fn release(effects: &[Effect]) -> Option<(Attempt, Term)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Release { attempt, term } => Some((*attempt, term.clone())),
        _ => None,
    })
}

fn cancelled(effects: &[Effect]) -> bool {
    effects
        .iter()
        .any(|effect| matches!(effect, Effect::CancelWork(_)))
}

fn aborted(effects: &[Effect]) -> bool {
    effects
        .iter()
        .any(|effect| matches!(effect, Effect::AbortWork(_)))
}

/// A machine that asked at zero and was granted token 5 at 20 ms.
fn leader_of(options: Options) -> (Machine, Nonce) {
    let mut machine = machine(options);
    let (attempt, nonce, _) = asked(&machine.step(at(0), Input::Tick)).unwrap();
    let token = Token(5);
    let effects = machine.step(at(20), Input::Granted { attempt, token });
    assert!(matches!(&effects[..], [Effect::StartWork(term)] if term.token == token && term.nonce == nonce));
    (machine, nonce)
}

fn leader() -> (Machine, Nonce) {
    leader_of(Options::default())
}

/// Runs the machine alone, up to and including `until`; no request is ever answered.
fn run(machine: &mut Machine, until: Ticks) -> Vec<(Ticks, Effect)> {
    let mut done = Vec::new();
    while let Some(wake) = machine.wake_at().filter(|wake| *wake <= until) {
        done.extend(
            machine
                .step(wake, Input::Tick)
                .into_iter()
                .map(|effect| (wake, effect)),
        );
    }
    done
}

fn only(trace: Vec<(Ticks, Effect)>) -> Vec<Effect> {
    trace.into_iter().map(|(_, effect)| effect).collect()
}

// Options.

#[test]
fn a_ttl_outside_its_limits_is_refused_with_value_and_limit() {
    for (ttl, limit) in [(ms(599), "600ms"), (super::TTL_MAX + ms(1), "3600s")] {
        let options = Options { ttl, scoped: false };
        let error = Machine::new(Scope::new("job").unwrap(), options, Nonce(0)).unwrap_err();
        assert_eq!(error.code(), Code::OptionsInvalid);
        assert!(error.context().contains(&format!("{ttl:?}")), "{error}");
        assert!(error.context().contains(limit), "{error}");
    }
}

#[test]
fn the_shortest_ttl_leaves_time_to_repeat_a_renewal_and_a_shorter_one_does_not() {
    let fits = |ttl| {
        let options = Options { ttl, scoped: false };
        options.renew_every() + 2 * options.attempt_timeout() <= options.trust()
    };
    assert!(fits(TTL_MIN) && fits(TTL) && fits(super::TTL_MAX));
    assert!(!fits(ms(590)));
}

#[test]
fn jitter_stays_within_a_tenth_and_never_adds() {
    let mut draw = Draw::new(Nonce(1));
    for _ in 0..1000 {
        let drawn = draw.jitter(ms(1000));
        assert!(drawn >= ms(900) && drawn <= ms(1000), "{drawn:?}");
    }
}

#[test]
fn equal_seeds_give_equal_machines_and_both_halves_of_a_seed_count() {
    assert_eq!(follower(), follower());
    let nonce = |seed| Draw::new(Nonce(seed)).nonce();
    assert_ne!(nonce(1), nonce(2));
    assert_ne!(nonce(1 << 64), nonce(2 << 64));
}

// L1: one believer.

#[test]
fn l1_trust_counts_from_the_time_the_request_was_sent() {
    let mut machine = follower();
    let (attempt, ..) = asked(&machine.step(at(0), Input::Tick)).unwrap();
    machine.step(
        at(1_900),
        Input::Granted {
            attempt,
            token: Token(5),
        },
    );
    assert_eq!(machine.trust(), Trust { until: at(8_000) });

    let renewal = renewal(&machine.step(at(3_500), Input::Tick)).unwrap();
    machine.step(at(5_000), Input::Renewed { attempt: renewal });
    assert_eq!(machine.trust(), Trust { until: at(11_500) });
}

#[test]
fn l1_a_late_grant_is_a_loss() {
    let mut machine = follower();
    let (late, nonce, _) = asked(&machine.step(at(0), Input::Tick)).unwrap();
    let effects = machine.step(
        at(2_000),
        Input::Granted {
            attempt: late,
            token: Token(5),
        },
    );
    assert_eq!(machine.trust(), Trust::NONE);
    let (attempt, same, _) = asked(&effects).expect("asks again");
    assert_ne!(attempt, late);
    assert_eq!(same, nonce, "the outcome was unknown, so the nonce stays");
}

#[test]
fn l1_a_renewal_answered_after_trust_ended_is_a_loss() {
    let (mut machine, _) = leader();
    let attempt = renewal(&machine.step(at(7_500), Input::Tick)).unwrap();
    let effects = machine.step(at(8_000), Input::Renewed { attempt });
    assert!(cancelled(&effects));
    assert_eq!(machine.trust(), Trust::NONE);
}

#[test]
fn l1_a_process_that_slept_through_its_deadline_learns_that_first() {
    let (mut machine, _) = leader();
    let attempt = renewal(&machine.step(at(3_400), Input::Tick)).unwrap();
    let effects = machine.step(at(60_000), Input::Renewed { attempt });
    assert!(cancelled(&effects) && aborted(&effects), "{effects:?}");
}

#[test]
fn l1_stop_then_drain_then_release() {
    let (mut machine, nonce) = leader();
    let effects = machine.step(at(100), Input::Stop { within: ms(30_000) });
    assert_eq!(effects, [Effect::CancelWork(nonce)]);
    assert!(machine.trust().holds(at(100)), "work may finish what it writes");
    let (attempt, term) = release(&machine.step(at(200), Input::Drained { nonce })).unwrap();
    assert_eq!(term.token, Token(5));
    assert_eq!(machine.trust(), Trust::NONE);
    machine.step(at(250), Input::Released { attempt });
    assert_eq!(machine.state(), &State::Stopped);
}

#[test]
fn l1_a_lease_is_renewed_while_its_work_drains() {
    let (mut machine, _) = leader();
    machine.step(at(100), Input::Stop { within: ms(30_000) });
    let attempt = renewal(&machine.step(at(3_400), Input::Tick)).unwrap();
    machine.step(at(3_500), Input::Renewed { attempt });
    assert!(machine.trust().holds(at(11_399)));
}

#[test]
fn l1_work_that_does_not_stop_is_dropped_within_its_budget() {
    let (mut machine, _) = leader();
    let trace = run(&mut machine, at(9_000));
    let when = |wanted: fn(&Effect) -> bool| trace.iter().find(|(_, effect)| wanted(effect)).unwrap().0;
    assert_eq!(when(|effect| matches!(effect, Effect::CancelWork(_))), at(8_000));
    assert_eq!(when(|effect| matches!(effect, Effect::AbortWork(_))), at(9_000));
}

#[test]
fn l1_nothing_is_asked_before_the_work_of_the_last_term_ended() {
    let (mut machine, nonce) = leader();
    let effects = only(run(&mut machine, at(600_000)));
    assert!(asked(&effects).is_none() && release(&effects).is_none());
    assert!(release(&machine.step(at(600_000), Input::Drained { nonce })).is_some());
}

#[test]
fn l1_a_second_stop_only_shortens() {
    let (mut machine, _) = leader();
    machine.step(at(100), Input::Stop { within: ms(5_000) });
    assert!(!aborted(
        &machine.step(at(200), Input::Stop { within: ms(9_000) })
    ));
    assert!(!aborted(&machine.step(at(5_099), Input::Tick)));
    assert!(aborted(&machine.step(at(5_100), Input::Tick)));
    let (mut machine, _) = leader();
    machine.step(at(100), Input::Stop { within: ms(5_000) });
    assert!(aborted(&machine.step(at(200), Input::Stop { within: ms(0) })));
}

// L4: no input of an ended term or attempt changes anything.

#[test]
fn l4_replies_to_another_attempt_change_nothing() {
    let (leading, _) = leader();
    let stale = Attempt(99);
    for input in [
        Input::Granted {
            attempt: stale,
            token: Token(9),
        },
        Input::Busy {
            attempt: stale,
            remaining: ms(5),
        },
        Input::Failed { attempt: stale },
        Input::Renewed { attempt: stale },
        Input::Lost { attempt: stale },
        Input::Raised {
            attempt: stale,
            token: Token(9),
        },
        Input::Released { attempt: stale },
        Input::Drained { nonce: Nonce(9) },
        Input::FenceRefused {
            nonce: Nonce(9),
            register: Token(9),
        },
    ] {
        for before in [follower(), leading.clone()] {
            let mut before = before;
            before.step(at(30), Input::Tick);
            let mut after = before.clone();
            assert_eq!(after.step(at(30), input), [], "{input:?}");
            assert_eq!(after, before, "{input:?}");
        }
    }
}

#[test]
fn l4_a_late_release_of_an_old_term_does_not_touch_the_next() {
    let (mut machine, nonce) = leader();
    let (old, _) = release(&machine.step(at(100), Input::Drained { nonce })).unwrap();
    let (attempt, next, _) = asked(&only(run(&mut machine, at(5_000)))).unwrap();
    assert_ne!(next, nonce);
    machine.step(
        at(5_001),
        Input::Granted {
            attempt,
            token: Token(6),
        },
    );
    let before = machine.clone();
    machine.step(at(5_002), Input::Released { attempt: old });
    machine.step(at(5_002), Input::Drained { nonce });
    assert_eq!(machine, before);
}

#[test]
fn l4_a_raise_makes_the_renewal_on_its_way_meaningless() {
    let (mut machine, nonce) = leader();
    let old = renewal(&machine.step(at(3_400), Input::Tick)).unwrap();
    let register = Token(8);
    let (attempt, _) = raise(&machine.step(at(3_410), Input::FenceRefused { nonce, register })).unwrap();
    // The store raised first, so the renewal under the old token is refused: that is no loss.
    assert_eq!(machine.step(at(3_420), Input::Lost { attempt: old }), []);
    let token = Token(9);
    let effects = machine.step(at(3_430), Input::Raised { attempt, token });
    assert!(matches!(&effects[..], [Effect::Renew { term, .. }] if term.token == token));
}

// L5: a recorded live holder can write after at most one raise.

#[test]
fn l5_a_refused_holder_raises_above_the_register() {
    let (mut machine, nonce) = leader();
    let register = Token(41);
    let (attempt, above) = raise(&machine.step(at(30), Input::FenceRefused { nonce, register })).unwrap();
    assert_eq!(above, register);
    let again = machine.step(at(31), Input::FenceRefused { nonce, register });
    assert_eq!(again, [], "one raise at a time");
    machine.step(
        at(40),
        Input::Raised {
            attempt,
            token: Token(42),
        },
    );
    assert_eq!(machine.tenure().unwrap().term.token, Token(42));
    let old_news = machine.step(at(50), Input::FenceRefused { nonce, register });
    assert_eq!(raise(&old_news), None);
}

#[test]
fn l5_a_raise_does_not_extend_trust() {
    let (mut machine, nonce) = leader();
    let (register, before) = (Token(41), machine.trust());
    let (attempt, _) = raise(&machine.step(at(30), Input::FenceRefused { nonce, register })).unwrap();
    machine.step(
        at(40),
        Input::Raised {
            attempt,
            token: Token(42),
        },
    );
    assert_eq!(machine.trust(), before);
}

#[test]
fn l5_the_next_term_starts_above_a_register_that_refused() {
    let (mut machine, nonce) = leader();
    let register = Token(41);
    let (attempt, _) = raise(&machine.step(at(30), Input::FenceRefused { nonce, register })).unwrap();
    machine.step(at(40), Input::Lost { attempt });
    machine.step(at(50), Input::Drained { nonce });
    let (_, _, min_token) = asked(&only(run(&mut machine, at(5_000)))).unwrap();
    assert_eq!(min_token, Token(42));
}

// L6: the register's rule.

#[test]
fn l6_an_equal_token_with_another_nonce_is_refused() {
    let held = Some(Fence {
        token: Token(5),
        nonce: Nonce(1),
    });
    assert!(Fence::admits(None, Token(1), Nonce(1)));
    assert!(Fence::admits(held, Token(5), Nonce(1)));
    assert!(Fence::admits(held, Token(6), Nonce(2)));
    assert!(!Fence::admits(held, Token(5), Nonce(2)));
    assert!(!Fence::admits(held, Token(4), Nonce(1)));
    assert!(Fence::accepts(held, Token(5), Nonce(1)));
    assert!(!Fence::accepts(held, Token(6), Nonce(2)), "not before it opened");
    assert!(!Fence::accepts(None, Token(1), Nonce(1)));
}

#[test]
fn l2_tokens_grow_also_when_the_clock_went_back() {
    assert_eq!(Token::next(Token(7), 1_000, Token(0)), Token(1_000));
    assert_eq!(Token::next(Token(2_000), 1_000, Token(0)), Token(2_001));
    assert_eq!(Token::next(Token(2_000), -5, Token(9_000)), Token(9_000));
}

// L8: the recorded ttl is honoured.

#[test]
fn l8_a_candidate_waits_by_the_recorded_ttl_and_polls_in_between() {
    let mut machine = follower();
    let (attempt, ..) = asked(&machine.step(at(0), Input::Tick)).unwrap();
    let remaining = ms(800);
    machine.step(at(10), Input::Busy { attempt, remaining });
    assert_eq!(machine.wake_at(), Some(at(810)));

    let (attempt, ..) = asked(&machine.step(at(810), Input::Tick)).unwrap();
    let remaining = ms(3_600_000);
    machine.step(at(820), Input::Busy { attempt, remaining });
    let poll = machine.wake_at().unwrap().since(at(820));
    assert!(poll >= ms(3_000) && poll < ms(3_334), "{poll:?}");
}

// L9: progress.

#[test]
fn l9_a_bell_wakes_a_follower_but_not_more_often_than_every_50_ms() {
    let mut machine = follower();
    let (attempt, ..) = asked(&machine.step(at(0), Input::Tick)).unwrap();
    let remaining = ms(9_000);
    machine.step(at(10), Input::Busy { attempt, remaining });
    machine.step(at(20), Input::Wake);
    assert_eq!(machine.wake_at(), Some(at(60)));
    assert!(asked(&machine.step(at(60), Input::Tick)).is_some());
}

#[test]
fn l9_a_bell_does_not_cut_the_pause_after_my_own_term_short() {
    let (mut machine, nonce) = leader();
    let (attempt, _) = release(&machine.step(at(100), Input::Drained { nonce })).unwrap();
    machine.step(at(110), Input::Released { attempt });
    assert_eq!(machine.step(at(111), Input::Wake), []);
    assert!(machine.wake_at().unwrap() >= at(560));
}

#[test]
fn l9_a_bell_during_an_attempt_makes_its_busy_reply_old_news() {
    let mut machine = follower();
    let (attempt, ..) = asked(&machine.step(at(0), Input::Tick)).unwrap();
    machine.step(at(5), Input::Wake);
    let remaining = ms(9_000);
    machine.step(at(10), Input::Busy { attempt, remaining });
    assert_eq!(machine.wake_at(), Some(at(60)));
}

#[test]
fn l9_a_lost_lease_is_followed_and_taken_again() {
    let (mut machine, nonce) = leader();
    let attempt = renewal(&machine.step(at(3_400), Input::Tick)).unwrap();
    assert!(cancelled(&machine.step(at(3_410), Input::Lost { attempt })));
    let effects = machine.step(at(3_420), Input::Drained { nonce });
    assert!(release(&effects).is_none(), "it is not mine to release");
    let (_, next, _) = asked(&only(run(&mut machine, at(5_000)))).unwrap();
    assert_ne!(next, nonce);
}

#[test]
fn l9_a_scoped_run_never_takes_the_lease_again() {
    let (mut machine, nonce) = leader_of(Options {
        scoped: true,
        ..Options::default()
    });
    let attempt = renewal(&machine.step(at(3_400), Input::Tick)).unwrap();
    machine.step(at(3_410), Input::Lost { attempt });
    machine.step(at(3_420), Input::Drained { nonce });
    assert_eq!(machine.state(), &State::Stopped);
    assert_eq!(machine.wake_at(), None);
}

#[test]
fn l9_a_failed_release_is_harmless() {
    for unanswered in [true, false] {
        let (mut machine, nonce) = leader();
        let (attempt, _) = release(&machine.step(at(100), Input::Drained { nonce })).unwrap();
        if unanswered {
            machine.step(at(2_100), Input::Tick);
        } else {
            machine.step(at(110), Input::Failed { attempt });
        }
        assert!(matches!(machine.state(), State::Follower { .. }));
    }
}

#[test]
fn l9_a_stop_while_asking_releases_what_is_granted() {
    let mut machine = follower();
    let (attempt, ..) = asked(&machine.step(at(0), Input::Tick)).unwrap();
    assert_eq!(machine.step(at(5), Input::Stop { within: ms(0) }), []);
    let token = Token(5);
    let effects = machine.step(at(10), Input::Granted { attempt, token });
    assert!(matches!(&effects[..], [Effect::Release { .. }]), "{effects:?}");
}

#[test]
fn l9_crashes_in_a_row_are_spaced_out() {
    let mut machine = follower();
    let mut pauses = Vec::new();
    let mut now = at(0);
    for token in 1..8 {
        let (attempt, nonce, _) = asked(&machine.step(now, Input::Tick)).unwrap();
        machine.step(
            now,
            Input::Granted {
                attempt,
                token: Token(token),
            },
        );
        let (attempt, _) = release(&machine.step(now, Input::Drained { nonce })).unwrap();
        machine.step(now, Input::Released { attempt });
        let next = machine.wake_at().unwrap();
        pauses.push(next.since(now));
        now = next;
    }
    assert!(pauses[0] <= ms(500) && pauses[1] > ms(800) && pauses[2] > ms(1_700));
    assert!(pauses.iter().all(|pause| *pause <= ms(3_334)));
}

#[test]
fn l9_renewals_of_one_process_go_together() {
    let (mut machine, _) = leader();
    assert_eq!(
        machine.step(at(1_000), Input::Join),
        [],
        "less than half the interval has passed"
    );
    assert!(renewal(&machine.step(at(1_700), Input::Join)).is_some());
    assert_eq!(machine.step(at(1_701), Input::Join), [], "one at a time");
}

// L10: the store is down.

#[test]
fn l10_the_holder_works_until_its_own_deadline_then_stops() {
    let (mut machine, _) = leader();
    let mut now = at(0);
    while let Some(next) = machine.wake_at() {
        now = next;
        let effects = machine.step(now, Input::Tick);
        if cancelled(&effects) {
            break;
        }
        if let Some(attempt) = renewal(&effects) {
            machine.step(now.after(ms(1)), Input::Failed { attempt });
        }
    }
    assert_eq!(now, at(8_000));
}

#[test]
fn l10_one_failed_renewal_changes_nothing_for_the_work() {
    let (mut machine, _) = leader();
    let attempt = renewal(&machine.step(at(3_400), Input::Tick)).unwrap();
    assert_eq!(machine.step(at(3_450), Input::Failed { attempt }), []);
    let again = renewal(&machine.step(at(3_950), Input::Tick)).expect("repeated after a short pause");
    machine.step(at(3_960), Input::Renewed { attempt: again });
    assert_eq!(machine.trust(), Trust { until: at(11_950) });
}

#[test]
fn l10_failures_never_extend_trust() {
    let (mut machine, _) = leader();
    let before = machine.trust();
    let attempt = renewal(&machine.step(at(3_400), Input::Tick)).unwrap();
    machine.step(at(3_450), Input::Failed { attempt });
    assert_eq!(machine.trust(), before);
}

// The measured faults of the seed's lease.

#[test]
fn seed_a_hung_renewal_left_the_holder_believing_5_6_s_into_a_2_s_ttl() {
    let ttl = ms(2_000);
    let (mut machine, _) = leader_of(Options { ttl, scoped: false });
    let trace = run(&mut machine, at(5_600));
    let cancel = trace
        .iter()
        .find(|(_, effect)| matches!(effect, Effect::CancelWork(_)));
    assert_eq!(cancel.unwrap().0, at(1_600));
    assert!(!machine.trust().holds(at(1_600)));
}

#[test]
fn seed_failing_renewals_declared_a_4_s_ttl_lost_at_6_s() {
    let ttl = ms(4_000);
    let (mut machine, _) = leader_of(Options { ttl, scoped: false });
    let mut cancel = None;
    while let Some(now) = machine.wake_at().filter(|_| cancel.is_none()) {
        let effects = machine.step(now, Input::Tick);
        cancel = cancelled(&effects).then_some(now);
        if let Some(attempt) = renewal(&effects) {
            machine.step(now, Input::Failed { attempt });
        }
    }
    assert_eq!(cancel, Some(at(3_200)));
}

#[test]
fn seed_tokens_began_again_at_one_after_a_flush() {
    // The store forgot everything, and its clock is of no use: what the machine has seen is its floor.
    let (mut machine, nonce) = leader();
    let (attempt, _) = release(&machine.step(at(100), Input::Drained { nonce })).unwrap();
    machine.step(at(110), Input::Released { attempt });
    let (_, _, min_token) = asked(&only(run(&mut machine, at(5_000)))).unwrap();
    assert!(Token::next(Token(0), 0, min_token) >= Token(5));
    assert!(Token::next(Token(0), 1_700_000_000_000_000, min_token) > Token(5));
}

#[test]
fn seed_the_guard_checked_before_the_write_instead_of_in_it() {
    let old = (Token(5), Nonce(1));
    let new = Fence {
        token: Token(6),
        nonce: Nonce(2),
    };
    assert!(
        !Fence::accepts(Some(new), old.0, old.1),
        "the write itself is refused"
    );
}

#[test]
fn seed_successors_polled_at_half_the_ttl() {
    let mut machine = follower();
    let (attempt, ..) = asked(&machine.step(at(0), Input::Tick)).unwrap();
    let remaining = ms(300);
    machine.step(at(1), Input::Busy { attempt, remaining });
    assert_eq!(
        machine.wake_at(),
        Some(at(301)),
        "asks when the recorded lease ends"
    );
}

#[test]
fn seed_numbers_above_14_digits_lost_their_last_ones() {
    let token = Token::next(Token(0), 1_790_000_000_123_457, Token(0));
    assert_eq!(token.to_string(), "1790000000123457");
    assert!(token.0 < Token::MAX);
}

// Any inputs at all.

fn any_input() -> impl Strategy<Value = Input> {
    let attempt = (0u64..6).prop_map(Attempt);
    let token = (0u64..20).prop_map(Token);
    prop_oneof![
        Just(Input::Tick),
        Just(Input::Wake),
        Just(Input::Join),
        (0u64..9_000).prop_map(|within| Input::Stop { within: ms(within) }),
        (attempt.clone(), token.clone()).prop_map(|(attempt, token)| Input::Granted { attempt, token }),
        (attempt.clone(), 0u64..9_000).prop_map(|(attempt, left)| Input::Busy {
            attempt,
            remaining: ms(left)
        }),
        attempt.clone().prop_map(|attempt| Input::Failed { attempt }),
        attempt.clone().prop_map(|attempt| Input::Renewed { attempt }),
        attempt.clone().prop_map(|attempt| Input::Lost { attempt }),
        (attempt.clone(), token).prop_map(|(attempt, token)| Input::Raised { attempt, token }),
        attempt.prop_map(|attempt| Input::Released { attempt }),
    ]
}

#[derive(Debug, Clone)]
enum Choice {
    Any(Input),
    /// The work of the current tenure ends.
    Drained,
    /// A sink refuses the current tenure.
    Refused(u64),
    /// The last request is answered well.
    Answered,
}

fn any_choice() -> impl Strategy<Value = Choice> {
    prop_oneof![
        4 => any_input().prop_map(Choice::Any),
        1 => Just(Choice::Drained),
        1 => (0u64..30).prop_map(Choice::Refused),
        4 => Just(Choice::Answered),
    ]
}

/// What an observer keeps, apart from the machine.
#[derive(Default)]
struct Observer {
    running: Option<Nonce>,
    /// The work that ended with the current input: it may be told to stop once more.
    ended: Option<Nonce>,
    sent: Vec<(Attempt, Ticks)>,
    reply: Option<Input>,
    terms: Vec<Nonce>,
    renewed_or_granted: Option<Ticks>,
}

impl Observer {
    fn choose(&self, choice: &Choice) -> Input {
        match choice {
            Choice::Any(input) => *input,
            Choice::Drained => self.running.map_or(Input::Tick, |nonce| Input::Drained { nonce }),
            Choice::Refused(register) => self.running.map_or(Input::Tick, |nonce| Input::FenceRefused {
                nonce,
                register: Token(*register),
            }),
            Choice::Answered => self.reply.unwrap_or(Input::Tick),
        }
    }

    fn sent_at(&self, attempt: Attempt) -> Option<Ticks> {
        self.sent
            .iter()
            .find(|(sent, _)| *sent == attempt)
            .map(|(_, when)| *when)
    }

    fn saw(&mut self, now: Ticks, input: Input, effects: &[Effect]) {
        self.ended = self
            .running
            .take_if(|running| input == Input::Drained { nonce: *running });
        if let Input::Granted { attempt, .. } | Input::Renewed { attempt } = input {
            self.renewed_or_granted = self.renewed_or_granted.max(self.sent_at(attempt));
        }
        for effect in effects {
            self.performs(now, effect);
        }
    }

    fn performs(&mut self, now: Ticks, effect: &Effect) {
        match effect {
            Effect::Acquire { attempt, .. } => {
                assert_eq!(self.running, None, "asked while work ran");
                self.sends(now, *attempt, |attempt| Input::Granted {
                    attempt,
                    token: Token(3),
                });
            }
            Effect::Renew { attempt, term } => {
                assert_eq!(self.running, Some(term.nonce), "renewed without work: a corpse");
                self.sends(now, *attempt, |attempt| Input::Renewed { attempt });
            }
            Effect::Raise { attempt, above, .. } => {
                let token = Token(above.0 + 1);
                self.sends(now, *attempt, |attempt| Input::Raised { attempt, token });
            }
            Effect::Release { attempt, .. } => {
                assert_eq!(self.running, None, "released before the work had drained");
                self.sends(now, *attempt, |attempt| Input::Released { attempt });
            }
            Effect::StartWork(term) => {
                assert_eq!(self.running, None, "two works");
                assert!(
                    !self.terms.contains(&term.nonce),
                    "a nonce was used for two terms"
                );
                self.terms.push(term.nonce);
                self.running = Some(term.nonce);
            }
            Effect::CancelWork(nonce) | Effect::AbortWork(nonce) => {
                let told = self.running.or(self.ended);
                assert_eq!(told, Some(*nonce), "told a work that does not run");
            }
        }
    }

    fn sends(&mut self, now: Ticks, attempt: Attempt, reply: impl Fn(Attempt) -> Input) {
        assert_eq!(self.sent_at(attempt), None, "an attempt's number was used twice");
        self.sent.push((attempt, now));
        self.reply = Some(reply(attempt));
    }
}

proptest! {
    /// L1, L4, L10 under random inputs: never two works, never a release or an acquire beside running work, trust
    /// never longer than the last answered request allows, and a machine that never sleeps past its wake-up time.
    #[test]
    fn l1_l4_l10_hold_for_any_inputs(
        scoped: bool,
        choices in prop::collection::vec((0u64..4_000, any_choice()), 1..80),
    ) {
        let options = Options { ttl: TTL, scoped };
        let mut machine = machine(options);
        let mut observer = Observer::default();
        let mut now = at(0);
        for (pause, choice) in choices {
            now = now.after(ms(pause));
            let input = observer.choose(&choice);
            let effects = machine.step(now, input);
            observer.saw(now, input, &effects);
            if machine.trust() != Trust::NONE {
                let sent = observer.renewed_or_granted.expect("trust without a reply");
                prop_assert!(machine.trust().until <= sent.after(options.trust()));
                prop_assert!(machine.trust().holds(now));
            }
            prop_assert!(machine.wake_at().is_none_or(|wake| wake > now));
        }
        if scoped {
            prop_assert!(observer.terms.len() <= 1);
        }
    }

    /// Whatever happened, a stopped machine comes to rest once its work has drained.
    #[test]
    fn l9_a_stop_always_comes_to_rest(choices in prop::collection::vec((0u64..4_000, any_choice()), 1..40)) {
        let mut machine = follower();
        let mut observer = Observer::default();
        let mut now = at(0);
        for (pause, choice) in choices {
            now = now.after(ms(pause));
            let input = observer.choose(&choice);
            let effects = machine.step(now, input);
            observer.saw(now, input, &effects);
        }
        machine.step(now, Input::Stop { within: ms(0) });
        let stop = now;
        if let Some(nonce) = machine.tenure().map(|tenure| tenure.term.nonce) {
            machine.step(now, Input::Drained { nonce });
        }
        while let Some(wake) = machine.wake_at() {
            now = wake;
            machine.step(now, Input::Tick);
        }
        prop_assert_eq!(machine.state(), &State::Stopped);
        prop_assert!(now.since(stop) <= Options::default().attempt_timeout());
    }
}

#[test]
fn a_reason_is_kept_for_people() {
    let (mut machine, _) = leader();
    machine.step(at(8_000), Input::Tick);
    assert!(matches!(
        machine.state(),
        State::Draining {
            why: Why::Expired,
            ..
        }
    ));
}

//! What a failing event does, and what it does not.

use tidegate_core::inbox::transaction::ParkedState;
use tidegate_core::inbox::{LaneApplied, Options, Policy};

use tidegate_core::lease::Nonce;

use super::{Act, Case, Feed, Plan, TTL, World, assert_at, doomed_entries, outcome};

/// O4's counterpart, C6: events of the failing key wait in order, all others are applied, in the same call.
pub fn c020_a_failing_key_parks_and_the_others_flow(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let mut entries = feed.events(0, &["a", "bad", "b", "bad", "c"]);
    entries.extend(feed.events(1, &["x", "y"]));
    let applied = case.apply(Plan::poison(&["bad"]), &entries);
    assert_at(&applied, 0, 5);
    assert_at(&applied, 1, 2);
    let snapshot = world.snapshot();
    assert_eq!(snapshot.applied(0), vec![1, 3, 5]);
    let parked = snapshot.parked("bad").expect("parked");
    assert_eq!(
        (parked.state, parked.events.as_slice()),
        (ParkedState::Retrying, [2, 4].as_slice())
    );
    assert_eq!(
        (parked.class, parked.fingerprint.as_str()),
        ("handler", "poisoned")
    );
    assert_eq!(
        (
            applied.counts.parked,
            applied.counts.queued,
            applied.counts.applied
        ),
        (1, 2, 5)
    );
    let failures: Vec<_> = applied
        .failures
        .iter()
        .map(|failed| failed.fingerprint.as_str())
        .collect();
    assert_eq!(failures, ["poisoned"]);
}

/// Design 04: "commit that prefix including earlier parks".
pub fn c021_earlier_parks_commit_with_the_prefix(world: &dyn World) {
    let case = Case::start(world);
    let entries = Feed::default().events(0, &["p", "a", "q", "p", "r", "q", "b"]);
    let applied = case.apply(Plan::poison(&["p", "q", "r"]), &entries);
    assert_at(&applied, 0, 7);
    let snapshot = world.snapshot();
    assert_eq!(snapshot.applied(0), vec![2, 7]);
    let queues: Vec<_> = snapshot.parked.iter().map(|p| p.events.clone()).collect();
    assert_eq!(queues, vec![vec![1, 4], vec![3, 6], vec![5]]);
    assert_eq!(applied.failures.len(), 3);
}

/// A panic rolls back and parks; the consumer goes on.
pub fn c022_a_panic_is_data(world: &dyn World) {
    let case = Case::start(world);
    let entries = Feed::default().events(0, &["a", "bad", "b"]);
    let plan = Plan::each(|event| if event.n == 2 { Act::Panic } else { Act::Apply });
    let applied = case.apply(plan, &entries);
    assert_at(&applied, 0, 3);
    let snapshot = world.snapshot();
    assert_eq!(snapshot.applied(0), vec![1, 3]);
    assert_eq!(snapshot.parked("bad").map(|p| p.class), Some("panic"));
}

/// O4's counterpart: an outage parks nothing, counts nothing, and leaves what was committed before it.
pub fn c023_infrastructure_blames_nobody(world: &dyn World) {
    let case = Case::start(world);
    let entries = Feed::default().events(0, &["bad", "a", "b"]);
    let plan = Plan::each(|event| match event.n {
        1 => Act::Fail("poisoned"),
        2 => Act::Apply,
        _ => Act::Down,
    });
    let applied = case.apply(plan, &entries);
    assert!(applied.pause.is_some());
    assert_at(&applied, 0, 1);
    let snapshot = world.snapshot();
    assert_eq!((snapshot.parked.len(), snapshot.hw(0)), (1, 1));
    assert!(snapshot.effects.is_empty());
    assert_at(&case.apply(Plan::fine(), &entries), 0, 3);
}

/// A handler that takes all events at once need not know which one failed.
pub fn c024_a_batch_failure_without_an_index_is_found_by_halving(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let keys: Vec<String> = (0..60).map(|i| format!("k{i}")).collect();
    let entries: Vec<_> = keys
        .iter()
        .zip(0u16..)
        .map(|(key, i)| feed.event(i % 3, key))
        .collect();
    let bad = |event: &tidegate_core::inbox::Delivered| {
        let key = event.event.key.as_deref().unwrap_or_default();
        ["k0", "k7", "k41", "k59"].contains(&key)
    };
    let plan = Plan::batch(move |event| {
        if bad(event) {
            Act::Fail("poisoned")
        } else {
            Act::Apply
        }
    });
    let applied = case.apply(plan, &entries);
    assert!(applied.pause.is_none(), "{applied:?}");
    assert_eq!((applied.counts.parked, applied.counts.applied), (4, 56));
    let snapshot = world.snapshot();
    let parked: Vec<&str> = snapshot.parked.iter().map(|p| p.key.as_str()).collect();
    assert_eq!(parked, vec!["k:k0", "k:k41", "k:k59", "k:k7"]);
}

/// The event is dead-lettered, its key is not held back, and the number is accounted for.
pub fn c025_skip_dead_letters_the_event_and_lets_its_key_go_on(world: &dyn World) {
    let case = Case::start(world);
    let entries = Feed::default().events(0, &["a", "bad", "bad", "b"]);
    let plan = Plan::each(|event| {
        if event.n == 2 {
            Act::Fail("once")
        } else {
            Act::Apply
        }
    });
    let options = Options {
        policy: Policy::Skip,
        ..Options::default()
    };
    let applied = case.apply_with(plan, options, &entries);
    assert_at(&applied, 0, 4);
    let snapshot = world.snapshot();
    assert_eq!(snapshot.applied(0), vec![1, 3, 4]);
    assert_eq!(
        (snapshot.skipped.as_slice(), snapshot.parked.len()),
        ([(0, 2)].as_slice(), 0)
    );
    assert_eq!((applied.counts.skipped, applied.failures.len()), (1, 1));
}

/// The events before it are applied, the event is not, other lanes go on.
pub fn c026_halt_stops_the_lane_before_the_event(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let mut entries = feed.events(0, &["a", "bad", "b"]);
    entries.extend(feed.events(1, &["x"]));
    let options = Options {
        policy: Policy::Halt,
        ..Options::default()
    };
    let applied = case.apply_with(Plan::poison(&["bad"]), options, &entries);
    let LaneApplied::Halted { hw, reason } = outcome(&applied, 0) else {
        panic!("{applied:?}");
    };
    assert_eq!((hw, reason.as_str()), (1, "poisoned"));
    assert_at(&applied, 1, 1);
    assert_eq!(world.snapshot().applied(0), vec![1]);
}

/// At a key's bound the lane halts; nothing is dropped, other lanes go on, and a retry makes room.
pub fn c027_the_bound_of_a_key_halts_its_lane(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let mut entries = feed.events(0, &["bad", "bad", "bad", "a"]);
    entries.extend(feed.events(1, &["x"]));
    let options = Options {
        key_events_max: 2,
        ..Options::default()
    };
    let applied = case.apply_with(Plan::poison(&["bad"]), options.clone(), &entries);
    assert!(matches!(outcome(&applied, 0), LaneApplied::Halted { hw: 2, .. }));
    assert_at(&applied, 1, 1);
    case.retry(Plan::fine(), options.clone(), TTL);
    let applied = case.apply_with(Plan::fine(), options, &entries);
    assert_at(&applied, 0, 4);
    assert_eq!(world.snapshot().applied(0), vec![1, 2, 3, 4]);
}

/// At the bound of all queues the lane halts, whether a queue grows or a new key fails.
pub fn c028_the_bound_of_all_queues_halts_the_lane(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let options = Options {
        parked_events_max: 2,
        ..Options::default()
    };
    let mut entries = feed.events(0, &["p", "p", "a", "p"]);
    entries.extend(feed.events(1, &["q", "x"]));
    let applied = case.apply_with(Plan::poison(&["p", "q"]), options, &entries);
    assert!(
        matches!(outcome(&applied, 0), LaneApplied::Halted { hw: 3, .. }),
        "{applied:?}"
    );
    assert!(
        matches!(outcome(&applied, 1), LaneApplied::Halted { hw: 0, .. }),
        "{applied:?}"
    );
    let snapshot = world.snapshot();
    assert_eq!((snapshot.applied(0), snapshot.parked.len()), (vec![3], 1));
}

/// An event without a key is a key of its own.
pub fn c029_a_keyless_event_parks_alone(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let entries = [feed.keyless(0), feed.keyless(0), feed.keyless(0)];
    let plan = Plan::each(|event| {
        if event.n == 2 {
            Act::Fail("poisoned")
        } else {
            Act::Apply
        }
    });
    case.apply(plan, &entries);
    let snapshot = world.snapshot();
    assert_eq!(snapshot.applied(0), vec![1, 3]);
    let key = &snapshot.parked[0].key;
    assert!(key.starts_with("e:"), "{key}");
}

/// Q3: what is stored is already redacted.
pub fn c030_messages_are_redacted_before_they_are_stored(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    case.apply(Plan::poison(&["bad"]), &feed.events(0, &["bad"]));
    let message = world.snapshot().parked[0].message.clone();
    assert!(
        !message.contains("jane") && message.contains("poisoned"),
        "{message}"
    );
    case.retry(Plan::each(|_| Act::Fail("again")), Options::default(), TTL);
    let message = world.snapshot().parked[0].message.clone();
    assert!(
        !message.contains("jane") && message.contains("again"),
        "{message}"
    );
}

/// An outage is not a crash.
pub fn c031_an_infrastructure_failure_in_careful_mode_leaves_no_attempt(world: &dyn World) {
    let case = Case::start(world);
    let entries = Feed::default().events(0, &["a", "b"]);
    for _ in 0..12 {
        let applied = case.apply_carefully(Plan::each(|_| Act::Down), Options::default(), &entries);
        assert!(applied.pause.is_some());
        assert_eq!(world.snapshot().attempts, vec![]);
    }
    assert_at(
        &case.apply_carefully(Plan::fine(), Options::default(), &entries),
        0,
        2,
    );
    assert_eq!(world.snapshot().attempts, vec![]);
}

/// Careful mode changes how, not what.
pub fn c032_careful_mode_applies_like_any_other(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let mut entries = feed.events(0, &["a", "bad", "b", "bad"]);
    entries.extend([feed.event(1, "x"), feed.void(1), feed.event(1, "y")]);
    let applied = case.apply_carefully(Plan::poison(&["bad"]), Options::default(), &entries);
    assert_at(&applied, 0, 4);
    assert_at(&applied, 1, 3);
    let snapshot = world.snapshot();
    assert_eq!(
        (snapshot.applied(0), snapshot.applied(1)),
        (vec![1, 3], vec![1, 3])
    );
    assert_eq!((snapshot.parked.len(), snapshot.attempts.len()), (1, 0));
}

/// A handler that fails whenever it is given more than one event: every one is applied alone, and the call ends.
pub fn c033_a_handler_without_a_stable_answer_ends(world: &dyn World) {
    let case = Case::start(world);
    let entries = Feed::default().events(0, &["a", "b", "c", "d", "e"]);
    let calls = std::sync::atomic::AtomicU64::new(0);
    let plan = Plan::batch(
        move |_| match calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % 3 {
            2 => Act::Fail("now and then"),
            _ => Act::Apply,
        },
    );
    let applied = case.apply(plan, &entries);
    assert!(applied.pause.is_none(), "{applied:?}");
    assert_at(&applied, 0, 5);
}

/// The seed's fault "read-only failover dead-letters healthy events (5 of 5)".
pub fn c034_a_read_only_database_does_not_dead_letter(world: &dyn World) {
    let case = Case::start(world);
    let entries = Feed::default().events(0, &["a", "b", "c", "d", "e"]);
    for _ in 0..10 {
        let applied = case.apply(Plan::each(|_| Act::Down), &entries);
        assert!(applied.pause.is_some());
    }
    let snapshot = world.snapshot();
    assert_eq!(
        (snapshot.parked.len(), snapshot.skipped.len(), snapshot.hw(0)),
        (0, 0, 0)
    );
}

/// The seed's fault "attempts in memory (12 crashes, no dead letter)". Only the event that ended the process three
/// times by itself is blamed; it is dead at once, since trying it again would end the process again.
pub fn c035_crashes_blame_the_one_event_and_nothing_else(world: &dyn World) {
    let mut case = Case::start(world);
    assert!(case.doomed(false, None), "the first crash comes in normal mode");
    let mut crashes = 1;
    for round in 1..=12u128 {
        world.pass_time(TTL * 2);
        case = Case::take_over(world, Nonce(round));
        if !case.doomed(true, None) {
            break;
        }
        crashes += 1;
    }
    assert_eq!(
        crashes, 5,
        "one in normal mode, one in an announced batch, three that count"
    );
    case.apply_carefully(Plan::fine(), Options::default(), &doomed_entries());
    let snapshot = world.snapshot();
    let parked = snapshot.parked("bad").expect("parked");
    assert_eq!((parked.class, parked.state), ("crash", ParkedState::Dead));
    assert_eq!(parked.events, vec![3, 5]);
    assert_eq!((snapshot.parked.len(), snapshot.attempts.len()), (1, 0));
    assert_eq!(
        (snapshot.applied(0), snapshot.applied(1)),
        (vec![1, 2, 4], vec![1, 2])
    );
}

/// A deploy that kills the process condemns nobody, however often.
pub fn c036_a_crash_outside_careful_mode_blames_nobody(world: &dyn World) {
    let mut case = Case::start(world);
    for round in 1..=12u128 {
        assert!(case.doomed(false, None));
        world.pass_time(TTL * 2);
        case = Case::take_over(world, Nonce(round));
    }
    let snapshot = world.snapshot();
    assert_eq!(
        (snapshot.parked.len(), snapshot.attempts.len(), snapshot.hw(0)),
        (0, 0, 0)
    );
    assert_at(&case.apply(Plan::fine(), &doomed_entries()), 0, 5);
}

/// A parked head that ends the process is dead after as many crashes; its followers wait.
pub fn c037_a_crash_while_retrying_is_found_out(world: &dyn World) {
    let mut case = Case::start(world);
    case.apply(Plan::poison(&["bad"]), &doomed_entries());
    let mut crashes = 0;
    while case.doomed(true, Some(TTL)) {
        crashes += 1;
        assert!(crashes < 12);
        world.pass_time(TTL * 2);
        case = Case::take_over(world, Nonce(crashes));
    }
    assert_eq!(crashes, 3);
    let snapshot = world.snapshot();
    let parked = snapshot.parked("bad").expect("parked");
    assert_eq!((parked.class, parked.state), ("crash", ParkedState::Dead));
    assert_eq!(
        (parked.events.as_slice(), snapshot.attempts.len()),
        ([3, 5].as_slice(), 0)
    );
}

/// Many keys that cannot be applied cost one call no more than its bound, and the calls after it get to the end.
pub fn c038_a_call_ends_after_so_many_failures(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let mut entries = vec![feed.event(1, "good")];
    entries.extend((0..20).map(|i| feed.event(0, &format!("bad{i}"))));
    entries.extend([feed.event(0, "good"), feed.event(1, "better")]);
    let act = |event: &tidegate_core::inbox::Delivered| match event.event.key.as_deref() {
        Some(key) if key.starts_with("bad") => Act::Fail("down"),
        _ => Act::Apply,
    };
    for (plan, end) in [(Plan::each(act), 3), (Plan::batch(act), 6)] {
        let applied = case.apply_up_to(3, plan, &entries);
        assert!(applied.pause.is_none(), "{applied:?}");
        assert_eq!(applied.failures.len(), 3, "the bound of the call");
        assert_at(&applied, 0, end);
        assert_at(&applied, 1, 1);
    }
    assert_eq!(world.snapshot().parked.len(), 6);
    for _ in 0..5 {
        case.apply_up_to(3, Plan::each(act), &entries);
    }
    let snapshot = world.snapshot();
    assert_eq!(
        (snapshot.parked.len(), snapshot.hw(0), snapshot.hw(1)),
        (20, 21, 2)
    );
    assert_eq!((snapshot.applied(0), snapshot.applied(1)), (vec![21], vec![1, 2]));
}

/// After a crash in an announced batch its events are taken one at a time, a few in one call; nobody is blamed.
pub fn c039_a_doubtful_range_is_taken_a_few_at_a_time(world: &dyn World) {
    let case = Case::start(world);
    assert!(case.doomed(true, None), "the crash comes in an announced batch");
    assert_eq!(world.snapshot().attempts, vec![(0, 1, 0), (1, 1, 0), (2, 1, 0)]);
    world.pass_time(TTL * 2);
    let case = Case::take_over(world, Nonce(1));
    let entries = doomed_entries();
    for taken in [8, 16, 19] {
        case.apply_carefully(Plan::fine(), Options::default(), &entries);
        assert_eq!(world.snapshot().effects.len(), taken);
    }
    let snapshot = world.snapshot();
    assert_eq!((snapshot.parked.len(), snapshot.attempts.len()), (0, 0));
}

/// A lane that stops before an event leaves no trace of having tried it: nothing crashed.
pub fn c070_a_lane_that_halts_carefully_announces_nothing(world: &dyn World) {
    let case = Case::start(world);
    let entries = Feed::default().events(0, &["bad", "a"]);
    let options = Options {
        policy: Policy::Halt,
        ..Options::default()
    };
    let applied = case.apply_carefully(Plan::poison(&["bad"]), options, &entries);
    assert!(matches!(outcome(&applied, 0), LaneApplied::Halted { hw: 0, .. }));
    assert_eq!(world.snapshot().attempts, vec![]);
}

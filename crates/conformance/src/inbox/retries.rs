//! Parked keys and their way back.

use std::time::Duration;

use tidegate_core::inbox::Options;
use tidegate_core::inbox::transaction::ParkedState;

use super::{Act, Case, Feed, NOW, OTHER, Plan, TTL, World, assert_at};

const LATER: Duration = Duration::from_secs(60);

fn park<'w>(world: &'w dyn World, feed: &mut Feed, keys: &[&str]) -> Case<'w> {
    let case = Case::start(world);
    case.apply(Plan::poison(&["bad"]), &feed.events(0, keys));
    case
}

/// I3, Q4: the queue is applied in order, and the transaction that empties it un-parks.
pub fn c040_retry_goes_head_first_and_unparks_with_the_last_event(world: &dyn World) {
    let case = park(world, &mut Feed::default(), &["bad", "a", "bad", "bad"]);
    let early = case.retry(Plan::fine(), Options::default(), Duration::from_millis(999));
    assert_eq!(early.counts.applied, 0, "not due yet");
    assert_eq!(early.next, Some(NOW.after(Duration::from_secs(1))));
    let retried = case.retry(Plan::fine(), Options::default(), Duration::from_secs(1));
    assert_eq!((retried.counts.applied, retried.counts.unparked), (3, 1));
    assert_eq!(retried.next, None);
    let snapshot = world.snapshot();
    assert_eq!(snapshot.applied(0), vec![2, 1, 3, 4]);
    assert!(snapshot.parked.is_empty() && snapshot.attempts.is_empty());
}

/// The seed's fault "retry lands after later events of its entity"; wolverine #3476.
pub fn c041_a_newer_event_never_overtakes(world: &dyn World) {
    let mut feed = Feed::default();
    let case = park(world, &mut feed, &["bad"]);
    let fails_first = Plan::each(|event| {
        if event.n == 1 {
            Act::Fail("still")
        } else {
            Act::Apply
        }
    });
    for _ in 0..3 {
        let more = feed.events(0, &["bad", "a"]);
        assert_at(&case.apply(Plan::fine(), &more), 0, more[1].n);
        case.retry(fails_first.clone(), Options::default(), LATER);
    }
    let snapshot = world.snapshot();
    assert_eq!(snapshot.parked("bad").unwrap().events, vec![1, 2, 4, 6]);
    case.retry(Plan::fine(), Options::default(), LATER * 10);
    let snapshot = world.snapshot();
    snapshot.check_order();
    assert_eq!(snapshot.applied(0), vec![3, 5, 7, 1, 2, 4, 6]);
    case.apply(Plan::fine(), &feed.events(0, &["bad"]));
    assert_eq!(world.snapshot().applied(0).last(), Some(&8));
}

/// Back-off doubles; after the last retry the key is dead and is not tried again, but events still queue.
pub fn c042_a_key_is_dead_after_its_retries(world: &dyn World) {
    let mut feed = Feed::default();
    let case = park(world, &mut feed, &["bad"]);
    let options = Options {
        attempts_max: 3,
        ..Options::default()
    };
    let mut pauses = Vec::new();
    let mut now = Duration::from_secs(1);
    for _ in 0..3 {
        let retried = case.retry(Plan::poison(&["bad"]), options.clone(), now);
        if let Some(next) = retried.next {
            let at = next.since(NOW);
            pauses.push(at.saturating_sub(now).as_secs());
            now = at;
        }
    }
    assert_eq!(pauses, vec![2, 4]);
    let parked = world.snapshot().parked[0].clone();
    assert_eq!((parked.state, parked.attempts), (ParkedState::Dead, 3));
    let retried = case.retry(Plan::fine(), options, now * 100);
    assert_eq!((retried.counts.applied, retried.next), (0, None));
    case.apply(Plan::fine(), &feed.events(0, &["bad", "a"]));
    assert_eq!(world.snapshot().parked("bad").unwrap().events, vec![1, 2]);
}

/// The seed's fault "attempts in memory".
pub fn c043_attempts_survive_a_take_over(world: &dyn World) {
    let case = park(world, &mut Feed::default(), &["bad"]);
    case.retry(Plan::poison(&["bad"]), Options::default(), LATER);
    world.pass_time(TTL * 2);
    let case = Case::take_over(world, OTHER);
    case.retry(Plan::poison(&["bad"]), Options::default(), LATER * 2);
    assert_eq!(world.snapshot().parked[0].attempts, 2);
}

/// Attempts belong to the head.
pub fn c044_a_head_that_recovers_starts_its_follower_afresh(world: &dyn World) {
    let case = park(world, &mut Feed::default(), &["bad", "bad"]);
    for round in 1..4 {
        case.retry(Plan::poison(&["bad"]), Options::default(), LATER * round);
    }
    assert_eq!(world.snapshot().parked[0].attempts, 3);
    let second_fails = Plan::each(|event| {
        if event.n == 2 {
            Act::Fail("second")
        } else {
            Act::Apply
        }
    });
    case.retry(second_fails, Options::default(), LATER * 10);
    let snapshot = world.snapshot();
    let parked = snapshot.parked("bad").unwrap();
    assert_eq!((parked.attempts, parked.fingerprint.as_str()), (1, "second"));
    assert_eq!(
        (snapshot.applied(0), parked.events.as_slice()),
        (vec![1], [2].as_slice())
    );
}

/// A failure deep in the queue: what is before it is applied, and it is blamed, not the head.
pub fn c045_a_later_failure_in_the_queue_becomes_the_head(world: &dyn World) {
    deep_failure(world, Plan::each(fails_at_40));
}

/// The same when the handler does not say which.
pub fn c050_a_later_failure_without_an_index_becomes_the_head(world: &dyn World) {
    deep_failure(world, Plan::batch(fails_at_40));
}

fn deep_failure(world: &dyn World, plan: Plan) {
    let case = park(world, &mut Feed::default(), &["bad"; 50]);
    case.retry(plan, Options::default(), LATER);
    let snapshot = world.snapshot();
    assert_eq!(snapshot.applied(0).len(), 39);
    let parked = &snapshot.parked[0];
    assert_eq!((parked.events.first(), parked.attempts), (Some(&40), 1));
}

fn fails_at_40(event: &tidegate_core::inbox::Delivered) -> Act {
    if event.n == 40 {
        Act::Fail("fortieth")
    } else {
        Act::Apply
    }
}

/// An outage during a retry changes nothing, however often.
pub fn c046_infrastructure_counts_no_retry(world: &dyn World) {
    let case = park(world, &mut Feed::default(), &["bad", "bad"]);
    let before = world.snapshot();
    for _ in 0..12 {
        let retried = case.retry(Plan::each(|_| Act::Down), Options::default(), LATER);
        assert!(retried.pause.is_some());
    }
    assert_eq!(world.snapshot(), before);
}

/// I2 for retries.
pub fn c047_a_stale_owner_retries_nothing(world: &dyn World) {
    let old = park(world, &mut Feed::default(), &["bad"]);
    world.pass_time(TTL * 2);
    Case::take_over(world, OTHER);
    let before = world.snapshot();
    let retried = old.retry(Plan::fine(), Options::default(), LATER);
    assert_eq!(retried.counts.applied, 0);
    assert_eq!(world.snapshot(), before);
}

/// Keys that keep failing leave the writer to others after a few.
pub fn c053_one_call_ends_after_a_few_failures_and_the_next_goes_on(world: &dyn World) {
    const KEYS: [&str; 20] = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t",
    ];
    let case = Case::start(world);
    case.apply(Plan::poison(&KEYS), &Feed::default().events(0, &KEYS));
    assert_eq!(world.snapshot().parked.len(), KEYS.len());
    let tried = || {
        world
            .snapshot()
            .parked
            .iter()
            .filter(|key| key.attempts == 1)
            .count()
    };
    for after in [16, KEYS.len()] {
        case.retry(Plan::poison(&KEYS), Options::default(), LATER);
        assert_eq!(tried(), after);
    }
}

/// A long queue does not keep fresh batches waiting.
pub fn c048_one_call_is_bounded_and_the_next_goes_on(world: &dyn World) {
    let case = park(world, &mut Feed::default(), &vec!["bad"; 2_500]);
    let first = case.retry(Plan::fine(), Options::default(), LATER);
    assert!(first.counts.applied < 2_000, "{:?}", first.counts);
    assert!(
        first.next.is_some_and(|next| next <= NOW.after(LATER)),
        "due at once"
    );
    let mut applied = first.counts.applied;
    while applied < 2_500 {
        let more = case.retry(Plan::fine(), Options::default(), LATER).counts.applied;
        assert!(more > 0);
        applied += more;
    }
    let snapshot = world.snapshot();
    snapshot.check_order();
    assert!(snapshot.parked.is_empty());
}

/// A panic while retrying.
pub fn c049_a_retry_that_panics_is_a_failed_retry(world: &dyn World) {
    let case = park(world, &mut Feed::default(), &["bad", "bad"]);
    let retried = case.retry(Plan::each(|_| Act::Panic), Options::default(), LATER);
    assert!(retried.pause.is_none(), "{retried:?}");
    let parked = world.snapshot().parked[0].clone();
    assert_eq!((parked.class, parked.attempts), ("panic", 1));
}

/// Dead letters keep the original bytes; the seed's faults "redacted dead letters cannot be replayed" and "jsonb dead
/// letters refuse NUL".
pub fn c051_a_parked_event_comes_back_byte_for_byte(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let mut entries = feed.events(0, &["bad"; 12]);
    entries.push(feed.keyless(0));
    case.apply(Plan::each(|_| Act::Fail("poisoned")), &entries);
    let same = Plan::each(move |got| {
        let sent = entries.iter().find(|entry| entry.n == got.n);
        if sent.and_then(|entry| entry.event.as_ref()) == Some(&got.event) {
            Act::Apply
        } else {
            Act::Fail("changed")
        }
    });
    let retried = case.retry(same, Options::default(), LATER);
    assert_eq!((retried.counts.applied, retried.counts.unparked), (13, 2));
}

//! The apply transaction when nothing is wrong with the events.

use tidegate_core::inbox::LaneApplied;
use tidegate_core::stream::{Chain, EntryId};

use super::{Act, Case, Feed, LANES, OTHER, Plan, TTL, World, assert_at, last_id, outcome};

/// I1, Q2: after a failure below, neither an effect nor a position stands; after success both do.
pub fn c001_effect_and_position_commit_together(world: &dyn World) {
    let case = Case::start(world);
    let entries = Feed::default().events(0, &["a", "b", "c"]);
    let down_at_3 = Plan::each(|event| if event.n == 3 { Act::Down } else { Act::Apply });
    let applied = case.apply(down_at_3, &entries);
    assert!(applied.pause.is_some());
    assert_at(&applied, 0, 0);
    let snapshot = world.snapshot();
    assert_eq!((snapshot.applied(0), snapshot.hw(0)), (vec![], 0));
    let applied = case.apply(Plan::fine(), &entries);
    assert_at(&applied, 0, 3);
    let snapshot = world.snapshot();
    assert_eq!((snapshot.applied(0), snapshot.hw(0)), (vec![1, 2, 3], 3));
    assert_eq!(applied.counts.applied, 3);
}

/// C1: a batch whose reply was lost may be given again.
pub fn c002_a_batch_given_again_changes_nothing(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let mut entries = feed.events(0, &["a", "b"]);
    entries.extend(feed.events(1, &["c"]));
    case.apply(Plan::fine(), &entries);
    let before = world.snapshot();
    let again = case.apply(Plan::fine(), &entries);
    assert_eq!((again.counts.duplicates, again.counts.applied), (3, 0));
    assert_eq!(world.snapshot(), before);
    entries.extend(feed.events(0, &["d"]));
    let longer = case.apply(Plan::fine(), &entries);
    assert_eq!((longer.counts.duplicates, longer.counts.applied), (3, 1));
    assert_at(&longer, 0, 3);
}

/// I4: what follows a hole waits; what is before it, and other lanes, do not.
pub fn c003_a_gap_stops_its_lane_only(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let mut entries = feed.events(0, &["a", "b", "lost", "d"]);
    entries.remove(2);
    entries.extend(feed.events(1, &["x"]));
    let applied = case.apply(Plan::fine(), &entries);
    assert_eq!(outcome(&applied, 0), LaneApplied::Gap { hw: 2, next: 4 });
    assert_at(&applied, 1, 1);
    assert_eq!(world.snapshot().hw(0), 2);
    assert!(applied.pause.is_none(), "{applied:?}");
}

/// I4: an event that does not follow from mine belongs to another history, at the next number or at the same one.
pub fn c004_a_fork_stops_its_lane_only(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let mut entries = feed.events(0, &["a", "b"]);
    entries[1].chain = Chain([7; 16]);
    entries.extend(feed.events(1, &["x"]));
    let applied = case.apply(Plan::fine(), &entries);
    assert_eq!(outcome(&applied, 0), LaneApplied::Fork { n: 2 });
    assert_at(&applied, 1, 1);
    assert_eq!(world.snapshot().hw(0), 1);
    let mut same = entries[0].clone();
    same.chain = Chain([9; 16]);
    let applied = case.apply(Plan::fine(), &[same]);
    assert_eq!(outcome(&applied, 0), LaneApplied::Fork { n: 1 });
}

/// I2, C3; the seed's fault "fence checked, then committed (applied twice)".
pub fn c005_a_stale_owner_is_fenced_after_a_take_over(world: &dyn World) {
    let old = Case::start(world);
    let entries = Feed::default().events(0, &["a", "b"]);
    world.pass_time(TTL * 2);
    let new = Case::take_over(world, OTHER);
    let stale = old.apply(Plan::fine(), &entries);
    assert_eq!(outcome(&stale, 0), LaneApplied::Fenced);
    assert_eq!(world.snapshot().applied(0), Vec::<u64>::new());
    assert_at(&new.apply(Plan::fine(), &entries), 0, 2);
    assert_eq!(
        outcome(&old.apply(Plan::fine(), &entries), 0),
        LaneApplied::Fenced
    );
    assert_eq!(world.snapshot().applied(0), vec![1, 2]);
}

/// A void marker uses its number and nothing else.
pub fn c006_a_void_marker_advances_and_applies_nothing(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let entries = [feed.event(0, "a"), feed.void(0), feed.event(0, "b"), feed.void(0)];
    let applied = case.apply(Plan::fine(), &entries);
    assert_at(&applied, 0, 4);
    assert_eq!((applied.counts.voids, applied.counts.applied), (2, 2));
    assert_eq!(world.snapshot().applied(0), vec![1, 3]);
}

/// One transaction for all lanes: a failure below in one leaves nothing of any. A fenced lane holds back nobody.
pub fn c007_all_lanes_of_a_batch_commit_together(world: &dyn World) {
    let mut case = Case::start(world);
    let mut feed = Feed::default();
    let entries: Vec<_> = (0..LANES).map(|slot| feed.event(slot, "a")).collect();
    let down = Plan::each(|event| {
        if event.lane.slot == 3 {
            Act::Down
        } else {
            Act::Apply
        }
    });
    assert!(case.apply(down, &entries).pause.is_some());
    assert!(world.snapshot().effects.is_empty());
    case.tokens[2].0 += 1;
    let applied = case.apply(Plan::fine(), &entries);
    assert_eq!(outcome(&applied, 2), LaneApplied::Fenced);
    let lanes: Vec<u16> = world.snapshot().effects.iter().map(|(slot, ..)| *slot).collect();
    assert_eq!(lanes, vec![0, 1, 3], "in stream order");
}

/// The gate on work per event: the same number of statements for one event and for a thousand, but for the handler's calls.
pub fn c008_statements_do_not_depend_on_lanes_or_events(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let one = case.cost(&[feed.event(0, "a")]);
    let entries: Vec<_> = (0..1000u16).map(|i| feed.event(i % LANES, "k")).collect();
    let many = case.cost(&entries);
    for (calls, cost) in [(1, one), (1000, many)] {
        let expected = world.apply_cost(calls);
        assert_eq!(cost.unwrap_or(expected), expected);
    }
}

/// Targets: parked events cost nothing to healthy keys; one look where a lane has any.
pub fn c009_healthy_keys_pay_nothing_for_parked_events(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let sick: Vec<_> = (0..2000).map(|_| feed.event(0, "sick")).collect();
    let applied = case.apply(Plan::poison(&["sick"]), &sick);
    assert_eq!((applied.counts.parked, applied.counts.queued), (1, 2000));
    let elsewhere = case.cost(&[feed.event(1, "healthy")]);
    let beside = case.cost(&[feed.event(0, "healthy")]);
    let cost = world.apply_cost(1);
    let beside = beside.unwrap_or(cost + 1);
    assert_eq!((elsewhere.unwrap_or(cost), beside), (cost, cost + 1));
}

/// A refilled stream holds old numbers again, also in the middle of a page.
pub fn c010_entries_may_repeat_within_a_batch(world: &dyn World) {
    let case = Case::start(world);
    let entries = Feed::default().events(0, &["a", "b", "c"]);
    let mut page = entries[..2].to_vec();
    page.extend(entries);
    for (at, entry) in page.iter_mut().enumerate() {
        entry.id = EntryId(0, u64::try_from(at).unwrap() + 1);
    }
    let applied = case.apply(Plan::fine(), &page);
    assert_at(&applied, 0, 3);
    assert_eq!((applied.counts.applied, applied.counts.duplicates), (3, 2));
}

/// A cursor never passes an entry that was not taken in.
pub fn c011_cursors_follow_what_was_taken_in(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let mut entries = feed.events(0, &["a", "b", "lost", "d"]);
    entries.remove(2);
    case.apply(Plan::fine(), &entries);
    assert_eq!(world.snapshot().lanes[0].position.cursor, entries[1].id);
    let whole = feed.events(1, &["x", "y"]);
    case.apply(Plan::fine(), &whole);
    assert_eq!(world.snapshot().lanes[1].position.cursor, last_id(&whole));
}

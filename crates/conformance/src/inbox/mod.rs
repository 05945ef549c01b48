//! Cases for inboxes: ownership, the apply transaction, retries and dead letters.
//!
//! A store brings a [`World`]; [`crate::inbox_cases`] names every case. Each case starts from an empty consumer with
//! four lanes, all earliest.

#![allow(clippy::expect_used)] // A case fails by panicking.
pub mod apply;
pub mod dead_letters;
pub mod failures;
pub mod feed;
pub mod memory;
pub mod ownership;
pub mod random;
pub mod retries;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::inbox::block::block_on;
use tidegate_core::inbox::handler::Mode;
use tidegate_core::inbox::transaction::{Ledger, ParkedState};
use tidegate_core::inbox::{
    Applied, Batch, Class, Delivered, LaneApplied, LaneBatch, Options, Position, Retried, Retry,
};
use tidegate_core::lane::{Held, Hold, LaneId, Lineage};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::store::{Applier, DeadLetters, InboxStore};
use tidegate_core::stream::{Entry, EntryId};
use tidegate_core::{Timestamp, Uuid};

pub use feed::Feed;

/// One store with an empty consumer.
pub trait World {
    /// Ownership and positions.
    fn inbox(&self) -> Arc<dyn InboxStore>;

    /// An applier whose handler writes each event to a log in the same transaction, then does what the plan says.
    fn applier(&self, plan: Plan, options: Options) -> Arc<dyn Applier>;

    /// Lets the store's clock run.
    fn pass_time(&self, by: Duration);

    /// Everything that is committed, from one snapshot.
    fn snapshot(&self) -> Snapshot;

    /// The consumer's dead letters.
    fn letters(&self) -> Arc<dyn DeadLetters>;

    /// Does it as a process of its own that ends without a word when the handler reaches [`Act::End`]. Returns
    /// whether it did.
    fn doomed(&self, run: &Doomed) -> bool;

    /// Statements executed so far, the handlers' own excluded; `None` where there is no such thing.
    fn statements(&self) -> Option<u64>;

    /// Statements of an apply with so many calls of a handler: begin, lock, advance, commit, and what a call costs.
    fn apply_cost(&self, calls: u64) -> u64 {
        let _ = calls;
        4
    }
}

/// What the handler does with each event.
#[derive(Clone)]
pub struct Plan {
    /// One at a time, or all.
    pub mode: Mode,
    /// In a batch: failures come without an index.
    pub unattributed: bool,
    /// Per event.
    pub act: Arc<dyn Fn(&Delivered) -> Act + Send + Sync>,
}

/// What the handler does with one event, after it wrote its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Succeeds.
    Apply,
    /// Says that the event is poison, with this fingerprint.
    Fail(&'static str),
    /// Panics.
    Panic,
    /// Says that something below is down.
    Down,
    /// Ends the process.
    End,
}

/// What a doomed process does: applies or retries [`doomed_entries`], and ends at number 3 of lane 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doomed {
    /// The member.
    pub member: Nonce,
    /// Tokens by slot.
    pub tokens: Vec<Token>,
    /// In careful mode.
    pub careful: bool,
    /// Retries what is due this long after the batch, instead of applying.
    pub retry: Option<Duration>,
}

/// Three lanes; number 3 of lane 0 is the one.
pub fn doomed_entries() -> Vec<Entry> {
    let mut feed = Feed::default();
    let mut entries = feed.events(0, &["a", "b", "bad", "a", "bad"]);
    entries.extend(feed.events(1, &["x", "y"]));
    entries.extend(feed.events(2, &["z"; 12]));
    entries
}

/// Ends the process at the event that [`Doomed`] names.
pub fn doomed_plan() -> Plan {
    Plan::each(|event| match (event.lane.slot, event.n) {
        (0, 3) => Act::End,
        _ => Act::Apply,
    })
}

impl Plan {
    /// One event at a time.
    pub fn each(act: impl Fn(&Delivered) -> Act + Send + Sync + 'static) -> Self {
        Self {
            mode: Mode::Each,
            unattributed: false,
            act: Arc::new(act),
        }
    }

    /// All events at once, failures without an index.
    pub fn batch(act: impl Fn(&Delivered) -> Act + Send + Sync + 'static) -> Self {
        Self {
            mode: Mode::Batch,
            unattributed: true,
            ..Self::each(act)
        }
    }

    /// Everything succeeds.
    pub fn fine() -> Self {
        Self::each(|_| Act::Apply)
    }

    /// Events of these keys fail.
    pub fn poison(keys: &'static [&'static str]) -> Self {
        Self::each(move |event| match &event.event.key {
            Some(key) if keys.contains(&key.as_str()) => Act::Fail("poisoned"),
            _ => Act::Apply,
        })
    }
}

/// What is committed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Effects in the order in which they were written: lane, number, key.
    pub effects: Vec<(u16, u64, String)>,
    /// Lanes in order.
    pub lanes: Vec<LaneView>,
    /// Parked keys in order of key.
    pub parked: Vec<ParkedView>,
    /// Skipped events: lane and number.
    pub skipped: Vec<(u16, u64)>,
    /// What was announced and has no result: lane, first number, and how many tenures began it alone.
    pub attempts: Vec<(u16, u64, u32)>,
}

/// A lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneView {
    /// Which.
    pub slot: u16,
    /// Where it stands.
    pub position: Position,
    /// Where its numbers went.
    pub ledger: Ledger,
}

/// A parked key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedView {
    /// Its lane.
    pub slot: u16,
    /// With its tag.
    pub key: String,
    /// Retrying or dead.
    pub state: ParkedState,
    /// Retries so far.
    pub attempts: u32,
    /// When it is tried again.
    pub next_at: Timestamp,
    /// Class of the last failure.
    pub class: &'static str,
    /// Its fingerprint.
    pub fingerprint: String,
    /// Its message, as stored.
    pub message: String,
    /// Numbers of the events that wait.
    pub events: Vec<u64>,
}

impl Snapshot {
    /// Numbers applied in a lane, in the order in which they were.
    pub fn applied(&self, slot: u16) -> Vec<u64> {
        let of_lane = self.effects.iter().filter(|(lane, ..)| *lane == slot);
        of_lane.map(|(_, n, _)| *n).collect()
    }

    /// A lane's last number taken in.
    pub fn hw(&self, slot: u16) -> u64 {
        self.lanes[usize::from(slot)].position.hw
    }

    /// A parked key.
    pub fn parked(&self, key: &str) -> Option<&ParkedView> {
        self.parked.iter().find(|parked| parked.key == format!("k:{key}"))
    }

    /// Q1 and its parts: every number is accounted for, once.
    pub fn check(&self) {
        for lane in &self.lanes {
            let Ledger { tally, .. } = lane.ledger;
            let count = |of: usize| i64::try_from(of).unwrap();
            let effects = self.applied(lane.slot);
            let waiting: usize = self
                .parked
                .iter()
                .filter(|p| p.slot == lane.slot)
                .map(|p| p.events.len())
                .sum();
            let skipped = self.skipped.iter().filter(|(slot, _)| *slot == lane.slot).count();
            assert_eq!(lane.ledger.sum(), lane.position.hw.cast_signed(), "Q1: {lane:?}");
            assert_eq!(
                tally.applied,
                count(effects.len()),
                "one effect for each applied event"
            );
            assert_eq!(tally.parked, count(waiting), "the queue's length");
            assert_eq!(tally.skipped, count(skipped), "the skipped events");
            let mut once = effects.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(
                once.len(),
                effects.len(),
                "C1: an effect twice in lane {}",
                lane.slot
            );
        }
        for parked in &self.parked {
            assert!(!parked.events.is_empty(), "an empty queue: {parked:?}");
        }
    }

    /// C4: per key, effects are in stream order.
    pub fn check_order(&self) {
        let mut last = std::collections::BTreeMap::new();
        for (slot, n, key) in self.effects.iter().filter(|(.., key)| key != "-") {
            let before = last.insert((slot, key), *n).unwrap_or(0);
            assert!(before < *n, "C4: {n} of {key} after {before}");
        }
    }
}

/// The member that cases act as.
pub const ME: Nonce = Nonce(0x1111);
/// Another one.
pub const OTHER: Nonce = Nonce(0x2222);
/// How long a hold lasts.
pub const TTL: Duration = Duration::from_secs(10);
/// Lanes of the consumer.
pub const LANES: u16 = 4;
/// The time written to parked rows.
pub const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// The lane with this slot.
pub fn lane(slot: u16) -> LaneId {
    LaneId {
        lineage: Lineage(Uuid::from_u128(0x7110)),
        slot,
    }
}

/// A world with its lanes registered, and a member that owns them all.
pub struct Case<'w> {
    /// The store.
    pub world: &'w dyn World,
    /// The member.
    pub member: Nonce,
    /// Tokens by slot.
    pub tokens: Vec<Token>,
}

impl Doomed {
    /// The batch it applies.
    pub fn batch(&self, world: &dyn World) -> Batch {
        let case = Case {
            world,
            member: self.member,
            tokens: self.tokens.clone(),
        };
        Batch {
            careful: self.careful,
            ..case.batch(&doomed_entries())
        }
    }

    /// The retry it asks for.
    pub fn request(&self, after: Duration) -> Retry {
        Retry {
            failures_max: 16,
            member: self.member,
            lanes: (0..LANES).map(lane).zip(self.tokens.iter().copied()).collect(),
            now: NOW.after(after),
        }
    }
}

impl<'w> Case<'w> {
    /// This owner as a process that ends.
    pub fn doomed(&self, careful: bool, retry: Option<Duration>) -> bool {
        let ended = self.world.doomed(&Doomed {
            member: self.member,
            tokens: self.tokens.clone(),
            careful,
            retry,
        });
        self.world.snapshot().check();
        ended
    }

    /// Registers the lanes and takes them all.
    pub fn start(world: &'w dyn World) -> Self {
        let lanes = (0..LANES).map(|slot| (lane(slot), Position::EARLIEST)).collect();
        block_on(world.inbox().register(lanes)).unwrap();
        Self::take_over(world, ME)
    }

    /// Holds as `member`, which must get every lane.
    pub fn take_over(world: &'w dyn World, member: Nonce) -> Self {
        let held = hold(world, member, vec![]);
        assert_eq!(held.owned.len(), usize::from(LANES));
        Self {
            world,
            member,
            tokens: held.owned.iter().map(|owned| owned.token).collect(),
        }
    }

    /// A batch of these entries, lane by lane.
    pub fn batch(&self, entries: &[Entry]) -> Batch {
        let lanes = (0..LANES).filter_map(|slot| {
            let mine: Vec<Entry> = entries.iter().filter(|e| e.lane.slot == slot).cloned().collect();
            let cursor = mine.last()?.id;
            Some(LaneBatch {
                lane: lane(slot),
                token: self.tokens[usize::from(slot)],
                entries: mine,
                cursor,
            })
        });
        Batch {
            member: self.member,
            lanes: lanes.collect(),
            careful: false,
            failures_max: 1000,
            now: NOW,
        }
    }

    /// Applies entries under default options.
    pub fn apply(&self, plan: Plan, entries: &[Entry]) -> Applied {
        self.apply_with(plan, Options::default(), entries)
    }

    /// Applies entries.
    pub fn apply_with(&self, plan: Plan, options: Options, entries: &[Entry]) -> Applied {
        let applied = block_on(self.world.applier(plan, options).apply(self.batch(entries))).unwrap();
        self.world.snapshot().check();
        applied
    }

    /// Applies entries in a call that ends after this many failures.
    pub fn apply_up_to(&self, failures_max: usize, plan: Plan, entries: &[Entry]) -> Applied {
        let batch = Batch {
            failures_max,
            ..self.batch(entries)
        };
        let applied = block_on(self.world.applier(plan, Options::default()).apply(batch)).unwrap();
        self.world.snapshot().check();
        applied
    }

    /// Applies entries in careful mode.
    pub fn apply_carefully(&self, plan: Plan, options: Options, entries: &[Entry]) -> Applied {
        let batch = Batch {
            careful: true,
            ..self.batch(entries)
        };
        let applied = block_on(self.world.applier(plan, options).apply(batch)).unwrap();
        self.world.snapshot().check();
        applied
    }

    /// Applies entries that all succeed, and counts the statements.
    pub fn cost(&self, entries: &[Entry]) -> Option<u64> {
        let applier = self.world.applier(Plan::fine(), Options::default());
        let before = self.world.statements()?;
        block_on(applier.apply(self.batch(entries))).unwrap();
        Some(self.world.statements()? - before)
    }

    /// Retries what is due `after` the batch.
    pub fn retry(&self, plan: Plan, options: Options, after: Duration) -> Retried {
        let request = Retry {
            failures_max: 16,
            member: self.member,
            lanes: (0..LANES)
                .map(|slot| (lane(slot), self.tokens[usize::from(slot)]))
                .collect(),
            now: NOW.after(after),
        };
        let retried = block_on(self.world.applier(plan, options).retry(request)).unwrap();
        self.world.snapshot().check();
        retried
    }
}

/// Holds as `member`, releasing these lanes.
pub fn hold(world: &dyn World, member: Nonce, release: Vec<(LaneId, Token)>) -> Held<Position> {
    let hold = Hold {
        member,
        label: format!("member {:x}", member.0),
        ttl: TTL,
        release,
        leave: false,
    };
    block_on(world.inbox().hold(hold)).unwrap()
}

/// A lane's outcome in a reply.
pub fn outcome(applied: &Applied, slot: u16) -> LaneApplied {
    let found = applied.lanes.iter().find(|(id, _)| *id == lane(slot));
    found
        .map(|(_, outcome)| outcome.clone())
        .expect("an outcome for each lane")
}

/// Asserts that a lane stands at this number.
pub fn assert_at(applied: &Applied, slot: u16, hw: u64) {
    match outcome(applied, slot) {
        LaneApplied::At(position) => assert_eq!(position.hw, hw),
        other => panic!("lane {slot}: {other:?}"),
    }
}

/// The name of a class as stored.
pub fn class_name(name: &str) -> &'static str {
    let class = Class::ALL.into_iter().find(|class| class.as_str() == name);
    class.map(Class::as_str).expect("a known class")
}

/// The last id of some entries.
pub fn last_id(entries: &[Entry]) -> EntryId {
    entries.last().map(|entry| entry.id).unwrap_or_default()
}

/// Hands the names of all cases, in order, to another macro.
#[macro_export]
macro_rules! inbox_cases {
    ($then:ident) => {
        $then! {
            apply::c001_effect_and_position_commit_together,
            apply::c002_a_batch_given_again_changes_nothing,
            apply::c003_a_gap_stops_its_lane_only,
            apply::c004_a_fork_stops_its_lane_only,
            apply::c005_a_stale_owner_is_fenced_after_a_take_over,
            apply::c006_a_void_marker_advances_and_applies_nothing,
            apply::c007_all_lanes_of_a_batch_commit_together,
            apply::c008_statements_do_not_depend_on_lanes_or_events,
            apply::c009_healthy_keys_pay_nothing_for_parked_events,
            apply::c010_entries_may_repeat_within_a_batch,
            apply::c011_cursors_follow_what_was_taken_in,
            failures::c020_a_failing_key_parks_and_the_others_flow,
            failures::c021_earlier_parks_commit_with_the_prefix,
            failures::c022_a_panic_is_data,
            failures::c023_infrastructure_blames_nobody,
            failures::c024_a_batch_failure_without_an_index_is_found_by_halving,
            failures::c025_skip_dead_letters_the_event_and_lets_its_key_go_on,
            failures::c026_halt_stops_the_lane_before_the_event,
            failures::c027_the_bound_of_a_key_halts_its_lane,
            failures::c028_the_bound_of_all_queues_halts_the_lane,
            failures::c029_a_keyless_event_parks_alone,
            failures::c030_messages_are_redacted_before_they_are_stored,
            failures::c031_an_infrastructure_failure_in_careful_mode_leaves_no_attempt,
            failures::c032_careful_mode_applies_like_any_other,
            failures::c033_a_handler_without_a_stable_answer_ends,
            failures::c034_a_read_only_database_does_not_dead_letter,
            failures::c035_crashes_blame_the_one_event_and_nothing_else,
            failures::c036_a_crash_outside_careful_mode_blames_nobody,
            failures::c037_a_crash_while_retrying_is_found_out,
            failures::c038_a_call_ends_after_so_many_failures,
            failures::c039_a_doubtful_range_is_taken_a_few_at_a_time,
            failures::c070_a_lane_that_halts_carefully_announces_nothing,
            retries::c040_retry_goes_head_first_and_unparks_with_the_last_event,
            retries::c041_a_newer_event_never_overtakes,
            retries::c042_a_key_is_dead_after_its_retries,
            retries::c043_attempts_survive_a_take_over,
            retries::c044_a_head_that_recovers_starts_its_follower_afresh,
            retries::c045_a_later_failure_in_the_queue_becomes_the_head,
            retries::c046_infrastructure_counts_no_retry,
            retries::c047_a_stale_owner_retries_nothing,
            retries::c053_one_call_ends_after_a_few_failures_and_the_next_goes_on,
            retries::c048_one_call_is_bounded_and_the_next_goes_on,
            retries::c049_a_retry_that_panics_is_a_failed_retry,
            retries::c050_a_later_failure_without_an_index_becomes_the_head,
            ownership::c060_register_never_changes_a_position,
            ownership::c061_a_hold_follows_the_rule,
            ownership::c062_release_is_clean_and_expiry_is_not,
            ownership::c063_cursors_move_forward_under_the_fence,
            ownership::c064_a_stale_release_releases_nothing,
            ownership::c065_a_change_rings_the_bell,
            retries::c051_a_parked_event_comes_back_byte_for_byte,
            dead_letters::c100_what_people_see_is_redacted,
            dead_letters::c101_a_list_can_be_narrowed,
            dead_letters::c102_a_redrive_happens_once_and_keeps_the_order,
            dead_letters::c103_a_redrive_by_event_key_cause_or_all,
            dead_letters::c104_a_redrive_refuses_what_is_not_there,
            dead_letters::c105_a_discarded_head_lets_its_followers_go,
            dead_letters::c106_discarding_the_last_event_unparks_the_key,
            dead_letters::c107_a_discard_needs_a_reason_and_happens_once,
            dead_letters::c108_a_skipped_event_is_released_out_of_order,
            dead_letters::c109_a_skipped_event_is_discarded,
            dead_letters::c110_the_books_add_up_at_every_step,
            dead_letters::c111_a_failing_sink_drops_nothing_and_is_not_retried_hot,
            dead_letters::c112_a_key_that_dies_again_is_told_again,
            dead_letters::c117_parked_keys_are_counted_by_state,
            dead_letters::c113_a_decision_rings_the_bell,
            dead_letters::c114_a_mark_is_for_one_death,
            dead_letters::c115_a_refused_letter_holds_back_no_other,
            dead_letters::c116_letters_are_offered_by_lane_and_page,
            random::c080_random_failures_keep_every_promise,
        }
    };
}

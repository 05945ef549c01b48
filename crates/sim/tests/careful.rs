//! Careful mode blames crashes on the event that brought them about, and on nothing else.

#![allow(clippy::unwrap_used)] // Tests.

use std::cell::Cell;

use tidegate_core::event::Draft;
use tidegate_core::inbox::apply::{apply, retry};
use tidegate_core::inbox::block::block_on;
use tidegate_core::inbox::handler::{Fault, each};
use tidegate_core::inbox::transaction::ParkedState;
use tidegate_core::inbox::{Batch, Class, Delivered, LaneBatch, Options, Position, Retry};
use tidegate_core::lane::{Hold, LaneId, Lineage};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::memory::inbox::{CommitFault, MemoryInbox, MemoryTx};
use tidegate_core::memory::{Clock, clock};
use tidegate_core::store::InboxStore;
use tidegate_core::stream::{Chain, Entry, EntryId};
use tidegate_core::{Timestamp, Uuid};

const LANE: LaneId = LaneId {
    lineage: Lineage(Uuid::from_u128(1)),
    slot: 0,
};

struct World {
    clock: clock::Clock,
    inbox: MemoryInbox,
    tenures: u128,
    options: Options,
}

fn entries(count: u64) -> Vec<Entry> {
    let mut chain = Chain::START;
    let entry = |n: u64| {
        let id = Uuid::from_u128(u128::from(n));
        chain = chain.next(n, Some(id));
        Entry {
            id: EntryId(0, n),
            lane: LANE,
            n,
            chain,
            event: Some(Draft::new("t", "k").seal(id, Timestamp::default()).unwrap()),
        }
    };
    (1..=count).map(entry).collect()
}

fn batch((member, token): (Nonce, Token), careful: bool) -> Batch {
    Batch {
        member,
        lanes: vec![LaneBatch {
            lane: LANE,
            token,
            entries: entries(9),
            cursor: EntryId(0, 9),
        }],
        careful,
        failures_max: 1000,
        now: Timestamp::default(),
    }
}

impl World {
    fn new() -> Self {
        let clock = Clock::default();
        let inbox = MemoryInbox::new(clock.clone());
        block_on(inbox.register(vec![(LANE, Position::EARLIEST)])).unwrap();
        Self {
            clock,
            inbox,
            tenures: 0,
            options: Options {
                backoff_micros: 0,
                ..Options::default()
            },
        }
    }

    /// The next process takes the lane over from one that crashed.
    fn take_over(&mut self) -> (Nonce, Token) {
        self.tenures += 1;
        let ttl = std::time::Duration::from_secs(1);
        self.clock.advance(ttl * 2);
        let member = Nonce(self.tenures);
        let hold = Hold {
            member,
            label: "t".into(),
            ttl,
            release: Vec::new(),
            leave: false,
        };
        let held = block_on(self.inbox.hold(hold)).unwrap();
        (member, held.owned[0].token)
    }

    fn apply(&self, tenure: (Nonce, Token), fails: &str, careful: bool) {
        let batch = batch(tenure, careful);
        let handler = each(|_: &mut MemoryTx, _: &Delivered| match fails {
            "" => Ok(()),
            why => Err(Fault::poison(why, why)),
        });
        let _ = block_on(apply(
            &self.inbox,
            &handler,
            &self.options,
            &str::to_owned,
            &batch,
        ));
    }

    /// A careful call that the process does not live through: nothing is taken back once the handler met event `n`.
    fn apply_and_die_at(&self, tenure: (Nonce, Token), n: u64) -> bool {
        let died = Cell::new(false);
        let handler = each(|_: &mut MemoryTx, event: &Delivered| {
            if event.n == n {
                return Err(self.die(&died));
            }
            Ok(())
        });
        let batch = batch(tenure, true);
        let _ = block_on(apply(
            &self.inbox,
            &handler,
            &self.options,
            &str::to_owned,
            &batch,
        ));
        died.get()
    }

    fn die(&self, died: &Cell<bool>) -> Fault {
        if !died.replace(true) {
            let next = self.inbox.commits() + 1;
            self.inbox.fault_at(next, CommitFault::RequestLost);
        }
        Fault::Infrastructure(tidegate_core::Error::unknown("died"))
    }

    /// A call that the process does not live through: nothing is taken back once the handler met event `n`.
    fn retry_and_die_at(&self, (member, token): (Nonce, Token), n: u64) -> bool {
        let died = Cell::new(false);
        let handler = each(|_: &mut MemoryTx, event: &Delivered| {
            if event.n == n && !died.get() {
                return Err(self.die(&died));
            }
            Ok(())
        });
        let request = Retry {
            failures_max: 16,
            member,
            lanes: vec![(LANE, token)],
            now: Timestamp::from_micros(1),
        };
        let _ = block_on(retry(
            &self.inbox,
            &handler,
            &self.options,
            &str::to_owned,
            &request,
        ));
        died.get()
    }
}

#[test]
fn a_commit_that_fails_is_no_crash_of_the_event() {
    let mut world = World::new();
    for _ in 0..world.options.crashes_max + 3 {
        let tenure = world.take_over();
        // The announcement stands, the effect's commit does not, and then the process ends for another reason.
        let refused = world.inbox.commits() + 2;
        world.inbox.fault_at(refused, CommitFault::Refused);
        world.apply(tenure, "", true);
    }
    let tenure = world.take_over();
    world.apply(tenure, "", true);
    let contents = world.inbox.contents();
    assert!(contents.parked.is_empty(), "{:?}", contents.parked);
    assert_eq!(contents.position(LANE).unwrap().hw, 9);
}

#[test]
fn a_crash_in_an_announced_batch_blames_the_event_that_ended_the_process() {
    let mut world = World::new();
    let mut crashes = 0;
    loop {
        let tenure = world.take_over();
        if !world.apply_and_die_at(tenure, 5) {
            break;
        }
        crashes += 1;
        assert!(crashes < 10, "it is never found");
    }
    // One in the announced batch, then the ones that may be blamed.
    assert_eq!(crashes, world.options.crashes_max + 1);
    let contents = world.inbox.contents();
    let parked = contents.parked.values().next().unwrap();
    assert_eq!(
        (parked.failure.class, parked.state),
        (Class::Crash, ParkedState::Dead)
    );
    assert_eq!(parked.events.keys().next(), Some(&5));
    assert_eq!(contents.parked.len(), 1);
    assert!(contents.attempts.is_empty(), "{:?}", contents.attempts);
}

/// Each tenure gets a little further and ends at another event: nothing is blamed, and the end is reached.
#[test]
fn processes_that_end_at_different_events_blame_nobody() {
    let mut world = World::new();
    for n in [7, 1, 2, 3, 4, 5, 6, 7, 8, 9] {
        let tenure = world.take_over();
        assert!(world.apply_and_die_at(tenure, n), "event {n} was handled before");
    }
    let tenure = world.take_over();
    world.apply(tenure, "", true);
    let contents = world.inbox.contents();
    assert!(
        contents.parked.is_empty() && contents.attempts.is_empty(),
        "{contents:?}"
    );
    assert_eq!(contents.position(LANE).unwrap().hw, 9);
}

/// An error of infrastructure in a doubtful range counts no crash, and the range stays doubtful.
#[test]
fn an_outage_in_a_doubtful_range_leaves_it_doubtful_and_counts_nothing() {
    let mut world = World::new();
    let tenure = world.take_over();
    assert!(world.apply_and_die_at(tenure, 5));
    for _ in 0..world.options.crashes_max + 3 {
        let tenure = world.take_over();
        let refused = world.inbox.commits() + 2;
        world.inbox.fault_at(refused, CommitFault::Refused);
        world.apply(tenure, "", true);
        let contents = world.inbox.contents();
        let ranges: Vec<_> = contents
            .attempts
            .iter()
            .map(|((_, n), a)| (*n, a.upto, a.tenures))
            .collect();
        assert_eq!(ranges, [(1, 9, 0)]);
    }
}

#[test]
fn an_event_deep_in_a_queue_that_ends_processes_is_found_without_a_crash_for_each_before_it() {
    let mut world = World::new();
    let tenure = world.take_over();
    world.apply(tenure, "bad", false);
    let queued = |world: &World| world.inbox.contents().parked.values().next().unwrap().clone();
    assert_eq!(queued(&world).events.len(), 9);
    let mut crashes = 0;
    loop {
        let tenure = world.take_over();
        if !world.retry_and_die_at(tenure, 7) {
            break;
        }
        crashes += 1;
        assert!(crashes < 10, "each event before it costs a crash");
    }
    let parked = queued(&world);
    assert_eq!(parked.state, ParkedState::Dead);
    assert_eq!(parked.events.keys().next(), Some(&7));
    // One in the middle of a chunk, then the ones that may be blamed.
    assert_eq!(crashes, world.options.crashes_max + 1);
}

//! Random batches, failures and retries: every promise holds in every snapshot, and quiet is reached.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::dead_letter::{Decided, Filter, Which};
use tidegate_core::inbox::Options;
use tidegate_core::inbox::block::block_on;
use tidegate_core::stream::Entry;

use super::{Act, Case, Feed, LANES, NOW, Plan, Snapshot, World};

/// Keys of a lane.
const KEYS: u8 = 4;

/// C1, C4, Q1 after every step; C1 exactly once when quiet.
pub fn c080_random_failures_keep_every_promise(world: &dyn World) {
    let mut run = Random::new(world, 0x5EED);
    for _ in 0..60 {
        run.step();
    }
    run.heal();
}

/// A random run; the same seed gives the same run over every store.
pub struct Random<'w> {
    case: Case<'w>,
    rng: fastrand::Rng,
    feed: Feed,
    stream: Vec<Entry>,
    sick: Arc<Mutex<BTreeSet<(u16, u64)>>>,
    now: Duration,
    discarded: usize,
}

impl<'w> Random<'w> {
    /// Starts.
    pub fn new(world: &'w dyn World, seed: u64) -> Self {
        Self {
            case: Case::start(world),
            rng: fastrand::Rng::with_seed(seed),
            feed: Feed::default(),
            stream: Vec::new(),
            sick: Arc::default(),
            now: Duration::ZERO,
            discarded: 0,
        }
    }

    /// Adds to the stream, applies some of it, retries; returns what is committed then.
    pub fn step(&mut self) -> Snapshot {
        self.publish();
        let (plan, page) = (self.plan(), self.page());
        if self.rng.u8(..3) == 0 {
            self.case.apply_carefully(plan.clone(), options(), &page);
        } else {
            self.case.apply_with(plan.clone(), options(), &page);
        }
        if self.rng.u8(..4) == 0 {
            self.decide();
        }
        if self.rng.bool() {
            self.recover();
            self.now += Duration::from_secs(self.rng.u64(..20));
            self.case.retry(plan, options(), self.now);
        }
        let snapshot = self.case.world.snapshot();
        snapshot.check_order();
        snapshot
    }

    /// Everything recovers; everything is applied exactly once.
    pub fn heal(&mut self) {
        self.sick.lock().unwrap().clear();
        for _ in 0..40 {
            self.now += Duration::from_secs(600);
            self.case.apply_with(Plan::fine(), options(), &self.stream);
            self.case.retry(Plan::fine(), options(), self.now);
        }
        let snapshot = self.case.world.snapshot();
        snapshot.check();
        snapshot.check_order();
        let events = self.stream.iter().filter(|entry| entry.event.is_some()).count();
        let applied = events - self.discarded;
        assert_eq!(snapshot.effects.len(), applied, "C1: exactly once when quiet");
        assert!(
            snapshot.parked.is_empty() && snapshot.attempts.is_empty(),
            "{snapshot:?}"
        );
    }

    fn publish(&mut self) {
        for _ in 0..self.rng.usize(..12) {
            let slot = self.rng.u16(..LANES);
            let entry = match self.rng.u8(..10) {
                0 => self.feed.void(slot),
                1 => self.feed.keyless(slot),
                // A key lives in one lane.
                _ => self.feed.event(slot, &format!("{slot}-{}", self.rng.u8(..KEYS))),
            };
            if self.rng.u8(..6) == 0 {
                self.sick.lock().unwrap().insert((slot, entry.n));
            }
            self.stream.push(entry);
        }
    }

    /// Usually from a little before the end, sometimes with a hole.
    fn page(&mut self) -> Vec<Entry> {
        let from = self.stream.len().saturating_sub(self.rng.usize(..60));
        let mut page = self.stream[from..].to_vec();
        if self.rng.u8(..8) == 0 && !page.is_empty() {
            page.remove(self.rng.usize(..page.len()));
        }
        page
    }

    /// A person discards or redrives one of the dead letters.
    fn decide(&mut self) {
        let (letters, now) = (self.case.world.letters(), NOW.after(self.now));
        let all = block_on(letters.ls(Filter::default())).unwrap();
        let Some(letter) = all.get(self.rng.usize(..=all.len())) else {
            return;
        };
        if self.rng.bool() {
            let decided = block_on(letters.discard(letter.id, "random".into(), now)).unwrap();
            self.discarded += usize::from(decided == Decided::Done);
        } else {
            block_on(letters.redrive(Which::Event(letter.id), String::new(), now)).unwrap();
        }
        self.case.world.snapshot().check();
    }

    fn recover(&mut self) {
        let rng = &mut self.rng;
        self.sick.lock().unwrap().retain(|_| rng.u8(..3) > 0);
    }

    fn plan(&mut self) -> Plan {
        let sick = self.sick.clone();
        let down = (self.rng.u8(..5) == 0).then(|| self.rng.u64(..20));
        let act = move |event: &tidegate_core::inbox::Delivered| {
            if down.is_some_and(|down| event.n % 20 == down) {
                return Act::Down;
            }
            match sick.lock().unwrap().contains(&(event.lane.slot, event.n)) {
                true if event.n.is_multiple_of(2) => Act::Panic,
                true => Act::Fail("sick"),
                false => Act::Apply,
            }
        };
        if self.rng.bool() {
            Plan::each(act)
        } else {
            Plan::batch(act)
        }
    }
}

fn options() -> Options {
    Options {
        attempts_max: 1_000,
        ..Options::default()
    }
}

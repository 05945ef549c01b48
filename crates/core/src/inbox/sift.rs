//! The pure half of [`super::apply`]: what is new in a batch, in which order, and where each entry goes.

use std::collections::HashMap;

use crate::inbox::transaction::{Advance, Locked, NewlyParked, ParkedState, Skipped, Tally, Waiting};
use crate::inbox::{Counts, Delivered, Failure, KeyRef, LaneApplied, LaneBatch, Options, Policy, Position};
use crate::lane::LaneId;
use crate::stream::{Entry, EntryId};
use crate::time::Timestamp;

/// What an entry is to a lane that stands at some position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What<'b> {
    Duplicate,
    Void,
    Event(&'b crate::Event),
}

#[derive(Debug, Clone, Copy)]
struct Item<'b> {
    lane: usize,
    entry: &'b Entry,
    what: What<'b>,
}

/// The event whose failure is to be recorded in this pass, after everything before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blame {
    pub(super) lane: LaneId,
    pub(super) n: u64,
    /// Its message is redacted.
    pub(super) failure: Failure,
    /// Dead at once: trying again would end the process again.
    pub(super) dead: bool,
}

/// Entries of all open lanes that one transaction may take in, in stream order.
#[derive(Debug)]
pub(super) struct View<'b> {
    lanes: Vec<LaneView>,
    items: Vec<Item<'b>>,
}

#[derive(Debug)]
struct LaneView {
    batch: usize,
    locked: Locked,
    token: crate::lease::Token,
    /// Its items in [`View::items`].
    items: usize,
    /// The batch's cursor, valid when everything was taken and nothing stopped.
    cursor: EntryId,
    stop: Option<LaneApplied>,
}

impl<'b> View<'b> {
    pub(super) fn new() -> Self {
        Self {
            lanes: Vec::new(),
            items: Vec::new(),
        }
    }

    /// Adds a lane: its entries from index `from` on, sifted against its locked row.
    pub(super) fn push(&mut self, batch: usize, lane: &'b LaneBatch, from: usize, locked: Locked) {
        let entries = lane.entries.get(from..).unwrap_or_default();
        let (items, stop) = sift(self.lanes.len(), entries, locked.position);
        self.lanes.push(LaneView {
            batch,
            locked,
            token: lane.token,
            items: items.len(),
            cursor: lane.cursor,
            stop,
        });
        self.items.extend(items);
    }

    /// Puts the items of all lanes in stream order. Each lane keeps its own order, whatever the ids say.
    pub(super) fn merge(&mut self) {
        let mut highest = vec![EntryId::START; self.lanes.len()];
        let mut keyed: Vec<(EntryId, Item<'b>)> = Vec::with_capacity(self.items.len());
        for item in self.items.drain(..) {
            let at = &mut highest[item.lane];
            *at = (*at).max(item.entry.id);
            keyed.push((*at, item));
        }
        keyed.sort_by_key(|(id, _)| *id);
        self.items.extend(keyed.into_iter().map(|(_, item)| item));
    }

    /// Keys of events in lanes that have parked keys, without repeats.
    pub(super) fn keys_to_look_up(&self) -> Vec<KeyRef> {
        let watched = self
            .items
            .iter()
            .filter(|item| self.lanes[item.lane].locked.parked > 0);
        let mut keys: Vec<KeyRef> = watched
            .filter_map(|item| match item.what {
                What::Event(event) => Some(KeyRef::of(item.entry.lane.lineage, event)),
                _ => None,
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn has_parked(&self, lane: usize) -> bool {
        self.lanes[lane].locked.parked > 0
    }
}

/// Drops nothing and decides everything: which entries are old, which is next, and where the lane must stop.
fn sift(lane: usize, entries: &[Entry], at: Position) -> (Vec<Item<'_>>, Option<LaneApplied>) {
    let (mut hw, mut chain) = (at.hw, at.chain);
    let mut items = Vec::with_capacity(entries.len());
    for entry in entries {
        if let Some(stop) = contradiction(entry, hw, chain) {
            return (items, Some(stop));
        }
        let what = match &entry.event {
            _ if entry.n <= hw => What::Duplicate,
            None => What::Void,
            Some(event) => What::Event(event),
        };
        if entry.n > hw {
            (hw, chain) = (entry.n, entry.chain);
        }
        items.push(Item { lane, entry, what });
    }
    (items, None)
}

/// A hole in the numbers, or a chain that does not follow from mine.
fn contradiction(entry: &Entry, hw: u64, chain: crate::stream::Chain) -> Option<LaneApplied> {
    let fork = LaneApplied::Fork { n: entry.n };
    if entry.n < hw {
        return None;
    }
    if entry.n == hw {
        return (hw > 0 && entry.chain != chain).then_some(fork);
    }
    if entry.n > hw + 1 {
        return Some(LaneApplied::Gap { hw, next: entry.n });
    }
    let id = entry.event.as_ref().map(|event| event.id);
    (chain.next(entry.n, id) != entry.chain).then_some(fork)
}

/// Parked keys among the batch's, and room for more.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pub(super) keys: HashMap<KeyRef, u64>,
    pub(super) total: u64,
}

impl Waits {
    /// Makes room for one more event of a key, or says which bound is reached. Never names the key.
    fn admit(&mut self, key: &KeyRef, options: &Options) -> Result<(), String> {
        let events = self.keys.get(key).copied().unwrap_or(0);
        if events >= options.key_events_max {
            return Err(format!(
                "{events} events wait behind one parked key: the bound is reached"
            ));
        }
        if self.total >= options.parked_events_max {
            return Err(format!(
                "{} events wait in parked queues: the bound is reached",
                self.total
            ));
        }
        self.keys.insert(key.clone(), events + 1);
        self.total += 1;
        Ok(())
    }
}

/// What one transaction does.
#[derive(Debug, Default)]
pub(super) struct Route {
    pub(super) deliver: Vec<Delivered>,
    pub(super) park: Vec<NewlyParked>,
    pub(super) wait: Vec<Waiting>,
    pub(super) skip: Option<Skipped>,
    pub(super) lanes: Vec<LaneRoute>,
    pub(super) counts: Counts,
    /// The blamed event was reached and dealt with.
    pub(super) blamed: Option<(LaneId, u64)>,
}

/// What one transaction does in one lane.
#[derive(Debug)]
pub(super) struct LaneRoute {
    /// Index in the batch.
    pub(super) batch: usize,
    pub(super) token: crate::lease::Token,
    pub(super) lane: LaneId,
    pub(super) before: Position,
    pub(super) to: Position,
    pub(super) tally: Tally,
    /// Entries taken in, duplicates included.
    pub(super) taken: usize,
    /// How the lane ends, when nothing of it is left for another transaction.
    pub(super) outcome: Option<LaneApplied>,
}

impl LaneRoute {
    fn moved(&self) -> bool {
        self.to != self.before
    }

    fn take(&mut self, entry: &Entry) {
        self.taken += 1;
        self.to.cursor = self.to.cursor.max(entry.id);
        if entry.n > self.to.hw {
            (self.to.hw, self.to.chain) = (entry.n, entry.chain);
        }
    }

    fn halt(&mut self, reason: String) {
        let hw = self.to.hw;
        self.outcome = Some(LaneApplied::Halted { hw, reason });
    }
}

impl Route {
    pub(super) fn advances(&self) -> Vec<Advance> {
        let moved = self.lanes.iter().filter(|lane| lane.moved());
        moved
            .map(|lane| Advance {
                lane: lane.lane,
                token: lane.token,
                from: lane.before.hw,
                to: lane.to,
                tally: lane.tally,
            })
            .collect()
    }

    pub(super) fn token(&self, lane: LaneId) -> Option<crate::lease::Token> {
        self.lanes.iter().find(|l| l.lane == lane).map(|l| l.token)
    }
}

/// What a pass is allowed to do.
pub(super) struct Pass<'p> {
    pub(super) options: &'p Options,
    pub(super) now: Timestamp,
    /// Take in entries up to this event and record its failure.
    pub(super) blame: Option<&'p Blame>,
    /// Hand at most this many events to the handler.
    pub(super) limit: usize,
}

/// Decides for every item of the view, in order, until the view, the limit or the blamed event ends the pass.
pub(super) fn route(view: &View<'_>, waits: &mut Waits, pass: &Pass<'_>) -> Route {
    let mut router = Router {
        view,
        waits,
        pass,
        route: Route {
            lanes: view.lanes.iter().map(start).collect(),
            ..Route::default()
        },
    };
    for item in &view.items {
        let halted = router.route.lanes[item.lane].outcome.is_some();
        if !halted && !router.item(item) {
            break;
        }
    }
    router.close();
    router.route
}

fn start(lane: &LaneView) -> LaneRoute {
    LaneRoute {
        batch: lane.batch,
        token: lane.token,
        lane: lane.locked.lane,
        before: lane.locked.position,
        to: lane.locked.position,
        tally: Tally::default(),
        taken: 0,
        outcome: None,
    }
}

struct Router<'r, 'b> {
    view: &'r View<'b>,
    waits: &'r mut Waits,
    pass: &'r Pass<'r>,
    route: Route,
}

impl Router<'_, '_> {
    /// False: the pass ends here.
    fn item(&mut self, item: &Item<'_>) -> bool {
        match item.what {
            What::Duplicate => {
                self.route.counts.duplicates += 1;
                self.lane(item).take(item.entry);
                true
            }
            What::Void => {
                self.route.counts.voids += 1;
                self.lane(item).tally.voids += 1;
                self.lane(item).take(item.entry);
                true
            }
            What::Event(event) => self.event(item, event),
        }
    }

    fn lane(&mut self, item: &Item<'_>) -> &mut LaneRoute {
        &mut self.route.lanes[item.lane]
    }

    fn event(&mut self, item: &Item<'_>, event: &crate::Event) -> bool {
        let delivered = || Delivered {
            lane: item.entry.lane,
            n: item.entry.n,
            event: event.clone(),
        };
        let may_wait = self.view.has_parked(item.lane);
        let key = may_wait.then(|| KeyRef::of(item.entry.lane.lineage, event));
        if let Some(key) = key.filter(|key| self.waits.keys.contains_key(key)) {
            self.wait(item, key, delivered());
            return true;
        }
        if let Some(blame) = self.blamed(item) {
            self.fail(item, blame.clone(), delivered());
            return false;
        }
        if self.route.deliver.len() >= self.pass.limit {
            return false;
        }
        self.route.deliver.push(delivered());
        self.route.counts.applied += 1;
        self.lane(item).tally.applied += 1;
        self.lane(item).take(item.entry);
        true
    }

    fn blamed(&self, item: &Item<'_>) -> Option<&Blame> {
        let (lane, n) = (item.entry.lane, item.entry.n);
        self.pass.blame.filter(|blame| blame.lane == lane && blame.n == n)
    }

    /// Queues an event behind its key, or halts the lane at a bound. Never a drop.
    fn wait(&mut self, item: &Item<'_>, key: KeyRef, delivered: Delivered) -> bool {
        if let Err(reason) = self.waits.admit(&key, self.pass.options) {
            self.lane(item).halt(reason);
            return false;
        }
        self.route.wait.push(Waiting { key, delivered });
        self.route.counts.queued += 1;
        self.lane(item).tally.parked += 1;
        self.lane(item).take(item.entry);
        true
    }

    fn fail(&mut self, item: &Item<'_>, blame: Blame, delivered: Delivered) {
        self.route.blamed = Some((blame.lane, blame.n));
        let key = KeyRef::of(item.entry.lane.lineage, &delivered.event);
        match self.pass.options.policy {
            Policy::Park => self.park(item, key, blame, delivered),
            Policy::Skip => self.skip(item, key, blame, delivered),
            Policy::Halt => self.lane(item).halt(blame.failure.fingerprint),
        }
    }

    fn park(&mut self, item: &Item<'_>, key: KeyRef, blame: Blame, delivered: Delivered) {
        if !self.wait(item, key.clone(), delivered) {
            return;
        }
        self.route.counts.parked += 1;
        let dead = blame.dead || self.pass.options.attempts_max == 0;
        self.route.park.push(NewlyParked {
            lane: blame.lane,
            key,
            state: if dead {
                ParkedState::Dead
            } else {
                ParkedState::Retrying
            },
            failure: blame.failure,
            at: self.pass.now,
            next_at: due(self.pass.options, 0, self.pass.now),
        });
    }

    fn skip(&mut self, item: &Item<'_>, key: KeyRef, blame: Blame, delivered: Delivered) {
        self.route.counts.skipped += 1;
        self.lane(item).tally.skipped += 1;
        self.lane(item).take(item.entry);
        self.route.skip = Some(Skipped {
            key,
            delivered,
            failure: blame.failure,
            at: self.pass.now,
        });
    }

    /// Lanes of which nothing is left get their outcome.
    fn close(&mut self) {
        for (lane, view) in self.route.lanes.iter_mut().zip(&self.view.lanes) {
            if lane.outcome.is_some() || lane.taken < view.items {
                continue;
            }
            if view.stop.is_none() {
                lane.to.cursor = view.cursor;
            }
            lane.outcome = Some(view.stop.clone().unwrap_or(LaneApplied::At(lane.to)));
        }
    }
}

/// When a key that failed is tried again: the first pause doubled per retry, at most five minutes.
pub(super) fn due(options: &Options, retries: u32, now: Timestamp) -> Timestamp {
    const PAUSE_MAX: i64 = 300 * 1_000_000;
    let doubled = options
        .backoff_micros
        .saturating_mul(1i64.checked_shl(retries.min(32)).unwrap_or(i64::MAX));
    let pause = doubled.clamp(0, PAUSE_MAX.max(options.backoff_micros));
    now.after(std::time::Duration::from_micros(
        u64::try_from(pause).unwrap_or(0),
    ))
}

//! The inbox in memory: a transaction works on a copy and commits when nobody else has since it began.
//!
//! Handlers write their effects to a small table of text in the same copy, so that a checker sees effects and
//! positions of one snapshot. [`MemoryInbox::fault_at`] makes a chosen commit fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dead_letter::{Audit, Id};
use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::inbox::apply::{Redact, apply, retry};
use crate::inbox::block::block_on;
use crate::inbox::handler::Handler;
use crate::inbox::transaction::{
    Advance, Announce, Announced, Commit, FailedAgain, InboxDb, InboxTx, Ledger, Locked, NewlyParked,
    ParkedState, Scheduled, Skipped, Waiting,
};
use crate::inbox::{Applied, Batch, Delivered, Failure, KeyRef, Options, Position, Retried, Retry};
use crate::lane::share::{Member, Row, apply_hold};
use crate::lane::{Held, Hold, LaneId};
use crate::lease::{Nonce, Token};
use crate::memory::{Bell, Clock};
use crate::store::{Applier, BoxFuture, Doorbell, InboxStore};
use crate::stream::EntryId;
use crate::time::Timestamp;

/// The inbox of one consumer; clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryInbox {
    shared: Arc<Mutex<Shared>>,
    bell: Bell,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Shared {
    contents: Arc<Contents>,
    commits: u64,
    faults: BTreeMap<u64, CommitFault>,
}

/// What happens to a commit instead of success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitFault {
    /// Rolled back, and said so.
    Refused,
    /// It stands, and the reply is lost.
    ReplyLost,
    /// It does not stand, and the reply is lost.
    RequestLost,
}

/// Everything that is committed, in one snapshot.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    version: u64,
    /// Lane rows, in order of lane.
    pub lanes: Vec<Row<Position>>,
    /// What each lane's numbers became.
    pub ledgers: BTreeMap<LaneId, Ledger>,
    /// Parked keys with their queues.
    pub parked: BTreeMap<KeyRef, Parked>,
    /// Events dead-lettered by the policy `skip`.
    pub skipped: BTreeMap<(LaneId, u64), Skipped>,
    /// What was about to be handled and has no result, by its first event.
    pub attempts: BTreeMap<(LaneId, u64), Attempt>,
    /// What people decided, oldest first.
    pub audit: Vec<Audit>,
    /// Dead letters that a sink has taken.
    pub told: BTreeSet<Id>,
    /// The table that handlers write to.
    pub table: BTreeMap<String, String>,
    members: BTreeMap<Nonce, Member>,
}

/// Events that were about to be handled, from a first one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The last of them.
    pub upto: u64,
    /// Whose tenure it was, last.
    pub token: Token,
    /// They are taken one at a time.
    pub alone: bool,
    /// Tenures that handed the first event alone to the handler.
    pub tenures: u32,
}

/// A parked key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// Its lane.
    pub lane: LaneId,
    /// Retrying or dead.
    pub state: ParkedState,
    /// Retries of the present head.
    pub attempts: u32,
    /// When the head is tried again.
    pub next_at: Timestamp,
    /// Why the head failed last; the message is redacted.
    pub failure: Failure,
    /// When it was parked.
    pub first_at: Timestamp,
    /// When the head failed last.
    pub last_at: Timestamp,
    /// Events that wait, by number.
    pub events: BTreeMap<u64, Event>,
}

impl MemoryInbox {
    /// An empty inbox whose leases are counted on `clock`.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            ..Self::default()
        }
    }

    /// Everything that is committed.
    pub fn contents(&self) -> Arc<Contents> {
        self.lock().contents.clone()
    }

    /// Lets the commit with this number fail; the first is 1. Reads and calls of [`InboxStore`] are not counted.
    pub fn fault_at(&self, commit: u64, fault: CommitFault) {
        self.lock().faults.insert(commit, fault);
    }

    /// How many commits were asked for.
    pub fn commits(&self) -> u64 {
        self.lock().commits
    }

    /// Runs `handler` in the apply transaction.
    pub fn applier<H, R>(&self, handler: H, options: Options, redact: R) -> MemoryApplier<H, R>
    where
        H: Handler<MemoryTx> + Send + Sync,
        R: Redact + Send + Sync,
    {
        MemoryApplier {
            inbox: self.clone(),
            handler,
            options,
            redact,
        }
    }

    pub(super) fn update<T>(&self, change: impl FnOnce(&mut Contents) -> T) -> T {
        let mut shared = self.lock();
        let contents = Arc::make_mut(&mut shared.contents);
        contents.version += 1;
        let result = change(contents);
        drop(shared);
        self.bell.ring();
        result
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Doorbell for MemoryInbox {
    fn rung(&self) -> BoxFuture<'_, ()> {
        self.bell.rung()
    }
}

impl InboxStore for MemoryInbox {
    fn register(&self, lanes: Vec<(LaneId, Position)>) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.update(|contents| {
                for (lane, position) in lanes {
                    contents.register(lane, position);
                }
            });
            Ok(())
        })
    }

    fn hold(&self, hold: Hold) -> BoxFuture<'_, Result<Held<Position>>> {
        Box::pin(async move {
            let now = self.clock.now();
            Ok(self.update(|contents| apply_hold(&mut contents.lanes, &mut contents.members, &hold, now)))
        })
    }

    fn move_cursors(
        &self,
        member: Nonce,
        cursors: Vec<(LaneId, Token, EntryId)>,
    ) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            Ok(self.update(|contents| {
                let moves = cursors.into_iter();
                moves
                    .map(|(lane, token, to)| u64::from(contents.move_cursor(member, lane, token, to)))
                    .sum()
            }))
        })
    }

    fn positions(&self) -> BoxFuture<'_, Result<Vec<(LaneId, Position)>>> {
        Box::pin(async move {
            let contents = self.contents();
            Ok(contents.lanes.iter().map(|row| (row.lane, row.state)).collect())
        })
    }
}

impl Contents {
    /// A lane's position.
    pub fn position(&self, lane: LaneId) -> Option<Position> {
        self.lanes
            .iter()
            .find(|row| row.lane == lane)
            .map(|row| row.state)
    }

    fn register(&mut self, lane: LaneId, position: Position) {
        if let Err(at) = self.lanes.binary_search_by_key(&lane, |row| row.lane) {
            self.lanes.insert(at, Row::vacant(lane, position));
            let ledger = Ledger {
                start: position.hw,
                ..Ledger::default()
            };
            self.ledgers.insert(lane, ledger);
        }
    }

    fn held(&mut self, member: Nonce, lane: LaneId, token: Token) -> Option<&mut Row<Position>> {
        let at = self.lanes.binary_search_by_key(&lane, |row| row.lane).ok()?;
        let row = self.lanes.get_mut(at)?;
        row.is_held(member, token).then_some(row)
    }

    fn move_cursor(&mut self, member: Nonce, lane: LaneId, token: Token, to: EntryId) -> bool {
        match self.held(member, lane, token) {
            Some(row) if row.state.cursor < to => {
                row.state.cursor = to;
                true
            }
            _ => false,
        }
    }

    fn advance(&mut self, member: Nonce, advance: &Advance) -> bool {
        let Some(row) = self.held(member, advance.lane, advance.token) else {
            return false;
        };
        if row.state.hw != advance.from {
            return false;
        }
        row.state = Position {
            clean: row.state.clean,
            ..advance.to
        };
        let tally = &mut self.ledgers.entry(advance.lane).or_default().tally;
        tally.applied += advance.tally.applied;
        tally.voids += advance.tally.voids;
        tally.skipped += advance.tally.skipped;
        tally.parked += advance.tally.parked;
        true
    }

    fn park(&mut self, key: &NewlyParked) {
        let parked = Parked {
            lane: key.lane,
            state: key.state,
            attempts: 0,
            next_at: key.next_at,
            failure: key.failure.clone(),
            first_at: key.at,
            last_at: key.at,
            events: BTreeMap::new(),
        };
        self.parked.insert(key.key.clone(), parked);
    }
}

/// A transaction: a copy, with what it was copied from.
#[derive(Debug)]
pub struct MemoryTx {
    contents: Arc<Contents>,
    version: u64,
}

impl MemoryTx {
    /// A value of the handlers' table.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.contents.table.get(key).map(String::as_str)
    }

    /// Sets a value.
    pub fn put(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.write().table.insert(key.into(), value.into());
    }

    /// Appends to a value.
    pub fn append(&mut self, key: impl Into<String>, value: &str) {
        self.write().table.entry(key.into()).or_default().push_str(value);
    }

    /// Deletes a value.
    pub fn delete(&mut self, key: &str) {
        self.write().table.remove(key);
    }

    fn write(&mut self) -> &mut Contents {
        Arc::make_mut(&mut self.contents)
    }

    fn parked(&mut self, key: &KeyRef) -> Result<&mut Parked> {
        let parked = self.write().parked.get_mut(key);
        parked.ok_or_else(|| Error::new(Code::Internal, "a key that is not parked was treated as parked"))
    }
}

impl InboxDb for MemoryInbox {
    type Tx<'a> = MemoryTx;

    async fn begin(&self) -> Result<MemoryTx> {
        let contents = self.contents();
        Ok(MemoryTx {
            version: contents.version,
            contents,
        })
    }

    async fn commit(&self, mut tx: MemoryTx) -> Commit {
        let mut shared = self.lock();
        shared.commits += 1;
        let number = shared.commits;
        let fault = shared.faults.remove(&number);
        if shared.contents.version != tx.version {
            return Commit::Refused(Error::new(Code::StoreBusy, "another transaction committed first"));
        }
        match fault {
            Some(CommitFault::Refused) => {
                return Commit::Refused(Error::new(Code::StoreUnavailable, "injected: refused"));
            }
            Some(CommitFault::RequestLost) => {
                return Commit::Unknown(Error::unknown("injected: request lost"));
            }
            Some(CommitFault::ReplyLost) | None => {}
        }
        Arc::make_mut(&mut tx.contents).version += 1;
        shared.contents = tx.contents;
        drop(shared);
        self.bell.ring();
        match fault {
            None => Commit::Done,
            Some(_) => Commit::Unknown(Error::unknown("injected: reply lost")),
        }
    }
}

impl InboxTx for MemoryTx {
    async fn lock_lanes(&mut self, member: Nonce, lanes: &[(LaneId, Token)]) -> Result<Vec<Locked>> {
        let contents = &self.contents;
        let mine = |row: &&Row<Position>| {
            lanes
                .iter()
                .any(|(lane, token)| row.lane == *lane && row.is_held(member, *token))
        };
        let locked = contents.lanes.iter().filter(mine).map(|row| Locked {
            lane: row.lane,
            position: row.state,
            parked: contents
                .ledgers
                .get(&row.lane)
                .map_or(0, |l| u64::try_from(l.tally.parked).unwrap_or(0)),
        });
        Ok(locked.collect())
    }

    async fn parked_among(&mut self, keys: &[KeyRef]) -> Result<Vec<(KeyRef, u64)>> {
        let events = |parked: &Parked| u64::try_from(parked.events.len()).unwrap_or(u64::MAX);
        let found = keys
            .iter()
            .filter_map(|key| Some((key.clone(), events(self.contents.parked.get(key)?))));
        Ok(found.collect())
    }

    async fn parked_total(&mut self) -> Result<u64> {
        let parked: i64 = self.contents.ledgers.values().map(|l| l.tally.parked).sum();
        Ok(u64::try_from(parked).unwrap_or(0))
    }

    async fn set_aside(&mut self, keys: &[NewlyParked], events: &[Waiting]) -> Result<()> {
        for key in keys {
            self.write().park(key);
        }
        for event in events {
            let queue = &mut self.parked(&event.key)?.events;
            queue.insert(event.delivered.n, event.delivered.event.clone());
        }
        Ok(())
    }

    async fn skip(&mut self, skipped: &Skipped) -> Result<()> {
        let at = (skipped.delivered.lane, skipped.delivered.n);
        self.write().skipped.insert(at, skipped.clone());
        Ok(())
    }

    async fn advance(&mut self, member: Nonce, lanes: &[Advance]) -> Result<usize> {
        let contents = self.write();
        Ok(lanes
            .iter()
            .filter(|advance| contents.advance(member, advance))
            .count())
    }

    async fn scheduled(&mut self, lanes: &[LaneId], limit: u32) -> Result<Vec<Scheduled>> {
        let retrying = self
            .contents
            .parked
            .iter()
            .filter(|(_, parked)| parked.state == ParkedState::Retrying && lanes.contains(&parked.lane));
        let mut keys: Vec<Scheduled> = retrying
            .map(|(key, parked)| Scheduled {
                lane: parked.lane,
                key: key.clone(),
                attempts: parked.attempts,
                next_at: parked.next_at,
            })
            .collect();
        keys.sort_by_key(|key| key.next_at);
        keys.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(keys)
    }

    async fn queue_head(&mut self, lane: LaneId, key: &KeyRef, limit: u32) -> Result<Vec<Delivered>> {
        let queue = self.contents.parked.get(key).into_iter().flat_map(|p| &p.events);
        let head = queue.take(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(head
            .map(|(n, event)| Delivered {
                lane,
                n: *n,
                event: event.clone(),
            })
            .collect())
    }

    async fn unqueue(&mut self, _lane: LaneId, key: &KeyRef, through: u64) -> Result<u64> {
        let parked = self.parked(key)?;
        parked.events.retain(|n, _| *n > through);
        parked.attempts = 0;
        let left = u64::try_from(parked.events.len()).unwrap_or(u64::MAX);
        if left == 0 {
            self.write().parked.remove(key);
        }
        Ok(left)
    }

    async fn reschedule(&mut self, key: &KeyRef, failed: &FailedAgain) -> Result<()> {
        let parked = self.parked(key)?;
        parked.state = failed.state;
        parked.attempts = failed.attempts;
        parked.failure = failed.failure.clone();
        parked.last_at = failed.at;
        parked.next_at = failed.next_at;
        Ok(())
    }

    async fn announced(&mut self, lanes: &[LaneId]) -> Result<Vec<Announced>> {
        let contents = &self.contents;
        let beyond = |lane: LaneId, n: u64| contents.position(lane).is_some_and(|at| n > at.hw);
        let here = |(lane, n): (LaneId, u64)| lanes.contains(&lane) && beyond(lane, n);
        let found = contents.attempts.iter().filter(|(at, _)| here(**at));
        Ok(found
            .map(|((lane, n), attempt)| Announced {
                lane: *lane,
                n: *n,
                upto: attempt.upto,
                token: attempt.token,
                alone: attempt.alone,
            })
            .collect())
    }

    async fn announce(&mut self, lanes: &[Announce]) -> Result<()> {
        let attempts = &mut self.write().attempts;
        for Announce { lane, beyond, range } in lanes {
            attempts.retain(|(of, n), _| of != lane || n <= beyond);
            attempts.extend(range.map(|range| {
                let attempt = Attempt {
                    upto: range.upto,
                    token: range.token,
                    alone: range.alone,
                    tenures: 0,
                };
                ((range.lane, range.n), attempt)
            }));
        }
        Ok(())
    }

    async fn attempt(&mut self, lane: LaneId, n: u64, token: Token) -> Result<u32> {
        let attempt = self.write().attempts.entry((lane, n)).or_insert(Attempt {
            upto: n,
            token,
            alone: true,
            tenures: 0,
        });
        attempt.tenures += u32::from(attempt.tenures == 0 || attempt.token != token);
        (attempt.token, attempt.alone) = (token, true);
        Ok(attempt.tenures)
    }

    async fn clear_attempt(&mut self, lane: LaneId, n: u64) -> Result<()> {
        if self.contents.attempts.contains_key(&(lane, n)) {
            self.write().attempts.remove(&(lane, n));
        }
        Ok(())
    }
}

/// [`MemoryInbox`] with a handler.
#[derive(Debug)]
pub struct MemoryApplier<H, R> {
    inbox: MemoryInbox,
    handler: H,
    options: Options,
    redact: R,
}

impl<H, R> Applier for MemoryApplier<H, R>
where
    H: Handler<MemoryTx> + Send + Sync,
    R: Redact + Send + Sync,
{
    fn apply(&self, batch: Batch) -> BoxFuture<'_, Result<Applied>> {
        Box::pin(std::future::poll_fn(move |_| {
            let applied = apply(&self.inbox, &self.handler, &self.options, &self.redact, &batch);
            std::task::Poll::Ready(block_on(applied))
        }))
    }

    fn retry(&self, request: Retry) -> BoxFuture<'_, Result<Retried>> {
        Box::pin(std::future::poll_fn(move |_| {
            let retried = retry(&self.inbox, &self.handler, &self.options, &self.redact, &request);
            std::task::Poll::Ready(block_on(retried))
        }))
    }
}

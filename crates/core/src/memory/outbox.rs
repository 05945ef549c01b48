//! The outbox in memory: rows by `seq`, one row and one plan for each lane, parked keys, and the archive.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::lane::share::{Member, Row, apply_hold};
use crate::lane::{Held, Hold, LaneId, slot_of};
use crate::lease::{Nonce, Token};
use crate::memory::{Bell, Clock};
use crate::outbox::{
    LaneRow, LaneState, LaneTurn, LaneTurned, Park, ParkReply, ParkedKey, Planned, Refill, Settings, Turn,
    Turned, key_ref,
};
use crate::store::{BoxFuture, Doorbell, OutboxStore};
use crate::stream::Chain;
use crate::time::Timestamp;

/// One outbox; clones share it.
#[derive(Debug, Clone)]
pub struct MemoryOutbox {
    contents: Arc<Mutex<Contents>>,
    bell: Bell,
    clock: Clock,
}

/// Everything an outbox holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Contents {
    /// As stored.
    pub settings: Settings,
    /// Owner, token and position of each lane, in order of slot.
    pub lanes: Vec<Row<LaneState>>,
    /// Rows and plan of each lane, in order of slot.
    pub books: Vec<Book>,
    /// Keys set aside, by `k:` and the key, or `e:` and the event id.
    pub parked: BTreeMap<String, Parked>,
    /// Settled rows, in order of settling.
    pub archive: VecDeque<Kept>,
    members: BTreeMap<Nonce, Member>,
    seq: u64,
}

/// The rows of one lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Book {
    /// Waiting rows, planned ones included, by `seq`.
    pub rows: BTreeMap<u64, Event>,
    /// The `seq` of each number after `settled`; `None` is a void marker.
    pub plan: VecDeque<Option<u64>>,
    /// Every row up to this `seq` has been planned.
    floor: u64,
}

/// A key set aside.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Parked {
    /// Its lane.
    pub lane: LaneId,
    /// Why the first row was refused.
    pub reason: String,
    /// How often a row was refused.
    pub attempts: u32,
    /// Its rows, by the `seq` they had.
    pub rows: BTreeMap<u64, Event>,
}

/// A settled row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kept {
    /// Its lane.
    pub lane: LaneId,
    /// Its number.
    pub n: u64,
    /// The chain at `n - 1`.
    pub prior: Chain,
    /// The event, or a void marker.
    pub event: Option<Event>,
    /// When it was settled.
    pub at: Timestamp,
}

impl Book {
    fn unplanned(&self) -> impl Iterator<Item = (u64, &Event)> {
        let rows = self.rows.range(self.floor + 1..);
        rows.map(|(seq, event)| (*seq, event))
    }

    fn planned(&self, seq: Option<u64>) -> Option<&Event> {
        self.rows.get(&seq?)
    }
}

impl MemoryOutbox {
    /// An empty outbox whose ownership is counted on `clock`.
    pub fn new(clock: Clock, settings: Settings) -> Self {
        let lane = |slot| LaneId {
            lineage: settings.lineage,
            slot,
        };
        let contents = Contents {
            lanes: (0..settings.lanes)
                .map(|slot| Row::vacant(lane(slot), LaneState::default()))
                .collect(),
            books: vec![Book::default(); usize::from(settings.lanes)],
            settings,
            parked: BTreeMap::new(),
            archive: VecDeque::new(),
            members: BTreeMap::new(),
            seq: 0,
        };
        Self {
            contents: Arc::new(Mutex::new(contents)),
            bell: Bell::default(),
            clock,
        }
    }

    /// A copy of everything, to look at or to [`MemoryOutbox::restore`].
    pub fn contents(&self) -> Contents {
        self.lock().clone()
    }

    /// Goes back in time, as a restored backup does.
    pub fn restore(&self, contents: Contents) {
        *self.lock() = contents;
        self.bell.ring();
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now().as_micros())
    }

    fn transact<T>(&self, work: impl FnOnce(&mut Contents) -> T) -> T {
        work(&mut self.lock())
    }
}

impl Contents {
    fn enqueue(&mut self, events: Vec<Event>) {
        for event in events {
            let slot = slot_of(event.key.as_deref(), event.id, self.settings.lanes);
            self.seq += 1;
            self.books[usize::from(slot)].rows.insert(self.seq, event);
        }
    }

    /// The slot, if the lane is held under this member and token.
    fn fenced(&self, lane: LaneId, member: Nonce, token: Token) -> Option<usize> {
        let slot = usize::from(lane.slot);
        let row = self.lanes.get(slot)?;
        (row.lane == lane && row.is_held(member, token)).then_some(slot)
    }

    // ---- the turn ----

    fn turn(&mut self, turn: &Turn, now: Timestamp) -> Result<Vec<Turned>> {
        check_lanes(turn)?;
        let slots: Vec<_> = turn.lanes.iter().map(|t| self.admit(turn.member, t)).collect();
        let settles: Vec<_> = slots
            .iter()
            .zip(&turn.lanes)
            .filter_map(|(s, t)| s.zip(t.settle))
            .collect();
        for (slot, (through, chain)) in &settles {
            self.check_chain(*slot, *through, *chain)?;
        }
        for (slot, (through, _)) in settles {
            self.settle(slot, through, now);
        }
        let mut room = turn.bytes_max;
        let outcomes = slots.into_iter().zip(&turn.lanes).map(|(slot, lane)| Turned {
            lane: lane.lane,
            outcome: slot.map_or(LaneTurned::Fenced, |slot| self.plan(slot, lane, &mut room)),
        });
        Ok(outcomes.collect())
    }

    /// Settling what is not planned is a stale owner's, as a wrong token is.
    fn admit(&self, member: Nonce, turn: &LaneTurn) -> Option<usize> {
        let slot = self.fenced(turn.lane, member, turn.token)?;
        let planned = self.lanes[slot].state.planned;
        turn.settle.is_none_or(|(n, _)| n <= planned).then_some(slot)
    }

    /// The acknowledged chain is the chain of the planned rows, or nothing is settled in any lane.
    fn check_chain(&self, slot: usize, through: u64, chain: Chain) -> Result<()> {
        let (state, book) = (&self.lanes[slot].state, &self.books[slot]);
        let planned = (state.settled + 1..=through).zip(&book.plan);
        let rows = planned.map(|(n, seq)| (n, book.planned(*seq).map(|e| e.id)));
        let end = rows.fold(state.chain, |at, (n, id)| at.next(n, id));
        if through <= state.settled || end == chain {
            return Ok(());
        }
        Err(settled_differently(self.lanes[slot].lane))
    }

    /// Nothing to do for a repeat.
    fn settle(&mut self, slot: usize, through: u64, now: Timestamp) {
        let (row, book) = (&mut self.lanes[slot], &mut self.books[slot]);
        while row.state.settled < through {
            let seq = book.plan.pop_front().flatten();
            let event = seq.and_then(|seq| book.rows.remove(&seq));
            let (n, prior) = (row.state.settled + 1, row.state.chain);
            row.state.chain = prior.next(n, event.as_ref().map(|e| e.id));
            row.state.settled = n;
            if self.settings.archive {
                self.archive.push_back(Kept {
                    lane: row.lane,
                    n,
                    prior,
                    event,
                    at: now,
                });
            }
        }
    }

    fn plan(&mut self, slot: usize, turn: &LaneTurn, room: &mut usize) -> LaneTurned {
        let (row, book) = (&mut self.lanes[slot], &mut self.books[slot]);
        let numbers = row.state.settled + 1..;
        let mut events = Vec::new();
        if turn.load {
            let planned = book.plan.iter().map(|seq| book.planned(*seq).cloned());
            events.extend(numbers.zip(planned).map(|(n, event)| Planned { n, event }));
        }
        let seen: Vec<_> = book
            .unplanned()
            .take(turn.plan as usize)
            .map(|(seq, event)| (seq, event.clone()))
            .collect();
        let mut first = true;
        for (seq, event) in seen {
            if let Some(parked) = self.parked.get_mut(&key_ref(&event)) {
                book.rows.remove(&seq);
                book.floor = seq;
                parked.rows.insert(seq, event);
                continue;
            }
            if !first && event.payload.len() > *room {
                break;
            }
            first = false;
            *room = room.saturating_sub(event.payload.len());
            row.state.planned += 1;
            book.plan.push_back(Some(seq));
            book.floor = seq;
            events.push(Planned {
                n: row.state.planned,
                event: Some(event),
            });
        }
        let more = book.unplanned().next().is_some();
        LaneTurned::Planned { events, more }
    }

    // ---- poison ----

    fn park(&mut self, park: &Park, now: Timestamp) -> Result<ParkReply> {
        let Some(slot) = self.fenced(park.lane, park.member, park.token) else {
            return Ok(ParkReply::Fenced);
        };
        let (row, book) = (&mut self.lanes[slot], &mut self.books[slot]);
        let offset = |n: u64| usize::try_from(n.checked_sub(row.state.settled + 1)?).ok();
        let at = offset(park.n).unwrap_or(usize::MAX);
        let seq = book.plan.get(at).copied().flatten();
        let Some(key) = book.planned(seq).map(key_ref) else {
            return Err(not_planned(park.n));
        };
        let parked = self.parked.entry(key.clone()).or_insert_with(|| Parked {
            lane: park.lane,
            reason: String::new(),
            attempts: 0,
            rows: BTreeMap::new(),
        });
        parked.reason.clone_from(&park.reason);
        parked.attempts += 1;
        let mut voided = Vec::new();
        for (n, entry) in (row.state.settled + 1..).zip(&mut book.plan) {
            let same = entry
                .and_then(|seq| book.rows.get(&seq))
                .is_some_and(|e| key_ref(e) == key);
            if n == park.n || (park.followers && n > park.n && same) {
                let seq = entry.take().unwrap_or_default();
                parked
                    .rows
                    .extend(book.rows.remove(&seq).map(|event| (seq, event)));
                voided.push(n);
            }
        }
        let waiting: Vec<_> = book
            .unplanned()
            .filter(|(_, e)| key_ref(e) == key)
            .map(|(seq, _)| seq)
            .collect();
        for seq in waiting {
            parked
                .rows
                .extend(book.rows.remove(&seq).map(|event| (seq, event)));
        }
        row.token = Token::next(row.token, now.as_micros(), Token(0));
        Ok(ParkReply::Parked {
            token: row.token,
            voided,
        })
    }

    fn release(&mut self, key: &str) -> u64 {
        let refs = [format!("k:{key}"), format!("e:{key}")];
        let Some((key, parked)) = refs.iter().find_map(|key| self.parked.remove_entry(key)) else {
            return 0;
        };
        let book = &mut self.books[usize::from(parked.lane.slot)];
        let since: Vec<_> = book
            .unplanned()
            .filter(|(_, e)| key_ref(e) == key)
            .map(|(seq, _)| seq)
            .collect();
        let count = parked.rows.len() as u64;
        let since: Vec<_> = since.iter().filter_map(|seq| book.rows.remove(seq)).collect();
        for event in parked.rows.into_values().chain(since) {
            self.seq += 1;
            book.rows.insert(self.seq, event);
        }
        count
    }

    // ---- history ----

    fn refill(&self, slot: usize, from: u64, limit: u32) -> Refill {
        let state = &self.lanes[slot].state;
        if from > state.settled {
            return Refill::Events(Vec::new());
        }
        let mine = |kept: &&Kept| usize::from(kept.lane.slot) == slot && kept.n >= from;
        let kept: Vec<_> = self.archive.iter().filter(mine).take(limit as usize).collect();
        match kept.first() {
            None => Refill::Missing {
                oldest: state.settled + 1,
                chain: state.chain,
            },
            Some(oldest) if oldest.n != from => Refill::Missing {
                oldest: oldest.n,
                chain: oldest.prior,
            },
            Some(_) => {
                let follow = kept.iter().zip(from..).take_while(|(kept, n)| kept.n == *n);
                Refill::Events(follow.map(|(kept, _)| kept.numbered()).collect())
            }
        }
    }

    fn lane_row(&self, slot: usize, now: Timestamp) -> LaneRow {
        let (row, book) = (&self.lanes[slot], &self.books[slot]);
        let held = row.owner.is_some() && row.until.as_micros() > now.as_micros();
        let oldest = book.rows.values().next();
        LaneRow {
            lane: row.lane,
            token: row.token,
            owner: held.then(|| row.label.clone()),
            settled: row.state.settled,
            planned: row.state.planned,
            depth: book.rows.len() as u64,
            oldest_micros: oldest.map(|e| now.as_micros() - e.occurred_at.as_micros()),
            parked_keys: self.parked.values().filter(|p| p.lane == row.lane).count() as u64,
        }
    }

    fn sweep(&mut self, before: Timestamp, limit: u32) -> u64 {
        let old = self
            .archive
            .iter()
            .take(limit as usize)
            .take_while(|kept| kept.at < before)
            .count();
        self.archive.drain(..old);
        old as u64
    }
}

impl Kept {
    fn numbered(&self) -> (Planned, Chain) {
        let chain = self.prior.next(self.n, self.event.as_ref().map(|e| e.id));
        let planned = Planned {
            n: self.n,
            event: self.event.clone(),
        };
        (planned, chain)
    }
}

/// Each lane is named once.
fn check_lanes(turn: &Turn) -> Result<()> {
    let lanes: BTreeSet<LaneId> = turn.lanes.iter().map(|t| t.lane).collect();
    if lanes.len() < turn.lanes.len() {
        return Err(Error::new(Code::Internal, "turn: a lane is named twice"));
    }
    Ok(())
}

fn settled_differently(lane: LaneId) -> Error {
    Error::new(
        Code::Fork,
        format!("lane {lane}: the acknowledged chain is not the chain of the planned rows"),
    )
}

fn not_planned(n: u64) -> Error {
    Error::new(
        Code::Internal,
        format!("park: number {n} is not an event of the plan"),
    )
}

fn ready<'a, T: Send + 'a>(reply: Result<T>) -> BoxFuture<'a, Result<T>> {
    Box::pin(async move { reply })
}

impl Doorbell for MemoryOutbox {
    fn rung(&self) -> BoxFuture<'_, ()> {
        self.bell.rung()
    }
}

impl OutboxStore for MemoryOutbox {
    fn settings(&self) -> BoxFuture<'_, Result<Settings>> {
        ready(Ok(self.lock().settings.clone()))
    }

    fn enqueue(&self, events: Vec<Event>) -> BoxFuture<'_, Result<()>> {
        let valid = events.iter().try_for_each(Event::validate);
        let reply = valid.map(|()| self.transact(|contents| contents.enqueue(events)));
        self.bell.ring();
        ready(reply)
    }

    fn hold(&self, hold: Hold) -> BoxFuture<'_, Result<Held<LaneState>>> {
        let now = self.clock.now();
        let gives = hold.leave || !hold.release.is_empty();
        let held = self.transact(|c| apply_hold(&mut c.lanes, &mut c.members, &hold, now));
        if gives {
            self.bell.ring();
        }
        ready(Ok(held))
    }

    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Vec<Turned>>> {
        let now = self.now();
        ready(self.transact(|contents| contents.turn(&turn, now)))
    }

    fn refill(
        &self,
        member: Nonce,
        lane: LaneId,
        token: Token,
        from: u64,
        limit: u32,
    ) -> BoxFuture<'_, Result<Refill>> {
        let contents = self.lock();
        let slot = contents.fenced(lane, member, token);
        ready(Ok(
            slot.map_or(Refill::Fenced, |slot| contents.refill(slot, from, limit))
        ))
    }

    fn park(&self, park: Park) -> BoxFuture<'_, Result<ParkReply>> {
        let now = self.now();
        ready(self.transact(|contents| contents.park(&park, now)))
    }

    fn release(&self, key: String) -> BoxFuture<'_, Result<u64>> {
        let released = self.transact(|contents| contents.release(&key));
        self.bell.ring();
        ready(Ok(released))
    }

    fn lanes(&self) -> BoxFuture<'_, Result<Vec<LaneRow>>> {
        let (contents, now) = (self.lock(), self.now());
        let rows = (0..contents.lanes.len()).map(|slot| contents.lane_row(slot, now));
        ready(Ok(rows.collect()))
    }

    fn parked(&self, limit: u32) -> BoxFuture<'_, Result<Vec<ParkedKey>>> {
        let contents = self.lock();
        let keys = contents.parked.iter().take(limit as usize);
        let keys = keys.map(|(key, parked)| ParkedKey {
            lane: parked.lane,
            key: key[2..].to_owned(),
            events: parked.rows.len() as u64,
            reason: parked.reason.clone(),
            attempts: parked.attempts,
        });
        ready(Ok(keys.collect()))
    }

    fn sweep_archive(&self, before: Timestamp, limit: u32) -> BoxFuture<'_, Result<u64>> {
        ready(Ok(self.transact(|contents| contents.sweep(before, limit))))
    }
}

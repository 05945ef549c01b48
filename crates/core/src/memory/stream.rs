//! The stream in memory: a log, and a register for each lane.
//!
//! [`MemoryStream::flush`] and [`MemoryStream::forget_tail`] lose entries as real streams do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::error::{Code, Error, Result};
use crate::lane::LaneId;
use crate::lease::Token;
use crate::limits;
use crate::memory::{Bell, Clock};
use crate::store::{BoxFuture, Doorbell, Sink, StreamStore};
use crate::stream::{
    Appended, Capabilities, Entry, EntryId, LaneAppend, Locator, Lost, Numbered, Page, Place, ReaderHold,
    Register, Registers,
};
use crate::time::Timestamp;

/// Most entries in one append call.
const BATCH_MAX: usize = 4096;

/// One stream; clones share it.
#[derive(Debug, Clone)]
pub struct MemoryStream {
    contents: Arc<Mutex<Contents>>,
    bell: Bell,
    clock: Clock,
}

/// Everything a stream holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Contents {
    /// Which life of the stream this is.
    pub incarnation: Uuid,
    /// The newest position ever given in this life.
    pub last: u64,
    /// The log, by position.
    pub entries: BTreeMap<u64, Stored>,
    /// What is known of each lane.
    pub registers: BTreeMap<LaneId, Register>,
    /// Ranges declared lost.
    pub lost: Vec<Lost>,
    /// What readers still need: everything after this position; and when they said so.
    pub holds: BTreeMap<String, (EntryId, Timestamp)>,
    payload_max: usize,
}

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stored {
    /// Its lane.
    pub lane: LaneId,
    /// Number, chain and event.
    pub entry: Numbered,
    /// Who appended it.
    pub token: Token,
    /// When.
    pub at: Timestamp,
}

impl MemoryStream {
    /// An empty stream.
    pub fn new(clock: Clock) -> Self {
        let contents = Contents {
            incarnation: Uuid::from_u128(1),
            last: 0,
            entries: BTreeMap::new(),
            registers: BTreeMap::new(),
            lost: Vec::new(),
            holds: BTreeMap::new(),
            payload_max: limits::PAYLOAD_BYTES_MAX,
        };
        Self {
            contents: Arc::new(Mutex::new(contents)),
            bell: Bell::default(),
            clock,
        }
    }

    /// A copy of everything, to look at or to [`MemoryStream::restore`].
    pub fn contents(&self) -> Contents {
        self.lock().clone()
    }

    /// Goes back in time, as a restored backup does.
    pub fn restore(&self, contents: Contents) {
        *self.lock() = contents;
        self.bell.ring();
    }

    /// Forgets everything, as `FLUSHALL` does: a new life begins.
    pub fn flush(&self) {
        let mut contents = self.lock();
        *contents = Contents {
            incarnation: Uuid::from_u128(contents.incarnation.as_u128() + 1),
            payload_max: contents.payload_max,
            ..MemoryStream::new(self.clock.clone()).contents()
        };
        drop(contents);
        self.bell.ring();
    }

    /// Forgets the newest `count` entries and what the registers knew of them, as a failover does. The incarnation
    /// stays. Returns how many were forgotten.
    pub fn forget_tail(&self, count: usize) -> usize {
        let mut contents = self.lock();
        let forgotten = (0..count).filter(|_| contents.forget_newest()).count();
        drop(contents);
        self.bell.ring();
        forgotten
    }

    /// Refuses larger payloads as poison.
    pub fn limit_payload(&self, bytes: usize) {
        self.lock().payload_max = bytes;
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now().as_micros())
    }

    fn append_all(&self, lanes: Vec<LaneAppend>) -> Result<Vec<Appended>> {
        check_lanes(&lanes)?;
        let (mut contents, now) = (self.lock(), self.now());
        let before = contents.last;
        let outcomes = lanes.into_iter().map(|lane| contents.append(lane, now)).collect();
        if contents.last != before {
            self.bell.ring();
        }
        Ok(outcomes)
    }
}

/// Each lane is named once, and its numbers follow each other.
fn check_lanes(appends: &[LaneAppend]) -> Result<()> {
    let lanes: BTreeSet<LaneId> = appends.iter().map(|append| append.lane).collect();
    if lanes.len() < appends.len() {
        return Err(Error::new(Code::Internal, "append: a lane is named twice"));
    }
    appends.iter().try_for_each(check_numbers)
}

/// The numbers of one lane follow each other.
fn check_numbers(append: &LaneAppend) -> Result<()> {
    let follow = append.entries.windows(2).all(|pair| pair[1].n == pair[0].n + 1);
    if follow {
        return Ok(());
    }
    Err(Error::new(
        Code::Internal,
        format!("append: numbers of lane {} have a hole", append.lane),
    ))
}

impl Contents {
    fn append(&mut self, append: LaneAppend, now: Timestamp) -> Appended {
        let register = self.registers.entry(append.lane).or_default();
        if append.token < register.token {
            return Appended::Fenced(register.token);
        }
        let Some(first) = append.entries.first() else {
            return Appended::Through(register.n);
        };
        let id = first.event.as_ref().map(|e| e.id);
        if first.n != register.n + 1 || first.chain != register.chain.next(first.n, id) {
            return Appended::Moved(*register);
        }
        let too_large = |e: &&Numbered| {
            e.event
                .as_ref()
                .is_some_and(|e| e.payload.len() > self.payload_max)
        };
        if let Some(large) = append.entries.iter().find(too_large) {
            return poison(large, self.payload_max);
        }
        for entry in append.entries {
            *register = Register {
                n: entry.n,
                token: append.token,
                chain: entry.chain,
            };
            self.last += 1;
            let stored = Stored {
                lane: append.lane,
                entry,
                token: append.token,
                at: now,
            };
            self.entries.insert(self.last, stored);
        }
        Appended::Through(register.n)
    }

    fn declare(&mut self, lost: Lost, token: Token) -> Appended {
        let register = self.registers.entry(lost.lane).or_default();
        if token < register.token {
            return Appended::Fenced(register.token);
        }
        if lost.from != register.n + 1 || lost.through < lost.from {
            return Appended::Moved(*register);
        }
        *register = Register {
            n: lost.through,
            token,
            chain: lost.chain,
        };
        self.lost.push(lost);
        Appended::Through(lost.through)
    }

    fn read(&self, after: EntryId, lanes: Option<&[LaneId]>, limit: u32, bytes_max: usize) -> Page {
        let mut page = Page {
            incarnation: self.incarnation,
            entries: Vec::new(),
            scanned: EntryId(0, self.last),
            last: EntryId(0, self.last),
        };
        let mut bytes = 0;
        let from = after.1.saturating_add(1);
        for (position, stored) in self.entries.range(from..) {
            if lanes.is_some_and(|lanes| !lanes.contains(&stored.lane)) {
                continue;
            }
            if page.entries.len() >= limit as usize || (bytes >= bytes_max && !page.entries.is_empty()) {
                page.scanned = page.entries.last().map_or(after, |e| e.id);
                break;
            }
            bytes += stored.entry.event.as_ref().map_or(0, |e| e.payload.len());
            page.entries.push(stored.at_position(*position));
        }
        page
    }

    fn trim(&mut self, before: Timestamp, limit: u32) -> u64 {
        let held = self.holds.values().map(|(id, _)| id.1).min().unwrap_or(u64::MAX);
        let old: Vec<u64> = self
            .entries
            .iter()
            .take(limit as usize)
            .take_while(|(position, stored)| **position <= held && stored.at < before)
            .map(|(position, _)| *position)
            .collect();
        for position in &old {
            self.entries.remove(position);
        }
        old.len() as u64
    }

    fn forget_newest(&mut self) -> bool {
        let Some((position, stored)) = self.entries.pop_last() else {
            return false;
        };
        self.last = position - 1;
        let before = self.entries.values().rev().find(|e| e.lane == stored.lane);
        let register = before.map_or_else(Register::default, |e| Register {
            n: e.entry.n,
            token: e.token,
            chain: e.entry.chain,
        });
        self.registers.insert(stored.lane, register);
        true
    }
}

impl Stored {
    fn at_position(&self, position: u64) -> Entry {
        Entry {
            id: EntryId(0, position),
            lane: self.lane,
            n: self.entry.n,
            chain: self.entry.chain,
            event: self.entry.event.clone(),
        }
    }
}

fn poison(entry: &Numbered, max: usize) -> Appended {
    let bytes = entry.event.as_ref().map_or(0, |e| e.payload.len());
    Appended::Poison {
        n: entry.n,
        reason: format!("payload is {bytes} bytes; the stream takes {max}"),
    }
}

impl Doorbell for MemoryStream {
    fn rung(&self) -> BoxFuture<'_, ()> {
        self.bell.rung()
    }
}

impl Sink for MemoryStream {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            compare_and_append: true,
            tokens: true,
            payload_bytes_max: self.lock().payload_max,
            batch_max: BATCH_MAX,
        }
    }

    fn register(&self, lanes: Vec<(LaneId, Token)>) -> BoxFuture<'_, Result<Vec<Option<Register>>>> {
        let mut contents = self.lock();
        let raise = |(lane, token): (LaneId, Token)| {
            let register = contents.registers.entry(lane).or_default();
            register.token = register.token.max(token);
            Some(*register)
        };
        let registers = lanes.into_iter().map(raise).collect();
        Box::pin(async move { Ok(registers) })
    }

    fn append(&self, lanes: Vec<LaneAppend>) -> BoxFuture<'_, Result<Vec<Appended>>> {
        let outcomes = self.append_all(lanes);
        Box::pin(async move { outcomes })
    }

    fn declare_lost(&self, lost: Lost, token: Token) -> BoxFuture<'_, Result<Appended>> {
        let outcome = self.lock().declare(lost, token);
        self.bell.ring();
        Box::pin(async move { Ok(outcome) })
    }
}

impl StreamStore for MemoryStream {
    fn read(
        &self,
        after: EntryId,
        lanes: Option<Vec<LaneId>>,
        limit: u32,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Page>> {
        let page = self.lock().read(after, lanes.as_deref(), limit, bytes_max);
        Box::pin(async move { Ok(page) })
    }

    fn registers(&self) -> BoxFuture<'_, Result<Registers>> {
        let contents = self.lock();
        let registers = Registers {
            incarnation: contents.incarnation,
            lanes: contents.registers.iter().map(|(l, r)| (*l, *r)).collect(),
        };
        Box::pin(async move { Ok(registers) })
    }

    fn locate(&self, from: Timestamp) -> BoxFuture<'_, Result<Vec<(LaneId, Place)>>> {
        let contents = self.lock();
        let mut locator = Locator::new(from);
        for (position, Stored { lane, entry, at, .. }) in &contents.entries {
            locator.entry(*lane, EntryId(0, *position), (entry.n, entry.chain), *at);
        }
        let registers: Vec<_> = contents.registers.iter().map(|(l, r)| (*l, *r)).collect();
        let places = locator.places(&registers, &contents.lost);
        Box::pin(async move { places })
    }

    fn lost(&self) -> BoxFuture<'_, Result<Vec<Lost>>> {
        let mut lost = self.lock().lost.clone();
        lost.sort_by_key(|lost| (lost.lane, lost.from));
        Box::pin(async move { Ok(lost) })
    }

    fn publish_hold(&self, reader: String, below: EntryId) -> BoxFuture<'_, Result<()>> {
        let now = self.now();
        self.lock().holds.insert(reader, (below, now));
        Box::pin(async { Ok(()) })
    }

    fn holds(&self) -> BoxFuture<'_, Result<Vec<ReaderHold>>> {
        let contents = self.lock();
        let hold = |(reader, (below, renewed_at)): (&String, &(EntryId, Timestamp))| ReaderHold {
            reader: reader.clone(),
            below: *below,
            renewed_at: *renewed_at,
        };
        let holds = contents.holds.iter().map(hold).collect();
        Box::pin(async move { Ok(holds) })
    }

    fn drop_hold(&self, reader: String) -> BoxFuture<'_, Result<bool>> {
        let dropped = self.lock().holds.remove(&reader).is_some();
        Box::pin(async move { Ok(dropped) })
    }

    fn trim(&self, before: Timestamp, limit: u32) -> BoxFuture<'_, Result<u64>> {
        let trimmed = self.lock().trim(before, limit);
        Box::pin(async move { Ok(trimmed) })
    }
}

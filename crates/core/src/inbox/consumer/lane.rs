//! One owned lane, as the consumer sees it.

use std::collections::VecDeque;

use crate::inbox::{LaneBatch, Position};
use crate::lane::LaneId;
use crate::lease::Token;
use crate::stream::{Entry, EntryId};
use crate::time::{Ticks, Timestamp};

/// Looks in a row without what the stream should hold; the lane was read from the beginning in between.
const MISSING: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Live,
    /// Entries are missing: read again at this time.
    Gap(Ticks),
    /// A bound is reached, or the policy says halt: tried again at this time.
    Halted(Ticks),
    /// A fork: waits for a person.
    Stopped,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) token: Token,
    pub(super) epoch: u64,
    pub(super) state: State,
    /// Confirmed by the target database.
    pub(super) position: Position,
    /// Every entry up to here was read.
    pub(super) read: EntryId,
    /// The read in flight goes on where this lane stands: not after a rewind.
    pub(super) reading: bool,
    /// Last number read or given to the apply.
    seen: u64,
    /// Last number given to the apply.
    given: u64,
    pending: VecDeque<Entry>,
    careful_to: u64,
    /// The gap at this hw was already met once after reading from the beginning.
    gap_at: Option<u64>,
    /// Why it halted, until it goes on.
    halted: Option<String>,
    /// Looks in a row at which the stream had more than I could find.
    overlooked: u32,
}

impl Lane {
    pub(super) fn new(token: Token, epoch: u64, position: Position, careful: u64) -> Self {
        Self {
            token,
            epoch,
            state: State::Live,
            position,
            read: position.cursor,
            reading: false,
            seen: position.hw,
            given: position.hw,
            pending: VecDeque::new(),
            careful_to: if position.clean { 0 } else { position.hw + careful },
            gap_at: None,
            halted: None,
            overlooked: 0,
        }
    }

    pub(super) fn careful(&self) -> bool {
        self.position.hw < self.careful_to
    }

    /// Careful work is waiting: events up to the bound, in a lane that can go on.
    pub(super) fn has_careful_work(&self) -> bool {
        self.state == State::Live && self.careful() && !self.pending.is_empty()
    }

    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.pending.front()?.event.as_ref().map(|e| e.occurred_at)
    }

    /// Entries read ahead of the apply.
    pub(super) fn ahead(&self) -> usize {
        self.pending.len()
    }

    /// Drops what was read ahead and reads again after `from`.
    pub(super) fn rewind(&mut self, from: EntryId) {
        self.pending.clear();
        self.read = from;
        self.reading = false;
        self.seen = self.position.hw;
        self.given = self.position.hw;
    }

    pub(super) fn stop(&mut self) {
        self.state = State::Stopped;
        self.pending.clear();
    }

    /// Stands at `hw` until a person made room, which a try at `retry_at` finds out. True when this reason is new.
    pub(super) fn halt(&mut self, hw: u64, reason: &str, retry_at: Ticks) -> bool {
        self.position.hw = hw;
        self.rewind(self.position.cursor);
        self.state = State::Halted(retry_at);
        let new = self.halted.as_deref() != Some(reason);
        self.halted = Some(reason.to_owned());
        new
    }

    /// It waits for a person, also while it is tried again.
    pub(super) fn is_stopped(&self) -> bool {
        self.state == State::Stopped || self.halted.is_some()
    }

    /// Goes on where it waited long enough: true when it is to be read again.
    pub(super) fn resume(&mut self, now: Ticks) -> bool {
        let from = match self.state {
            State::Gap(until) if until <= now => EntryId::START,
            State::Halted(until) if until <= now => self.position.cursor,
            _ => return false,
        };
        self.state = State::Live;
        self.rewind(from);
        true
    }

    /// An entry came from the stream.
    pub(super) fn saw(&mut self, entry: Entry) {
        if entry.n > self.seen && self.state == State::Live {
            self.seen = entry.n;
            self.pending.push_back(entry);
        }
    }

    /// Up to `room` entries for the apply; in careful mode only those within its bound.
    pub(super) fn take(&mut self, lane: LaneId, careful: bool, room: usize) -> Option<LaneBatch> {
        if self.state != State::Live || (careful && !self.careful()) {
            return None;
        }
        let bound = if careful { self.careful_to } else { u64::MAX };
        let ready = self
            .pending
            .iter()
            .take(room)
            .take_while(|e| e.n <= bound)
            .count();
        // What stands beyond the bound while careful has a gap before it, and the apply says so.
        let ready = ready.max(usize::from(!self.pending.is_empty()));
        if ready == 0 {
            return None;
        }
        let entries: Vec<_> = self.pending.drain(..ready).collect();
        let last = entries
            .last()
            .map_or((self.given, EntryId::START), |e| (e.n, e.id));
        self.given = last.0;
        let cursor = if self.pending.is_empty() {
            self.read.max(last.1)
        } else {
            last.1
        };
        Some(LaneBatch {
            lane,
            token: self.token,
            entries,
            cursor,
        })
    }

    /// The database stands here. True when that is short of what was given: read again.
    pub(super) fn at(&mut self, position: Position) -> bool {
        let progress = position.hw > self.position.hw;
        self.position = position;
        if progress {
            self.gap_at = None;
            self.halted = None;
            self.overlooked = 0;
            self.seen = self.seen.max(position.hw);
        }
        if position.hw < self.given {
            self.rewind(position.cursor);
            return true;
        }
        false
    }

    /// Entries are missing after `hw`. First read again from the beginning; then wait. True when this gap is known.
    pub(super) fn gap(&mut self, hw: u64, retry_at: Ticks) -> bool {
        // As the database says, also when it went back: a restored one stands lower than I remember.
        self.position.hw = hw;
        self.rewind(EntryId::START);
        let known = self.gap_at == Some(hw);
        if known {
            self.state = State::Gap(retry_at);
        }
        self.gap_at = Some(hw);
        known
    }

    /// Entries are missing: a later one showed it, or reading from the beginning did not find them.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.state, State::Gap(_)) || self.overlooked >= MISSING
    }

    /// The stream's register is beyond me, all that it holds was read, and nothing is on its way: true after two such
    /// looks, then four, eight, ...
    pub(super) fn overlooked(&mut self, register: u64, read_all: bool) -> bool {
        if !read_all || matches!(self.state, State::Gap(_)) {
            return false;
        }
        let behind = self.state == State::Live && register > self.position.hw;
        let on_its_way = !self.pending.is_empty() || self.given > self.position.hw;
        if !behind || on_its_way {
            self.overlooked = 0;
            return false;
        }
        self.overlooked = self.overlooked.saturating_add(1);
        self.overlooked >= 2 && self.overlooked.is_power_of_two()
    }

    /// Nothing is waiting, and everything up to a later entry was read.
    pub(super) fn idle_beyond_cursor(&self) -> bool {
        self.state == State::Live
            && self.pending.is_empty()
            && self.given == self.position.hw
            && self.seen == self.position.hw
            && self.read > self.position.cursor
    }
}

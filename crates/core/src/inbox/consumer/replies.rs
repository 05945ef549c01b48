//! What each reply changes.

use super::lane::{Lane, State};
use super::{Effect, Flight, Machine, Note, SLOW, after, current};
use crate::error::Reply;
use crate::inbox::{Applied, LaneApplied, Position, Retried, Start};
use crate::lane::ownership::Change;
use crate::lane::{Held, LaneId};
use crate::stream::{EntryId, Page, Place, Registers};
use crate::time::Ticks;

impl Machine {
    pub(super) fn on_held(&mut self, now: Ticks, reply: Reply<Held<Position>>, out: &mut Vec<Effect>) {
        let held = match reply {
            Reply::Done(held) => held,
            Reply::Refused(error) | Reply::Unknown(error) => {
                self.own.failed(now);
                return self.outage(now, &error, out);
            }
        };
        self.owned = true;
        if self.new.is_none() {
            self.new = Some(held.lanes == 0);
            self.ask = self.asked;
        }
        for change in self.own.held(now, held) {
            match change {
                Change::Gained { lane, token, state } => {
                    self.epoch += 1;
                    let careful = u64::from(self.options.batch_max);
                    self.lanes
                        .insert(lane, Lane::new(token, self.epoch, state, careful));
                    self.bell = true;
                    self.retry_at = now;
                    out.push(Effect::Note(Note::Gained(lane, token, state)));
                }
                Change::Kept { lane, state } => self.kept(lane, state),
                Change::Lost(lane) => self.drop_lane(lane, Note::Lost(lane), out),
            }
        }
    }

    /// The database stands further than I knew: an apply with an unknown outcome was carried out.
    pub(super) fn kept(&mut self, id: LaneId, position: Position) {
        let flight = self.applying.as_deref().unwrap_or_default();
        let Some(lane) = self.lanes.get_mut(&id).filter(|l| position.hw > l.position.hw) else {
            return;
        };
        if !flight.contains(&(id, lane.epoch)) {
            self.bell |= lane.at(position);
        }
    }

    pub(super) fn on_registers(&mut self, now: Ticks, reply: Reply<Registers>, out: &mut Vec<Effect>) {
        self.asking = false;
        let registers = match reply {
            Reply::Done(registers) => registers,
            Reply::Refused(error) | Reply::Unknown(error) => return self.outage(now, &error, out),
        };
        self.incarnated(registers.incarnation, out);
        self.discover(&registers, out);
        self.asked = true;
        self.registers = registers.lanes.iter().map(|(id, r)| (*id, r.n)).collect();
        let read_all = self.reading.is_none() && !self.more && !self.bell;
        for (id, register) in &registers.lanes {
            let Some(lane) = self.lanes.get_mut(id) else {
                continue;
            };
            if !lane.overlooked(register.n, read_all) {
                continue;
            }
            if lane.is_missing() {
                lane.state = State::Gap(now.after(self.options.gap_every));
                let (lane, hw, next) = (*id, lane.position.hw, register.n + 1);
                out.push(Effect::Note(Note::Gap { lane, hw, next }));
            } else {
                lane.rewind(EntryId::START);
                self.bell = true;
            }
        }
    }

    /// Makes positions for lanes met for the first time.
    pub(super) fn discover(&mut self, registers: &Registers, out: &mut Vec<Effect>) {
        let Some(new) = self.new else {
            // Whether this consumer has positions decides where it starts; the first hold tells, and asks again.
            return;
        };
        if let (true, Start::At(time), None) = (new, self.options.start, &self.began) {
            if !self.locating {
                self.locating = true;
                out.push(Effect::Locate(time));
            }
            return;
        }
        let now = new && self.options.start == Start::Now;
        let began = self.began.get_or_insert_with(|| {
            let lanes = registers.lanes.iter().filter(|_| now);
            lanes.map(|(id, r)| (*id, after(r.n, r.chain))).collect()
        });
        let fresh = registers.lanes.iter().filter(|(id, _)| !self.known.contains(id));
        let start = |id: &LaneId| began.get(id).copied().unwrap_or(Position::EARLIEST);
        let positions: Vec<_> = fresh.map(|(id, _)| (*id, start(id))).collect();
        if !positions.is_empty() && self.discovering.is_none() {
            self.discovering = Some(positions.iter().map(|(id, _)| *id).collect());
            out.push(Effect::Discover(positions));
        }
    }

    pub(super) fn on_located(
        &mut self,
        now: Ticks,
        reply: Reply<Vec<(LaneId, Place)>>,
        out: &mut Vec<Effect>,
    ) {
        self.locating = false;
        match reply {
            Reply::Done(places) => {
                let begin = |(id, place): (LaneId, Place)| {
                    let position = Position {
                        cursor: place.cursor,
                        ..after(place.n, place.chain)
                    };
                    (id, position)
                };
                self.began = Some(places.into_iter().map(begin).collect());
                self.ask = true;
            }
            Reply::Refused(error) | Reply::Unknown(error) => self.outage(now, &error, out),
        }
    }

    pub(super) fn on_discovered(&mut self, now: Ticks, reply: Reply<()>, out: &mut Vec<Effect>) {
        let lanes = self.discovering.take().unwrap_or_default();
        match reply {
            Reply::Done(()) => {
                self.known.extend(lanes);
                self.owned = false;
                self.own.refresh(now);
            }
            Reply::Refused(error) | Reply::Unknown(error) => self.outage(now, &error, out),
        }
    }

    pub(super) fn on_page(&mut self, now: Ticks, reply: Reply<Page>, out: &mut Vec<Effect>) {
        let flight = self.reading.take().unwrap_or_default();
        let page = match reply {
            Reply::Done(page) => page,
            Reply::Refused(error) | Reply::Unknown(error) => {
                self.bell = true;
                return self.outage(now, &error, out);
            }
        };
        self.incarnated(page.incarnation, out);
        self.more = page.scanned < page.last;
        let mut shorter = false;
        for entry in page.entries {
            if let Some(lane) = current(&mut self.lanes, &flight, entry.lane).filter(|l| l.reading) {
                lane.saw(entry);
            }
        }
        for (id, _) in &flight {
            let Some(lane) = current(&mut self.lanes, &flight, *id).filter(|l| l.reading) else {
                continue;
            };
            if lane.read > page.last {
                lane.rewind(EntryId::START);
                shorter = true;
            } else {
                lane.read = lane.read.max(page.scanned);
            }
        }
        if shorter {
            self.bell = true;
            out.push(Effect::Note(Note::StreamRestarted));
        }
    }

    pub(super) fn on_applied(&mut self, now: Ticks, reply: Reply<Applied>, out: &mut Vec<Effect>) {
        let flight = self.applying.take().unwrap_or_default();
        let applied = match reply {
            Reply::Done(applied) => applied,
            Reply::Refused(error) | Reply::Unknown(error) => {
                self.rewind_all(&flight);
                return self.outage(now, &error, out);
            }
        };
        self.did(applied.counts, out);
        self.doubtful = applied.doubtful;
        for (id, outcome) in applied.lanes {
            self.on_lane(now, &flight, id, outcome, out);
        }
        match applied.pause {
            Some(error) => self.outage(now, &error, out),
            None => self.failures = 0,
        }
        self.pace = if applied.failures.is_empty() {
            self.pace.saturating_mul(2)
        } else {
            SLOW
        };
        let was_open = self.breaker.open().is_some();
        self.watch(now, applied.counts, &applied.failures, out);
        if was_open && self.breaker.open().is_none() {
            // Its one cause is gone.
            self.pace = usize::MAX;
        }
        if applied.counts.parked > 0 {
            self.retry_at = self.retry_at.min(now.after(self.options.retry_every));
        }
    }

    pub(super) fn on_lane(
        &mut self,
        now: Ticks,
        flight: &Flight,
        id: LaneId,
        outcome: LaneApplied,
        out: &mut Vec<Effect>,
    ) {
        let Some(lane) = current(&mut self.lanes, flight, id) else {
            return;
        };
        match outcome {
            LaneApplied::At(position) => {
                if lane.at(position) {
                    self.bell = true;
                }
            }
            LaneApplied::Fenced => self.drop_lane(id, Note::Fenced(id), out),
            LaneApplied::Gap { hw, next } => {
                let again = lane.gap(hw, now.after(self.options.gap_every));
                self.bell = true;
                if !again {
                    out.push(Effect::Note(Note::Gap { lane: id, hw, next }));
                }
            }
            LaneApplied::Fork { n } => {
                lane.stop();
                out.push(Effect::Note(Note::Forked(id, n)));
            }
            LaneApplied::Halted { hw, reason } => {
                if lane.halt(hw, &reason, now.after(self.options.gap_every)) {
                    out.push(Effect::Note(Note::Halted(id, reason)));
                }
            }
        }
    }

    pub(super) fn on_retried(&mut self, now: Ticks, reply: Reply<Retried>, out: &mut Vec<Effect>) {
        self.applying = None;
        match reply {
            Reply::Done(retried) => {
                self.did(retried.counts, out);
                if retried.counts.applied > 0 {
                    self.breaker.close();
                }
                if let Some(error) = retried.pause {
                    self.outage(now, &error, out);
                }
            }
            Reply::Refused(error) | Reply::Unknown(error) => self.outage(now, &error, out),
        }
    }

    pub(super) fn on_moved(&mut self, reply: &Reply<u64>) {
        let moved = self.moving.take().unwrap_or_default();
        if matches!(reply, Reply::Done(_)) {
            for (id, cursor) in moved {
                if let Some(lane) = self.lanes.get_mut(&id) {
                    lane.position.cursor = lane.position.cursor.max(cursor);
                }
            }
        }
    }
}

//! What is due: the next effects, by time and by what is in flight.

use super::lane::{Lane, State};
use super::{Effect, Flight, Machine, TRY};
use crate::inbox::{Batch, Retry};
use crate::lane::LaneId;
use crate::stream::EntryId;
use crate::time::{Now, Ticks};

impl Machine {
    pub(super) fn drive(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.end_drained(now.ticks);
        if now.ticks >= self.pause_until && !self.stopping {
            self.send_registers(now.ticks, out);
            self.send_apply(now, out);
            self.send_read(now.ticks, out);
            self.send_cursors(now.ticks, out);
        }
        if let Some(hold) = self.own.due(now.ticks) {
            out.push(Effect::Hold(hold));
        }
        if self.own.left() {
            self.stopped = true;
            out.push(Effect::Stopped);
        }
    }

    pub(super) fn end_drained(&mut self, now: Ticks) {
        for id in self.own.draining() {
            if !self.applying.iter().flatten().any(|(lane, _)| *lane == id) {
                self.lanes.remove(&id);
                self.own.drained(id, now);
            }
        }
    }

    pub(super) fn send_registers(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        if !self.asking && (now >= self.ask_at || self.ask) {
            self.asking = true;
            self.ask = false;
            self.ask_at = now.after(self.options.poll_every);
            out.push(Effect::Registers);
        }
    }

    pub(super) fn send_apply(&mut self, now: Now, out: &mut Vec<Effect>) {
        if self.applying.is_some() || self.lanes.is_empty() {
            return;
        }
        let member = self.own.member();
        let (mut room, failures_max) = self.bounds();
        if now.ticks >= self.retry_at {
            self.retry_at = now.ticks.after(self.options.retry_every);
            let lanes: Vec<_> = self
                .own
                .lanes()
                .filter(|(id, _)| self.own.may_work(*id))
                .collect();
            self.applying = Some(lanes.iter().map(|(id, _)| (*id, 0)).collect());
            out.push(Effect::Retry(Retry {
                member,
                lanes,
                failures_max,
                now: now.wall,
            }));
            return;
        }
        let careful = self.lanes.values().any(Lane::has_careful_work);
        let mut flight = Flight::new();
        let mut lanes = Vec::new();
        for (id, lane) in &mut self.lanes {
            if room == 0 || !self.own.may_work(*id) {
                continue;
            }
            if let Some(batch) = lane.take(*id, careful, room) {
                room -= batch.entries.len();
                flight.push((*id, lane.epoch));
                lanes.push(batch);
            }
        }
        if !lanes.is_empty() {
            self.applying = Some(flight);
            out.push(Effect::Apply(Batch {
                member,
                lanes,
                careful,
                failures_max,
                now: now.wall,
            }));
        }
    }

    /// Most entries of the next apply, and most failures.
    pub(super) fn bounds(&self) -> (usize, usize) {
        let few = self.doubtful || self.breaker.open().is_some();
        let all = self.options.batch_max as usize;
        let room = if few { all.min(TRY) } else { all.min(self.pace) };
        let failures = match self.breaker.open() {
            Some(_) => 1,
            None => self.breaker.room(self.options.breaker_keys),
        };
        (room, failures.min(self.options.failures_max))
    }

    pub(super) fn send_read(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        for lane in self.lanes.values_mut() {
            self.bell |= lane.resume(now);
        }
        if !self.lanes.values().any(|l| l.state == State::Live) {
            // Whatever makes a lane live rings again.
            (self.bell, self.more) = (false, false);
        }
        let due = self.bell || self.more || now >= self.poll_at;
        if !due || !self.may_read() {
            return;
        }
        let mut after = EntryId(u64::MAX, u64::MAX);
        let mut flight = Flight::new();
        for (id, lane) in self.lanes.iter_mut().filter(|(_, l)| l.state == State::Live) {
            lane.reading = true;
            after = after.min(lane.read);
            flight.push((*id, lane.epoch));
        }
        self.bell = false;
        self.poll_at = now.after(self.options.poll_every);
        let lanes = flight.iter().map(|(id, _)| *id).collect();
        self.reading = Some(flight);
        let (limit, bytes_max) = (self.options.batch_max, self.options.bytes_max);
        out.push(Effect::Read {
            after,
            lanes,
            limit,
            bytes_max,
        });
    }

    pub(super) fn send_cursors(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        if self.moving.is_some() || now < self.move_at || self.lanes.is_empty() {
            return;
        }
        self.move_at = now.after(self.options.poll_every);
        let busy: Vec<_> = self.applying.iter().flatten().map(|(id, _)| *id).collect();
        let idle = |(id, l): &(&LaneId, &Lane)| !busy.contains(id) && l.idle_beyond_cursor();
        let moves: Vec<_> = self
            .lanes
            .iter()
            .filter(idle)
            .map(|(id, l)| (*id, l.token, l.read))
            .collect();
        self.moving = Some(moves.iter().map(|(id, _, cursor)| (*id, *cursor)).collect());
        out.push(Effect::MoveCursors(moves));
    }
}

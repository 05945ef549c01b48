//! What is due: the next effects, by time and by what is in flight.

use super::lane::{Lane, Phase};
use super::{Effect, Flight, Machine, is_in};
use crate::lane::LaneId;
use crate::outbox::Turn;
use crate::stream::LaneAppend;
use crate::time::Ticks;

impl Machine {
    pub(super) fn drive(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        self.end_drained(now);
        let pauses = self
            .lanes
            .values()
            .map(|l| l.paused_until)
            .chain([self.pause_until]);
        self.resume_at = pauses.filter(|at| *at > now).min();
        if now >= self.pause_until {
            let reloads =
                |(id, l): (&LaneId, &Lane)| l.phase == Phase::Doubt && !is_in(self.turn.as_ref(), *id);
            if self.lanes.iter().any(reloads) {
                self.own.refresh(now);
            }
            self.send_register(now, out);
            self.send_chore(out);
            self.send_append(now, out);
            self.send_turn(now, out);
        }
        if let Some(hold) = self.own.due(now) {
            out.push(Effect::Hold(hold));
        }
        if self.own.left() {
            self.stopped = true;
            out.push(Effect::Stopped);
        }
    }

    pub(super) fn end_drained(&mut self, now: Ticks) {
        for id in self.own.draining() {
            let busy = self.busy(id);
            if self.lanes.get(&id).is_none_or(|l| !busy && !l.unsettled()) {
                self.own.drained(id, now);
                self.lanes.remove(&id);
            }
        }
    }

    pub(super) fn busy(&self, id: LaneId) -> bool {
        let chore = self.chore.is_some_and(|(lane, _)| lane == id);
        chore || is_in(self.turn.as_ref(), id) || is_in(self.append.as_ref(), id)
    }

    pub(super) fn send_register(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        if self.register.is_some() {
            return;
        }
        if now >= self.audit_at {
            self.audit_at = now.after(self.options.audit_every);
            self.lanes
                .values_mut()
                .filter(|l| l.phase == Phase::Live)
                .for_each(|l| l.ask_register = true);
        }
        let appending: Vec<_> = self.append.iter().flatten().map(|(id, _)| *id).collect();
        let wanted = |(id, l): &(&LaneId, &mut Lane)| l.wants_register() && !appending.contains(id);
        let asks: Vec<_> = self
            .lanes
            .iter_mut()
            .filter(wanted)
            .map(|(id, l)| (*id, l.token, l.epoch))
            .collect();
        if asks.is_empty() {
            return;
        }
        self.register = Some(asks.iter().map(|(id, _, epoch)| (*id, *epoch)).collect());
        out.push(Effect::Register(
            asks.into_iter().map(|(id, token, _)| (id, token)).collect(),
        ));
    }

    pub(super) fn send_chore(&mut self, out: &mut Vec<Effect>) {
        if self.chore.is_some() {
            return;
        }
        let (member, limit) = (self.own.member(), self.options.batch_max);
        let appending: Vec<_> = self.append.iter().flatten().map(|(id, _)| *id).collect();
        let turning: Vec<_> = self.turn.iter().flatten().map(|(id, _)| *id).collect();
        for (id, lane) in &mut self.lanes {
            if appending.contains(id) || turning.contains(id) || !self.own.may_work(*id) {
                continue;
            }
            if let Some(effect) = lane.chore(*id, member, limit) {
                self.chore = Some((*id, lane.epoch));
                out.push(effect);
                return;
            }
        }
    }

    pub(super) fn send_append(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        if self.append.is_some() {
            return;
        }
        let mut room = self.options.batch_max as usize;
        let mut flight = Flight::new();
        let mut appends = Vec::new();
        let registering: Vec<_> = self.register.iter().flatten().map(|(id, _)| *id).collect();
        for (id, lane) in &mut self.lanes {
            if room == 0 || registering.contains(id) || !lane.appendable(now) || !self.own.may_work(*id) {
                continue;
            }
            let entries = lane.next_entries(room);
            room -= entries.len();
            flight.push((*id, lane.epoch));
            appends.push(LaneAppend {
                lane: *id,
                token: lane.token,
                entries,
            });
        }
        if !appends.is_empty() {
            self.append = Some(flight);
            out.push(Effect::Append(appends));
        }
    }

    pub(super) fn send_turn(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        if self.turn.is_some() {
            return;
        }
        let poll = self.bell || now >= self.poll_at;
        let share = self.share(now);
        let ahead_max = self.options.batch_max as usize;
        let chore = self.chore.map(|(id, _)| id);
        let mut flight = Flight::new();
        let mut lanes = Vec::new();
        for (id, lane) in &mut self.lanes {
            if chore == Some(*id) {
                continue;
            }
            if let Some(turn) = lane.turn(*id, poll, self.own.may_work(*id), share, ahead_max) {
                flight.push((*id, lane.epoch));
                lanes.push(turn);
            }
        }
        if poll {
            // Without room the poll is owed, and comes with the next reply.
            let full = |l: &Lane| l.phase == Phase::Live && l.planned.len() >= ahead_max;
            self.bell = share == 0 || self.lanes.values().any(full);
            self.poll_at = now.after(self.options.poll_every);
        }
        if !lanes.is_empty() {
            self.turn = Some(flight);
            let (member, bytes_max) = (self.own.member(), self.options.bytes_max);
            out.push(Effect::Turn(Turn {
                member,
                lanes,
                bytes_max,
            }));
        }
    }

    /// Rows each lane may plan now: two batches are planned ahead in all, so that no append waits for the disk.
    pub(super) fn share(&self, now: Ticks) -> u32 {
        let ahead: usize = self.lanes.values().map(|l| l.ahead(now)).sum();
        let batch_max = self.options.batch_max as usize;
        let room = (2 * batch_max).saturating_sub(ahead);
        if room < (batch_max / 4).max(1) {
            return 0;
        }
        let hungry = self.lanes.values().filter(|l| l.more).count().max(1);
        u32::try_from((room / hungry).max(16).min(batch_max)).unwrap_or(16)
    }
}

//! What each reply changes.

use super::lane::{Lane, Phase};
use super::{Effect, Machine, Note, current, is_in};
use crate::error::{Code, Reply};
use crate::lane::Held;
use crate::lane::ownership::Change;
use crate::outbox::{LaneState, LaneTurned, ParkReply, Refill, Turned};
use crate::stream::{Appended, Register};
use crate::time::Ticks;

impl Machine {
    pub(super) fn on_held(&mut self, now: Ticks, reply: Reply<Held<LaneState>>, out: &mut Vec<Effect>) {
        let held = match reply {
            Reply::Done(held) => held,
            Reply::Refused(error) | Reply::Unknown(error) => {
                self.own.failed(now);
                return self.outage(now, &error, out);
            }
        };
        self.owned = true;
        for change in self.own.held(now, held) {
            match change {
                Change::Gained { lane, token, state } => {
                    self.epoch += 1;
                    self.lanes.insert(lane, Lane::loading(token, self.epoch, state));
                    out.push(Effect::Note(Note::Gained(
                        lane,
                        token,
                        state.planned - state.settled,
                    )));
                }
                Change::Kept { lane, state } => {
                    // With a turn in flight this state is neither before nor after it.
                    let turning = is_in(self.turn.as_ref(), lane);
                    if let Some(lane) = self.lanes.get_mut(&lane).filter(|_| !turning) {
                        lane.kept(state);
                    }
                }
                Change::Lost(lane) => self.drop_lane(lane, Note::Lost(lane), out),
            }
        }
    }

    pub(super) fn on_turned(&mut self, now: Ticks, reply: Reply<Vec<Turned>>, out: &mut Vec<Effect>) {
        let flight = self.turn.take().unwrap_or_default();
        let turned = match reply {
            Reply::Done(turned) => turned,
            Reply::Refused(error) if error.code() == Code::Fork => {
                // One lane's history is not mine: loading all of them again shows whose.
                self.doubt(&flight);
                return self.outage(now, &error, out);
            }
            Reply::Refused(error) => {
                self.lanes.values_mut().for_each(|l| l.settling = None);
                return self.outage(now, &error, out);
            }
            Reply::Unknown(error) => {
                self.doubt(&flight);
                return self.outage(now, &error, out);
            }
        };
        self.failures = 0;
        for t in turned {
            let Some(lane) = current(&mut self.lanes, &flight, t.lane) else {
                continue;
            };
            match t.outcome {
                LaneTurned::Fenced => self.drop_lane(t.lane, Note::Fenced(t.lane), out),
                LaneTurned::Planned { events, more } => lane.turned(events, more),
            }
        }
        self.reconcile_all(out);
    }

    pub(super) fn on_appended(&mut self, now: Ticks, reply: Reply<Vec<Appended>>, out: &mut Vec<Effect>) {
        let flight = self.append.take().unwrap_or_default();
        let outcomes = match reply {
            Reply::Done(outcomes) => outcomes,
            Reply::Refused(error) => return self.outage(now, &error, out),
            Reply::Unknown(error) => {
                for (id, _) in &flight {
                    if let Some(lane) = current(&mut self.lanes, &flight, *id) {
                        lane.unknown();
                    }
                }
                return self.outage(now, &error, out);
            }
        };
        self.failures = 0;
        let mut published = 0;
        for ((id, _), outcome) in flight.iter().zip(outcomes) {
            let Some(lane) = current(&mut self.lanes, &flight, *id) else {
                continue;
            };
            match outcome {
                Appended::Through(n) => {
                    let count = lane.acknowledge(n);
                    if lane.refilling() {
                        out.push(Effect::Note(Note::Refilled(*id, count)));
                    } else {
                        published += count;
                    }
                }
                Appended::Moved(register) => {
                    lane.moved(register);
                    self.reconcile(*id, out);
                }
                Appended::Fenced(_) => self.drop_lane(*id, Note::Fenced(*id), out),
                Appended::Poison { n, reason } if !lane.refilling() => lane.poison = Some((n, reason)),
                // What is settled was taken once: a limit has changed, and no row is left to park.
                Appended::Poison { reason, .. } | Appended::Paused(reason) => {
                    let pause = self.options.backoff_max.min(self.options.backoff_min * 8);
                    lane.paused_until = now.after(pause);
                    out.push(Effect::Note(Note::Outage(reason, pause)));
                }
            }
        }
        if published > 0 {
            self.published += published;
            out.push(Effect::Note(Note::Published(published)));
        }
    }

    pub(super) fn on_registered(
        &mut self,
        now: Ticks,
        reply: Reply<Vec<Option<Register>>>,
        out: &mut Vec<Effect>,
    ) {
        let flight = self.register.take().unwrap_or_default();
        let registers = match reply {
            Reply::Done(registers) => registers,
            Reply::Refused(error) | Reply::Unknown(error) => return self.outage(now, &error, out),
        };
        for ((id, _), register) in flight.iter().zip(registers) {
            let Some(lane) = current(&mut self.lanes, &flight, *id) else {
                continue;
            };
            if register.is_some_and(|r| r.token > lane.token) {
                self.drop_lane(*id, Note::Fenced(*id), out);
                continue;
            }
            lane.register = Some(register);
            lane.ask_register = false;
            self.reconcile(*id, out);
        }
    }

    pub(super) fn on_refilled(&mut self, now: Ticks, reply: Reply<Refill>, out: &mut Vec<Effect>) {
        let Some((id, lane)) = self.end_chore() else {
            return;
        };
        match reply {
            Reply::Done(Refill::Events(events)) if events.is_empty() => lane.phase = Phase::Doubt,
            Reply::Done(Refill::Events(events)) => lane.refill(events),
            Reply::Done(Refill::Missing { oldest, chain }) => lane.missing(id, oldest, chain),
            Reply::Done(Refill::Fenced) => return self.drop_lane(id, Note::Fenced(id), out),
            Reply::Refused(error) | Reply::Unknown(error) => return self.outage(now, &error, out),
        }
        if self.lanes.get(&id).is_some_and(|l| l.phase == Phase::Forked) {
            out.push(Effect::Note(Note::Forked(id, 0)));
        }
    }

    pub(super) fn on_parked(&mut self, now: Ticks, reply: Reply<ParkReply>, out: &mut Vec<Effect>) {
        let Some((id, lane)) = self.end_chore() else {
            return;
        };
        match reply {
            Reply::Done(ParkReply::Parked { token, voided }) => {
                lane.voided(token, &voided);
                self.own.retoken(id, token);
                out.push(Effect::Note(Note::Parked(id, voided.len() as u64)));
            }
            Reply::Done(ParkReply::Fenced) => self.drop_lane(id, Note::Fenced(id), out),
            Reply::Refused(error) => self.outage(now, &error, out),
            Reply::Unknown(error) => {
                // The token may have been raised: this tenure ends, the next hold tells.
                self.own.fenced(id);
                self.drop_lane(id, Note::Fenced(id), out);
                self.own.refresh(now);
                self.outage(now, &error, out);
            }
        }
    }

    pub(super) fn on_declared(&mut self, now: Ticks, reply: Reply<Appended>, out: &mut Vec<Effect>) {
        let Some((id, lane)) = self.end_chore() else {
            return;
        };
        match reply {
            Reply::Done(Appended::Through(n)) => {
                if let Some(lost) = lane.declared(n) {
                    out.push(Effect::Note(Note::DeclaredLost(lost)));
                }
            }
            Reply::Done(Appended::Fenced(_)) => self.drop_lane(id, Note::Fenced(id), out),
            Reply::Done(_) => lane.phase = Phase::Doubt,
            Reply::Refused(error) | Reply::Unknown(error) => self.outage(now, &error, out),
        }
    }
}

//! Calls on their way: what may be sent, what becomes of it, and what comes back.

use std::hash::Hash;

use tidegate_core::Reply;
use tidegate_core::inbox::consumer;
use tidegate_core::outbox::relay;
use tidegate_core::stream::{Appended, LaneAppend};
use tidegate_core::time::micros;

use super::super::canary::Canary;
use super::super::check::{Checked, ensure};
use super::super::fate::{Answer, Call, Crash, Fate};
use super::super::node::{Effect, Input};
use super::{Action, CALLS_MAX, Sent, World};

impl World {
    pub(super) fn send(&mut self, node: usize, effect: Effect) -> Checked {
        self.may_send(node, &effect)?;
        self.calls += 1;
        let (call, works_in) = (self.calls, effect.works_in());
        (self.calls, &works_in).hash(&mut self.hash);
        let kind = Call {
            limit: self.limit(&effect),
            inside: effect.is_inside(),
        };
        let fate = Fate::draw(&mut self.rng, &self.knobs, kind, self.chaos);
        fate.point
            .into_iter()
            .for_each(|point| self.stores.coverage.hit(point));
        let sender = &mut self.nodes[node];
        if !works_in.is_empty() {
            sender.in_flight.insert(call, works_in);
        }
        let sent = Box::new(Sent {
            node,
            boot: sender.boot,
            call,
            member: sender.member,
            effect,
            fate,
            second: false,
        });
        self.launch(sent);
        Ok(())
    }

    pub(super) fn launch(&mut self, sent: Box<Sent>) {
        let fate = sent.fate;
        if let Some(after) = fate.again {
            self.stores.truth.excuses += 1;
            let second = Box::new(Sent {
                second: true,
                ..(*sent).clone()
            });
            self.at(self.now + after, Action::Execute(second));
        }
        match fate.answer {
            Answer::Refused(after) | Answer::Unknown(after) => {
                let unknown = matches!(fate.answer, Answer::Unknown(_));
                let input = self.silence(&sent.effect, unknown);
                let at = self.now + after;
                let sent = sent.clone();
                self.at(at, Action::Deliver { sent, input });
            }
            Answer::Reply(_) => {}
        }
        if let Some(after) = fate.execute {
            self.at(self.now + after, Action::Execute(sent));
        }
    }

    /// What the caller is told without a reply.
    pub(super) fn silence(&mut self, effect: &Effect, unknown: bool) -> Input {
        if unknown && matches!(effect, Effect::Relay(_)) {
            self.stores.truth.excuses += 1;
        }
        match effect {
            Effect::Relay(relay::Effect::Append(lanes))
                if unknown && self.stores.is(Canary::UnknownIsDone) =>
            {
                let last = |l: &LaneAppend| l.entries.last().map_or(0, |e| e.n);
                let done = lanes.iter().map(|l| Appended::Through(last(l))).collect();
                Input::Relay(relay::Input::Appended(Reply::Done(done)))
            }
            effect => effect.failed(unknown),
        }
    }

    pub(super) fn limit(&self, effect: &Effect) -> i64 {
        let call = micros(self.knobs.call);
        if effect.is_hold() {
            micros(self.knobs.ttl / 5)
        } else if effect.is_inside() {
            call * 4
        } else {
            call
        }
    }

    pub(super) fn may_send(&mut self, node: usize, effect: &Effect) -> Checked {
        let sender = &self.nodes[node];
        ensure("S2", !sender.cut, || {
            format!("process {node} was cut and still sends {effect:?}")
        })?;
        ensure("S1", !(sender.stopping && effect.is_new_work()), || {
            format!("process {node} starts work while it stops: {effect:?}")
        })?;
        for released in effect.releases() {
            let busy = sender.in_flight.values().flatten().any(|lane| lane == released);
            ensure("S1", !busy, || {
                format!(
                    "process {node} releases lane {} with work in flight",
                    released.0.slot
                )
            })?;
            let surplus = !sender.stopping;
            self.stores.coverage.hit_if(surplus, "surplus lane handed over");
        }
        let second = self.now / 1_000_000;
        let rate = &mut self.rates[node];
        *rate = if rate.0 == second {
            (second, rate.1 + 1)
        } else {
            (second, 1)
        };
        let calls = rate.1;
        ensure("W2", calls < CALLS_MAX, || {
            format!("process {node} made {calls} calls in one second, now {effect:?}")
        })
    }

    pub(super) fn store_of(effect: &Effect) -> usize {
        use relay::Effect as R;
        match effect {
            Effect::Relay(R::Append(_) | R::Register(_) | R::Declare(..))
            | Effect::Consumer(
                consumer::Effect::Registers | consumer::Effect::Locate(_) | consumer::Effect::Read { .. },
            ) => 1,
            Effect::Relay(_) => 0,
            Effect::Consumer(_) => 2,
        }
    }

    pub(super) fn execute(&mut self, sent: Box<Sent>) -> Checked {
        let Sent { node, boot, .. } = *sent;
        if sent.effect.is_inside() {
            let cut = self.nodes[node].boot == boot && self.nodes[node].cut;
            ensure("S2", !cut || !self.nodes[node].up, || {
                format!("process {node} was cut and its handler runs")
            })?;
            if !self.is_current(node, boot) {
                return Ok(());
            }
            if self.is_paused(node) {
                let at = self.nodes[node].paused_until;
                self.at(at, Action::Execute(sent));
                return Ok(());
            }
        }
        let crash = sent
            .fate
            .crash
            .filter(|_| !sent.second && self.is_current(node, boot));
        if crash == Some(Crash::Before) {
            self.stores.coverage.hit("crash before an effect");
            self.crash(node, 200_000);
            return Ok(());
        }
        let out = self.outages[Self::store_of(&sent.effect)] > self.now;
        let input = if out {
            sent.effect.failed(false)
        } else {
            let input = self.stores.perform(sent.member, &sent.effect)?;
            let stream = matches!(
                &sent.effect,
                Effect::Relay(relay::Effect::Append(_) | relay::Effect::Declare(..))
            );
            if stream {
                self.ring_later(false);
            }
            input
        };
        if std::mem::take(&mut self.stores.inside.borrow_mut().killed) {
            self.crash(node, 200_000);
            return Ok(());
        }
        if crash == Some(Crash::After) {
            self.stores.coverage.hit("crash after an effect");
            self.crash(node, 200_000);
            return Ok(());
        }
        if let (Answer::Reply(back), false) = (sent.fate.answer, sent.second) {
            self.at(self.now + back, Action::Deliver { sent, input });
        }
        Ok(())
    }

    pub(super) fn deliver(&mut self, sent: Box<Sent>, input: Input) -> Checked {
        let Sent { node, boot, call, .. } = *sent;
        if !self.is_current(node, boot) {
            return Ok(());
        }
        if self.is_paused(node) {
            let at = self.nodes[node].paused_until;
            self.at(at, Action::Deliver { sent, input });
            return Ok(());
        }
        self.nodes[node].in_flight.remove(&call);
        self.step(node, input)
    }
}

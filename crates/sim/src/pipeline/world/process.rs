//! Processes: started, crashed, told to stop.

use tidegate_core::inbox::consumer;
use tidegate_core::lane::Hold;
use tidegate_core::lease::Nonce;
use tidegate_core::outbox::relay;
use tidegate_core::time::micros;

use super::super::canary::Canary;
use super::super::check::{Checked, ensure};
use super::super::node::{Effect, Input, Machine};
use super::{Action, World, consumer_options, relay_options};

/// A second signal comes so long after the first.
const SECOND_SIGNAL: i64 = 5_000;

impl World {
    pub(super) fn process(&mut self, node: usize) -> (Machine, Nonce, i64) {
        let member = Nonce((u128::from(self.rng.u64(..)) << 8) | node as u128);
        let drift = self.rng.i64(-50_000..=50_000);
        let machine = if node < self.knobs.relays {
            Machine::Relay(Box::new(relay::Machine::new(relay_options(&self.knobs), member)))
        } else {
            let options = consumer_options(&self.knobs);
            Machine::Consumer(Box::new(consumer::Machine::new(options, member)))
        };
        (machine, member, drift)
    }

    pub(super) fn start(&mut self, node: usize, boot: u32) -> Checked {
        if self.nodes[node].up || self.nodes[node].boot != boot {
            return Ok(());
        }
        let (machine, member, drift) = self.process(node);
        self.nodes[node].reborn(machine, member, drift);
        self.note(|| format!("{node} starts"));
        self.step(node, Input::Tick)
    }

    pub(super) fn crash(&mut self, node: usize, back_after: i64) {
        if !self.nodes[node].up {
            return;
        }
        self.note(|| format!("{node} crashes"));
        self.nodes[node].up = false;
        self.stores.truth.excuses += u64::from(self.nodes[node].is_relay());
        self.stores.coverage.hit("crash");
        let boot = self.nodes[node].boot;
        self.at(self.now + back_after, Action::Start { node, boot });
    }

    pub(super) fn drain(&mut self, node: usize) -> Checked {
        if !self.nodes[node].up || self.nodes[node].stopping || self.is_paused(node) {
            return Ok(());
        }
        let target = &mut self.nodes[node];
        target.stopping = true;
        let busy = !target.in_flight.is_empty();
        let point = if target.is_relay() {
            "relay drained with work in flight"
        } else {
            "consumer drained with work in flight"
        };
        let boot = target.boot;
        self.stores.coverage.hit_if(busy, point);
        if self.stores.is(Canary::ReleaseBeforeDrain) {
            self.release_first(node)?;
        }
        let at = self.now + 2 * micros(self.knobs.ttl);
        let again = false;
        self.at(at, Action::Cut { node, boot, again });
        if self.now % 4 == 0 {
            let again = true;
            self.at(self.now + SECOND_SIGNAL, Action::Cut { node, boot, again });
        }
        self.step(node, Input::Stop)
    }

    /// Canary: gives up every lane while work is in flight.
    pub(super) fn release_first(&mut self, node: usize) -> Checked {
        let member = self.nodes[node].member;
        let hold = |release| Hold {
            member,
            label: "sim".into(),
            ttl: self.knobs.ttl,
            release,
            leave: true,
        };
        let effect = if self.nodes[node].is_relay() {
            let rows = self.stores.outbox.contents().lanes;
            let mine = rows.iter().filter(|row| row.owner == Some(member));
            Effect::Relay(relay::Effect::Hold(hold(
                mine.map(|row| (row.lane, row.token)).collect(),
            )))
        } else {
            let contents = self.stores.db.inbox.contents();
            let mine = contents.lanes.iter().filter(|row| row.owner == Some(member));
            Effect::Consumer(consumer::Effect::Hold(hold(
                mine.map(|row| (row.lane, row.token)).collect(),
            )))
        };
        self.send(node, effect)
    }

    pub(super) fn stopped(&mut self, node: usize) -> Checked {
        self.note(|| format!("{node} stopped"));
        self.stores.coverage.hit("drain ended clean");
        let member = self.nodes[node].member;
        self.nodes[node].up = false;
        let outbox = self.stores.outbox.contents();
        let inbox = self.stores.db.inbox.contents();
        let owns = outbox.lanes.iter().any(|row| row.owner == Some(member))
            || inbox.lanes.iter().any(|row| row.owner == Some(member));
        ensure("S3", !self.ending || !owns, || {
            format!("process {node} ended its drain and still owns a lane")
        })?;
        if !self.ending {
            let boot = self.nodes[node].boot;
            let after = self.rng.i64(0..1_000_000);
            self.at(self.now + after, Action::Start { node, boot });
        }
        Ok(())
    }

    /// S2: what was cut is gone at once, like after a crash.
    pub(super) fn cut(&mut self, node: usize, boot: u32, again: bool) {
        if !self.is_current(node, boot) || self.ending {
            return;
        }
        self.stores.coverage.hit(if again {
            "drain cut by a second signal"
        } else {
            "drain cut"
        });
        self.nodes[node].cut = true;
        if !self.stores.is(Canary::CutGoesOn) {
            self.crash(node, 100_000);
        }
    }
}

//! The world: virtual time, processes, calls on their way, and what goes wrong.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use tidegate_core::Uuid;
use tidegate_core::inbox::{self, Start, consumer};
use tidegate_core::lane::{Hold, Lineage, ownership};
use tidegate_core::lease::Nonce;
use tidegate_core::memory::inbox::MemoryInbox;
use tidegate_core::memory::{Clock, MemoryOutbox, MemoryStream};
use tidegate_core::outbox::{Settings, relay};
use tidegate_core::stream::Appended;
use tidegate_core::time::micros;
use tidegate_core::{Reply, store::OutboxStore};

use super::canary::Canary;
use super::check::{Checked, State, Truth, Violation, ensure};
use super::coverage::Coverage;
use super::db::{Db, Inside};
use super::fate::{Answer, Call, Crash, Fate};
use super::handler::SimHandler;
use super::knobs::{Fault, Faults, Knobs};
use super::node::{Effect, Input, Machine, Node};
use super::perform::{Stores, ready};
use super::plan::{Deed, plan};
use super::workload::{PAYLOAD_MAX, Transaction, transactions};
use super::{Options, Outcome};

/// After the faults end, everything is quiet within this: back-offs, a lease of each lane, and the crashes that
/// events bring about, each with a take-over.
const PATIENCE: i64 = 240_000_000;
/// A drain without faults ends within this: one call and one hold.
const DRAIN_MAX: i64 = 3_000_000;
/// Calls of one process in one second: a lane turns over in two, and no call is shorter than a tenth of a
/// millisecond; a machine that waits for nothing makes thousands.
const CALLS_MAX: u32 = 3_000;

enum Action {
    Wake { node: usize, boot: u32 },
    Execute(Box<Sent>),
    Deliver { sent: Box<Sent>, input: Input },
    Ring { relays: bool },
    Commit(Box<Transaction>),
    Do(Deed),
    Start { node: usize, boot: u32 },
    Cut { node: usize, boot: u32 },
}

/// A call on its way.
#[derive(Debug, Clone)]
struct Sent {
    node: usize,
    boot: u32,
    call: u64,
    member: Nonce,
    effect: Effect,
    fate: Fate,
    second: bool,
}

pub(super) struct World {
    knobs: Knobs,
    rng: Rng,
    now: i64,
    queue: BTreeMap<(i64, u64), Action>,
    actions: u64,
    calls: u64,
    clocks: [Clock; 3],
    stores: Stores,
    nodes: Vec<Node>,
    rates: Vec<(i64, u32)>,
    chaos: bool,
    ending: bool,
    outages: [i64; 3],
    hash: DefaultHasher,
    trace: Option<VecDeque<String>>,
}

impl World {
    pub(super) fn new(knobs: Knobs, options: &Options) -> Self {
        let mut rng = Rng::with_seed(knobs.seed);
        let clocks: [Clock; 3] = std::array::from_fn(|_| Clock::default());
        let stores = stores(&knobs, options, &clocks, rng.u64(..));
        let mut world = Self {
            now: 0,
            queue: BTreeMap::new(),
            actions: 0,
            calls: 0,
            clocks,
            stores,
            nodes: Vec::new(),
            rates: vec![(0, 0); knobs.relays + knobs.consumers],
            chaos: true,
            ending: false,
            outages: [0; 3],
            hash: DefaultHasher::new(),
            trace: options.trace.then(VecDeque::new),
            rng: rng.fork(),
            knobs,
        };
        for (at, deed) in plan(&mut rng, &world.knobs) {
            world.at(at, Action::Do(deed));
        }
        for transaction in transactions(&mut rng, &world.knobs) {
            world.at(transaction.at, Action::Commit(Box::new(transaction)));
        }
        for node in 0..world.knobs.relays + world.knobs.consumers {
            let (machine, member, drift) = world.process(node);
            world.nodes.push(Node::new(machine, member, drift));
            let at = world.rng.i64(0..500_000);
            world.nodes[node].wake = Some(at);
            world.at(at, Action::Wake { node, boot: 0 });
        }
        world
    }

    pub(super) fn run(mut self) -> Outcome {
        let violation = self.phases().err();
        if let Some(violation) = &violation {
            let text = violation.to_string();
            self.note(|| text);
        }
        Outcome {
            violation,
            faults: self.knobs.faults,
            hash: self.hash.finish(),
            coverage: self.stores.coverage,
            trace: self.trace.unwrap_or_default().into(),
        }
    }

    // ---- phases ----

    fn phases(&mut self) -> Checked {
        self.pass(micros(self.knobs.chaos))?;
        self.heal();
        self.settle()?;
        self.drain_all()
    }

    /// All faults end.
    fn heal(&mut self) {
        self.note(|| "---- heal ----".into());
        self.chaos = false;
        self.stores.inside.borrow_mut().chaos = false;
        self.outages = [0; 3];
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            node.paused_until = 0;
            node.wall_offset = 0;
            let boot = node.boot;
            if !node.up {
                self.at(self.now, Action::Start { node: index, boot });
            }
        }
    }

    /// Lets time pass until everything is quiet.
    fn settle(&mut self) -> Checked {
        let end = self.now + PATIENCE;
        // What was sent before is answered by then, and late executions have happened.
        self.pass(self.now + 4 * micros(self.knobs.call) + 4 * micros(self.knobs.ttl))?;
        loop {
            self.pass(self.now + 500_000)?;
            let quiet = self.quiet();
            if quiet.is_ok() || self.now > end {
                return quiet;
            }
        }
    }

    fn quiet(&mut self) -> Checked {
        let (outbox, stream) = (self.stores.outbox.contents(), self.stores.stream.contents());
        let inbox = self.stores.db.inbox.contents();
        let state = State {
            outbox: &outbox,
            stream: &stream,
            inbox: &inbox,
        };
        self.stores.truth.quiet(&state)?;
        let stuck = self.stores.truth.is_stuck(&state);
        self.stores
            .coverage
            .hit_if(stuck, "loss stopped a consumer for good");
        for (index, node) in self.nodes.iter().enumerate() {
            let known = node.up && (node.quiet() || (stuck && !node.is_relay()));
            ensure("Quiet", known, || {
                format!("process {index} does not know that all is quiet")
            })?;
        }
        Ok(())
    }

    /// Stops every process, one after the other and all at once by turns of the seed.
    fn drain_all(&mut self) -> Checked {
        self.ending = true;
        self.note(|| "---- drain ----".into());
        let together = self.rng.bool();
        for node in 0..self.nodes.len() {
            self.drain(node)?;
            if !together {
                self.pass(self.now + DRAIN_MAX)?;
            }
        }
        self.pass(self.now + DRAIN_MAX)?;
        let late = self.nodes.iter().position(|node| node.up);
        ensure("S2", late.is_none(), || {
            format!("process {late:?} did not end its drain")
        })?;
        let calm = self.knobs.faults.and(Faults::ALL.without(Fault::Drain)) == Faults::NONE;
        let (moved, again) = (self.stores.truth.moved, self.stores.truth.duplicates);
        ensure("S3", !calm || moved + again == 0, || {
            format!("without faults {moved} appends were refused and {again} entries met again")
        })
    }

    // ---- time ----

    fn at(&mut self, at: i64, action: Action) {
        self.actions += 1;
        self.queue.insert((at.max(self.now), self.actions), action);
    }

    /// Lets time pass up to `until`.
    fn pass(&mut self, until: i64) -> Checked {
        while let Some(entry) = self.queue.first_entry() {
            let at = entry.key().0;
            if at > until {
                break;
            }
            let action = entry.remove();
            self.move_to(at);
            self.act(action)?;
        }
        self.move_to(until);
        Ok(())
    }

    fn move_to(&mut self, at: i64) {
        let by = Duration::from_micros(u64::try_from(at - self.now).unwrap_or(0));
        self.clocks.iter().for_each(|clock| clock.advance(by));
        self.now = self.now.max(at);
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.push_back(format!("{:>12} {}", now, text()));
        }
    }

    // ---- what happens ----

    fn act(&mut self, action: Action) -> Checked {
        match action {
            Action::Wake { node, boot } => self.wake(node, boot),
            Action::Execute(sent) => self.execute(sent),
            Action::Deliver { sent, input } => self.deliver(sent, input),
            Action::Ring { relays } => self.ring(relays),
            Action::Commit(transaction) => {
                self.commit(&transaction);
                Ok(())
            }
            Action::Do(deed) => self.do_deed(deed),
            Action::Start { node, boot } => self.start(node, boot),
            Action::Cut { node, boot } => {
                self.cut(node, boot);
                Ok(())
            }
        }
    }

    fn is_current(&self, node: usize, boot: u32) -> bool {
        self.nodes[node].up && self.nodes[node].boot == boot
    }

    fn is_paused(&self, node: usize) -> bool {
        self.nodes[node].paused_until > self.now
    }

    fn wake(&mut self, node: usize, boot: u32) -> Checked {
        let asked = self.nodes[node].wake.is_some_and(|at| at <= self.now);
        if !self.is_current(node, boot) || !asked {
            return Ok(());
        }
        if self.is_paused(node) {
            let at = self.nodes[node].paused_until;
            self.at(at, Action::Wake { node, boot });
            return Ok(());
        }
        let spins = &mut self.nodes[node].spins;
        *spins = if spins.0 == self.now {
            (self.now, spins.1 + 1)
        } else {
            (self.now, 1)
        };
        let spins = spins.1;
        ensure("W1", spins < 4, || {
            format!(
                "process {node} wants to be ticked again and again at {}",
                self.now
            )
        })?;
        self.step(node, Input::Tick)
    }

    fn step(&mut self, node: usize, input: Input) -> Checked {
        (self.now, node).hash(&mut self.hash);
        if self.trace.is_some() {
            let text = format!("{node} <- {input:?}");
            self.note(|| text);
        }
        let effects = self.nodes[node].step(self.now, input);
        for effect in effects {
            if self.trace.is_some() {
                let text = format!("{node} -> {effect:?}");
                self.note(|| text);
            }
            self.take(node, effect)?;
        }
        if self.nodes[node].up {
            let wake = self.nodes[node].wake_at();
            self.nodes[node].wake = wake;
            let boot = self.nodes[node].boot;
            if let Some(at) = wake {
                self.at(at, Action::Wake { node, boot });
            }
        }
        Ok(())
    }

    fn take(&mut self, node: usize, effect: Effect) -> Checked {
        match effect {
            Effect::Relay(relay::Effect::Note(note)) => self.relay_note(&note),
            Effect::Consumer(consumer::Effect::Note(note)) => self.consumer_note(&note),
            Effect::Relay(relay::Effect::Stopped) | Effect::Consumer(consumer::Effect::Stopped) => {
                return self.stopped(node);
            }
            effect => return self.send(node, effect),
        }
        Ok(())
    }

    // ---- calls ----

    fn send(&mut self, node: usize, effect: Effect) -> Checked {
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

    fn launch(&mut self, sent: Box<Sent>) {
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
    fn silence(&mut self, effect: &Effect, unknown: bool) -> Input {
        if unknown && matches!(effect, Effect::Relay(_)) {
            self.stores.truth.excuses += 1;
        }
        match effect {
            Effect::Relay(relay::Effect::Append(lanes))
                if unknown && self.stores.is(Canary::UnknownIsDone) =>
            {
                let last = |l: &tidegate_core::stream::LaneAppend| l.entries.last().map_or(0, |e| e.n);
                let done = lanes.iter().map(|l| Appended::Through(last(l))).collect();
                Input::Relay(relay::Input::Appended(Reply::Done(done)))
            }
            effect => effect.failed(unknown),
        }
    }

    fn limit(&self, effect: &Effect) -> i64 {
        let call = micros(self.knobs.call);
        if effect.is_hold() {
            micros(self.knobs.ttl / 5)
        } else if effect.is_inside() {
            call * 4
        } else {
            call
        }
    }

    fn may_send(&mut self, node: usize, effect: &Effect) -> Checked {
        let sender = &self.nodes[node];
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

    fn store_of(effect: &Effect) -> usize {
        use relay::Effect as R;
        match effect {
            Effect::Relay(R::Append(_) | R::Register(_) | R::Declare(..)) => 1,
            Effect::Relay(_) => 0,
            Effect::Consumer(consumer::Effect::Registers | consumer::Effect::Read { .. }) => 1,
            Effect::Consumer(_) => 2,
        }
    }

    fn execute(&mut self, sent: Box<Sent>) -> Checked {
        let Sent { node, boot, .. } = *sent;
        if sent.effect.is_inside() {
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

    fn deliver(&mut self, sent: Box<Sent>, input: Input) -> Checked {
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

    // ---- processes ----

    fn process(&mut self, node: usize) -> (Machine, Nonce, i64) {
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

    fn start(&mut self, node: usize, boot: u32) -> Checked {
        if self.nodes[node].up || self.nodes[node].boot != boot {
            return Ok(());
        }
        let (machine, member, drift) = self.process(node);
        self.nodes[node].reborn(machine, member, drift);
        self.note(|| format!("{node} starts"));
        self.step(node, Input::Tick)
    }

    fn crash(&mut self, node: usize, back_after: i64) {
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

    fn drain(&mut self, node: usize) -> Checked {
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
        self.at(at, Action::Cut { node, boot });
        self.step(node, Input::Stop)
    }

    /// Canary: gives up every lane while work is in flight.
    fn release_first(&mut self, node: usize) -> Checked {
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

    fn stopped(&mut self, node: usize) -> Checked {
        self.note(|| format!("{node} stopped"));
        self.stores.coverage.hit("drain ended clean");
        let member = self.nodes[node].member;
        self.nodes[node].up = false;
        let outbox = self.stores.outbox.contents();
        let inbox = self.stores.db.inbox.contents();
        let owns = outbox.lanes.iter().any(|row| row.owner == Some(member))
            || inbox.lanes.iter().any(|row| row.owner == Some(member));
        ensure("S3", self.chaos || !owns, || {
            format!("process {node} ended its drain and still owns a lane")
        })?;
        if !self.ending {
            let boot = self.nodes[node].boot;
            let after = self.rng.i64(0..1_000_000);
            self.at(self.now + after, Action::Start { node, boot });
        }
        Ok(())
    }

    fn cut(&mut self, node: usize, boot: u32) {
        if self.is_current(node, boot) && !self.ending {
            self.stores.coverage.hit("drain cut");
            self.crash(node, 100_000);
        }
    }

    // ---- what comes from outside ----

    fn commit(&mut self, transaction: &Transaction) {
        if !transaction.commits {
            self.stores.coverage.hit("transaction rolled back");
            return;
        }
        let keyless = transaction.events.iter().any(|e| e.key.is_none());
        self.stores.coverage.hit_if(keyless, "event without a key");
        self.stores.truth.commit(&transaction.events);
        let written = ready(self.stores.outbox.enqueue(transaction.events.clone()));
        debug_assert!(written.is_ok());
        self.ring_later(true);
    }

    fn ring_later(&mut self, relays: bool) {
        let after = self.rng.i64(0..5_000);
        self.at(self.now + after, Action::Ring { relays });
    }

    fn ring(&mut self, relays: bool) -> Checked {
        for node in 0..self.nodes.len() {
            let heard = self.nodes[node].up && self.nodes[node].is_relay() == relays && !self.is_paused(node);
            if !heard {
                continue;
            }
            let lost = self.chaos && self.knobs.faults.has(Fault::LostRing) && self.rng.bool();
            if lost {
                self.stores.coverage.hit("ring lost");
            } else {
                self.step(node, Input::Rung)?;
            }
        }
        Ok(())
    }

    fn do_deed(&mut self, deed: Deed) -> Checked {
        self.note(|| format!("{deed:?}"));
        match deed {
            Deed::Crash { node, back_after } => self.crash(node, back_after),
            Deed::Pause { node, for_micros } => {
                let long = for_micros > micros(self.knobs.ttl);
                self.stores.coverage.hit_if(long, "pause longer than the ttl");
                self.nodes[node].paused_until = self.now + for_micros;
            }
            Deed::Drain { node } => return self.drain(node),
            Deed::Outage { store, for_micros } => self.outages[store] = self.now + for_micros,
            Deed::Tail { entries } => self.lose(|stream| {
                stream.forget_tail(entries);
            }),
            Deed::Flush => self.lose(MemoryStream::flush),
            Deed::StoreJump { store, by } => {
                self.clocks[store].advance(Duration::from_micros(by.unsigned_abs()));
            }
            Deed::WallJump { node, by } => self.nodes[node].wall_offset += by,
            Deed::Release => self.release()?,
            Deed::Trim => self.stores.trim()?,
        }
        Ok(())
    }

    fn lose(&mut self, loss: impl FnOnce(&MemoryStream)) {
        let before = self.stores.stream.contents();
        loss(&self.stores.stream);
        let after = self.stores.stream.contents();
        self.stores.truth.lost(&before, &after);
        let flushed = before.incarnation != after.incarnation;
        let point = if flushed {
            "stream flushed"
        } else {
            "stream tail lost"
        };
        self.stores.coverage.hit(point);
        let settled = &self.stores.outbox.contents().lanes;
        let unsettled = settled.iter().any(|row| {
            let n = before.registers.get(&row.lane).map_or(0, |r| r.n);
            n > row.state.settled
        });
        self.stores
            .coverage
            .hit_if(unsettled, "stream lost entries that nobody settled");
    }

    /// A person releases whatever is parked at the source.
    fn release(&mut self) -> Checked {
        let parked = ready(self.stores.outbox.parked(100)).unwrap_or_default();
        for key in parked {
            self.stores.coverage.hit("source key released");
            let released = ready(self.stores.outbox.release(key.key));
            debug_assert!(released.is_ok_and(|rows| rows > 0));
        }
        self.ring_later(true);
        Ok(())
    }

    // ---- notes ----

    fn relay_note(&mut self, note: &relay::Note) {
        use relay::Note as N;
        let point = match note {
            N::Gained(lane, _, unfinished) => {
                self.stores.truth.handed_over(lane.slot);
                self.stores
                    .coverage
                    .hit_if(*unfinished > 0, "relay met an unfinished plan");
                "relay gained a lane"
            }
            N::Lost(_) => "relay lost a lane",
            N::Fenced(_) => "relay was fenced",
            N::Published(_) => "relay published",
            N::AlreadyThere(_) => "relay met entries already there",
            N::StreamLost { .. } => "relay saw a stream loss",
            N::Refilled(..) => "relay refilled",
            N::DeclaredLost(_) => "relay declared a loss",
            N::Parked(..) => "relay parked a key",
            N::Outage(..) => "relay outage",
            N::Forked(..) => return,
        };
        self.stores.coverage.hit(point);
    }

    fn consumer_note(&mut self, note: &consumer::Note) {
        use consumer::Note as N;
        let point = match note {
            N::Gained(_, _, position) => {
                self.stores
                    .coverage
                    .hit_if(!position.clean, "consumer gained an unclean lane");
                "consumer gained a lane"
            }
            N::Lost(_) => "consumer lost a lane",
            N::Fenced(_) => "consumer was fenced",
            N::Did(counts) => {
                let met = [
                    (counts.applied, "event applied"),
                    (counts.duplicates, "duplicate dropped"),
                    (counts.voids, "void passed"),
                    (counts.parked, "key parked"),
                    (counts.queued, "event queued behind its key"),
                    (counts.unparked, "key un-parked"),
                    (counts.skipped, "event skipped"),
                ];
                for (count, point) in met {
                    self.stores.coverage.hit_if(count > 0, point);
                }
                return;
            }
            N::Gap { .. } => "consumer met a gap",
            N::StreamRestarted => "consumer saw the stream restart",
            N::Breaker(..) => "consumer breaker",
            N::Outage(..) => "consumer outage",
            N::Forked(..) | N::Halted(..) => return,
        };
        self.stores.coverage.hit(point);
    }
}

fn stores(knobs: &Knobs, options: &Options, clocks: &[Clock; 3], seed: u64) -> Stores {
    let settings = Settings {
        lineage: Lineage(Uuid::from_u128(7)),
        name: "sim".into(),
        lanes: knobs.lanes,
        archive: knobs.archive,
    };
    let stream = MemoryStream::new(clocks[1].clone());
    stream.limit_payload(PAYLOAD_MAX);
    let inside = Rc::new(RefCell::new(Inside {
        knobs: knobs.clone(),
        canary: options.canary,
        rng: Rng::with_seed(seed),
        chaos: true,
        killed: false,
        drop_next: false,
        commits: Vec::new(),
        met: Vec::new(),
    }));
    Stores {
        outbox: MemoryOutbox::new(clocks[0].clone(), settings),
        stream,
        db: Db {
            inbox: MemoryInbox::new(clocks[2].clone()),
            inside: inside.clone(),
        },
        handler: SimHandler(inside.clone()),
        inside,
        options: inbox::Options {
            policy: knobs.policy,
            attempts_max: 3,
            backoff_micros: 200_000,
            crashes_max: 2,
            ..inbox::Options::default()
        },
        canary: options.canary,
        truth: Truth::default(),
        coverage: Coverage::default(),
    }
}

fn hold_options(knobs: &Knobs) -> ownership::Options {
    ownership::Options {
        ttl: knobs.ttl,
        label: "sim".into(),
    }
}

fn relay_options(knobs: &Knobs) -> relay::Options {
    relay::Options {
        hold: hold_options(knobs),
        batch_max: knobs.plan_max,
        backoff_max: Duration::from_secs(1),
        ..relay::Options::default()
    }
}

fn consumer_options(knobs: &Knobs) -> consumer::Options {
    consumer::Options {
        hold: hold_options(knobs),
        batch_max: knobs.apply_max,
        backoff_max: Duration::from_secs(1),
        breaker_keys: 3,
        ..consumer::Options::new(Start::Earliest)
    }
}

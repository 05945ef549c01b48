//! The world: virtual time, processes, calls on their way, and what goes wrong.

mod calls;
mod notes;
mod outside;
mod process;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use tidegate_core::Uuid;
use tidegate_core::inbox::{self, Start, consumer};
use tidegate_core::lane::{Lineage, ownership};
use tidegate_core::lease::Nonce;
use tidegate_core::memory::inbox::MemoryInbox;
use tidegate_core::memory::{Clock, MemoryOutbox, MemoryStream};
use tidegate_core::outbox::{Settings, relay};
use tidegate_core::time::micros;

use super::check::{Checked, State, Truth, ensure};
use super::coverage::Coverage;
use super::db::{Db, Inside};
use super::fate::Fate;
use super::handler::SimHandler;
use super::knobs::{Fault, Faults, Knobs};
use super::node::{Effect, Input, Node};
use super::perform::Stores;
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
    Wake {
        node: usize,
        boot: u32,
    },
    Execute(Box<Sent>),
    Deliver {
        sent: Box<Sent>,
        input: Input,
    },
    Ring {
        relays: bool,
    },
    Commit(Box<Transaction>),
    Do(Deed),
    Start {
        node: usize,
        boot: u32,
    },
    /// The bound of a drain has come, or a second signal.
    Cut {
        node: usize,
        boot: u32,
        again: bool,
    },
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
            let late = node >= world.knobs.relays && world.knobs.start == Start::Now;
            let latest = if late {
                micros(world.knobs.chaos) / 2
            } else {
                500_000
            };
            let at = world.rng.i64(0..latest);
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
        // What failed for a reason that has passed gets another chance.
        self.at(self.now + 1, Action::Do(Deed::Redrive));
    }

    /// Lets time pass until everything is quiet.
    fn settle(&mut self) -> Checked {
        let end = self.now + PATIENCE;
        // What was sent before is answered by then, and late executions have happened.
        self.pass(self.now + 4 * micros(self.knobs.call) + 4 * micros(self.knobs.ttl))?;
        loop {
            self.pass(self.now + 500_000)?;
            let quiet = self.quiet();
            if let Err(not_yet) = &quiet {
                let text = format!("not quiet: {not_yet}");
                self.note(|| text);
            }
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
        ensure("S1", late.is_none(), || {
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
            Action::Cut { node, boot, again } => {
                self.cut(node, boot, again);
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
        ..consumer::Options::new(knobs.start)
    }
}

//! The world: what happens when, to whom.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::HashMap;
use std::time::Duration;

use fastrand::Rng;
use tidegate_core::Ticks;
use tidegate_core::lease::machine::{Attempt, Effect, Input, Machine, Options as HolderOptions, State};
use tidegate_core::lease::{Acquire, Acquired, Nonce, Opened, Raised, Released, Renewed, Scope, Term, Token};
use tidegate_core::memory::lease::{Book, Registers};
use tidegate_core::time::micros;

use super::check::Observer;
use super::knobs::{Deed, Fault, Knobs};
use super::node::{Node, Rate, Work, attempt_of};
use super::{Canary, Coverage, Options, Outcome};

/// A request to the lease store.
#[derive(Debug, Clone)]
enum Request {
    Acquire(Acquire),
    Renew(Term),
    Release(Term),
    Raise(Term, Token),
}

/// A request to the sink.
#[derive(Debug, Clone, Copy)]
enum Call {
    Open(Token),
    Write(Token),
}

#[derive(Debug, Clone)]
enum Event {
    /// Counts only if it is the node's latest.
    Tick(u64),
    Bell,
    Reply(Input),
    /// The work does something.
    Act(Nonce),
    /// The work ends.
    End(Nonce),
    /// The sink's answer; `None` when a write was refused.
    Opened(Nonce, Token, Option<Opened>),
    Store(Attempt, Request, Option<i64>),
    Sink(Nonce, Call, Option<i64>, bool),
    Deed(Deed),
    Heal,
}

/// Where an event happens: at a node in one of its lives, or in the world.
#[derive(Debug, Clone, Copy)]
struct Place {
    node: usize,
    life: u32,
}

pub(super) struct World {
    knobs: Knobs,
    canary: Option<Canary>,
    keep_trace: bool,
    rng: Rng,
    now: i64,
    queue: BinaryHeap<Reverse<(i64, u64)>>,
    events: HashMap<u64, (Place, Event)>,
    sequence: u64,
    healed: bool,
    nodes: Vec<Node>,
    book: Book,
    snapshot: Book,
    store_clock: Rate,
    registers: Registers,
    register: Option<(Token, Nonce)>,
    outage_until: i64,
    observer: Observer,
    coverage: Coverage,
    hash: u64,
    trace: Vec<String>,
    /// The term that led last, and since when.
    leader: Option<(Nonce, i64)>,
}

impl World {
    pub(super) fn new(mut knobs: Knobs, options: &Options) -> Self {
        let plan = knobs.plan();
        let mut rng = knobs.rng.clone();
        let mut world = Self {
            canary: options.canary,
            keep_trace: options.trace,
            now: 0,
            queue: BinaryHeap::new(),
            events: HashMap::new(),
            sequence: 0,
            healed: false,
            nodes: Vec::new(),
            book: Book::default(),
            snapshot: Book::default(),
            store_clock: rate(&mut rng),
            registers: Registers::default(),
            register: None,
            outage_until: 0,
            observer: Observer::default(),
            coverage: Coverage::default(),
            hash: 0xcbf2_9ce4_8422_2325,
            trace: Vec::new(),
            leader: None,
            rng,
            knobs,
        };
        for (at, deed) in plan {
            world.at(at, NOWHERE, Event::Deed(deed));
        }
        let chaos = world.knobs.chaos;
        world.at(chaos, NOWHERE, Event::Heal);
        for node in 0..world.knobs.ttls.len() {
            let clock = rate(&mut world.rng);
            let started = world.node(node, clock, 0);
            world.nodes.push(started);
            world.schedule_tick(node);
        }
        world
    }

    fn node(&mut self, node: usize, clock: Rate, life: u32) -> Node {
        let options = HolderOptions {
            ttl: self.knobs.ttls[node],
            scoped: false,
        };
        let seed = Nonce(self.rng.u128(..));
        match Machine::new(scope(), options, seed) {
            Ok(machine) => Node::new(machine, options, clock, life),
            Err(error) => unreachable!("{error}"),
        }
    }

    pub(super) fn run(mut self) -> Outcome {
        let end = self.knobs.chaos + 8 * self.knobs.ttl_max() + micros(Duration::from_secs(10));
        while let Some(Reverse((at, id))) = self.queue.pop() {
            if at > end || self.observer.violation.is_some() {
                break;
            }
            self.now = at;
            self.observer.at(at);
            if let Some((place, event)) = self.events.remove(&id) {
                self.happens(place, event);
                self.believers();
            }
        }
        self.one_leads_in_the_end(end);
        Outcome {
            violation: self.observer.violation,
            faults: self.knobs.faults,
            hash: self.hash,
            coverage: self.coverage,
            trace: self.trace,
        }
    }

    // Time.

    fn at(&mut self, at: i64, place: Place, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse((at, self.sequence)));
        self.events.insert(self.sequence, (place, event));
    }

    fn after(&mut self, by: i64, place: Place, event: Event) {
        self.at(self.now.saturating_add(by), place, event);
    }

    fn here(&self, node: usize) -> Place {
        Place {
            node,
            life: self.nodes[node].life,
        }
    }

    fn schedule_tick(&mut self, node: usize) {
        let (holder, clock) = (&self.nodes[node].holder, self.nodes[node].clock);
        let wake = holder
            .wake_at()
            .map(|wake| clock.when(wake.max(clock.read(self.now))).max(self.now));
        let (number, pending) = self.nodes[node].tick;
        if let Some(wake) = wake.filter(|wake| pending != Some(*wake)) {
            self.nodes[node].tick = (number + 1, Some(wake));
            self.at(wake, self.here(node), Event::Tick(number + 1));
        }
    }

    fn happens(&mut self, place: Place, event: Event) {
        match event {
            Event::Store(attempt, request, reply) => self.store(place, attempt, &request, reply),
            Event::Sink(nonce, call, reply, checked) => self.sink(place, nonce, call, reply, checked),
            Event::Deed(deed) => self.deed(deed),
            Event::Heal => self.heal(),
            event => {
                let node = &self.nodes[place.node];
                if node.life != place.life {
                    return;
                }
                if node.paused_until > self.now {
                    return self.at(node.paused_until, place, event);
                }
                self.at_node(place.node, &event);
            }
        }
    }

    fn at_node(&mut self, node: usize, event: &Event) {
        match *event {
            Event::Tick(number) if number != self.nodes[node].tick.0 => {}
            Event::Tick(number) => {
                self.nodes[node].tick = (number, None);
                self.step(node, Input::Tick);
            }
            Event::Bell => {
                self.coverage.hit("woken by a bell");
                self.step(node, Input::Wake);
            }
            Event::Reply(input) => self.reply(node, input),
            Event::Act(nonce) => self.act(node, nonce),
            Event::End(nonce) => self.end(node, nonce),
            Event::Opened(nonce, token, opened) => self.opened(node, nonce, token, opened),
            Event::Store(..) | Event::Sink(..) | Event::Deed(_) | Event::Heal => {}
        }
    }

    // Nodes.

    fn step(&mut self, node: usize, input: Input) {
        self.step_told(node, input, input);
    }

    /// Gives `input` to the machine; `told` is what it should have been told.
    fn step_told(&mut self, node: usize, input: Input, told: Input) {
        let local = self.nodes[node].clock.read(self.now);
        let until = self.nodes[node].holder.until();
        let effects = self.nodes[node].holder.step(local, input, self.canary);
        self.record(|| format!("node {node} {input:?} -> {effects:?}"));
        for effect in effects {
            self.perform(node, local, until, told, effect);
        }
        self.dropped_in_time(node, local);
        self.note_leader(node);
        self.schedule_tick(node);
        if matches!(self.nodes[node].holder.machine.state(), State::Stopped) {
            self.restart(node);
        }
    }

    fn perform(&mut self, node: usize, local: i64, until: i64, told: Input, effect: Effect) {
        match effect {
            Effect::Acquire {
                attempt,
                nonce,
                min_token,
            } => {
                let ask = Acquire {
                    scope: scope(),
                    nonce,
                    ttl: self.knobs.ttls[node],
                    min_token,
                    holder: String::new(),
                };
                self.send(node, attempt, Request::Acquire(ask));
            }
            Effect::Renew { attempt, term } => self.send(node, attempt, Request::Renew(term)),
            Effect::Release { attempt, term } => self.send(node, attempt, Request::Release(term)),
            Effect::Raise { attempt, term, above } => self.send(node, attempt, Request::Raise(term, above)),
            Effect::StartWork(term) => self.start(node, &term),
            Effect::CancelWork(nonce) => self.cancel(node, nonce, local, until, told),
            Effect::AbortWork(nonce) => {
                self.coverage.hit("work dropped");
                if let Some(work) = &mut self.nodes[node].work {
                    work.dropped = true;
                }
                self.after(1_000, self.here(node), Event::End(nonce));
            }
        }
    }

    fn reply(&mut self, node: usize, mut input: Input) {
        if self.nodes[node].stale(input) {
            self.coverage.hit("stale reply");
            if self.canary == Some(Canary::StaleReplyTaken)
                && let Some(attempt) = attempt_of(&mut input)
            {
                *attempt = self.nodes[node].newest;
            }
            self.stale_changes_nothing(node, input);
        } else if attempt_of(&mut input).is_some() {
            self.nodes[node].answered = true;
        }
        self.step_told(node, self.mistaken(node, input), input);
    }

    /// What a machine with a canary hears instead.
    fn mistaken(&self, node: usize, input: Input) -> Input {
        let leading = self.nodes[node].work.is_some();
        match (self.canary, input) {
            (Some(Canary::ErrorExtendsTrust), Input::Failed { attempt }) if leading => {
                Input::Renewed { attempt }
            }
            (Some(Canary::FailureIsLoss), Input::Failed { attempt }) if leading => Input::Lost { attempt },
            (_, input) => input,
        }
    }

    /// L4.
    fn stale_changes_nothing(&mut self, node: usize, input: Input) {
        let local = self.nodes[node].clock.read(self.now);
        let mut told = self.nodes[node].holder.clone();
        let mut untold = told.clone();
        let same = told.step(local, input, None) == untold.step(local, Input::Tick, None)
            && told.machine == untold.machine;
        self.observer
            .must(same, "L4", || format!("node {node} heeds the stale {input:?}"));
    }

    fn restart(&mut self, node: usize) {
        let (clock, life) = (self.nodes[node].clock, self.nodes[node].life + 1);
        self.nodes[node] = self.node(node, clock, life);
        self.record(|| format!("node {node} begins life {life}"));
        self.schedule_tick(node);
    }

    // Work.

    fn start(&mut self, node: usize, term: &Term) {
        self.observer.must(self.nodes[node].work.is_none(), "L1", || {
            format!("node {node} works twice")
        });
        self.nodes[node].work = Some(Work {
            nonce: term.nonce,
            open: None,
            drop_by: None,
            dropped: false,
        });
        self.after(0, self.here(node), Event::Act(term.nonce));
        if self.chaos(0.1) {
            self.coverage.hit("work ended by itself");
            let soon = self.rng.i64(0..2 * self.knobs.ttl_max());
            self.after(soon, self.here(node), Event::End(term.nonce));
        }
    }

    fn cancel(&mut self, node: usize, nonce: Nonce, local: i64, until: i64, told: Input) {
        let budget = self.nodes[node].budget();
        let drop_by = match told {
            Input::Stop { within } => local.saturating_add(micros(within)),
            Input::Lost { .. } if local < until => local + budget,
            _ => until + budget,
        };
        let reason = matches!(told, Input::Stop { .. } | Input::Lost { .. }) || local >= until;
        self.observer.must(reason, "L10", || {
            format!("node {node} stops its work at {local} for {told:?}, with trust until {until}")
        });
        self.coverage.hit(match told {
            Input::Stop { .. } => "stopped while leading",
            Input::Lost { .. } => "cancelled by a loss",
            _ => "trust ran out",
        });
        if let Some(work) = &mut self.nodes[node].work {
            work.drop_by = Some(drop_by);
        }
        if self.canary == Some(Canary::ReleaseBeforeDrain)
            && let Some(tenure) = self.nodes[node].holder.machine.tenure()
        {
            let term = tenure.term.clone();
            self.after(
                1_000,
                self.here(node),
                Event::Store(Attempt(0), Request::Release(term), None),
            );
        }
        if !(self.on(Fault::Deaf) && self.rng.bool()) {
            let soon = self.rng.i64(0..=2 * budget);
            self.after(soon, self.here(node), Event::End(nonce));
        }
    }

    /// L10: whoever lost its trust is dropped in time.
    fn dropped_in_time(&mut self, node: usize, local: i64) {
        if let Some(work) = &self.nodes[node].work {
            let late = work.drop_by.is_some_and(|by| local > by) && !work.dropped;
            self.observer
                .must(!late, "L10", || format!("node {node} still works at {local}"));
        }
    }

    fn end(&mut self, node: usize, nonce: Nonce) {
        if self.nodes[node]
            .work
            .take_if(|work| work.nonce == nonce)
            .is_some()
        {
            self.step(node, Input::Drained { nonce });
        }
    }

    fn act(&mut self, node: usize, nonce: Nonce) {
        let Some(work) = self.nodes[node].work.as_ref().filter(|work| work.nonce == nonce) else {
            return;
        };
        let open = work.open.filter(|_| self.rng.u8(0..8) > 0);
        let token = self.nodes[node]
            .holder
            .machine
            .tenure()
            .map(|tenure| tenure.term.token);
        let careless = self.rng.u8(0..4) == 0;
        let believes = self.nodes[node]
            .holder
            .believes(self.nodes[node].clock.read(self.now));
        match (open, token) {
            (Some(token), _) if believes || careless => self.call(node, nonce, Call::Write(token)),
            (None, Some(token)) => self.call(node, nonce, Call::Open(token)),
            _ => {}
        }
        let pause = self.rng.i64(1_000..self.knobs.ttl_max() / 4);
        self.after(pause, self.here(node), Event::Act(nonce));
    }

    fn opened(&mut self, node: usize, nonce: Nonce, token: Token, opened: Option<Opened>) {
        if let Some(work) = self.nodes[node].work.as_mut().filter(|work| work.nonce == nonce) {
            work.open = (opened == Some(Opened::Open)).then_some(token);
        }
        if let Some(Opened::Refused(register)) = opened {
            self.reply(node, Input::FenceRefused { nonce, register });
        }
    }

    // The lease store.

    fn send(&mut self, node: usize, attempt: Attempt, request: Request) {
        self.nodes[node].newest = attempt;
        self.nodes[node].answered = false;
        if self.outage_until > self.now || self.fault(Fault::Refuse) {
            self.coverage.hit("request refused");
            let soon = self.rng.i64(500..5_000);
            return self.after(soon, self.here(node), Event::Reply(Input::Failed { attempt }));
        }
        let (there, back) = self.ways();
        if let Some(there) = there {
            if self.fault(Fault::Twice) {
                self.coverage.hit("request carried out twice");
                let again = there + self.rng.i64(0..2 * self.knobs.ttl_max());
                self.after(
                    again,
                    self.here(node),
                    Event::Store(attempt, request.clone(), back),
                );
            }
            self.after(there, self.here(node), Event::Store(attempt, request, back));
        }
    }

    fn store(&mut self, place: Place, attempt: Attempt, request: &Request, reply: Option<i64>) {
        let clock = self.store_clock.read(self.now);
        let input = self.carry_out(clock, attempt, request.clone());
        self.record(|| format!("store {request:?} -> {input:?}"));
        if let Some(back) = reply {
            self.after(back, place, Event::Reply(input));
        }
    }

    fn carry_out(&mut self, clock: i64, attempt: Attempt, request: Request) -> Input {
        match request {
            Request::Acquire(ask) => self.acquire(clock, attempt, ask),
            Request::Renew(term) => self.renew(clock, attempt, &term),
            Request::Release(term) => {
                if self.book.release(&term) == Released::Vacant {
                    self.coverage.hit("released");
                    self.observer.vacant();
                    self.ring();
                }
                Input::Released { attempt }
            }
            Request::Raise(term, above) => match self.book.raise(ticks(clock), &term, above) {
                Raised::To(token) => {
                    self.coverage.hit("raised");
                    self.observer.raised(token, term.nonce);
                    Input::Raised { attempt, token }
                }
                Raised::NotHeld => {
                    self.coverage.hit("raise refused");
                    Input::Lost { attempt }
                }
            },
        }
    }

    fn acquire(&mut self, clock: i64, attempt: Attempt, ask: Acquire) -> Input {
        let wall = if self.on(Fault::Stuck) { 0 } else { clock };
        let (nonce, ttl) = (ask.nonce, micros(ask.ttl));
        let before = self.book.list(ticks(clock)).pop();
        let live = before.as_ref().is_some_and(|record| !record.remaining.is_zero());
        if self.canary == Some(Canary::OwnTtl)
            && before.is_some_and(|record| record.ttl.saturating_sub(record.remaining) >= ask.ttl)
        {
            self.book.break_lease(ticks(clock), &scope());
        }
        match self.book.acquire(ticks(clock), wall, ask) {
            Acquired::Granted(token) => {
                self.coverage.hit(if live {
                    "granted again to the same nonce"
                } else {
                    "granted"
                });
                let repeats = self.canary == Some(Canary::TokensRepeat) && !live;
                let token = Token(token.0 - u64::from(repeats && token.0 > 1));
                self.observer.granted(clock, token, nonce, ttl);
                Input::Granted { attempt, token }
            }
            Acquired::Busy { remaining, .. } => {
                self.coverage.hit("busy");
                Input::Busy { attempt, remaining }
            }
        }
    }

    fn renew(&mut self, clock: i64, attempt: Attempt, term: &Term) -> Input {
        let by_name = self.canary == Some(Canary::RenewByName)
            && self
                .book
                .list(ticks(clock))
                .iter()
                .any(|record| !record.remaining.is_zero());
        let mut renewed = self.book.renew(ticks(clock), term);
        if renewed == Renewed::Lost && self.canary == Some(Canary::RenewCreates) {
            let ask = Acquire {
                scope: scope(),
                nonce: term.nonce,
                ttl: term.ttl,
                min_token: term.token,
                holder: String::new(),
            };
            if matches!(self.book.acquire(ticks(clock), 0, ask), Acquired::Granted(_)) {
                renewed = Renewed::Held;
            }
        }
        if renewed == Renewed::Held || by_name {
            self.coverage.hit("renewed");
            self.observer.renewed(clock, term.token, term.nonce);
            Input::Renewed { attempt }
        } else {
            self.coverage.hit("renewal lost");
            Input::Lost { attempt }
        }
    }

    fn ring(&mut self) {
        for node in 0..self.nodes.len() {
            if !self.fault(Fault::LostBell) {
                let soon = self.rng.i64(100..5_000);
                self.after(soon, self.here(node), Event::Bell);
            }
        }
    }

    // The sink.

    fn call(&mut self, node: usize, nonce: Nonce, call: Call) {
        let checked = self.accepts(nonce, call);
        let (there, back) = self.ways();
        if let Some(there) = there {
            self.after(there, self.here(node), Event::Sink(nonce, call, back, checked));
        }
    }

    fn accepts(&self, nonce: Nonce, call: Call) -> bool {
        match call {
            Call::Write(token) => self.registers.accepts(&scope(), token, nonce),
            Call::Open(_) => false,
        }
    }

    fn sink(&mut self, place: Place, nonce: Nonce, call: Call, reply: Option<i64>, checked: bool) {
        let answer = match call {
            Call::Open(token) => Event::Opened(nonce, token, Some(self.open_fence(token, nonce))),
            Call::Write(token) => {
                let early = self.canary == Some(Canary::CheckThenWrite);
                let accepted = if early { checked } else { self.accepts(nonce, call) };
                self.coverage.hit(if accepted {
                    "write accepted"
                } else {
                    "write refused"
                });
                if accepted {
                    self.observer.wrote(token, nonce);
                }
                Event::Opened(nonce, token, accepted.then_some(Opened::Open))
            }
        };
        self.record(|| format!("sink {call:?} of {nonce:?} -> {answer:?}"));
        if let Some(back) = reply {
            self.after(back, place, answer);
        }
    }

    fn open_fence(&mut self, token: Token, nonce: Nonce) -> Opened {
        if self.canary == Some(Canary::EqualTokenAdmitted)
            && self.register.is_some_and(|(held, _)| held == token)
        {
            self.registers = Registers::default();
        }
        let opened = self.registers.open(&scope(), token, nonce);
        match opened {
            Opened::Open => {
                self.coverage.hit("fence opened");
                self.register = Some((token, nonce));
            }
            Opened::Refused(register) => {
                let equal = register == token;
                self.coverage.hit(if equal {
                    "fence refused an equal token"
                } else {
                    "fence refused"
                });
            }
        }
        opened
    }

    // What goes wrong.

    fn on(&self, fault: Fault) -> bool {
        self.knobs.faults.has(fault) && !self.healed
    }

    fn fault(&mut self, fault: Fault) -> bool {
        self.on(fault) && self.rng.f64() < self.knobs.intensity
    }

    fn chaos(&mut self, chance: f64) -> bool {
        !self.healed && self.rng.f64() < chance
    }

    /// How long a request and its reply take; `None` when they get lost.
    fn ways(&mut self) -> (Option<i64>, Option<i64>) {
        let (mut there, mut back) = (Some(self.way()), Some(self.way()));
        if self.fault(Fault::LostRequest) {
            self.coverage.hit("request lost");
            there = None;
        }
        if self.fault(Fault::LostReply) {
            self.coverage.hit("reply lost");
            back = None;
        }
        (there, back)
    }

    fn way(&mut self) -> i64 {
        let quick = self.rng.i64(200..5_000);
        if self.fault(Fault::Delay) {
            self.coverage.hit("request late");
            return self.rng.i64(quick..3 * self.knobs.ttl_max() / 2);
        }
        quick
    }

    fn deed(&mut self, deed: Deed) {
        self.record(|| format!("{deed:?}"));
        match deed {
            Deed::Crash { node } => {
                if self.nodes[node].work.is_some() {
                    self.coverage.hit("crash while leading");
                }
                self.restart(node);
            }
            Deed::Pause { node, for_micros } => {
                if for_micros > micros(self.knobs.ttls[node]) {
                    self.coverage.hit("pause longer than the ttl");
                }
                self.nodes[node].paused_until = self.now + for_micros;
            }
            Deed::Stop { node, within } => self.stop(node, within),
            Deed::Outage { for_micros } => {
                self.coverage.hit("outage");
                self.outage_until = self.now + for_micros;
            }
            Deed::Break => self.broken(),
            Deed::Flush => {
                self.coverage.hit("store flushed");
                self.snapshot = std::mem::take(&mut self.book);
                self.observer.flushed();
                self.excuse();
            }
            Deed::Restore => {
                self.coverage.hit("store restored");
                std::mem::swap(&mut self.book, &mut self.snapshot);
                self.observer.restored();
                self.excuse();
            }
        }
    }

    fn stop(&mut self, node: usize, within: Duration) {
        if self.nodes[node].stopping || self.nodes[node].paused_until > self.now {
            return;
        }
        self.nodes[node].stopping = true;
        if matches!(self.nodes[node].holder.machine.state(), State::Asking { .. }) {
            self.coverage.hit("stopped while asking");
        }
        self.step(node, Input::Stop { within });
    }

    fn broken(&mut self) {
        let clock = self.store_clock.read(self.now);
        if self.book.break_lease(ticks(clock), &scope()).is_some() {
            self.coverage.hit("lease broken by a person");
            self.observer.vacant();
            self.excuse();
            self.ring();
        }
    }

    /// Whoever believes now, believes for at most a ttl on the slowest clock.
    fn excuse(&mut self) {
        self.observer.excuse(self.now + self.knobs.ttl_max() * 11 / 10);
    }

    fn heal(&mut self) {
        self.healed = true;
        self.outage_until = 0;
    }

    // What is seen.

    fn believers(&mut self) {
        let believes = |(_, node): &(usize, &Node)| node.holder.believes(node.clock.read(self.now));
        let who: Vec<_> = self
            .nodes
            .iter()
            .enumerate()
            .filter(believes)
            .map(|(n, _)| n)
            .collect();
        self.observer.believers(&who);
    }

    fn note_leader(&mut self, node: usize) {
        if let Some(work) = &self.nodes[node].work
            && self.leader.is_none_or(|(nonce, _)| nonce != work.nonce)
        {
            self.leader = Some((work.nonce, self.now));
        }
    }

    /// L9: once nothing goes wrong any more, somebody leads, and goes on leading.
    fn one_leads_in_the_end(&mut self, end: i64) {
        self.now = end;
        self.observer.at(end);
        let leads = self
            .nodes
            .iter()
            .any(|node| node.holder.believes(node.clock.read(end)));
        self.observer
            .must(leads, "L9", || "nobody leads in the end".into());
        let since = self.leader.map_or(end, |(_, since)| since);
        let settled = end - 3 * self.knobs.ttl_max();
        self.observer.must(since <= settled, "L9", || {
            format!("the last leader began at {since}, although nothing went wrong any more")
        });
    }

    fn record(&mut self, what: impl Fn() -> String) {
        let line = format!("{} {}", self.now, what());
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.keep_trace {
            self.trace.push(line);
        }
    }
}

const NOWHERE: Place = Place { node: 0, life: 0 };

fn scope() -> Scope {
    match Scope::new("job") {
        Ok(scope) => scope,
        Err(error) => unreachable!("{error}"),
    }
}

fn ticks(clock: i64) -> Ticks {
    Ticks::from_micros(clock)
}

fn rate(rng: &mut Rng) -> Rate {
    Rate {
        offset: rng.i64(0..1_000_000_000),
        ppm: rng.i64(-50_000..=50_000),
    }
}

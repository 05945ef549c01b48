//! Every order of events, within bounds: two holders that are the machine that ships, a lease store and a fence
//! register that are the memory store's rules, and a network that delays, reorders and loses.
//!
//! Each promise has a broken twin, which the same check must find.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests.

use std::collections::BTreeSet;
use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model, Property};
use tidegate_core::Ticks;
use tidegate_core::lease::machine::{Attempt, Effect, Input, Machine, Options, State};
use tidegate_core::lease::{Acquire, Acquired, Nonce, Opened, Raised, Renewed, Scope, Term, Token};
use tidegate_core::memory::lease::{Book, Registers};

mod support;
use support::{count, is_complete, most_states};

/// Long enough that trust from a late reply outlives the lease: the margin is 11 s, an attempt may take 20 s.
const TTL: Duration = Duration::from_secs(100);
/// Time moves in leaps of as many seconds: shorter than an attempt's time-out, or from a late reply (17 s) to beyond
/// the end of the lease (102 s) while trust counted from that reply would last (106 s).
const LEAPS: [i64; 2] = [17, 85];
const NODES: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    TrustFromReply,
    ReleaseBeforeDrain,
    RenewByName,
    EqualTokenAdmitted,
    CheckThenWrite,
}

/// What may happen, and how often.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    leaps: u8,
    /// Messages of one node on their way; sending one more loses the oldest.
    in_flight: usize,
    stops: u8,
    breaks: u8,
    flushes: u8,
    /// Work opens a fence and writes.
    sink: bool,
}

#[derive(Debug, Clone)]
struct World {
    bounds: Bounds,
    twin: Option<Twin>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Moment {
    now: i64,
    nodes: Vec<Node>,
    network: BTreeSet<Message>,
    book: Book,
    registers: Registers,
    register: Option<(Token, Nonce)>,
    leaps: u8,
    stops: u8,
    breaks: u8,
    flushes: u8,
    /// Whose writes were accepted, in order, without repetition.
    writers: Vec<(Token, Nonce)>,
    /// A renewal was answered well to a term that is not recorded.
    created: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Node {
    machine: Machine,
    /// How far a twin's clock is held back.
    behind: i64,
    work: Option<Work>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Work {
    nonce: Nonce,
    told: bool,
    open: Option<Token>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Message {
    node: usize,
    sent: i64,
    attempt: Attempt,
    body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Body {
    Acquire(Nonce, Token),
    Renew(Token, Nonce),
    Release(Token, Nonce),
    Raise(Token, Nonce, Token),
    Granted(Token),
    Busy(Duration),
    Renewed,
    Lost,
    Raised(Token),
    Released,
    /// The flag is what a sink that checks too early saw.
    Write(Token, Nonce, bool),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Action {
    TimePasses(i64),
    /// The machine is ticked; one that is not is paused.
    Tick(usize),
    Deliver(Message),
    Stop(usize),
    WorkEnds(usize),
    Open(usize),
    Write(usize),
    Break,
    Flush,
}

impl Node {
    fn believes(&self, now: i64) -> bool {
        self.machine.trust().holds(ticks(now - self.behind))
    }

    fn due(&self, now: i64) -> bool {
        self.machine
            .wake_at()
            .is_some_and(|wake| wake <= ticks(now - self.behind))
    }
}

impl World {
    fn step(&self, moment: &mut Moment, node: usize, input: Input) {
        let local = ticks(moment.now - moment.nodes[node].behind);
        for effect in moment.nodes[node].machine.step(local, input) {
            self.perform(moment, node, effect);
        }
    }

    fn perform(&self, moment: &mut Moment, node: usize, effect: Effect) {
        match effect {
            Effect::Acquire {
                attempt,
                nonce,
                min_token,
            } => self.send(moment, node, attempt, Body::Acquire(nonce, min_token)),
            Effect::Renew { attempt, term } => {
                self.send(moment, node, attempt, Body::Renew(term.token, term.nonce));
            }
            Effect::Release { attempt, term } => {
                self.send(moment, node, attempt, Body::Release(term.token, term.nonce));
            }
            Effect::Raise { attempt, term, above } => {
                self.send(moment, node, attempt, Body::Raise(term.token, term.nonce, above));
            }
            Effect::StartWork(term) => {
                assert!(moment.nodes[node].work.is_none(), "a node works twice");
                moment.nodes[node].work = Some(Work {
                    nonce: term.nonce,
                    told: false,
                    open: None,
                });
            }
            Effect::CancelWork(_) => self.cancel(moment, node),
            Effect::AbortWork(_) => self.end(moment, node),
        }
    }

    fn send(&self, moment: &mut Moment, node: usize, attempt: Attempt, body: Body) {
        let is_mine = |message: &&Message| message.node == node && !matches!(message.body, Body::Write(..));
        if moment.network.iter().filter(is_mine).count() >= self.bounds.in_flight
            && let Some(oldest) = moment.network.iter().find(is_mine).cloned()
        {
            moment.network.remove(&oldest);
        }
        moment.network.insert(Message {
            node,
            sent: moment.now,
            attempt,
            body,
        });
    }

    fn cancel(&self, moment: &mut Moment, node: usize) {
        if let Some(work) = &mut moment.nodes[node].work {
            work.told = true;
        }
        if self.twin == Some(Twin::ReleaseBeforeDrain)
            && let Some(tenure) = moment.nodes[node].machine.tenure()
        {
            let body = Body::Release(tenure.term.token, tenure.term.nonce);
            self.send(moment, node, Attempt(u64::MAX), body);
        }
    }

    fn end(&self, moment: &mut Moment, node: usize) {
        if let Some(work) = moment.nodes[node].work.take() {
            self.step(moment, node, Input::Drained { nonce: work.nonce });
        }
    }

    fn deliver(&self, moment: &mut Moment, message: Message) {
        moment.network.remove(&message);
        let Message {
            node,
            sent,
            attempt,
            body,
        } = message;
        let reply = match body {
            Body::Acquire(nonce, min_token) => acquire(moment, nonce, min_token),
            Body::Renew(token, nonce) => self.renew(moment, &term(token, nonce)),
            Body::Release(token, nonce) => {
                moment.book.release(&term(token, nonce));
                Body::Released
            }
            Body::Raise(token, nonce, above) => {
                match moment.book.raise(ticks(moment.now), &term(token, nonce), above) {
                    Raised::To(token) => Body::Raised(token),
                    Raised::NotHeld => Body::Lost,
                }
            }
            Body::Write(token, nonce, early) => return self.write(moment, node, token, nonce, early),
            reply => return self.reply(moment, node, sent, attempt, &reply),
        };
        moment.network.insert(Message {
            node,
            sent,
            attempt,
            body: reply,
        });
    }

    fn reply(&self, moment: &mut Moment, node: usize, sent: i64, attempt: Attempt, body: &Body) {
        let input = match *body {
            Body::Granted(token) => Input::Granted { attempt, token },
            Body::Busy(remaining) => Input::Busy { attempt, remaining },
            Body::Renewed => Input::Renewed { attempt },
            Body::Raised(token) => Input::Raised { attempt, token },
            Body::Released => Input::Released { attempt },
            _ => Input::Lost { attempt },
        };
        if self.twin == Some(Twin::TrustFromReply)
            && matches!(input, Input::Granted { .. } | Input::Renewed { .. })
        {
            let node = &mut moment.nodes[node];
            node.behind = node.behind.max(moment.now - sent);
        }
        self.step(moment, node, input);
    }

    fn renew(&self, moment: &mut Moment, term: &Term) -> Body {
        let now = ticks(moment.now);
        let live = moment
            .book
            .list(now)
            .into_iter()
            .find(|record| !record.remaining.is_zero());
        let by_name = self.twin == Some(Twin::RenewByName) && live.is_some();
        if moment.book.renew(now, term) == Renewed::Lost && !by_name {
            return Body::Lost;
        }
        let holder = Some(label(term.nonce));
        moment.created |= !live.is_some_and(|record| record.token == term.token && record.holder == holder);
        Body::Renewed
    }

    fn open(&self, moment: &mut Moment, node: usize) {
        let Some((token, nonce)) = moment.term(node) else {
            return;
        };
        if self.twin == Some(Twin::EqualTokenAdmitted)
            && moment.register.is_some_and(|(held, _)| held == token)
        {
            moment.registers = Registers::default();
        }
        match moment.registers.open(&scope(), token, nonce) {
            Opened::Open => {
                moment.register = Some((token, nonce));
                if let Some(work) = &mut moment.nodes[node].work {
                    work.open = Some(token);
                }
            }
            Opened::Refused(register) => self.step(moment, node, Input::FenceRefused { nonce, register }),
        }
    }

    fn write(&self, moment: &mut Moment, node: usize, token: Token, nonce: Nonce, early: bool) {
        let accepted = match self.twin {
            Some(Twin::CheckThenWrite) => early,
            _ => moment.registers.accepts(&scope(), token, nonce),
        };
        if accepted && moment.writers.last() != Some(&(token, nonce)) {
            moment.writers.push((token, nonce));
        }
        if let Some(work) = moment.nodes[node]
            .work
            .as_mut()
            .filter(|work| work.nonce == nonce && !accepted)
        {
            work.open = None;
        }
    }
}

impl Moment {
    /// The term that a node works under.
    fn term(&self, node: usize) -> Option<(Token, Nonce)> {
        let tenure = self.nodes[node].machine.tenure()?;
        Some((tenure.term.token, tenure.term.nonce))
    }

    fn believers(&self) -> usize {
        self.nodes.iter().filter(|node| node.believes(self.now)).count()
    }

    /// No term wrote, then another, then the first one again.
    fn writers_in_order(&self) -> bool {
        let once: BTreeSet<_> = self.writers.iter().collect();
        once.len() == self.writers.len()
    }
}

impl Model for World {
    type State = Moment;
    type Action = Action;

    fn init_states(&self) -> Vec<Moment> {
        let node = |n| Node {
            machine: Machine::new(
                scope(),
                Options {
                    ttl: TTL,
                    scoped: false,
                },
                Nonce(n),
            )
            .unwrap(),
            behind: 0,
            work: None,
        };
        vec![Moment {
            now: 0,
            nodes: (0..NODES as u128).map(node).collect(),
            network: BTreeSet::new(),
            book: Book::default(),
            registers: Registers::default(),
            register: None,
            leaps: 0,
            stops: 0,
            breaks: 0,
            flushes: 0,
            writers: Vec::new(),
            created: false,
        }]
    }

    fn actions(&self, moment: &Moment, actions: &mut Vec<Action>) {
        if moment.leaps < self.bounds.leaps {
            actions.extend(LEAPS.map(Action::TimePasses));
        }
        actions.extend(moment.network.iter().cloned().map(Action::Deliver));
        for (n, node) in moment.nodes.iter().enumerate() {
            if node.due(moment.now) {
                actions.push(Action::Tick(n));
            }
            if moment.stops < self.bounds.stops && !matches!(node.machine.state(), State::Stopped) {
                actions.push(Action::Stop(n));
            }
            let Some(work) = node.work else { continue };
            if work.told {
                actions.push(Action::WorkEnds(n));
            }
            if self.bounds.sink {
                actions.push(if work.open.is_some() {
                    Action::Write(n)
                } else {
                    Action::Open(n)
                });
            }
        }
        if moment.breaks < self.bounds.breaks {
            actions.push(Action::Break);
        }
        if moment.flushes < self.bounds.flushes {
            actions.push(Action::Flush);
        }
    }

    fn next_state(&self, last: &Moment, action: Action) -> Option<Moment> {
        let mut moment = last.clone();
        match action {
            Action::TimePasses(seconds) => {
                moment.leaps += 1;
                moment.now += seconds;
            }
            Action::Tick(node) => self.step(&mut moment, node, Input::Tick),
            Action::Deliver(message) => self.deliver(&mut moment, message),
            Action::Stop(node) => {
                moment.stops += 1;
                let within = TTL;
                self.step(&mut moment, node, Input::Stop { within });
            }
            Action::WorkEnds(node) => self.end(&mut moment, node),
            Action::Open(node) => self.open(&mut moment, node),
            Action::Write(node) => {
                let work = moment.nodes[node].work?;
                let (token, nonce) = (work.open?, work.nonce);
                let early = moment.registers.accepts(&scope(), token, nonce);
                moment.network.insert(Message {
                    node,
                    sent: 0,
                    attempt: Attempt(0),
                    body: Body::Write(token, nonce, early),
                });
            }
            Action::Break => {
                moment.breaks += 1;
                moment.book.break_lease(ticks(moment.now), &scope())?;
            }
            Action::Flush => {
                moment.flushes += 1;
                moment.book = Book::default();
            }
        }
        Some(moment).filter(|moment| moment != last)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("L1 one believer", |world: &World, moment: &Moment| {
                let excused = world.bounds.breaks + world.bounds.flushes > 0;
                excused || moment.believers() <= 1
            }),
            Property::always("L3 no earlier term writes", |_, moment: &Moment| {
                moment.writers_in_order()
            }),
            Property::always("L7 a renewal never creates", |_, moment: &Moment| !moment.created),
            Property::sometimes("terms follow each other", |world: &World, moment: &Moment| {
                let records = moment.book.list(ticks(moment.now));
                let seen = records.iter().any(|record| record.token > Token(1));
                if world.bounds.sink {
                    moment.writers.len() > 1
                } else {
                    seen
                }
            }),
        ]
    }
}

fn acquire(moment: &mut Moment, nonce: Nonce, min_token: Token) -> Body {
    let ask = Acquire {
        scope: scope(),
        nonce,
        ttl: TTL,
        min_token,
        holder: label(nonce),
    };
    // The store's wall clock is of no use: tokens only count up, and tie after a flush.
    match moment.book.acquire(ticks(moment.now), 0, ask) {
        Acquired::Granted(token) => Body::Granted(token),
        Acquired::Busy { remaining, .. } => Body::Busy(remaining),
    }
}

fn scope() -> Scope {
    Scope::new("job").unwrap()
}

fn label(nonce: Nonce) -> String {
    format!("{:x}", nonce.0)
}

fn ticks(seconds: i64) -> Ticks {
    Ticks::from_micros(seconds * 1_000_000)
}

fn term(token: Token, nonce: Nonce) -> Term {
    Term {
        scope: scope(),
        token,
        nonce,
        ttl: TTL,
    }
}

/// Visits every state within the bounds.
fn holds(bounds: Bounds, states: usize) {
    let checker = World { bounds, twin: None }
        .checker()
        .threads(2)
        .target_state_count(most_states())
        .spawn_bfs()
        .join();
    println!("{} states visited", checker.state_count());
    is_complete("lease", checker.state_count());
    checker.assert_properties();
    assert!(checker.is_done(), "every state was visited");
    assert_eq!(checker.unique_state_count(), states);
    count("model.lease.states", states as u64);
}

/// Finds the deliberate bug.
fn is_caught(bounds: Bounds, twin: Twin, property: &'static str) {
    let world = World {
        bounds,
        twin: Some(twin),
    };
    let found = HasDiscoveries::AnyFailures;
    let checker = world
        .checker()
        .threads(2)
        .target_state_count(most_states())
        .finish_when(found)
        .spawn_bfs()
        .join();
    let path = checker
        .discovery(property)
        .expect("the broken twin must be found");
    println!(
        "{twin:?}: {} steps, {} states",
        path.into_actions().len(),
        checker.unique_state_count()
    );
    count("model.lease.twins", 1);
}

/// Belief: clocks, delays and a stop.
const BELIEF: Bounds = Bounds {
    leaps: 3,
    in_flight: 1,
    stops: 1,
    breaks: 0,
    flushes: 0,
    sink: false,
};
/// A person breaks the lease.
const BROKEN: Bounds = Bounds {
    leaps: 2,
    in_flight: 2,
    stops: 0,
    breaks: 1,
    ..BELIEF
};
/// The store forgets everything, and writes are late.
const FORGOTTEN: Bounds = Bounds {
    leaps: 1,
    in_flight: 2,
    stops: 0,
    flushes: 1,
    sink: true,
    ..BELIEF
};

#[test]
fn model_l1_one_believer_whatever_the_network_does() {
    holds(BELIEF, 523_563);
}

#[test]
fn model_l7_renewals_hold_only_for_the_recorded_term() {
    holds(BROKEN, 197_265);
}

#[test]
fn model_l3_no_earlier_term_writes_although_the_store_forgot() {
    holds(FORGOTTEN, 211_453);
}

#[test]
fn model_l1_twin_trust_from_reply() {
    is_caught(BELIEF, Twin::TrustFromReply, "L1 one believer");
}

#[test]
fn model_l1_twin_release_before_drain() {
    is_caught(BELIEF, Twin::ReleaseBeforeDrain, "L1 one believer");
}

#[test]
fn model_l7_twin_renew_by_name() {
    is_caught(BROKEN, Twin::RenewByName, "L7 a renewal never creates");
}

#[test]
fn model_l3_twin_equal_token_admitted() {
    is_caught(FORGOTTEN, Twin::EqualTokenAdmitted, "L3 no earlier term writes");
}

#[test]
fn model_l3_twin_check_then_write() {
    is_caught(FORGOTTEN, Twin::CheckThenWrite, "L3 no earlier term writes");
}

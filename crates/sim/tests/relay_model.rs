//! Model check: two relays, an outbox, a stream that loses entries; every order of events within bounds.
//!
//! Each action calls the production machine and the memory stores. The actions: a request is carried out and its
//! reply comes, at once or later; a reply or request is lost; a request is carried out long after it was given up; a
//! lane's lease is lost; a relay ends and comes back as another member; the stream loses its tail or everything;
//! time passes. Each broken twin puts one bug at the edge of a store and must be found.

#![allow(clippy::panic)] // Tests.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Property};
use tidegate_core::event::Draft;
use tidegate_core::lane::{Held, LaneId, Lineage, ownership};
use tidegate_core::lease::Nonce;
use tidegate_core::memory::{Clock, MemoryOutbox, MemoryStream, outbox, stream};
use tidegate_core::outbox::relay::{Effect, Input, Machine, Options};
use tidegate_core::outbox::{LaneState, ParkReply, Planned, Refill, Settings, Turned};
use tidegate_core::store::{OutboxStore, Sink};
use tidegate_core::stream::{Appended, Chain, Register};
use tidegate_core::{Error, Event, Reply, Ticks, Timestamp, Uuid};

mod support;
use support::{count, is_complete, most_states};

const LINEAGE: Lineage = Lineage(Uuid::from_u128(7));
/// Payloads above this are poison.
const PAYLOAD_MAX: usize = 1;

/// A bug at the edge of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    /// A refused append counts as one that was there already.
    RetryBySequence,
    /// A plan is answered and not committed.
    UncommittedPlan,
    /// History comes back in other numbers.
    RefillRenumbers,
}

/// The bounds of one check.
#[derive(Debug, Clone)]
struct Bounds {
    twin: Option<Twin>,
    /// Payload sizes; one above the limit is poison. All events have one key.
    rows: Vec<usize>,
    archive: bool,
    left: Left,
}

/// What may still go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Left {
    leases: u8,
    losses: u8,
    replies: u8,
    late: u8,
    crashes: u8,
    seconds: u8,
}

/// A request of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Call {
    Sent(Effect),
    /// Carried out; the reply is on its way.
    Answered(Answer),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Answer {
    Held(Option<Held<LaneState>>),
    Turned(Option<Vec<Turned>>),
    Appended(Option<Vec<Appended>>),
    Registered(Option<Vec<Option<Register>>>),
    Refilled(Option<Refill>),
    Parked(Option<ParkReply>),
    Declared(Option<Appended>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Relay {
    machine: Machine,
    calls: Vec<Call>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    relays: [Relay; 2],
    /// Requests that nobody waits for any more, with the member that sent them.
    ghosts: Vec<(Nonce, Effect)>,
    outbox: outbox::Contents,
    stream: stream::Contents,
    /// What each number was when the stream accepted it first.
    accepted: BTreeMap<u64, Option<Uuid>>,
    broken: Option<&'static str>,
    left: Left,
    now: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    /// A request is carried out; its reply waits.
    Execute(usize, usize),
    /// A reply arrives.
    Deliver(usize, usize),
    /// The outcome of a request is unknown; it was never carried out.
    Lose(usize, usize),
    /// The reply to a request that was carried out is lost.
    LoseReply(usize, usize),
    /// The outcome is unknown; it is carried out later.
    GiveUp(usize, usize),
    /// A request that was given up is carried out.
    Ghost(usize),
    LoseLease,
    Crash(usize),
    Tail,
    Flush,
    Second,
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a memory store is always ready"),
    }
}

fn lane() -> LaneId {
    LaneId {
        lineage: LINEAGE,
        slot: 0,
    }
}

fn event(index: usize, bytes: usize) -> Event {
    Draft::new("t", "k")
        .payload("x", vec![0; bytes])
        .seal(Uuid::from_u128(index as u128 + 1), Timestamp::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Pauses end at once, since time passes in seconds only.
fn machine(member: u128) -> Machine {
    let options = Options {
        hold: ownership::Options {
            ttl: Duration::from_secs(3600),
            label: String::new(),
        },
        batch_max: 2,
        audit_every: Duration::from_secs(1),
        poll_every: Duration::from_secs(1),
        backoff_min: Duration::ZERO,
        backoff_max: Duration::ZERO,
        ..Options::default()
    };
    Machine::new(options, Nonce(member))
}

impl Bounds {
    fn outbox(&self) -> MemoryOutbox {
        MemoryOutbox::new(
            Clock::default(),
            Settings {
                lineage: LINEAGE,
                name: String::new(),
                lanes: 1,
                archive: self.archive,
            },
        )
    }

    fn execute(&self, state: &mut State, member: Nonce, effect: Effect) -> Answer {
        let (store, sink) = (self.outbox(), MemoryStream::new(Clock::default()));
        store.restore(state.outbox.clone());
        sink.restore(state.stream.clone());
        let answer = self.perform(&store, &sink, member, effect);
        let after = store.contents();
        if !(self.twin == Some(Twin::UncommittedPlan)
            && after.lanes[0].state.planned > state.outbox.lanes[0].state.planned)
        {
            check_outbox(state, &after);
            state.outbox = after;
        }
        let after = sink.contents();
        check_stream(state, &after);
        state.stream = after;
        answer
    }

    fn perform(&self, store: &MemoryOutbox, sink: &MemoryStream, member: Nonce, effect: Effect) -> Answer {
        match effect {
            Effect::Hold(hold) => Answer::Held(ready(store.hold(hold)).ok()),
            Effect::Turn(turn) => Answer::Turned(ready(store.turn(turn)).ok()),
            Effect::Append(lanes) => {
                let last = lanes[0].entries.last().map_or(0, |e| e.n);
                let mut outcomes = ready(sink.append(lanes)).ok();
                if self.twin == Some(Twin::RetryBySequence) {
                    for outcome in outcomes.iter_mut().flatten() {
                        if matches!(outcome, Appended::Moved(_)) {
                            *outcome = Appended::Through(last);
                        }
                    }
                }
                Answer::Appended(outcomes)
            }
            Effect::Register(lanes) => Answer::Registered(ready(sink.register(lanes)).ok()),
            Effect::Refill {
                lane,
                token,
                from,
                limit,
            } => Answer::Refilled(self.refill(ready(store.refill(member, lane, token, from, limit)).ok())),
            Effect::Park(park) => Answer::Parked(ready(store.park(park)).ok()),
            Effect::Declare(lost, token) => Answer::Declared(ready(sink.declare_lost(lost, token)).ok()),
            Effect::Note(_) | Effect::Stopped => panic!("not a request"),
        }
    }

    /// The twin forgets the first number and counts on from there.
    fn refill(&self, refill: Option<Refill>) -> Option<Refill> {
        let Some(Refill::Events(events)) = &refill else {
            return refill;
        };
        if self.twin != Some(Twin::RefillRenumbers) || events.len() < 2 || events[0].0.n != 1 {
            return refill;
        }
        let mut chain = Chain::START;
        let shifted = (1..).zip(&events[1..]).map(|(n, (planned, _))| {
            chain = chain.next(n, planned.event.as_ref().map(|e| e.id));
            let event = planned.event.clone();
            (Planned { n, event }, chain)
        });
        Some(Refill::Events(shifted.collect()))
    }
}

/// Nothing is settled that the stream did not accept under that number.
fn check_outbox(state: &mut State, after: &outbox::Contents) {
    let before = &state.outbox;
    let from = before.lanes[0].state.settled;
    for (offset, seq) in before.books[0].plan.iter().enumerate() {
        let n = from + 1 + offset as u64;
        if n > after.lanes[0].state.settled {
            break;
        }
        let id = seq.and_then(|seq| before.books[0].rows.get(&seq)).map(|e| e.id);
        if state.accepted.get(&n) != Some(&id) {
            state.broken = Some("O1: settled and never accepted");
        }
    }
}

/// What comes is the next number, it is planned, and a number is one event for ever.
fn check_stream(state: &mut State, after: &stream::Contents) {
    let mut n = state.stream.registers.get(&lane()).map_or(0, |r| r.n);
    for (_, stored) in after.entries.range(state.stream.last + 1..) {
        n += 1;
        let id = stored.entry.event.as_ref().map(|e| e.id);
        if stored.entry.n != n {
            state.broken = Some("N3: a hole in the stream");
        }
        if n > state.outbox.lanes[0].state.planned {
            state.broken = Some("N2: appended and not planned");
        }
        if *state.accepted.entry(n).or_insert(id) != id {
            state.broken = Some("N1: one number, two events");
        }
    }
}

fn reply<T>(answer: Option<T>) -> Reply<T> {
    answer.map_or_else(
        || Reply::Refused(Error::new(tidegate_core::Code::Internal, "refused")),
        Reply::Done,
    )
}

fn arrive(answer: Answer) -> Input {
    match answer {
        Answer::Held(a) => Input::Held(reply(a)),
        Answer::Turned(a) => Input::Turned(reply(a)),
        Answer::Appended(a) => Input::Appended(reply(a)),
        Answer::Registered(a) => Input::Registered(reply(a)),
        Answer::Refilled(a) => Input::Refilled(reply(a)),
        Answer::Parked(a) => Input::Parked(reply(a)),
        Answer::Declared(a) => Input::Declared(reply(a)),
    }
}

fn unknown(call: &Call) -> Input {
    let error = || Error::unknown("lost");
    match call {
        Call::Sent(Effect::Hold(_)) | Call::Answered(Answer::Held(_)) => Input::Held(Reply::Unknown(error())),
        Call::Sent(Effect::Turn(_)) | Call::Answered(Answer::Turned(_)) => {
            Input::Turned(Reply::Unknown(error()))
        }
        Call::Sent(Effect::Append(_)) | Call::Answered(Answer::Appended(_)) => {
            Input::Appended(Reply::Unknown(error()))
        }
        Call::Sent(Effect::Register(_)) | Call::Answered(Answer::Registered(_)) => {
            Input::Registered(Reply::Unknown(error()))
        }
        Call::Sent(Effect::Refill { .. }) | Call::Answered(Answer::Refilled(_)) => {
            Input::Refilled(Reply::Unknown(error()))
        }
        Call::Sent(Effect::Park(_)) | Call::Answered(Answer::Parked(_)) => {
            Input::Parked(Reply::Unknown(error()))
        }
        Call::Sent(_) | Call::Answered(Answer::Declared(_)) => Input::Declared(Reply::Unknown(error())),
    }
}

impl State {
    fn step(&mut self, relay: usize, input: Input) {
        let now = Ticks::from_micros(self.now * 1_000_000);
        let relay = &mut self.relays[relay];
        for effect in relay.machine.step(now, input) {
            match effect {
                Effect::Note(_) | Effect::Stopped => {}
                effect => relay.calls.push(Call::Sent(effect)),
            }
        }
    }

    fn is_done(&self) -> bool {
        let (lane, book) = (&self.outbox.lanes[0], &self.outbox.books[0]);
        book.rows.is_empty() && lane.state.settled == lane.state.planned
    }
}

impl Model for Bounds {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (store, sink) = (self.outbox(), MemoryStream::new(Clock::default()));
        let rows = self.rows.iter().enumerate();
        let rows = rows.map(|(index, bytes)| event(index, *bytes)).collect();
        let written = ready(store.enqueue(rows));
        assert!(written.is_ok());
        sink.limit_payload(PAYLOAD_MAX);
        let relay = |member| Relay {
            machine: machine(member),
            calls: Vec::new(),
        };
        let mut state = State {
            relays: [relay(1), relay(2)],
            ghosts: Vec::new(),
            outbox: store.contents(),
            stream: sink.contents(),
            accepted: BTreeMap::new(),
            broken: None,
            left: self.left,
            now: 0,
        };
        state.step(0, Input::Tick);
        state.step(1, Input::Tick);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        let left = state.left;
        for (index, relay) in state.relays.iter().enumerate() {
            for (call, what) in relay.calls.iter().enumerate() {
                match what {
                    Call::Sent(_) => {
                        actions.push(Action::Execute(index, call));
                        actions.extend((left.replies > 0).then_some(Action::Lose(index, call)));
                        actions.extend((left.late > 0).then_some(Action::GiveUp(index, call)));
                    }
                    Call::Answered(_) => {
                        actions.push(Action::Deliver(index, call));
                        actions.extend((left.replies > 0).then_some(Action::LoseReply(index, call)));
                    }
                }
            }
            actions.extend((left.crashes > 0).then_some(Action::Crash(index)));
        }
        actions.extend((0..state.ghosts.len()).map(Action::Ghost));
        let owned = state.outbox.lanes[0].owner.is_some();
        actions.extend((left.leases > 0 && owned).then_some(Action::LoseLease));
        if left.losses > 0 && !state.stream.entries.is_empty() {
            actions.extend([Action::Tail, Action::Flush]);
        }
        // Time matters once something is to be noticed by looking.
        actions.extend((left.seconds > 0 && left.losses == 0).then_some(Action::Second));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Execute(relay, call) => {
                let Call::Sent(effect) = state.relays[relay].calls[call].clone() else {
                    return None;
                };
                let member = state.relays[relay].machine.member();
                let answer = self.execute(&mut state, member, effect);
                state.relays[relay].calls[call] = Call::Answered(answer);
            }
            Action::Deliver(relay, call) => {
                let Call::Answered(answer) = state.relays[relay].calls.remove(call) else {
                    return None;
                };
                state.step(relay, arrive(answer));
            }
            Action::Lose(relay, call) | Action::LoseReply(relay, call) => {
                state.left.replies -= 1;
                let call = state.relays[relay].calls.remove(call);
                state.step(relay, unknown(&call));
            }
            Action::GiveUp(relay, call) => {
                state.left.late -= 1;
                let call = state.relays[relay].calls.remove(call);
                let member = state.relays[relay].machine.member();
                state.step(relay, unknown(&call));
                if let Call::Sent(effect) = call {
                    state.ghosts.push((member, effect));
                }
            }
            Action::Ghost(ghost) => {
                let (member, effect) = state.ghosts.remove(ghost);
                self.execute(&mut state, member, effect);
            }
            Action::LoseLease => {
                state.left.leases -= 1;
                state.outbox.lanes[0].until = Ticks::from_micros(i64::MIN);
            }
            Action::Crash(relay) => {
                state.left.crashes -= 1;
                let member = state.relays[relay].machine.member();
                let calls = std::mem::take(&mut state.relays[relay].calls);
                for call in calls {
                    if let Call::Sent(effect) = call {
                        state.ghosts.push((member, effect));
                    }
                }
                state.relays[relay].machine = machine(member.0 + 10);
                state.step(relay, Input::Tick);
            }
            Action::Tail | Action::Flush => {
                state.left.losses -= 1;
                let sink = MemoryStream::new(Clock::default());
                sink.restore(state.stream.clone());
                if action == Action::Tail {
                    sink.forget_tail(1);
                } else {
                    sink.flush();
                }
                state.stream = sink.contents();
            }
            Action::Second => {
                state.left.seconds -= 1;
                state.now += 1;
                state.step(0, Input::Tick);
                state.step(1, Input::Tick);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no promise is broken", |_, state: &State| state.broken.is_none()),
            Property::always("no lane is taken for a fork", |_, state: &State| {
                state.relays.iter().all(|r| r.machine.status().forked == 0)
            }),
            Property::sometimes("everything is published and settled", |_, state: &State| {
                state.is_done()
            }),
        ]
    }
}

const NOTHING: Left = Left {
    leases: 0,
    losses: 0,
    replies: 0,
    late: 0,
    crashes: 0,
    seconds: 0,
};

/// Checks completely; returns the number of states.
fn holds(name: &str, bounds: Bounds, floor: usize) -> u64 {
    let begun = Instant::now();
    let checker = bounds
        .checker()
        .threads(2)
        .target_state_count(most_states())
        .spawn_bfs()
        .join();
    let states = checker.unique_state_count();
    println!(
        "{name}: {states} of {} states, depth {}, {:?}",
        checker.state_count(),
        checker.max_depth(),
        begun.elapsed()
    );
    for (property, path) in checker.discoveries() {
        if property != "everything is published and settled" {
            println!("{property}: {:?}", path.into_actions());
        }
    }
    is_complete(name, checker.state_count());
    checker.assert_properties();
    assert!(
        states >= floor,
        "{name}: {states} states where at least {floor} are expected"
    );
    states as u64
}

/// Two rows, an archive, no twin.
fn bounds(left: Left) -> Bounds {
    Bounds {
        twin: None,
        rows: vec![1, 1],
        archive: true,
        left,
    }
}

#[test]
fn no_order_of_events_breaks_a_promise() {
    let rows = |rows: &[usize], left| Bounds {
        rows: rows.to_vec(),
        ..bounds(left)
    };
    let checks = [
        (
            "two lost leases, a lost reply, a loss",
            bounds(Left {
                leases: 2,
                losses: 1,
                replies: 1,
                ..NOTHING
            }),
            200_000,
        ),
        (
            "three rows, two lost leases, a loss",
            rows(
                &[1, 1, 1],
                Left {
                    leases: 2,
                    losses: 1,
                    ..NOTHING
                },
            ),
            30_000,
        ),
        (
            "a loss that is noticed by looking",
            bounds(Left {
                losses: 1,
                seconds: 1,
                ..NOTHING
            }),
            8_000,
        ),
        (
            "a request that comes long after it was given up",
            bounds(Left {
                leases: 2,
                late: 1,
                ..NOTHING
            }),
            100_000,
        ),
        (
            "poison before two others, a late request",
            rows(
                &[2, 1, 1],
                Left {
                    leases: 1,
                    late: 1,
                    ..NOTHING
                },
            ),
            100_000,
        ),
        (
            "poison before two others, a lost reply",
            rows(
                &[2, 1, 1],
                Left {
                    leases: 1,
                    replies: 1,
                    ..NOTHING
                },
            ),
            50_000,
        ),
        (
            "a crash with requests on their way",
            bounds(Left {
                crashes: 1,
                leases: 1,
                losses: 1,
                ..NOTHING
            }),
            20_000,
        ),
        (
            "no archive",
            Bounds {
                archive: false,
                ..bounds(Left {
                    leases: 1,
                    losses: 1,
                    replies: 1,
                    ..NOTHING
                })
            },
            50_000,
        ),
    ];
    let states = checks
        .into_iter()
        .map(|(name, bounds, floor)| holds(name, bounds, floor))
        .sum();
    count("relay_model_states", states);
}

#[test]
fn each_broken_twin_is_found() {
    let twins = [
        (Twin::RetryBySequence, 1),
        (Twin::UncommittedPlan, 0),
        (Twin::RefillRenumbers, 1),
    ];
    for (twin, losses) in twins {
        let world = Bounds {
            twin: Some(twin),
            rows: vec![1, 1, 1],
            ..bounds(Left {
                leases: 1,
                losses,
                replies: 1,
                ..NOTHING
            })
        };
        let checker = world
            .checker()
            .threads(2)
            .target_state_count(most_states())
            .finish_when(HasDiscoveries::AnyFailures)
            .spawn_bfs()
            .join();
        let found = checker.discovery("no promise is broken");
        let Some(path) = found else {
            panic!(
                "{twin:?} was not found in {} states",
                checker.unique_state_count()
            );
        };
        println!("{twin:?}: {:?}", path.into_actions());
    }
}

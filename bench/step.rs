//! Steps of the relay machine per second: a plan, an append and a settle of full batches, with nobody to wait for.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_precision_loss)]

#[path = "support.rs"]
#[allow(
    dead_code,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unchecked_time_subtraction
)]
mod support;

use std::time::Instant;

use support::{Options, Report, median};
use tidegate_core::lane::{Held, LaneId, Lineage, Owned};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::outbox::relay::{self, Effect, Input, Machine};
use tidegate_core::outbox::{LaneState, LaneTurned, Planned, Turned};
use tidegate_core::stream::{Appended, Chain, Register};
use tidegate_core::{Draft, Event, Reply, Ticks, Timestamp, Uuid};

const LANES: u16 = 64;
const PER_LANE: u64 = 16;

fn main() {
    let options = Options::read();
    let mut report = Report::new("step", &options);
    let mut rounds: Vec<_> = (0..options.rounds).map(|_| round(options.events)).collect();
    let mut steps: Vec<_> = rounds.iter().map(|r| r.0).collect();
    let mut events: Vec<_> = rounds.drain(..).map(|r| r.1).collect();
    report.number("relay_steps_per_s", median(&mut steps));
    report.number("relay_events_per_s", median(&mut events));
    report.finish();
}

/// Steps and events a second, until this many events are settled.
fn round(events: usize) -> (f64, f64) {
    let mut world = World::new();
    let began = Instant::now();
    let mut inputs = vec![Input::Tick];
    while world.settled < events as u64 {
        let input = inputs.pop().unwrap_or(Input::Rung);
        world.steps += 1;
        world.now += 1;
        let now = Ticks::from_micros(world.now);
        for effect in world.machine.step(now, input) {
            inputs.extend(world.answer(effect));
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    (world.steps as f64 / seconds, world.settled as f64 / seconds)
}

/// Answers each effect at once, as a store and a sink without faults would.
struct World {
    machine: Machine,
    event: Event,
    planned: Vec<u64>,
    settled: u64,
    steps: u64,
    now: i64,
}

impl World {
    fn new() -> Self {
        let event = Draft::new("bench", "key").payload("application/json", vec![b'x'; 256]);
        Self {
            machine: Machine::new(relay::Options::default(), Nonce(1)),
            event: event.seal(Uuid::nil(), Timestamp::default()).unwrap(),
            planned: vec![0; usize::from(LANES)],
            settled: 0,
            steps: 0,
            now: 0,
        }
    }

    fn answer(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Hold(_) => Some(Input::Held(Reply::Done(held()))),
            Effect::Register(lanes) => {
                let register = |_| {
                    Some(Register {
                        n: 0,
                        token: Token(1),
                        chain: Chain::START,
                    })
                };
                Some(Input::Registered(Reply::Done(
                    lanes.into_iter().map(register).collect(),
                )))
            }
            Effect::Turn(turn) => {
                let turned = turn.lanes.into_iter().map(|lane| self.turned(&lane)).collect();
                Some(Input::Turned(Reply::Done(turned)))
            }
            Effect::Append(lanes) => {
                let through = |a: tidegate_core::stream::LaneAppend| {
                    Appended::Through(a.entries.last().map_or(0, |e| e.n))
                };
                Some(Input::Appended(Reply::Done(
                    lanes.into_iter().map(through).collect(),
                )))
            }
            _ => None,
        }
    }

    fn turned(&mut self, turn: &tidegate_core::outbox::LaneTurn) -> Turned {
        let planned = &mut self.planned[usize::from(turn.lane.slot)];
        let count = u64::from(turn.plan).min(PER_LANE);
        let events = (*planned + 1..=*planned + count).map(|n| Planned {
            n,
            event: Some(self.event.clone()),
        });
        let outcome = LaneTurned::Planned {
            events: events.collect(),
            more: true,
        };
        *planned += count;
        if turn.settle.is_some() {
            self.settled += PER_LANE;
        }
        Turned {
            lane: turn.lane,
            outcome,
        }
    }
}

fn held() -> Held<LaneState> {
    let owned = (0..LANES).map(|slot| Owned {
        lane: lane(slot),
        token: Token(1),
        state: LaneState::default(),
    });
    Held {
        members: 1,
        lanes: u32::from(LANES),
        owned: owned.collect(),
    }
}

fn lane(slot: u16) -> LaneId {
    LaneId {
        lineage: Lineage(Uuid::nil()),
        slot,
    }
}

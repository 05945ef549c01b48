//! Machine steps per second: the rules alone, with answers made up between the steps, outside the measured time.
#![allow(
    clippy::type_complexity,
    clippy::default_trait_access,
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_precision_loss
)]

#[path = "support.rs"]
#[allow(dead_code, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use support::{Options, Report, median};
use tidegate::inbox::{Applied, Batch, LaneApplied, Position, Start, consumer};
use tidegate::lane::{Held, LaneId, Lineage, Owned};
use tidegate::leases::machine as holder;
use tidegate::leases::{Nonce, Scope, Token};
use tidegate::outbox::{LaneState, LaneTurned, Planned, Turn, Turned, relay};
use tidegate::stream::{Appended, Chain, Entry, EntryId, LaneAppend, Page, Register, Registers};
use tidegate::{Draft, Event, Timestamp, Uuid};
use tidegate_core::time::Now;
use tidegate_core::{Reply, Ticks};

const LANES: u16 = 64;
/// Events of one lane in one plan or page: a batch has about a thousand over all lanes.
const BURST: u64 = 16;
const TOKEN: Token = Token(1);
const STEPS: u32 = 20_000;

fn main() {
    let options = Options::read();
    let mut report = Report::new("step", &options);
    let kinds: [(&str, fn() -> Measured); 3] =
        [("relay", relaying), ("consumer", consuming), ("holder", holding)];
    for (name, run) in kinds {
        let rounds: Vec<_> = (0..options.rounds).map(|_| run()).collect();
        let mut rates: Vec<_> = rounds
            .iter()
            .map(|m| f64::from(STEPS) / m.time.as_secs_f64())
            .collect();
        report.number(&format!("{name}_steps_per_s"), median(&mut rates));
        if rounds[0].events > 0 {
            let mut nanos: Vec<_> = rounds
                .iter()
                .map(|m| m.time.as_secs_f64() * 1e9 / m.events as f64)
                .collect();
            report.number(&format!("{name}_ns_per_event"), median(&mut nanos));
        }
    }
    report.finish();
}

/// Time inside the machine, and events that went through it.
#[derive(Default)]
struct Measured {
    time: Duration,
    events: u64,
}

/// Feeds a machine: each step is timed, its effects are answered in order.
fn drive<I, E>(
    first: I,
    idle: impl Fn() -> I,
    mut step: impl FnMut(Now, I) -> Vec<E>,
    mut answer: impl FnMut(E) -> Option<I>,
) -> Duration {
    let mut time = Duration::ZERO;
    let mut waiting = std::collections::VecDeque::from([first]);
    for at in 0..STEPS {
        let now = Now {
            ticks: Ticks::from_micros(i64::from(at) * 100),
            wall: Timestamp::from_micros(i64::from(at) * 100),
        };
        let input = waiting.pop_front().unwrap_or_else(&idle);
        let began = Instant::now();
        let effects = step(now, input);
        time += began.elapsed();
        waiting.extend(effects.into_iter().filter_map(&mut answer));
    }
    time
}

fn lane(slot: u16) -> LaneId {
    LaneId {
        lineage: Lineage(Uuid::from_u128(1)),
        slot,
    }
}

fn event(n: u64) -> Event {
    let draft = Draft::new("bench", "some-key").payload("application/json", vec![b'x'; 256]);
    draft
        .seal(Uuid::from_u128(n.into()), Timestamp::default())
        .unwrap()
}

fn all_lanes<S: Copy>(state: S) -> Held<S> {
    let owned = (0..LANES).map(|slot| Owned {
        lane: lane(slot),
        token: TOKEN,
        state,
    });
    Held {
        members: 1,
        lanes: LANES.into(),
        owned: owned.collect(),
    }
}

fn relaying() -> Measured {
    let mut machine = relay::Machine::new(relay::Options::default(), Nonce(1));
    let mut planned = [0; LANES as usize];
    let mut events = 0;
    let time = drive(
        relay::Input::Tick,
        || relay::Input::Rung,
        |now, input| machine.step(now.ticks, input),
        |effect| {
            Some(match effect {
                relay::Effect::Hold(_) => relay::Input::Held(Reply::Done(all_lanes(LaneState::default()))),
                relay::Effect::Turn(turn) => relay::Input::Turned(Reply::Done(turned(&turn, &mut planned))),
                relay::Effect::Register(lanes) => {
                    let registers = lanes.iter().map(|_| Some(Register::default())).collect();
                    relay::Input::Registered(Reply::Done(registers))
                }
                relay::Effect::Append(lanes) => {
                    events += lanes.iter().map(|lane| lane.entries.len() as u64).sum::<u64>();
                    relay::Input::Appended(Reply::Done(lanes.iter().map(through).collect()))
                }
                _ => return None,
            })
        },
    );
    Measured { time, events }
}

fn through(append: &LaneAppend) -> Appended {
    Appended::Through(append.entries.last().map_or(0, |entry| entry.n))
}

fn turned(turn: &Turn, planned: &mut [u64; LANES as usize]) -> Vec<Turned> {
    let one = |t: &tidegate::outbox::LaneTurn| {
        let last = &mut planned[usize::from(t.lane.slot)];
        let wanted = BURST.min(t.plan.into());
        let events = (*last + 1..=*last + wanted).map(|n| Planned {
            n,
            event: Some(event(n)),
        });
        let events = events.collect();
        *last += wanted;
        let outcome = LaneTurned::Planned { events, more: true };
        Turned {
            lane: t.lane,
            outcome,
        }
    };
    turn.lanes.iter().map(one).collect()
}

/// An endless stream in memory: pages are made as they are asked for.
#[derive(Default)]
struct Tape {
    position: u64,
    ends: BTreeMap<u16, (u64, Chain)>,
}

impl Tape {
    fn page(&mut self, limit: u32) -> Page {
        let entries: Vec<_> = (0..limit).map(|_| self.next()).collect();
        let scanned = EntryId(0, self.position);
        Page {
            incarnation: Uuid::nil(),
            entries,
            scanned,
            last: EntryId(0, u64::MAX),
        }
    }

    fn next(&mut self) -> Entry {
        self.position += 1;
        let slot = u16::try_from(self.position % u64::from(LANES)).unwrap();
        let end = self.ends.entry(slot).or_insert((0, Chain::START));
        let n = end.0 + 1;
        // What the chain holds is the apply's business, not the machine's.
        *end = (n, Chain::START);
        Entry {
            id: EntryId(0, self.position),
            lane: lane(slot),
            n,
            chain: Chain::START,
            event: Some(event(n)),
        }
    }
}

fn consuming() -> Measured {
    let mut machine = consumer::Machine::new(consumer::Options::new(Start::Earliest), Nonce(1));
    let mut tape = Tape::default();
    let mut events = 0;
    let time = drive(
        consumer::Input::Tick,
        || consumer::Input::Rung,
        |now, input| machine.step(now, input),
        |effect| {
            Some(match effect {
                consumer::Effect::Hold(_) => {
                    consumer::Input::Held(Reply::Done(all_lanes(Position::EARLIEST)))
                }
                consumer::Effect::Registers => consumer::Input::Registers(Reply::Done(Registers {
                    incarnation: Uuid::nil(),
                    lanes: (0..LANES).map(|slot| (lane(slot), Register::default())).collect(),
                })),
                consumer::Effect::Discover(_) => consumer::Input::Discovered(Reply::Done(())),
                consumer::Effect::Read { limit, .. } => consumer::Input::Page(Reply::Done(tape.page(limit))),
                consumer::Effect::Apply(batch) => {
                    events += batch
                        .lanes
                        .iter()
                        .map(|lane| lane.entries.len() as u64)
                        .sum::<u64>();
                    consumer::Input::Applied(Reply::Done(applied(&batch)))
                }
                consumer::Effect::Retry(_) => consumer::Input::Retried(Reply::Done(Default::default())),
                consumer::Effect::MoveCursors(_) => consumer::Input::CursorsMoved(Reply::Done(0)),
                _ => return None,
            })
        },
    );
    Measured { time, events }
}

fn applied(batch: &Batch) -> Applied {
    let at = |lane: &tidegate::inbox::LaneBatch| {
        let last = lane.entries.last().unwrap();
        let position = Position {
            hw: last.n,
            chain: last.chain,
            cursor: lane.cursor,
            clean: false,
        };
        (lane.lane, LaneApplied::At(position))
    };
    Applied {
        lanes: batch.lanes.iter().map(at).collect(),
        ..Applied::default()
    }
}

/// One lease for the whole run, renewed each time it is due.
fn holding() -> Measured {
    let options = holder::Options::default();
    let scope = Scope::new("bench").unwrap();
    let mut machine = holder::Machine::new(scope, options, Nonce(1)).unwrap();
    let time = drive(
        holder::Input::Tick,
        || holder::Input::Tick,
        |now, input| machine.step(Ticks::from_micros(now.ticks.as_micros() * 10_000), input),
        |effect| match effect {
            holder::Effect::Acquire { attempt, .. } => Some(holder::Input::Granted {
                attempt,
                token: TOKEN,
            }),
            holder::Effect::Renew { attempt, .. } => Some(holder::Input::Renewed { attempt }),
            _ => None,
        },
    );
    Measured { time, events: 0 }
}

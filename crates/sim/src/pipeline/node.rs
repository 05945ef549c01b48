//! A process: a machine, a clock that runs at its own rate, and calls on their way.

use std::collections::BTreeMap;

use tidegate_core::inbox::consumer;
use tidegate_core::lane::LaneId;
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::outbox::relay;
use tidegate_core::time::Now;
use tidegate_core::{Error, Reply, Ticks, Timestamp};

/// One of the two kinds of worker.
#[derive(Debug)]
pub(super) enum Machine {
    Relay(Box<relay::Machine>),
    Consumer(Box<consumer::Machine>),
}

/// What a machine is told.
#[derive(Debug)]
pub(super) enum Input {
    Tick,
    Rung,
    Stop,
    Relay(relay::Input),
    Consumer(consumer::Input),
}

/// What a machine asks for.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    Relay(relay::Effect),
    Consumer(consumer::Effect),
}

/// A process.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) machine: Machine,
    pub(super) member: Nonce,
    /// Counts starts: replies to an earlier life are dropped.
    pub(super) boot: u32,
    pub(super) up: bool,
    pub(super) stopping: bool,
    /// Its drain was cut: by its bound, or by a second signal.
    pub(super) cut: bool,
    /// Stands still until then.
    pub(super) paused_until: i64,
    /// Millionths by which the clock is fast or slow.
    pub(super) drift: i64,
    pub(super) wall_offset: i64,
    /// When the machine is to be ticked.
    pub(super) wake: Option<i64>,
    /// Lanes and tokens of each call without a reply that works in lanes.
    pub(super) in_flight: BTreeMap<u64, Vec<(LaneId, Token)>>,
    /// Ticks in a row at one moment.
    pub(super) spins: (i64, u32),
}

const MILLION: i64 = 1_000_000;

impl Node {
    pub(super) fn new(machine: Machine, member: Nonce, drift: i64) -> Self {
        Self {
            machine,
            member,
            boot: 0,
            up: true,
            stopping: false,
            cut: false,
            paused_until: 0,
            drift,
            wall_offset: 0,
            wake: None,
            in_flight: BTreeMap::new(),
            spins: (0, 0),
        }
    }

    pub(super) fn is_relay(&self) -> bool {
        matches!(self.machine, Machine::Relay(_))
    }

    /// A new process in the place of this one.
    pub(super) fn reborn(&mut self, machine: Machine, member: Nonce, drift: i64) {
        let boot = self.boot + 1;
        *self = Self {
            boot,
            ..Self::new(machine, member, drift)
        };
    }

    /// Both clocks of this process at true time `now`.
    pub(super) fn clock(&self, now: i64) -> Now {
        Now {
            ticks: Ticks::from_micros(now + now * self.drift / MILLION),
            wall: Timestamp::from_micros(now + self.wall_offset),
        }
    }

    /// The first true time at which this process's clock shows at least `ticks`.
    pub(super) fn true_time(&self, ticks: Ticks) -> i64 {
        let shown = i128::from(ticks.as_micros());
        let rate = i128::from(MILLION + self.drift);
        let at = shown * i128::from(MILLION) / rate;
        let mut at = i64::try_from(at).unwrap_or(if shown < 0 { i64::MIN } else { i64::MAX });
        while at.abs() < i64::MAX / 4 && self.clock(at).ticks < ticks {
            at += 1;
        }
        at
    }

    pub(super) fn wake_at(&self) -> Option<i64> {
        let at = match &self.machine {
            Machine::Relay(machine) => machine.wake_at(),
            Machine::Consumer(machine) => machine.wake_at(),
        };
        at.map(|ticks| self.true_time(ticks))
    }

    pub(super) fn quiet(&self) -> bool {
        match &self.machine {
            Machine::Relay(machine) => machine.status().quiet,
            Machine::Consumer(machine) => machine.status().quiet,
        }
    }

    /// One step of the machine.
    pub(super) fn step(&mut self, now: i64, input: Input) -> Vec<Effect> {
        let clock = self.clock(now);
        match &mut self.machine {
            Machine::Relay(machine) => {
                let input = match input {
                    Input::Relay(input) => input,
                    Input::Rung => relay::Input::Rung,
                    Input::Stop => relay::Input::Stop,
                    _ => relay::Input::Tick,
                };
                let effects = machine.step(clock.ticks, input);
                effects.into_iter().map(Effect::Relay).collect()
            }
            Machine::Consumer(machine) => {
                let input = match input {
                    Input::Consumer(input) => input,
                    Input::Rung => consumer::Input::Rung,
                    Input::Stop => consumer::Input::Stop,
                    _ => consumer::Input::Tick,
                };
                let effects = machine.step(clock, input);
                effects.into_iter().map(Effect::Consumer).collect()
            }
        }
    }
}

impl Effect {
    /// Lanes that this works in, with the tokens it works under; empty for ownership, reads and small chores.
    pub(super) fn works_in(&self) -> Vec<(LaneId, Token)> {
        match self {
            Effect::Relay(effect) => relay_works_in(effect),
            Effect::Consumer(consumer::Effect::Apply(batch)) => {
                batch.lanes.iter().map(|l| (l.lane, l.token)).collect()
            }
            Effect::Consumer(consumer::Effect::Retry(retry)) => retry.lanes.clone(),
            Effect::Consumer(_) => Vec::new(),
        }
    }

    /// Starts work that a stopping process must not start.
    pub(super) fn is_new_work(&self) -> bool {
        use consumer::Effect as C;
        use relay::Effect as R;
        match self {
            Effect::Relay(R::Turn(turn)) => turn.lanes.iter().any(|l| l.plan > 0),
            Effect::Relay(R::Hold(hold)) | Effect::Consumer(C::Hold(hold)) => !hold.leave,
            Effect::Relay(R::Append(_) | R::Refill { .. } | R::Park(_) | R::Declare(..))
            | Effect::Consumer(C::Apply(_) | C::Retry(_)) => true,
            Effect::Relay(_) | Effect::Consumer(_) => false,
        }
    }

    /// Lanes given up by this, with their tokens.
    pub(super) fn releases(&self) -> &[(LaneId, Token)] {
        match self {
            Effect::Relay(relay::Effect::Hold(hold)) | Effect::Consumer(consumer::Effect::Hold(hold)) => {
                &hold.release
            }
            _ => &[],
        }
    }

    pub(super) fn is_hold(&self) -> bool {
        matches!(
            self,
            Effect::Relay(relay::Effect::Hold(_)) | Effect::Consumer(consumer::Effect::Hold(_))
        )
    }

    /// The handler runs in the process itself: nothing of it is carried out by a process that ended.
    pub(super) fn is_inside(&self) -> bool {
        matches!(
            self,
            Effect::Consumer(consumer::Effect::Apply(_) | consumer::Effect::Retry(_))
        )
    }

    /// The reply that says no, or that nobody knows.
    pub(super) fn failed(&self, unknown: bool) -> Input {
        match self {
            Effect::Relay(effect) => Input::Relay(relay_failed(effect, unknown)),
            Effect::Consumer(effect) => Input::Consumer(consumer_failed(effect, unknown)),
        }
    }
}

fn relay_works_in(effect: &relay::Effect) -> Vec<(LaneId, Token)> {
    use relay::Effect as R;
    match effect {
        R::Turn(turn) => turn.lanes.iter().map(|l| (l.lane, l.token)).collect(),
        R::Append(lanes) => lanes.iter().map(|l| (l.lane, l.token)).collect(),
        R::Refill { lane, token, .. } => vec![(*lane, *token)],
        R::Park(park) => vec![(park.lane, park.token)],
        R::Declare(lost, token) => vec![(lost.lane, *token)],
        R::Hold(_) | R::Register(_) | R::Note(_) | R::Stopped => Vec::new(),
    }
}

fn no<T>(unknown: bool) -> Reply<T> {
    if unknown {
        Reply::Unknown(Error::unknown("simulated: no reply"))
    } else {
        let code = tidegate_core::Code::StoreUnavailable;
        Reply::Refused(Error::new(code, "simulated: refused"))
    }
}

fn relay_failed(effect: &relay::Effect, unknown: bool) -> relay::Input {
    use relay::{Effect as R, Input as I};
    match effect {
        R::Hold(_) => I::Held(no(unknown)),
        R::Turn(_) => I::Turned(no(unknown)),
        R::Append(_) => I::Appended(no(unknown)),
        R::Register(_) => I::Registered(no(unknown)),
        R::Refill { .. } => I::Refilled(no(unknown)),
        R::Park(_) => I::Parked(no(unknown)),
        R::Declare(..) => I::Declared(no(unknown)),
        R::Note(_) | R::Stopped => I::Tick,
    }
}

fn consumer_failed(effect: &consumer::Effect, unknown: bool) -> consumer::Input {
    use consumer::{Effect as C, Input as I};
    match effect {
        C::Hold(_) => I::Held(no(unknown)),
        C::Registers => I::Registers(no(unknown)),
        C::Locate(_) => I::Located(no(unknown)),
        C::Discover(_) => I::Discovered(no(unknown)),
        C::Read { .. } => I::Page(no(unknown)),
        C::Apply(_) => I::Applied(no(unknown)),
        C::Retry(_) => I::Retried(no(unknown)),
        C::MoveCursors(_) => I::CursorsMoved(no(unknown)),
        C::Note(_) | C::Stopped => I::Tick,
    }
}

//! A process: a machine, a clock that runs at its own rate, and the work.

use std::collections::HashMap;

use tidegate_core::Ticks;
use tidegate_core::lease::machine::{Attempt, Effect, Input, Machine, Options};
use tidegate_core::lease::{Nonce, Token, Trust};
use tidegate_core::time::micros;

use super::Canary;

const MILLION: i64 = 1_000_000;

/// A clock that is off by a constant, and fast or slow by so many millionths.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    pub(super) offset: i64,
    pub(super) ppm: i64,
}

impl Rate {
    /// What it shows at the world's `time`.
    pub(super) fn read(self, time: i64) -> i64 {
        self.offset + time + time * self.ppm / MILLION
    }

    /// The first time at which it shows `local` or more.
    pub(super) fn when(self, local: i64) -> i64 {
        let mut time = (i128::from(local - self.offset) * i128::from(MILLION)
            / i128::from(MILLION + self.ppm))
        .try_into()
        .unwrap_or(i64::MAX);
        while self.read(time) < local {
            time += 1;
        }
        time
    }
}

/// The machine, on a clock that a canary may hold back.
#[derive(Debug, Clone)]
pub(super) struct Holder {
    pub(super) machine: Machine,
    behind: i64,
    sent: HashMap<Attempt, i64>,
}

impl Holder {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            machine,
            behind: 0,
            sent: HashMap::new(),
        }
    }

    pub(super) fn step(&mut self, local: i64, input: Input, canary: Option<Canary>) -> Vec<Effect> {
        if canary == Some(Canary::TrustFromReply)
            && let Input::Granted { attempt, .. } | Input::Renewed { attempt } = input
            && let Some(sent) = self.sent.remove(&attempt)
        {
            self.behind = self.behind.max(local - sent);
        }
        let effects = self.machine.step(Ticks::from_micros(local - self.behind), input);
        for effect in &effects {
            if let Effect::Acquire { attempt, .. } | Effect::Renew { attempt, .. } = effect {
                self.sent.insert(*attempt, local);
            }
        }
        effects
    }

    pub(super) fn until(&self) -> i64 {
        self.machine.trust().until.as_micros().saturating_add(self.behind)
    }

    pub(super) fn believes(&self, local: i64) -> bool {
        Trust {
            until: Ticks::from_micros(self.until()),
        }
        .holds(Ticks::from_micros(local))
    }

    pub(super) fn wake_at(&self) -> Option<i64> {
        self.machine
            .wake_at()
            .map(|at| at.as_micros().saturating_add(self.behind))
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) holder: Holder,
    pub(super) options: Options,
    pub(super) clock: Rate,
    /// Counts starts: what was meant for an earlier life is dropped.
    pub(super) life: u32,
    pub(super) paused_until: i64,
    pub(super) stopping: bool,
    pub(super) work: Option<Work>,
    /// The tick that is to come: its number, and when.
    pub(super) tick: (u64, Option<i64>),
    /// The newest request.
    pub(super) newest: Attempt,
    pub(super) answered: bool,
}

/// The work of one term.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) nonce: Nonce,
    /// Set while the fence is open.
    pub(super) open: Option<Token>,
    /// It was told to stop, and must have been dropped by then, on the node's clock.
    pub(super) drop_by: Option<i64>,
    pub(super) dropped: bool,
}

impl Node {
    pub(super) fn new(machine: Machine, options: Options, clock: Rate, life: u32) -> Self {
        Self {
            holder: Holder::new(machine),
            options,
            clock,
            life,
            paused_until: 0,
            stopping: false,
            work: None,
            tick: (0, None),
            newest: Attempt::default(),
            answered: false,
        }
    }

    pub(super) fn budget(&self) -> i64 {
        micros(self.options.stop_budget())
    }

    /// Whether a reply to this attempt can still mean something.
    pub(super) fn stale(&self, input: Input) -> bool {
        match input {
            Input::Granted { attempt, .. }
            | Input::Busy { attempt, .. }
            | Input::Failed { attempt }
            | Input::Renewed { attempt }
            | Input::Lost { attempt }
            | Input::Raised { attempt, .. }
            | Input::Released { attempt } => attempt != self.newest || self.answered,
            Input::FenceRefused { nonce, .. } | Input::Drained { nonce } => {
                self.work.as_ref().is_none_or(|work| work.nonce != nonce)
            }
            Input::Tick | Input::Wake | Input::Join | Input::Stop { .. } => false,
        }
    }
}

/// The attempt that a reply answers.
pub(super) fn attempt_of(input: &mut Input) -> Option<&mut Attempt> {
    match input {
        Input::Granted { attempt, .. }
        | Input::Busy { attempt, .. }
        | Input::Failed { attempt }
        | Input::Renewed { attempt }
        | Input::Lost { attempt }
        | Input::Raised { attempt, .. }
        | Input::Released { attempt } => Some(attempt),
        _ => None,
    }
}

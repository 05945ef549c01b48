//! When a sweep runs, under one term of its lease (the protocol is on the page above).

use std::time::Duration;

use super::Step;
use crate::error::{Code, Error, Result};
use crate::lease::Nonce;
use crate::lease::draw::Draw;
use crate::time::{Ticks, micros};

/// Shortest interval: more often is a loop, not a sweep.
pub const EVERY_MIN: Duration = Duration::from_millis(100);
/// Longest interval: 30 days.
pub const EVERY_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest step: an hour, or a job that hangs would hold its lease unnoticed.
pub const STEP_LIMIT_MAX: Duration = Duration::from_secs(3600);
/// The first run waits up to a tenth of the interval, at most this: processes that start together spread out.
const SPREAD_MAX: Duration = Duration::from_secs(10);
/// The pause after a first failure; doubles with each in a row.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The pause grows to this, or to the interval when that is shorter.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// A step that did nothing and asks for more waits for something: look again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// So many failures in a row end the term: perhaps only this process cannot do it.
const HAND_OVER_AFTER: u32 = 3;

/// When to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// From the begin of one run to the begin of the next: 100 ms to 30 days. A minute keeps each run small.
    pub every: Duration,
    /// A step that takes longer is cut and counts as failed. Default 5 min: far more than a bounded batch needs.
    pub step_limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(60),
            step_limit: Duration::from_secs(300),
        }
    }
}

impl Options {
    /// Checks the limits.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] naming the option, the value and the limit.
    pub fn check(&self) -> Result<()> {
        let Self { every, step_limit } = *self;
        if !(EVERY_MIN..=EVERY_MAX).contains(&every) {
            return Err(Error::new(
                Code::OptionsInvalid,
                format!("every is {every:?}; a sweep runs at intervals between {EVERY_MIN:?} and 30 days"),
            ));
        }
        if step_limit.is_zero() || step_limit > STEP_LIMIT_MAX {
            return Err(Error::new(
                Code::OptionsInvalid,
                format!("step_limit is {step_limit:?}; it must be more than zero and at most 1 h"),
            ));
        }
        Ok(())
    }

    fn spread(&self) -> Duration {
        (self.every / 10).min(SPREAD_MAX)
    }

    fn pause(&self, failures: u32) -> Duration {
        let doubled = PAUSE_MIN * (1 << failures.clamp(1, 16).saturating_sub(1));
        doubled.min(PAUSE_MAX).min(self.every)
    }
}

/// How a term begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With a run after a short random pause; after failures in a row, with the pause they ask for.
    Spread {
        /// Of earlier terms.
        failures: u32,
    },
    /// With a run, at once; when it has ended, however it went, the machine has stopped.
    Once,
}

/// Tells a step from every other of its term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepId(pub u64);

/// What the machine hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Time passed.
    Tick,
    /// A step ended.
    Stepped(StepId, Outcome),
    /// End after the step that runs.
    Stop,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Done(Step),
    /// With an error.
    Failed,
    /// With a panic.
    Panicked,
    /// Its write was refused: the term is over.
    Lost,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Run one step of the job.
    Step(StepId),
    /// Drop this step: it took too long.
    Cut(StepId),
    /// For metrics and logs.
    Note(Note),
    /// Nothing more comes. `hand_over`: give the lease up, and campaign again.
    Stopped {
        /// False after a stop.
        hand_over: bool,
    },
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// A run began; it makes up for this many that were missed.
    Began {
        /// Besides this one.
        missed: u64,
    },
    /// A step did this much.
    Swept(u64),
    /// A run ended.
    Ended {
        /// How.
        how: How,
        /// The sum of its steps.
        done: u64,
        /// From its begin.
        took: Duration,
    },
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// There was no more.
    Done,
    /// A step failed.
    Failed,
    /// A step took too long.
    Cut,
    /// A step panicked.
    Panicked,
    /// The term was fenced.
    Lost,
    /// It was stopped between two steps; the next run goes on from the checkpoint.
    Stopped,
}

impl How {
    /// The word used in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            How::Done => "done",
            How::Failed => "failed",
            How::Cut => "cut",
            How::Panicked => "panicked",
            How::Lost => "lost",
            How::Stopped => "stopped",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New(Start),
    Waiting { until: Ticks },
    Stepping { step: StepId, sent: Ticks },
    Stopped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    began: Ticks,
    done: u64,
}

/// One job under one term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    options: Options,
    draw: Draw,
    state: State,
    /// The point of the grid that the next or the current run stands on.
    due: Ticks,
    /// Since when a run is owed; a failed run stays owed.
    owed: Option<Ticks>,
    run: Option<Run>,
    steps: u64,
    failures: u32,
    once: bool,
    stopping: bool,
}

impl Machine {
    /// Begins at its first step. Equal seeds give equal behaviour.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`]: see [`Options::check`].
    pub fn new(options: Options, seed: Nonce, start: Start) -> Result<Self> {
        options.check()?;
        Ok(Self {
            options,
            draw: Draw::new(seed),
            state: State::New(start),
            due: Ticks::default(),
            owed: None,
            run: None,
            steps: 0,
            failures: match start {
                Start::Spread { failures } => failures,
                Start::Once => 0,
            },
            once: start == Start::Once,
            stopping: false,
        })
    }

    /// When to call [`Machine::step`] with [`Input::Tick`], if nothing comes before.
    pub fn wake_at(&self) -> Option<Ticks> {
        match self.state {
            State::New(_) => Some(Ticks::from_micros(i64::MIN)),
            State::Waiting { until } => Some(until),
            State::Stepping { sent, .. } => Some(sent.after(self.options.step_limit)),
            State::Stopped => None,
        }
    }

    /// Since when a run is owed, if one is.
    pub fn owed(&self, now: Ticks) -> Option<Ticks> {
        let due = !matches!(self.state, State::New(_)) && self.due <= now;
        self.owed.or(due.then_some(self.due))
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The step that runs.
    pub fn stepping(&self) -> Option<StepId> {
        match self.state {
            State::Stepping { step, .. } => Some(step),
            _ => None,
        }
    }

    /// Takes one input at `now`; returns what to do. Time must not go back.
    ///
    /// A step past its limit is cut before its reply is looked at.
    pub fn step(&mut self, now: Ticks, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.begin_term(now);
        self.cut_if_late(now, &mut effects);
        match input {
            Input::Tick => {}
            Input::Stepped(step, outcome) => self.stepped(now, step, outcome, &mut effects),
            Input::Stop => self.stopping = true,
        }
        self.stop_if_asked(now, &mut effects);
        self.go_if_due(now, &mut effects);
        effects
    }

    fn begin_term(&mut self, now: Ticks) {
        let State::New(start) = self.state else { return };
        let pause = match start {
            Start::Once => Duration::ZERO,
            Start::Spread { failures: 0 } => self.draw.below(self.options.spread()),
            Start::Spread { failures } => self.draw.jitter(self.options.pause(failures)),
        };
        self.due = now.after(pause);
        self.state = State::Waiting { until: self.due };
    }

    fn cut_if_late(&mut self, now: Ticks, effects: &mut Vec<Effect>) {
        if let State::Stepping { step, sent } = self.state
            && sent.after(self.options.step_limit) <= now
        {
            effects.push(Effect::Cut(step));
            self.fail(now, How::Cut, effects);
        }
    }

    fn stepped(&mut self, now: Ticks, step: StepId, outcome: Outcome, effects: &mut Vec<Effect>) {
        if self.stepping() != Some(step) {
            return;
        }
        match outcome {
            Outcome::Done(step) => self.done(now, step, effects),
            Outcome::Failed => self.fail(now, How::Failed, effects),
            Outcome::Panicked => self.fail(now, How::Panicked, effects),
            Outcome::Lost => self.hand_over(now, How::Lost, effects),
        }
    }

    fn done(&mut self, now: Ticks, step: Step, effects: &mut Vec<Effect>) {
        if step.done > 0 {
            effects.push(Effect::Note(Note::Swept(step.done)));
        }
        if let Some(run) = &mut self.run {
            run.done = run.done.saturating_add(step.done);
        }
        let until = match step {
            Step { more: false, .. } => {
                self.end(now, How::Done, effects);
                self.owed = None;
                self.failures = 0;
                self.due = self.due.after(self.options.every);
                self.due
            }
            Step { done: 0, .. } => now.after(LOOK_AGAIN.min(self.options.every)),
            Step { .. } => now,
        };
        self.state = State::Waiting { until };
    }

    fn fail(&mut self, now: Ticks, how: How, effects: &mut Vec<Effect>) {
        self.failures = self.failures.saturating_add(1);
        if how == How::Panicked || self.failures.is_multiple_of(HAND_OVER_AFTER) {
            return self.hand_over(now, how, effects);
        }
        self.end(now, how, effects);
        let pause = self.draw.jitter(self.options.pause(self.failures));
        self.state = State::Waiting {
            until: now.after(pause),
        };
    }

    fn hand_over(&mut self, now: Ticks, how: How, effects: &mut Vec<Effect>) {
        self.end(now, how, effects);
        self.state = State::Stopped;
        effects.push(Effect::Stopped { hand_over: true });
    }

    fn end(&mut self, now: Ticks, how: How, effects: &mut Vec<Effect>) {
        if let Some(Run { began, done }) = self.run.take() {
            self.stopping |= self.once;
            let took = now.since(began);
            effects.push(Effect::Note(Note::Ended { how, done, took }));
        }
    }

    fn stop_if_asked(&mut self, now: Ticks, effects: &mut Vec<Effect>) {
        if self.stopping && matches!(self.state, State::Waiting { .. }) {
            self.end(now, How::Stopped, effects);
            self.state = State::Stopped;
            effects.push(Effect::Stopped { hand_over: false });
        }
    }

    fn go_if_due(&mut self, now: Ticks, effects: &mut Vec<Effect>) {
        if !matches!(self.state, State::Waiting { until } if until <= now) {
            return;
        }
        if self.run.is_none() {
            self.begin_run(now, effects);
        }
        self.steps += 1;
        let step = StepId(self.steps);
        self.state = State::Stepping { step, sent: now };
        effects.push(Effect::Step(step));
    }

    /// Stands on the latest point of the grid: whatever was missed before it, this run makes up for.
    fn begin_run(&mut self, now: Ticks, effects: &mut Vec<Effect>) {
        self.owed.get_or_insert(self.due);
        let every = micros(self.options.every).max(1);
        let missed = micros(now.since(self.due)) / every;
        self.due = Ticks::from_micros(self.due.as_micros().saturating_add(missed.saturating_mul(every)));
        self.run = Some(Run { began: now, done: 0 });
        let missed = u64::try_from(missed).unwrap_or(0);
        effects.push(Effect::Note(Note::Began { missed }));
    }
}

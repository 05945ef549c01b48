//! The pipeline in a world that goes wrong: producers, an outbox, relays, a stream, consumers, an inbox.
//!
//! One seed decides everything: sizes, workload, which kinds of fault are on and how often, and the schedule. Relays
//! and consumers are the machines that ship, on the memory stores; time is virtual. Checkers know what no process
//! knows and are written apart from production code; [`check`] has each promise as a sentence.
//!
//! A run has three phases: chaos, then all faults end and everything must become quiet within a bound, then every
//! node drains. The same seed gives the same trace, shown by [`Outcome::hash`].

pub mod canary;
pub mod check;
pub mod coverage;
mod db;
mod fate;
mod handler;
pub mod knobs;
mod node;
mod perform;
mod plan;
pub mod seeds;
mod workload;
mod world;

pub use canary::Canary;
pub use check::Violation;
pub use coverage::Coverage;
pub use knobs::{Fault, Faults, Knobs};

/// How to run a seed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// A deliberate bug.
    pub canary: Option<Canary>,
    /// Only these kinds of fault may be on; `None`: what the seed says.
    pub only: Option<Faults>,
    /// Keep a readable trace.
    pub trace: bool,
}

/// What a run showed.
#[derive(Debug)]
pub struct Outcome {
    /// The first broken promise.
    pub violation: Option<Violation>,
    /// Kinds of fault that were on.
    pub faults: Faults,
    /// A hash over everything that happened, in order.
    pub hash: u64,
    /// Coverage points met.
    pub coverage: Coverage,
    /// Inputs and effects; empty unless asked for.
    pub trace: Vec<String>,
}

/// Runs one seed.
pub fn run(seed: u64, options: &Options) -> Outcome {
    let mut knobs = Knobs::of(seed);
    if let Some(only) = options.only {
        knobs.faults = knobs.faults.and(only);
    }
    world::World::new(knobs, options).run()
}

/// Turns off one kind of fault after another as long as the same promise stays broken.
pub fn shrink(seed: u64, options: &Options, found: &Violation) -> Faults {
    let mut faults = options.only.unwrap_or(Faults::ALL).and(Knobs::of(seed).faults);
    for fault in Fault::ALL {
        let fewer = faults.without(fault);
        let only = Options {
            only: Some(fewer),
            trace: false,
            ..*options
        };
        let outcome = run(seed, &only);
        if fewer != faults && outcome.violation.is_some_and(|v| v.checker == found.checker) {
            faults = fewer;
        }
    }
    faults
}

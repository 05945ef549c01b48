//! Leases in a world that goes wrong: some holders, one lease store, one sink with a fence register.
//!
//! One seed decides everything: sizes, clocks, which kinds of fault are on, and the schedule. Holders are the machine
//! that ships, the store and the sink are the memory store's rules; time is virtual, and every clock runs at its own
//! rate, up to 5 % fast or slow. [`check`] knows what no process knows, and is written apart from production code.
//!
//! A run has two phases: chaos, then all faults end, and within a bound one holder must lead and go on leading. The
//! same seed gives the same trace, shown by [`Outcome::hash`].

mod canary;
pub mod check;
mod coverage;
mod knobs;
mod node;
mod world;

pub use canary::Canary;
pub use check::Violation;
pub use coverage::{Coverage, POINTS};
pub use knobs::{Fault, Faults};

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
    /// Everything that happened; empty unless asked for.
    pub trace: Vec<String>,
}

/// Runs one seed.
pub fn run(seed: u64, options: &Options) -> Outcome {
    let mut knobs = knobs::Knobs::of(seed);
    if let Some(only) = options.only {
        knobs.faults = knobs.faults.and(only);
    }
    world::World::new(knobs, options).run()
}

/// Turns off one kind of fault after another as long as the same promise stays broken.
pub fn shrink(seed: u64, options: &Options, found: &Violation) -> Faults {
    let mut faults = options
        .only
        .unwrap_or(Faults::ALL)
        .and(knobs::Knobs::of(seed).faults);
    for fault in Fault::ALL {
        let fewer = faults.without(fault);
        let outcome = run(
            seed,
            &Options {
                only: Some(fewer),
                trace: false,
                ..*options
            },
        );
        if outcome
            .violation
            .is_some_and(|violation| violation.id == found.id)
        {
            faults = fewer;
        }
    }
    faults
}

//! The pipeline in a world that goes wrong: seeds, kept seeds, coverage, determinism.

#![allow(clippy::panic)] // Tests.

use tidegate_sim::pipeline::coverage::POINTS;
use tidegate_sim::pipeline::{Coverage, Faults, Options, Outcome, Violation, run, seeds, shrink};

mod support;
use support::{budget, count};

const KEPT: &str = include_str!("../seeds/pipeline.txt");

/// Runs a seed; a machine that panics breaks a promise too.
fn try_run(seed: u64, options: &Options) -> Outcome {
    std::panic::catch_unwind(|| run(seed, options)).unwrap_or_else(|_| Outcome {
        violation: Some(Violation {
            checker: "panic",
            text: "see above".into(),
        }),
        faults: Faults::NONE,
        hash: 0,
        coverage: Coverage::default(),
        trace: Vec::new(),
    })
}

fn check(seed: u64, options: &Options) -> Outcome {
    let outcome = try_run(seed, options);
    if let Some(violation) = &outcome.violation {
        let faults = match violation.checker {
            "panic" => outcome.faults,
            _ => shrink(seed, options, violation),
        };
        panic!(
            "seed {seed}: {violation}\nrepeat: TIDEGATE_SIM_SEED={seed} TIDEGATE_SIM_FAULTS={faults} \
             cargo test -p tidegate-sim --test pipeline every_promise -- --nocapture\nthen keep it in crates/sim/seeds/pipeline.txt"
        );
    }
    outcome
}

/// `TIDEGATE_SIM_SEED` runs one seed and prints its trace; `TIDEGATE_SIM_FAULTS` leaves only these kinds of fault on.
fn repeat(seed: u64) {
    let only = std::env::var("TIDEGATE_SIM_FAULTS").ok();
    let only = only.map(|faults| faults.parse().unwrap());
    let options = Options {
        only,
        trace: true,
        ..Options::default()
    };
    for line in run(seed, &options).trace {
        println!("{line}");
    }
    check(seed, &options);
}

#[test]
fn every_promise_holds_in_every_world() {
    if let Ok(seed) = std::env::var("TIDEGATE_SIM_SEED") {
        return repeat(seed.parse().unwrap());
    }
    let seeds = budget("TIDEGATE_SIM_SEEDS", 200);
    let mut coverage = Coverage::default();
    for seed in 0..seeds {
        coverage.add(&check(seed, &Options::default()).coverage);
    }
    if seeds >= 200 {
        assert_eq!(coverage.missing(), [""; 0], "points that no world reached");
        count("coverage_points", POINTS.len() as u64);
    }
    count("pipeline_seeds", seeds);
}

#[test]
fn seeds_that_once_failed_hold() {
    for kept in seeds::parse(KEPT).unwrap() {
        let options = Options {
            only: Some(kept.only),
            ..Options::default()
        };
        check(kept.seed, &options);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        let (first, again) = (run(seed, &Options::default()), run(seed, &Options::default()));
        assert_eq!(first.hash, again.hash, "seed {seed}");
    }
    assert_ne!(run(1, &Options::default()).hash, run(2, &Options::default()).hash);
}

#[test]
fn a_repro_line_names_its_faults() {
    let faults: Faults = "crash,late".parse().unwrap();
    assert_eq!(faults.to_string(), "crash,late");
    assert!("crash,typo".parse::<Faults>().is_err());
}
#[test]
#[ignore]
fn cov() {
    let mut coverage = Coverage::default();
    for seed in 0..1000 {
        coverage.add(&run(seed, &Options::default()).coverage);
    }
    for p in POINTS {
        println!("{:>7} {p}", coverage.count(p));
    }
}

//! Deliberate bugs in the pipeline; each must be caught, and by the checker whose sentence it breaks.

#![allow(clippy::panic)] // Tests.

use std::collections::BTreeSet;

use tidegate_sim::pipeline::{Canary, Options, run};

mod support;
use support::{budget, count};

/// Checkers of the invariants: each must have caught something, or it may be blind.
const CHECKERS: [&str; 18] = [
    "O1", "O2", "O3", "O4", "O5", "C1", "C2", "C3", "C4", "C5", "C6", "S1", "S2", "S3", "Q1", "Q2", "Q3",
    "Q4",
];

#[test]
fn every_canary_is_caught_by_its_checker() {
    let limit = budget("TIDEGATE_CANARY_SEEDS", 300);
    let mut seeing = BTreeSet::new();
    for canary in Canary::ALL {
        let options = Options {
            canary: Some(canary),
            ..Options::default()
        };
        let caught = (0..limit).find_map(|seed| run(seed, &options).violation.map(|v| (seed, v)));
        let Some((seed, violation)) = caught else {
            panic!("{} lived through {limit} worlds", canary.name());
        };
        println!("{}: seed {seed}, {violation}", canary.name());
        seeing.insert(violation.checker);
        assert!(
            canary.checkers().contains(&violation.checker),
            "{}: seed {seed} was caught by another checker: {violation}",
            canary.name()
        );
    }
    let blind: Vec<_> = CHECKERS.iter().filter(|id| !seeing.contains(*id)).collect();
    assert!(blind.is_empty(), "checkers that caught nothing: {blind:?}");
    count("canaries_caught", Canary::ALL.len() as u64);
}

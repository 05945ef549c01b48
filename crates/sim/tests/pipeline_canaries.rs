//! Deliberate bugs in the pipeline; each must be caught, and by the checker whose sentence it breaks.

#![allow(clippy::panic)] // Tests.

use tidegate_sim::pipeline::{Canary, Options, run};

mod support;
use support::{budget, count};

#[test]
fn every_canary_is_caught_by_its_checker() {
    let limit = budget("TIDEGATE_CANARY_SEEDS", 300);
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
        assert!(
            canary.checkers().contains(&violation.checker),
            "{}: seed {seed} was caught by another checker: {violation}",
            canary.name()
        );
    }
    count("canaries_caught", Canary::ALL.len() as u64);
}

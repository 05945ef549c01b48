//! Leases in a world that goes wrong: seeds, canaries, coverage, determinism.

#![allow(clippy::panic)] // Tests.

use std::collections::BTreeSet;
use std::io::Write;

use tidegate_sim::lease::{Canary, Coverage, Options, run, shrink};

/// Each must have caught something, or it may be blind.
const CHECKERS: [&str; 7] = ["L1", "L2", "L3", "L4", "L7", "L8", "L10"];

fn budget(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Appends to the table of counts, in one write, since many test processes do.
fn count(name: &str, value: u64) {
    if let Some(path) = std::env::var_os("TIDEGATE_COUNTS_FILE") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(format!("{name} {value}\n").as_bytes()));
    }
}

/// `TIDEGATE_SIM_SEED=n` runs that one only, with its trace.
fn seeds() -> Vec<u64> {
    match std::env::var("TIDEGATE_SIM_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        Some(seed) => vec![seed],
        None => (0..budget("TIDEGATE_SIM_SEEDS", 200)).collect(),
    }
}

#[test]
fn l1_l2_l3_l4_l7_l8_l9_l10_hold_in_every_world() {
    let seeds = seeds();
    let mut coverage = Coverage::default();
    for seed in &seeds {
        let options = Options {
            trace: seeds.len() == 1,
            ..Options::default()
        };
        let outcome = run(*seed, &options);
        if let Some(violation) = outcome.violation {
            let faults = shrink(*seed, &options, &violation);
            for line in &outcome.trace {
                eprintln!("{line}");
            }
            panic!(
                "seed {seed}: {violation:?}\nfaults that matter: {faults:?}\nrepeat: TIDEGATE_SIM_SEED={seed} cargo test -p tidegate-sim --test lease in_every_world -- --nocapture"
            );
        }
        coverage.add(&outcome.coverage);
    }
    if seeds.len() >= 200 {
        assert_eq!(coverage.missing(), [""; 0], "points that no world reached");
        count(
            "sim.lease.coverage_points",
            tidegate_sim::lease::POINTS.len() as u64,
        );
    }
    count("sim.lease.worlds", seeds.len() as u64);
}

#[test]
fn every_canary_is_caught() {
    let limit = budget("TIDEGATE_CANARY_SEEDS", 500);
    let mut seeing = BTreeSet::new();
    for canary in Canary::ALL {
        let options = Options {
            canary: Some(*canary),
            ..Options::default()
        };
        let caught =
            (0..limit).find_map(|seed| run(seed, &options).violation.map(|violation| (seed, violation)));
        let Some((seed, violation)) = caught else {
            panic!("{} lived through {limit} worlds", canary.name());
        };
        println!("{}: seed {seed}, {violation:?}", canary.name());
        seeing.insert(violation.id);
        assert!(
            canary.breaks().contains(&violation.id),
            "{}: {violation:?}",
            canary.name()
        );
    }
    let blind: Vec<_> = CHECKERS.iter().filter(|id| !seeing.contains(*id)).collect();
    assert!(blind.is_empty(), "checkers that caught nothing: {blind:?}");
    count("sim.lease.canaries", Canary::ALL.len() as u64);
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for seed in 0..20 {
        let hash = || run(seed, &Options::default()).hash;
        assert_eq!(hash(), hash(), "seed {seed}");
    }
    let hashes: std::collections::HashSet<_> =
        (0..20).map(|seed| run(seed, &Options::default()).hash).collect();
    assert_eq!(hashes.len(), 20);
}

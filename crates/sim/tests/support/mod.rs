//! What the tests of the simulator share.

#![allow(dead_code, unreachable_pub)] // Each test uses a part.

use std::io::Write;

/// A number from the environment.
pub fn budget(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// The most states that one model check may visit.
pub fn most_states() -> usize {
    usize::try_from(budget("TIDEGATE_MODEL_STATES", 2_000_000)).unwrap_or(usize::MAX)
}

/// A check that had to stop has proved nothing.
pub fn is_complete(check: &str, visited: usize) {
    let most = most_states();
    assert!(
        visited < most,
        "{check}: {visited} states visited and not done; TIDEGATE_MODEL_STATES allows {most}"
    );
}

/// Appends to the table of counts, in one write, since many test processes do.
pub fn count(name: &str, value: u64) {
    if let Some(path) = std::env::var_os("TIDEGATE_COUNTS_FILE") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(format!("{name} {value}\n").as_bytes()));
    }
}

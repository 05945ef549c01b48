//! What the tests really did, for the table at the end of `./test`.

use std::io::Write;

/// Appends `name value` to the file named by `TIDEGATE_COUNTS_FILE`, when that is set. Equal names add up.
pub fn add(name: &str, value: u64) {
    let Some(path) = std::env::var_os("TIDEGATE_COUNTS_FILE") else {
        return;
    };
    let line = format!("{name} {value}\n");
    // One write, since many test processes append; without the table the tests still count.
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

/// A number from the environment, or the default.
pub fn budget(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

//! Seeds that once failed: one a line, `seed faults  # why`; replayed on each run.

use super::knobs::Faults;

/// A kept seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The seed.
    pub seed: u64,
    /// The kinds of fault it needed.
    pub only: Faults,
}

/// Reads a file of seeds.
///
/// # Errors
/// The line that is not a seed, and why.
pub fn parse(text: &str) -> Result<Vec<Kept>, String> {
    let lines = text.lines().enumerate();
    let lines = lines.map(|(number, line)| (number + 1, line.split('#').next().unwrap_or("").trim()));
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| kept(line).map_err(|why| format!("line {number}: {why}")))
        .collect()
}

fn kept(line: &str) -> Result<Kept, String> {
    let mut words = line.split_whitespace();
    let seed = words.next().unwrap_or_default();
    let seed = seed.parse().map_err(|_| format!("{seed} is not a seed"))?;
    let only = words.next().map_or(Ok(Faults::ALL), str::parse)?;
    Ok(Kept { seed, only })
}

//! The report: one table for people, one object for machines.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::text::counted;

/// Milliseconds from a commit in the service to the commit of its effect.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Latency {
    /// Half of the events were at most this late.
    pub p50: f64,
    /// Ninety-nine of a hundred were.
    pub p99: f64,
}

/// What became of a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its fault met data, and it held.
    Kept,
    /// The databases deny it.
    Broken,
    /// It was not broken, but its fault met no data.
    NotShown,
}

/// One promise with what was counted for it.
#[derive(Debug, Clone, Serialize)]
pub struct Promise {
    /// In words.
    pub promise: &'static str,
    /// What became of it.
    pub outcome: Outcome,
    /// The counts.
    pub evidence: String,
    /// Why it is not shown.
    pub reason: Option<&'static str>,
}

impl Promise {
    /// Whether the databases deny it.
    pub fn is_broken(&self) -> bool {
        self.outcome == Outcome::Broken
    }
}

/// Everything that the auditor counted.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Events of committed transactions.
    pub events_committed: u64,
    /// Events of transactions that rolled back.
    pub events_rolled_back: u64,
    /// Distinct committed events in the stream.
    pub events_published: u64,
    /// Entries of stale or repeated appends that the stream itself refused.
    pub duplicates_refused: u64,
    /// Distinct events whose effect is in the target.
    pub events_applied: u64,
    /// Committed events without an effect; after a story that ended early, those that are nowhere.
    pub lost: u64,
    /// Committed events without an effect yet, when the story ended early.
    pub on_the_way: u64,
    /// Effects or stream entries beyond the first of an event.
    pub doubled: u64,
    /// Events applied after a later event of their key.
    pub out_of_order: u64,
    /// Keys that were parked.
    pub parked: u64,
    /// Events that waited behind a parked key, were redriven and then applied.
    pub redriven: u64,
    /// Entries that the stream lost and holds again.
    pub refilled: u64,
    /// Lanes that another worker took after their owner's lease ran out.
    pub takeovers: u64,
    /// From commit to applied, kills and take-overs included.
    pub commit_to_apply_ms: Latency,
    /// Applied events over the time from the first commit to the last effect.
    pub events_per_s: f64,
    /// Workers whose wait status is SIGKILL.
    pub killed: u64,
    /// None is broken.
    pub promises_kept: bool,
    /// One by one.
    pub promises: Vec<Promise>,
    /// As given.
    pub seed: u64,
    /// Lines of the data that could not be played.
    pub lines_refused: u64,
    /// Why the story ended early.
    pub unfinished: Option<String>,
    /// Where the files are, with `--keep` or after a story that ended early.
    pub kept_in: Option<PathBuf>,
}

impl Report {
    fn not_shown(&self) -> usize {
        let not_shown = self.promises.iter().filter(|p| p.outcome == Outcome::NotShown);
        not_shown.count()
    }

    fn verdict(&self) -> String {
        match (self.promises_kept, self.not_shown()) {
            (false, _) => "A PROMISE WAS BROKEN".to_owned(),
            (true, 0) => "every promise kept".to_owned(),
            (true, n) => format!("no promise broken, {n} not shown"),
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Some(reason) => write!(f, "{reason}: {}", self.evidence),
            None => f.write_str(&self.evidence),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.promises.iter().map(|p| p.promise.len()).max().unwrap_or(0);
        let word = if self.not_shown() > 0 { 9 } else { 6 };
        for promise in &self.promises {
            let outcome = match promise.outcome {
                Outcome::Kept => "kept",
                Outcome::Broken => "BROKEN",
                Outcome::NotShown => "not shown",
            };
            writeln!(f, "{outcome:word$}  {:width$}  {promise}", promise.promise)?;
        }
        let Latency { p50, p99 } = self.commit_to_apply_ms;
        writeln!(
            f,
            "\ncommit to applied: p50 {p50:.1} ms, p99 {p99:.0} ms, kills and take-overs included; {:.0} events/s",
            self.events_per_s
        )?;
        if self.lines_refused > 0 {
            writeln!(f, "{} of the data refused", counted(self.lines_refused, "line"))?;
        }
        if let Some(dir) = &self.kept_in {
            writeln!(f, "files and logs: {}", dir.display())?;
        }
        write!(
            f,
            "{} (counted from the databases by an auditor; kills and exits are wait statuses; --json for machines)",
            self.verdict()
        )
    }
}

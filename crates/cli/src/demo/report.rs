//! The report: one table for people, one object for machines.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Milliseconds from a commit in the service to the commit of its effect.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Latency {
    /// Half of the events were at most this late.
    pub p50: f64,
    /// Ninety-nine of a hundred were.
    pub p99: f64,
}

/// One promise with what was counted for it.
#[derive(Debug, Clone, Serialize)]
pub struct Promise {
    /// In words.
    pub promise: &'static str,
    /// Whether it held.
    pub kept: bool,
    /// The counts.
    pub evidence: String,
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
    /// Committed events without an effect.
    pub lost: u64,
    /// Effects or stream entries beyond the first of an event.
    pub doubled: u64,
    /// Events applied after a later event of their key.
    pub out_of_order: u64,
    /// Keys that were parked.
    pub parked: u64,
    /// Events redriven from a parked key.
    pub redriven: u64,
    /// Entries that the stream lost and holds again.
    pub refilled: u64,
    /// Times a lane changed its relay or its consumer after its first.
    pub takeovers: u64,
    /// From commit to applied, kills and take-overs included.
    pub commit_to_apply_ms: Latency,
    /// Applied events over the time from the first commit to the last effect.
    pub events_per_s: f64,
    /// Workers ended by SIGKILL.
    pub killed: u64,
    /// All of them.
    pub promises_kept: bool,
    /// One by one.
    pub promises: Vec<Promise>,
    /// As given.
    pub seed: u64,
    /// Where the files are, with `--keep`.
    pub kept_in: Option<PathBuf>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.promises.iter().map(|p| p.promise.len()).max().unwrap_or(0);
        for promise in &self.promises {
            let kept = if promise.kept { "kept  " } else { "BROKEN" };
            writeln!(f, "{kept}  {:width$}  {}", promise.promise, promise.evidence)?;
        }
        let Latency { p50, p99 } = self.commit_to_apply_ms;
        writeln!(
            f,
            "\ncommit to applied: p50 {p50:.1} ms, p99 {p99:.0} ms, kills and take-overs included; {:.0} events/s",
            self.events_per_s
        )?;
        if let Some(dir) = &self.kept_in {
            writeln!(f, "files and logs: {}", dir.display())?;
        }
        let all = if self.promises_kept {
            "every promise kept"
        } else {
            "A PROMISE WAS BROKEN"
        };
        write!(
            f,
            "{all} (counted by an auditor that reads the databases; --json for machines)"
        )
    }
}

//! The auditor: reads the three files and asks no worker.
//!
//! What no database can know comes from the operating system by way of [`Played`]: which processes ended by SIGKILL or
//! slept, and with which status the others exited.

mod facts;
mod promises;

use tidegate::Result;

use self::facts::Facts;
use super::report::Report;
use super::script::Played;
use super::stage::Stage;

/// Counts everything the report says. `finished`: the story came to its end, so nothing may be on its way any more.
pub fn audit(stage: &Stage, played: &Played, finished: bool) -> Result<Report> {
    let facts = Facts::read(stage, finished)?;
    let promises = promises::judge(&facts, played, finished);
    Ok(Report {
        events_committed: facts.committed,
        events_rolled_back: facts.rolled_back,
        events_published: facts.published,
        duplicates_refused: facts.refused,
        events_applied: facts.applied,
        lost: facts.lost,
        on_the_way: facts.on_the_way,
        doubled: facts.doubled,
        out_of_order: facts.out_of_order,
        parked: facts.parked,
        redriven: facts.redriven,
        refilled: facts.refilled,
        takeovers: facts.takeovers,
        commit_to_apply_ms: facts.latency,
        events_per_s: facts.rate,
        killed: played.killed.len() as u64,
        promises_kept: promises.iter().all(|p| !p.is_broken()),
        promises,
        ..Report::default()
    })
}

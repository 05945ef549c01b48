//! The auditor: reads the three files and asks no worker.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use rusqlite::{Connection, Row};
use tidegate::Result;

use super::report::{Latency, Promise, Report};
use super::script::{self, Played};
use super::stage::Stage;
use super::{count, sql};

type Id = [u8; 16];

struct Flight {
    id: Id,
    committed_at: i64,
}

struct Applied {
    id: Id,
    key: String,
    line: i64,
    at: i64,
}

/// Counts everything the report says.
pub fn audit(stage: &Stage, played: &Played) -> Result<Report> {
    let (service, stream, target) = (
        stage.connect_service()?,
        stage.connect_stream()?,
        stage.connect_target()?,
    );
    let flights = rows(&service, "select event_id, committed_at from flight", |r| {
        Ok(Flight {
            id: r.get(0)?,
            committed_at: r.get(1)?,
        })
    })?;
    let committed: HashSet<Id> = flights.iter().map(|f| f.id).collect();
    let rolled_back = rows(&service, "select event_id from rolled_back", |r| {
        r.get::<_, Id>(0)
    })?;
    let entries = rows(
        &stream,
        "select event_id, register, n from tidegate_entry where event_id is not null order by register, n",
        |r| Ok((r.get::<_, Id>(0)?, r.get::<_, i64>(1)?, r.get::<_, i64>(2)?)),
    )?;
    let published: HashSet<Id> = entries.iter().map(|e| e.0).collect();
    let applied = rows(
        &target,
        "select event_id, key, line, applied_at from applied order by id",
        |r| {
            Ok(Applied {
                id: r.get(0)?,
                key: r.get(1)?,
                line: r.get(2)?,
                at: r.get(3)?,
            })
        },
    )?;
    let effects: HashSet<Id> = applied.iter().map(|a| a.id).collect();

    let mut report = Report {
        events_committed: flights.len() as u64,
        events_rolled_back: rolled_back.len() as u64,
        events_published: published.intersection(&committed).count() as u64,
        duplicates_refused: count(&stream, "select sum(refused) from tidegate_register", [])?,
        events_applied: effects.len() as u64,
        lost: committed.difference(&effects).count() as u64,
        doubled: (applied.len() - effects.len() + entries.len() - published.len()) as u64,
        out_of_order: inversions(&applied),
        parked: u64::from(played.parked.is_some()),
        redriven: played.parked.as_ref().map_or(0, |(_, events)| *events),
        refilled: script::present(&stream, &played.lost_entries)?,
        takeovers: count(&stream, include_str!("takeovers.sql"), [])?,
        commit_to_apply_ms: latency(&flights, &applied),
        events_per_s: rate(&flights, &applied),
        killed: played.killed,
        ..Report::default()
    };
    let ghosts = rolled_back
        .iter()
        .filter(|id| published.contains(*id) || effects.contains(*id))
        .count();
    let board = board_differs(&target, &applied)?;
    let gaps = count(&stream, include_str!("gaps.sql"), [])?;
    let waiting = count(&service, "select count(*) from tidegate_outbox", [])?
        + count(&target, "select count(*) from tidegate_inbox_parked_event", [])?;
    report.promises = promises(&report, played, ghosts, board, gaps, waiting);
    report.promises_kept = report.promises.iter().all(|p| p.kept);
    Ok(report)
}

fn promises(r: &Report, played: &Played, ghosts: usize, board: u64, gaps: u64, waiting: u64) -> Vec<Promise> {
    let (parked_key, parked) = played.parked.clone().unwrap_or_default();
    let lost_entries = played.lost_entries.len() as u64;
    let mut all = Vec::new();
    let mut add = |promise, kept, evidence| {
        all.push(Promise {
            promise,
            kept,
            evidence,
        });
    };
    add(
        "committed is published",
        r.events_published == r.events_committed && waiting == 0,
        format!(
            "{} committed, {} in the stream, {waiting} waiting",
            r.events_committed, r.events_published
        ),
    );
    add(
        "rolled back is never published",
        ghosts == 0 && r.events_rolled_back > 0,
        format!("{} rolled back, {ghosts} seen anywhere", r.events_rolled_back),
    );
    add(
        "nothing lost, nothing doubled",
        r.lost == 0 && r.doubled == 0 && r.events_applied == r.events_committed,
        format!(
            "{} applied, lost {}, doubled {}",
            r.events_applied, r.lost, r.doubled
        ),
    );
    add(
        "in order per key",
        r.out_of_order == 0 && board == 0 && gaps == 0,
        format!(
            "out of order {}, rows of the projection that differ {board}, lanes with holes {gaps}",
            r.out_of_order
        ),
    );
    add(
        "a kill costs one take-over, not an event",
        r.killed == 2 && r.takeovers > 0,
        format!("{} workers killed -9, lanes taken over {}", r.killed, r.takeovers),
    );
    add(
        "a stale relay appends nothing",
        played.zombies == 1 && r.doubled == 0,
        format!(
            "{} woke after its leases; {} entries refused by the stream",
            played.zombies, r.duplicates_refused
        ),
    );
    add(
        "a stream that loses its tail is refilled",
        r.refilled == lost_entries && lost_entries > 0,
        format!(
            "{lost_entries} entries lost, {} back under the same numbers",
            r.refilled
        ),
    );
    add(
        "a poison event holds back its key only",
        r.parked == 1 && r.redriven > 0 && played.flowed_meanwhile > 0,
        format!(
            "{} parked, {} events of other keys applied meanwhile, {parked} redriven in order",
            parked_key.trim_start_matches("k:"),
            played.flowed_meanwhile
        ),
    );
    add(
        "a drain is bounded and clean",
        played.drained > 0 && played.drained == played.drained_cleanly,
        format!(
            "{} of {} workers exited with 0 after SIGTERM",
            played.drained_cleanly, played.drained
        ),
    );
    all
}

/// Events applied after a later line of their key.
fn inversions(applied: &[Applied]) -> u64 {
    let mut last: HashMap<&str, i64> = HashMap::new();
    let mut count = 0;
    for a in applied {
        let seen = last.entry(&a.key).or_default();
        count += u64::from(a.line <= *seen);
        *seen = (*seen).max(a.line);
    }
    count
}

/// Rows of the projection that are not the fold of the applications.
fn board_differs(target: &Connection, applied: &[Applied]) -> Result<u64> {
    let mut folded: BTreeMap<&str, (i64, i64, i64)> = BTreeMap::new();
    for a in applied {
        let (events, last, checksum) = folded.entry(&a.key).or_default();
        *events += 1;
        *last = a.line;
        *checksum = super::worker::checksum(*checksum, a.line);
    }
    let board = rows(target, "select key, events, last, checksum from board", |r| {
        Ok((r.get::<_, String>(0)?, (r.get(1)?, r.get(2)?, r.get(3)?)))
    })?;
    let same = board
        .iter()
        .filter(|(key, row)| folded.get(key.as_str()) == Some(row))
        .count();
    Ok((board.len().max(folded.len()) - same) as u64)
}

fn latency(flights: &[Flight], applied: &[Applied]) -> Latency {
    let at: HashMap<Id, i64> = flights.iter().map(|f| (f.id, f.committed_at)).collect();
    let mut waits: Vec<i64> = applied
        .iter()
        .filter_map(|a| Some(a.at - at.get(&a.id)?))
        .collect();
    waits.sort_unstable();
    let rank = |percent: usize| {
        let index = (waits.len() * percent / 100).min(waits.len().saturating_sub(1));
        let micros = waits.get(index).copied().unwrap_or(0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0)).as_secs_f64() * 1000.0
    };
    Latency {
        p50: rank(50),
        p99: rank(99),
    }
}

#[allow(clippy::cast_precision_loss)] // For people.
fn rate(flights: &[Flight], applied: &[Applied]) -> f64 {
    let first = flights.iter().map(|f| f.committed_at).min().unwrap_or(0);
    let last = applied.iter().map(|a| a.at).max().unwrap_or(0);
    applied.len() as f64 / ((last - first).max(1) as f64 / 1e6)
}

fn rows<T>(
    connection: &Connection,
    query: &str,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare(query).map_err(sql)?;
    let rows = statement.query_map([], |r| read(r)).map_err(sql)?;
    rows.collect::<Result<_, _>>().map_err(sql)
}

//! What the three files hold.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Row};
use tidegate::Result;
use tidegate::stores::sqlite::{Clock as _, SystemClock};

use super::super::report::Latency;
use super::super::stage::Stage;
use super::super::{count, sql, worker};

type Id = [u8; 16];

/// Counts of database rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) committed: u64,
    pub(super) rolled_back: u64,
    /// Ids of rolled-back transactions in the stream or the target.
    pub(super) ghosts: u64,
    pub(super) published: u64,
    /// Rows in the outbox, and behind parked keys.
    pub(super) waiting: u64,
    pub(super) refused: u64,
    pub(super) applied: u64,
    pub(super) lost: u64,
    /// Not applied, and in the outbox, its archive, the stream or behind a parked key; after a finished story nothing
    /// is.
    pub(super) on_the_way: u64,
    pub(super) doubled: u64,
    pub(super) out_of_order: u64,
    /// Rows of the projection that are not the fold of the applications.
    pub(super) differing: u64,
    /// Lanes of the stream with holes.
    pub(super) gaps: u64,
    /// Entries under an earlier token than one before them.
    pub(super) stale: u64,
    /// Keys that were parked, and the first of them.
    pub(super) parked: u64,
    pub(super) parked_key: Option<String>,
    pub(super) flowed: u64,
    pub(super) redriven: u64,
    pub(super) lost_entries: u64,
    pub(super) refilled: u64,
    /// Lanes that others took after their owner's lease ran out, and from whom.
    pub(super) takeovers: u64,
    pub(super) taken: BTreeMap<String, u64>,
    /// Events that such a relay had in hand.
    pub(super) planned: BTreeMap<String, u64>,
    /// Lanes that nobody can take, since the lease of an owner still runs.
    pub(super) owned: u64,
    pub(super) latency: Latency,
    pub(super) rate: f64,
}

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

impl Facts {
    pub(super) fn read(stage: &Stage, finished: bool) -> Result<Self> {
        let service = stage.connect_service()?;
        let stream = stage.connect_stream()?;
        let target = stage.connect_target()?;
        let mut facts = Self::default();
        facts.of_events(&service, &stream, &target, finished)?;
        facts.of_stream(&stream)?;
        facts.of_parked_keys(&target)?;
        facts.of_lanes(&service, &target)?;
        Ok(facts)
    }

    fn of_events(
        &mut self,
        service: &Connection,
        stream: &Connection,
        target: &Connection,
        finished: bool,
    ) -> Result<()> {
        let flights = flights(service)?;
        let committed: HashSet<Id> = flights.iter().map(|f| f.id).collect();
        let rolled_back = ids(service, "select event_id from rolled_back")?;
        let entries = ids(
            stream,
            "select event_id from tidegate_entry where event_id is not null",
        )?;
        let published: HashSet<Id> = entries.iter().copied().collect();
        let applied = applied(target)?;
        let effects: HashSet<Id> = applied.iter().map(|a| a.id).collect();

        self.committed = flights.len() as u64;
        self.rolled_back = rolled_back.len() as u64;
        let seen = |id: &&Id| published.contains(*id) || effects.contains(*id);
        self.ghosts = rolled_back.iter().filter(seen).count() as u64;
        self.published = published.intersection(&committed).count() as u64;
        self.applied = effects.len() as u64;
        self.doubled = (applied.len() - effects.len() + entries.len() - published.len()) as u64;
        let missing: HashSet<Id> = committed.difference(&effects).copied().collect();
        if !finished {
            let somewhere = underway(service, target, published)?;
            self.on_the_way = missing.intersection(&somewhere).count() as u64;
        }
        self.lost = missing.len() as u64 - self.on_the_way;
        self.out_of_order = inversions(&applied);
        self.differing = differing(target, &applied)?;
        self.latency = latency(&flights, &applied);
        self.rate = rate(&flights, &applied);
        Ok(())
    }

    fn of_stream(&mut self, stream: &Connection) -> Result<()> {
        self.refused = count(stream, "select sum(refused) from tidegate_register", [])?;
        self.gaps = count(stream, include_str!("gaps.sql"), [])?;
        self.stale = count(stream, include_str!("stale.sql"), [])?;
        self.lost_entries = count(stream, "select count(*) from lost_entry", [])?;
        let missing = count(stream, include_str!("../script/missing.sql"), [])?;
        self.refilled = self.lost_entries - missing;
        Ok(())
    }

    fn of_parked_keys(&mut self, target: &Connection) -> Result<()> {
        let keys = "select count(distinct key) from parked_history where what = 'parked'";
        self.parked = count(target, keys, [])?;
        let first = "select key from parked_history where what = 'parked' order by id limit 1";
        let key: Option<String> = target
            .query_row(first, [], |r| r.get(0))
            .optional()
            .map_err(sql)?;
        self.parked_key = key.map(|key| key.trim_start_matches("k:").to_owned());
        self.flowed = count(target, include_str!("flowed.sql"), [])?;
        self.redriven = count(target, include_str!("redriven.sql"), [])?;
        Ok(())
    }

    fn of_lanes(&mut self, service: &Connection, target: &Connection) -> Result<()> {
        let names = "select distinct before from tenure where ran_out";
        let taken = "select count(distinct lane) from tenure where ran_out and before = ?1";
        for database in [service, target] {
            for name in rows(database, names, |r| r.get::<_, String>(0))? {
                let lanes = count(database, taken, [&name])?;
                self.takeovers += lanes;
                *self.taken.entry(name).or_default() += lanes;
            }
        }
        for name in rows(service, names, |r| r.get::<_, String>(0))? {
            let planned = count(service, include_str!("planned.sql"), [&name])?;
            self.planned.insert(name, planned);
        }
        let outbox = count(service, "select count(*) from tidegate_outbox", [])?;
        self.waiting = outbox + count(target, "select count(*) from tidegate_inbox_parked_event", [])?;
        let now = SystemClock.boot().as_micros();
        let owned = "select count(*) from tidegate_lane where owner is not null and lease_until > ?1";
        let consumed =
            "select count(*) from tidegate_consumer_lane where owner is not null and lease_until > ?1";
        self.owned = count(service, owned, [now])? + count(target, consumed, [now])?;
        Ok(())
    }
}

fn flights(service: &Connection) -> Result<Vec<Flight>> {
    rows(service, "select event_id, committed_at from flight", |r| {
        Ok(Flight {
            id: r.get(0)?,
            committed_at: r.get(1)?,
        })
    })
}

fn applied(target: &Connection) -> Result<Vec<Applied>> {
    let query = "select event_id, key, line, applied_at from applied order by id";
    rows(target, query, |r| {
        Ok(Applied {
            id: r.get(0)?,
            key: r.get(1)?,
            line: r.get(2)?,
            at: r.get(3)?,
        })
    })
}

fn underway(service: &Connection, target: &Connection, published: HashSet<Id>) -> Result<HashSet<Id>> {
    let mut somewhere = published;
    somewhere.extend(ids(service, include_str!("on_the_way.sql"))?);
    somewhere.extend(ids(target, "select event_id from tidegate_inbox_parked_event")?);
    Ok(somewhere)
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

fn differing(target: &Connection, applied: &[Applied]) -> Result<u64> {
    let mut folded: BTreeMap<&str, (i64, i64, i64)> = BTreeMap::new();
    for a in applied {
        let (events, last, checksum) = folded.entry(&a.key).or_default();
        *events += 1;
        *last = a.line;
        *checksum = worker::checksum(*checksum, a.line);
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
    let last = applied.iter().map(|a| a.at).max().unwrap_or(first);
    applied.len() as f64 / ((last - first).max(1) as f64 / 1e6)
}

fn ids(connection: &Connection, query: &str) -> Result<Vec<Id>> {
    rows(connection, query, |r| r.get(0))
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

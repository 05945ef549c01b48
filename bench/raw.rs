//! The bare program: the statements of producer, relay and consumer on the same tables, with no logic between them.
//! One thread writes the outbox, moves its rows to the log and deletes them; the other reads the log and writes the
//! projection. No lanes are owned, no plan is kept, nothing is compared, numbered, chained or deduplicated.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
use tidegate::lane::slot_of;

use crate::pipeline::{self, Files, TRANSACTION};

/// As the relay's plan and append.
const BATCH: u16 = 1000;
/// As the consumer's apply.
const APPLY: u16 = 500;
const LANES: u16 = 64;
/// The columns of an event.
const EVENT: usize = 8;

const POLL: &str = include_str!("../crates/stores/src/sqlite/outbox/poll.sql");
const SETTLE: &str = include_str!("../crates/stores/src/sqlite/outbox/settle.sql");
const READ: &str = include_str!("../crates/stores/src/sqlite/stream/read.sql");

/// Opens a file as [`tidegate::stores::sqlite::Database`] does.
fn connect(path: &std::path::Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.set_prepared_statement_cache_capacity(64);
    for (name, value) in [
        ("wal_autocheckpoint", 4096),
        ("cache_size", -16 * 1024),
        ("journal_size_limit", 64 << 20),
    ] {
        connection.pragma_update(None, name, value).unwrap();
    }
    connection.pragma_update(None, "synchronous", "full").unwrap();
    connection
}

/// The files with the tables of [`pipeline::Pipeline::open`], and events waiting in the outbox.
pub(crate) struct Raw {
    service: Connection,
    log: Connection,
    reader: Connection,
    target: Connection,
}

impl Raw {
    /// `files` were made by a pipeline that is gone.
    pub(crate) fn open(files: &Files) -> Self {
        let log = connect(&files.stream);
        for lane in 0..LANES {
            let insert =
                "insert or ignore into tidegate_register (stream, lineage, lane) values (1, x'00', ?1)";
            log.execute(insert, [lane]).unwrap();
        }
        Self {
            service: connect(&files.outbox),
            log,
            reader: connect(&files.stream),
            target: connect(&files.target),
        }
    }

    /// Fills the outbox.
    pub(crate) fn fill(&self, events: usize) {
        for first in (0..events).step_by(TRANSACTION) {
            enqueue(&self.service, first as u64, TRANSACTION.min(events - first));
        }
    }

    /// Takes `events` all the way. `producing`: they are also written meanwhile, one batch at a time.
    pub(crate) fn run(self, events: usize, producing: bool) {
        let Self {
            service,
            log,
            reader,
            target,
        } = self;
        let (sender, arrivals) = channel();
        let consumer = thread::spawn(move || consume(&reader, &target, events, &arrivals));
        relay(&service, &log, events, producing, &sender);
        consumer.join().unwrap();
    }
}

fn relay(service: &Connection, log: &Connection, events: usize, producing: bool, sender: &Sender<i64>) {
    let base: i64 = log
        .query_row("select coalesce(max(id), 1 << 40) from tidegate_entry", [], |r| {
            r.get(0)
        })
        .unwrap();
    let (mut written, mut done, mut last) = (0, 0, base);
    let mut floors = [0; LANES as usize];
    let mut acknowledged = Vec::new();
    while done < events || !acknowledged.is_empty() {
        for _ in 0..usize::from(BATCH) / TRANSACTION {
            let some = TRANSACTION.min(events - written);
            if producing && some > 0 {
                enqueue(service, written as u64, some);
                written += some;
            }
        }
        let rows = turn(service, &acknowledged, &mut floors);
        acknowledged = rows.iter().map(|row| row.seq).collect();
        if !rows.is_empty() {
            append(log, &rows, last);
            last += rows.len() as i64;
            sender.send(last).unwrap();
        }
        done += rows.len();
    }
}

struct Row {
    lane: usize,
    seq: i64,
    event: Vec<Value>,
}

/// Deletes what was appended, reads what comes next; one transaction.
fn turn(service: &Connection, acknowledged: &[i64], floors: &mut [i64; LANES as usize]) -> Vec<Row> {
    begin(service);
    if !acknowledged.is_empty() {
        let seqs = serde_json::to_string(acknowledged).unwrap();
        let mut statement = service.prepare_cached(SETTLE).unwrap();
        let mut rows = statement.query(params![1, seqs]).unwrap();
        while rows.next().unwrap().is_some() {}
    }
    let places: Vec<_> = floors.iter().enumerate().collect();
    let places = serde_json::to_string(&places).unwrap();
    let mut statement = service.prepare_cached(POLL).unwrap();
    let mut found = statement
        .query(params![1, places, BATCH.div_ceil(LANES)])
        .unwrap();
    let mut batch = Vec::new();
    while let Some(row) = found.next().unwrap() {
        let (lane, seq) = (row.get::<_, u16>(0).unwrap().into(), row.get(1).unwrap());
        let lane: usize = lane;
        floors[lane] = seq;
        let event = (3..3 + EVENT).map(|i| row.get(i).unwrap()).collect();
        batch.push(Row { lane, seq, event });
    }
    drop(found);
    drop(statement);
    commit(service);
    batch
}

fn append(log: &Connection, rows: &[Row], last: i64) {
    begin(log);
    let values = (last + 1..).zip(rows).flat_map(|(id, row)| {
        let place = [
            Value::from(id),
            Value::from(row.lane as i64 + 1),
            Value::from(row.seq),
            Value::from(1),
        ];
        let rest = [Value::from(vec![0; 16]), Value::from(0)];
        place.into_iter().chain(rest).chain(row.event.iter().cloned())
    });
    let columns = "id, register, n, token, chain, appended_at, event_id, topic, key, version, content_type, headers, \
                   payload, occurred_at";
    insert(
        log,
        &format!("tidegate_entry ({columns})"),
        6 + EVENT,
        rows.len(),
        values,
    );
    commit(log);
}

fn consume(reader: &Connection, target: &Connection, events: usize, arrivals: &Receiver<i64>) {
    let mut cursor: i64 = reader
        .query_row("select coalesce(max(id), 1 << 40) from tidegate_entry", [], |r| {
            r.get(0)
        })
        .unwrap();
    let mut done = 0;
    let mut head = cursor;
    while done < events {
        if cursor >= head {
            head = arrivals.recv().unwrap();
        }
        head = arrivals.try_iter().last().unwrap_or(head);
        let page = read(reader, cursor, head);
        let Some(last) = page.last() else { continue };
        cursor = last.0;
        done += page.len();
        begin(target);
        let rows = page
            .iter()
            .map(|(_, key, version, body)| (key.as_str(), *version, body.as_slice()));
        pipeline::project(target, rows).unwrap();
        commit(target);
    }
}

type Entry = (i64, String, i64, Vec<u8>);

fn read(reader: &Connection, cursor: i64, head: i64) -> Vec<Entry> {
    let mut statement = reader.prepare_cached(READ).unwrap();
    let page = statement
        .query_map(params![cursor + 1, head, APPLY], |row| {
            Ok((row.get(0)?, row.get(8)?, row.get(9)?, row.get(12)?))
        })
        .unwrap();
    page.map(Result::unwrap).collect()
}

fn enqueue(service: &Connection, first: u64, count: usize) {
    let events = pipeline::events(first, count);
    begin(service);
    let values = events.into_iter().flat_map(|event| {
        let slot = slot_of(event.key.as_deref(), event.id, LANES);
        [
            Value::from(1),
            Value::from(slot),
            Value::from(event.id.as_bytes().to_vec()),
            Value::from(event.topic),
            Value::from(event.key),
            Value::from(event.version),
            Value::from(event.content_type),
            Value::Null,
            Value::from(event.payload.to_vec()),
            Value::from(event.occurred_at.as_micros()),
        ]
    });
    let columns = "outbox, lane, event_id, topic, key, version, content_type, headers, payload, occurred_at";
    insert(
        service,
        &format!("tidegate_outbox ({columns})"),
        2 + EVENT,
        count,
        values,
    );
    commit(service);
}

/// One statement with as many rows as there are.
fn insert(db: &Connection, into: &str, width: usize, rows: usize, values: impl Iterator<Item = Value>) {
    let row = format!("({})", vec!["?"; width].join(", "));
    let text = format!("insert into {into} values {}", vec![row; rows].join(", "));
    db.prepare_cached(&text)
        .unwrap()
        .execute(params_from_iter(values))
        .unwrap();
}

fn begin(db: &Connection) {
    db.prepare_cached("begin immediate").unwrap().execute([]).unwrap();
}

fn commit(db: &Connection) {
    db.prepare_cached("commit").unwrap().execute([]).unwrap();
}

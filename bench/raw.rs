//! The bare program: the statements of producer, relay and consumer on the same tables, with no logic between them.
//! One thread writes the outbox, moves its rows to the log and deletes them; the other reads the log and writes the
//! projection. No lanes are owned, no plan is kept, nothing is compared, numbered, chained or deduplicated.

use std::cell::RefCell;
use std::collections::HashMap;
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
        let insert = Insert::into(OUTBOX);
        for first in (0..events).step_by(TRANSACTION) {
            enqueue(
                &self.service,
                &insert,
                first as u64,
                TRANSACTION.min(events - first),
            );
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
    let mut last = end_of(log);
    let (enqueued, appended) = (Insert::into(OUTBOX), Insert::into(ENTRY));
    let poll = poll_text();
    let (mut written, mut done) = (0, 0);
    let mut floors = [0; LANES as usize];
    let mut acknowledged = Vec::new();
    while done < events || !acknowledged.is_empty() {
        for _ in 0..usize::from(BATCH) / TRANSACTION {
            let some = TRANSACTION.min(events - written);
            if producing && some > 0 {
                enqueue(service, &enqueued, written as u64, some);
                written += some;
            }
        }
        let rows = turn(service, &poll, &acknowledged, &mut floors);
        acknowledged = rows.iter().map(|row| row.seq).collect();
        done += rows.len();
        if !rows.is_empty() {
            append(log, &appended, rows, last);
            last += acknowledged.len() as i64;
            sender.send(last).unwrap();
        }
    }
}

fn end_of(log: &Connection) -> i64 {
    let text = "select coalesce(max(id), 1 << 40) from tidegate_entry";
    log.query_row(text, [], |row| row.get(0)).unwrap()
}

/// Rows of every lane, from its floor on.
fn poll_text() -> String {
    let lanes: Vec<_> = (0..LANES).map(|lane| format!("({lane}, ?)")).collect();
    format!(
        "select v.column1, o.seq, o.event_id, o.topic, o.key, o.version, o.content_type, o.headers, o.payload, \
                o.occurred_at
         from (values {}) v cross join tidegate_outbox o on o.seq in (
           select i.seq from tidegate_outbox i
           where i.outbox = 1 and i.lane = v.column1 and i.seq > v.column2 order by i.seq limit {})",
        lanes.join(", "),
        BATCH.div_ceil(LANES)
    )
}

struct Row {
    lane: usize,
    seq: i64,
    event: Vec<Value>,
}

/// Deletes what was appended, reads what comes next; one transaction.
fn turn(
    service: &Connection,
    poll: &str,
    acknowledged: &[i64],
    floors: &mut [i64; LANES as usize],
) -> Vec<Row> {
    begin(service);
    if !acknowledged.is_empty() {
        let seqs = serde_json::to_string(acknowledged).unwrap();
        let mut statement = service.prepare_cached(SETTLE).unwrap();
        let mut rows = statement.query(params![1, seqs]).unwrap();
        while rows.next().unwrap().is_some() {}
    }
    let mut statement = service.prepare_cached(poll).unwrap();
    let mut found = statement.query(params_from_iter(floors.iter())).unwrap();
    let mut batch = Vec::new();
    while let Some(row) = found.next().unwrap() {
        let lane = usize::from(row.get::<_, u16>(0).unwrap());
        let seq = row.get(1).unwrap();
        floors[lane] = seq;
        let event = (2..2 + EVENT).map(|i| row.get(i).unwrap()).collect();
        batch.push(Row { lane, seq, event });
    }
    drop(found);
    drop(statement);
    commit(service);
    batch
}

fn append(log: &Connection, insert: &Insert, rows: Vec<Row>, last: i64) {
    begin(log);
    let count = rows.len();
    let values = (last + 1..).zip(rows).flat_map(|(id, row)| {
        let place = [
            Value::from(id),
            Value::from(row.lane as i64 + 1),
            Value::from(row.seq),
            Value::from(1),
        ];
        let rest = [Value::from(vec![0; 16]), Value::from(0)];
        place.into_iter().chain(rest).chain(row.event)
    });
    insert.run(log, count, values);
    commit(log);
}

fn consume(reader: &Connection, target: &Connection, events: usize, arrivals: &Receiver<i64>) {
    let upsert = Insert {
        after: "where true on conflict (key) do update set version = excluded.version, note = excluded.note",
        ..Insert::into(&["board", "key", "version", "note"])
    };
    let mut cursor = end_of(reader);
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
        let count = page.len();
        let values = page.into_iter().flat_map(|(_, key, version, body)| {
            let note = String::from_utf8(body).unwrap();
            [Value::from(key), Value::from(version), Value::from(note)]
        });
        upsert.run(target, count, values);
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

fn enqueue(service: &Connection, insert: &Insert, first: u64, count: usize) {
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
    insert.run(service, count, values);
    commit(service);
}

const OUTBOX: &[&str] = &[
    "tidegate_outbox",
    "outbox",
    "lane",
    "event_id",
    "topic",
    "key",
    "version",
    "content_type",
    "headers",
    "payload",
    "occurred_at",
];

const ENTRY: &[&str] = &[
    "tidegate_entry",
    "id",
    "register",
    "n",
    "token",
    "chain",
    "appended_at",
    "event_id",
    "topic",
    "key",
    "version",
    "content_type",
    "headers",
    "payload",
    "occurred_at",
];

/// One statement with as many rows as there are; each number of rows has its own text.
struct Insert {
    /// The table, then its columns.
    into: &'static [&'static str],
    after: &'static str,
    texts: RefCell<HashMap<usize, String>>,
}

impl Insert {
    fn into(into: &'static [&'static str]) -> Self {
        Self {
            into,
            after: "",
            texts: RefCell::default(),
        }
    }

    fn run(&self, db: &Connection, rows: usize, values: impl Iterator<Item = Value>) {
        let mut texts = self.texts.borrow_mut();
        let text = texts.entry(rows).or_insert_with(|| self.text(rows));
        let mut statement = db.prepare_cached(text).unwrap();
        statement.execute(params_from_iter(values)).unwrap();
    }

    fn text(&self, rows: usize) -> String {
        let (table, columns) = self.into.split_first().unwrap();
        let row = format!("({})", vec!["?"; columns.len()].join(", "));
        let rows = vec![row; rows].join(", ");
        let columns = columns.join(", ");
        format!(
            "insert into {table} ({columns}) select * from (values {rows}) {}",
            self.after
        )
    }
}

fn begin(db: &Connection) {
    db.prepare_cached("begin immediate").unwrap().execute([]).unwrap();
}

fn commit(db: &Connection) {
    db.prepare_cached("commit").unwrap().execute([]).unwrap();
}

//! What an event costs, counted: statements, commits and engine steps do not depend on the machine, so they gate.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::uninlined_format_args
)]

use std::path::Path;
use std::sync::Arc;

use tidegate::inbox::Start;
use tidegate::inbox::projection::{Column, Projection};
use tidegate::store::OutboxStore;
use tidegate::stores::sqlite::projection::SqliteProjection;
use tidegate::stores::sqlite::{
    Database, InboxOptions, OpenOptions, SqliteInbox, SqliteOutbox, SqliteStream, Wanted,
};
use tidegate::{Consumer, Draft, Event, Relay, Timestamp, Uuid};

/// What one side did for each event.
#[derive(Debug, Clone, Copy)]
struct Each {
    statements: f64,
    commits: f64,
    steps: f64,
}

fn event(i: u64) -> Event {
    let key = format!("key-{}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1000);
    let payload = format!(r#"{{"amount":{i},"note":"{i:0<220}"}}"#);
    let id = Uuid::from_u128(u128::from(i) + 1);
    let draft = Draft::new("bench", key).version(i64::try_from(i).unwrap());
    let draft = draft.payload("application/json", payload.into_bytes());
    draft.seal(id, Timestamp::default()).unwrap()
}

fn open(folder: &Path, file: &str) -> Database {
    Database::open(folder.join(file), OpenOptions::default()).unwrap()
}

fn meter(databases: &[Database]) -> [u64; 3] {
    let sum = |of: fn(&Database) -> u64| databases.iter().map(of).sum();
    [
        sum(Database::statements),
        sum(Database::commits),
        sum(Database::steps),
    ]
}

#[allow(clippy::cast_precision_loss)]
fn each(before: [u64; 3], databases: &[Database], events: u64) -> Each {
    let after = meter(databases);
    let part = |at: usize| (after[at] - before[at]) as f64 / events as f64;
    Each {
        statements: part(0),
        commits: part(1),
        steps: part(2),
    }
}

/// Fills an outbox with archive or without, then relays and applies everything.
async fn drain(events: u64, archive: bool) -> [Each; 2] {
    let folder = tempfile::tempdir().unwrap();
    let source = [
        open(folder.path(), "service.db"),
        open(folder.path(), "stream.db"),
    ];
    let target = [open(folder.path(), "stream.db"), open(folder.path(), "target.db")];
    let wanted = Wanted { lanes: 64, archive };
    let outbox = Arc::new(SqliteOutbox::open(&source[0], "bench", wanted).await.unwrap());
    for first in (0..events).step_by(1000) {
        let some = (first..events.min(first + 1000)).map(event).collect();
        outbox.enqueue(some).await.unwrap();
    }
    let before = meter(&source);
    let sink = Arc::new(SqliteStream::open(&source[1], "bench").await.unwrap());
    let relay = Relay::new("bench", outbox, sink).build().unwrap();
    assert_eq!(relay.run_once().await.unwrap(), events);
    let relayed = each(before, &source, events);

    let made = target[1].write(|sql| {
        let board = "create table board (key text primary key, amount integer, version integer)";
        sql.execute("board", board, []).map(drop)
    });
    made.await.unwrap();
    let before = meter(&target);
    let consumer = consumer(&target).await;
    assert_eq!(consumer.run_once().await.unwrap(), events);
    [relayed, each(before, &target, events)]
}

async fn consumer(target: &[Database; 2]) -> tidegate::Worker {
    let stream = Arc::new(SqliteStream::open(&target[0], "bench").await.unwrap());
    let inbox = SqliteInbox::open(target[1].clone(), "board", InboxOptions::default()).await;
    let inbox = Arc::new(inbox.unwrap());
    let projection = SqliteProjection::new(Projection {
        table: "board".into(),
        key: "key".into(),
        columns: vec![Column::new("amount", "amount")],
        version: Some("version".into()),
    });
    let applier = Arc::new(inbox.applier(projection.unwrap()));
    Consumer::new("board", stream, inbox, applier, Start::Earliest)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_batch_of_events_costs_few_statements_and_commits() {
    let [relayed, applied] = drain(20_000, false).await;
    assert!(relayed.statements <= 0.02, "{relayed:?}");
    assert!(applied.statements <= 0.05, "{applied:?}");
    // Two commits for each thousand events relayed: the turn and the append. One for each five hundred applied.
    assert!(relayed.commits <= 0.003, "{relayed:?}");
    assert!(applied.commits <= 0.0025, "{applied:?}");
}

#[tokio::test]
async fn an_archive_costs_no_statement_more_for_each_event() {
    let [relayed, _] = drain(20_000, true).await;
    assert!(relayed.statements <= 0.02, "{relayed:?}");
}

#[tokio::test]
async fn the_cost_of_an_event_does_not_depend_on_the_backlog() {
    for archive in [false, true] {
        let (small, large) = (drain(5_000, archive).await, drain(50_000, archive).await);
        for (small, large) in small.iter().zip(&large) {
            assert!(large.statements <= small.statements, "{small:?} {large:?}");
            // A statement that reads the whole backlog costs several times as much.
            assert!(large.steps <= small.steps * 1.25, "{small:?} {large:?}");
        }
    }
}

//! What the Postgres outbox costs, counted and not timed: these numbers gate.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests.

mod postgres_relay;
mod postgres_server;

use postgres_relay::{Pump, end};
use postgres_server::Server;
use tidegate_conformance::counts;
use tidegate_core::outbox::{LaneTurn, LaneTurned};
use tidegate_core::store::OutboxStore as _;
use tidegate_core::{Draft, Event, Timestamp, Uuid};
use tokio_postgres::Client;

const ROWS: usize = 20_000;

fn events(count: usize) -> Vec<Event> {
    let event = |n| {
        let draft =
            Draft::new("orders", format!("key-{n}")).payload("application/octet-stream", vec![7; 512]);
        draft.seal(Uuid::now_v7(), Timestamp::from_micros(1)).unwrap()
    };
    (0..count).map(event).collect()
}

async fn number(own: &Client, text: &str) -> i64 {
    own.query_one(text, &[]).await.unwrap().get(0)
}

/// Turns as a busy relay makes them: each settles what the one before it planned.
async fn drain(pump: &Pump) -> usize {
    let held = pump.hold().await.unwrap();
    let mut ends: Vec<_> = held.owned.iter().map(|o| (o.state.chain, None)).collect();
    let mut drained = 0;
    loop {
        let parts = held.owned.iter().zip(&ends).map(|(o, (_, settle))| LaneTurn {
            lane: o.lane,
            token: o.token,
            settle: *settle,
            plan: 16,
            load: false,
        });
        let turned = pump.send(parts.collect()).await.unwrap();
        let mut some = false;
        for (end_of, turned) in ends.iter_mut().zip(turned) {
            let LaneTurned::Planned { events, .. } = turned.outcome else {
                panic!("the lane is mine");
            };
            drained += events.len();
            some |= !events.is_empty();
            end_of.1 = (!events.is_empty()).then(|| end(end_of.0, &events));
            end_of.0 = end_of.1.map_or(end_of.0, |(_, chain)| chain);
        }
        if !some {
            return drained;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_row_costs_few_statements_and_little_wal() {
    let server = Server::start().await;
    let pump = Pump::start(&server, 64, 1).await;
    for _ in 0..ROWS / 1000 {
        pump.outbox.enqueue(events(1000)).await.unwrap();
    }
    let own = server.own().await;
    own.batch_execute("checkpoint").await.unwrap();
    let wal = "select (pg_current_wal_lsn() - '0/0')::bigint";
    let db = pump.outbox.database().clone();
    let (wal_before, asked) = (number(&own, wal).await, (db.statements(), db.commits()));
    assert_eq!(drain(&pump).await, ROWS);
    let bytes = number(&own, wal).await - wal_before;
    let statements = db.statements() - asked.0 + db.commits() - asked.1;
    assert_eq!(pump.depth().await, 0);
    let rows = u64::try_from(ROWS).unwrap();
    let bytes = u64::try_from(bytes).unwrap();
    println!(
        "{rows} rows: {statements} statements and commits, 0.{:04} a row; {bytes} bytes of WAL, {} a row",
        statements * 10_000 / rows,
        bytes / rows
    );
    counts::add("postgres.outbox.drain.statements", statements);
    counts::add("postgres.outbox.drain.wal_bytes_a_row", bytes / rows);
    assert!(
        statements * 100 <= rows,
        "{statements} statements for {rows} rows"
    );
    assert!(bytes <= rows * 120, "{} bytes a row", bytes / rows);
}

/// An idle relay locks and writes nothing.
#[tokio::test]
async fn an_idle_turn_is_one_statement_and_writes_nothing() {
    let server = Server::start().await;
    let pump = Pump::start(&server, 64, 1).await;
    let held = pump.hold().await.unwrap();
    let own = server.own().await;
    let (db, parts) = (pump.outbox.database().clone(), || {
        let part = |o: &tidegate_core::lane::Owned<_>| LaneTurn {
            lane: o.lane,
            token: o.token,
            settle: None,
            plan: 16,
            load: false,
        };
        held.owned.iter().map(part).collect::<Vec<_>>()
    });
    let locked = "select count(*) from tidegate.lane where xmax::text::bigint > 0";
    own.batch_execute("vacuum full tidegate.lane").await.unwrap();
    let before = (db.statements(), db.commits());
    for _ in 0..10 {
        pump.send(parts()).await.unwrap();
    }
    assert_eq!((db.statements() - before.0, db.commits() - before.1), (10, 0));
    assert_eq!(number(&own, locked).await, 0);
}

/// Buffers that a poll touches do not depend on how many rows wait behind those it takes.
#[tokio::test]
async fn a_turn_reads_the_same_at_any_backlog() {
    let mut read = Vec::new();
    for backlog in [2_000, 20_000] {
        let server = Server::start().await;
        let pump = Pump::start(&server, 64, 1).await;
        for _ in 0..backlog / 1000 {
            pump.outbox.enqueue(events(1000)).await.unwrap();
        }
        let held = pump.hold().await.unwrap();
        let own = server.own().await;
        let fetched = "select (coalesce(idx_tup_fetch, 0) + seq_tup_read)::bigint from pg_stat_all_tables \
                       where relid = 'tidegate.outbox'::regclass";
        pump.plan(&held, 4).await.unwrap();
        // Counters of a session are told when it ends.
        drop(pump);
        own.batch_execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'tidegate'",
        )
        .await
        .unwrap();
        while number(
            &own,
            "select count(*) from pg_stat_activity where application_name = 'tidegate'",
        )
        .await
            > 0
        {}
        read.push(number(&own, fetched).await);
    }
    println!("rows read by one turn of 64 lanes: {read:?}");
    assert!(read[0] >= 64 * 4, "{read:?}");
    assert!(read[1] <= read[0] + read[0] / 10, "{read:?}");
}

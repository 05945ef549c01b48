//! Producers of the Postgres outbox: the user's transaction, SQL functions, late commits, roles.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests.

mod postgres_relay;
mod postgres_server;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use postgres_relay::Pump;
use postgres_server::Server;
use sqlx::Connection as _;
use tidegate_core::lane::slot_of;
use tidegate_core::store::Doorbell as _;
use tidegate_core::{Code, Draft, Uuid};
use tidegate_stores::postgres::{OpenOptions, roles_sql};
use tokio_postgres::Client;

fn draft(key: &str) -> Draft {
    Draft::new("orders", key).payload("text/plain", key.as_bytes().to_vec())
}

async fn sql(client: &Client, text: &str) -> Result<Uuid, String> {
    match client.query_one(text, &[]).await {
        Ok(row) => Ok(row.get(0)),
        Err(error) => Err(error.as_db_error().unwrap().message().to_owned()),
    }
}

#[tokio::test]
async fn an_event_exists_exactly_when_the_users_transaction_commits() {
    let server = Server::start().await;
    let mut pump = Pump::start(&server, 4, 1).await;
    let mut own = server.own().await;
    let tx = own.transaction().await.unwrap();
    assert_eq!(
        pump.outbox
            .enqueue_in(&tx, [draft("a"), draft("b")])
            .await
            .unwrap()
            .len(),
        2
    );
    tx.rollback().await.unwrap();
    assert!(pump.drain().await.is_empty());
    let tx = own.transaction().await.unwrap();
    let ids = pump
        .outbox
        .enqueue_in(&tx, [draft("a"), draft("a")])
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let published: Vec<_> = pump.drain().await.iter().map(|e| e.id).collect();
    assert_eq!(published, ids);
}

#[tokio::test]
async fn a_transaction_of_sqlx_carries_events_too() {
    let server = Server::start().await;
    let mut pump = Pump::start(&server, 4, 1).await;
    let mut own = sqlx::PgConnection::connect(&server.postgres.url()).await.unwrap();
    for commit in [false, true] {
        let mut tx = own.begin().await.unwrap();
        let drafts = [draft("a").header("h", "v"), draft("a").version(7)];
        let ids = pump.outbox.enqueue_sqlx(&mut tx, drafts).await.unwrap();
        if commit {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
        let events = pump.drain().await;
        assert_eq!(events.len(), if commit { 2 } else { 0 });
        if commit {
            assert_eq!(events.iter().map(|e| e.id).collect::<Vec<_>>(), ids);
            assert_eq!(events[0].headers, [("h".to_owned(), "v".to_owned())]);
            assert_eq!((events[1].version, &events[1].payload[..]), (Some(7), &b"a"[..]));
        }
    }
    let mut tx = own.begin().await.unwrap();
    sqlx::query("drop schema tidegate cascade")
        .execute(&mut *tx)
        .await
        .unwrap();
    let error = pump.outbox.enqueue_sqlx(&mut tx, [draft("a")]).await.unwrap_err();
    assert_eq!(error.code(), Code::OptionsInvalid);
}

#[tokio::test]
async fn a_late_commit_is_published_and_nothing_is_skipped() {
    let server = Server::start().await;
    let mut pump = Pump::start(&server, 1, 1).await;
    let (mut late, mut early) = (server.own().await, server.own().await);
    let late_tx = late.transaction().await.unwrap();
    let first = pump
        .outbox
        .enqueue_in(&late_tx, [draft("a"), draft("a")])
        .await
        .unwrap();
    let mut others = Vec::new();
    for settled in [true, true, false] {
        let tx = early.transaction().await.unwrap();
        others.extend(pump.outbox.enqueue_in(&tx, [draft("b")]).await.unwrap());
        tx.commit().await.unwrap();
        if settled {
            pump.round().await;
        } else {
            let held = pump.hold().await.unwrap();
            pump.plan(&held, 9).await.unwrap();
        }
    }
    // Two with a larger seq are settled, one is planned.
    late_tx.commit().await.unwrap();
    let published: Vec<_> = pump.drain().await.iter().map(|e| e.id).collect();
    assert_eq!(published, [others, first].concat());
}

#[tokio::test]
async fn the_lane_in_sql_is_the_lane_of_the_library() {
    let server = Server::start().await;
    let own = server.own().await;
    let statement = "select tidegate.lane_of($1, $2, $3)";
    let mut cases: Vec<(Option<String>, Uuid)> = ["order-1", "ORD", "å", ""]
        .map(|key| (Some(key.to_owned()), Uuid::nil()))
        .to_vec();
    cases.push((None, Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef)));
    cases.extend((0..200).map(|n| (Some(format!("key-{n} ü")), Uuid::nil())));
    cases.extend((0..200).map(|_| (None, Uuid::new_v4())));
    let mut vectors = Vec::new();
    for (key, id) in &cases {
        for lanes in [1_i32, 2, 64, 1024] {
            let row = own.query_one(statement, &[&lanes, key, id]).await.unwrap();
            let (here, wanted) = (
                row.get::<_, i16>(0),
                slot_of(key.as_deref(), *id, u16::try_from(lanes).unwrap()),
            );
            assert_eq!(u16::try_from(here).unwrap(), wanted, "{key:?} {id} {lanes}");
            if lanes == 64 {
                vectors.push(here);
            }
        }
    }
    assert_eq!(vectors[..5], [45, 56, 62, 5, 1], "as ADR-0001 has them");
}

#[tokio::test]
async fn sql_enqueues_any_bytes_within_the_limits() {
    let server = Server::start().await;
    let mut pump = Pump::start(&server, 4, 1).await;
    let own = server.own().await;
    let call = "select tidegate.enqueue('orders', 'orders', 'k', $1::bytea)";
    let odd = vec![0_u8, 255, 0, 0xc3, 0x28];
    let mut wanted = vec![odd];
    for size in [(1 << 20) - 1, 1 << 20] {
        wanted.push(vec![0xff; size]);
    }
    for payload in &wanted {
        own.query_one(call, &[payload]).await.unwrap();
    }
    let error = own
        .query_one(call, &[&vec![1_u8; (1 << 20) + 1]])
        .await
        .unwrap_err();
    let message = error.as_db_error().unwrap().message();
    assert_eq!(message, "payload is 1048577 bytes; the limit is 1048576");
    sql(
        &own,
        "select tidegate.enqueue('orders', 'orders', 'k', '{\"a\": 1}'::jsonb, '{\"h\": \"v\"}')",
    )
    .await
    .unwrap();
    let id = Uuid::from_u128(9);
    let text =
        format!("select tidegate.enqueue('orders', 'orders', 'k', 'text', version => 3, event_id => '{id}')");
    assert_eq!(sql(&own, &text).await.unwrap(), id);
    let events = pump.drain().await;
    let payloads: Vec<_> = events.iter().map(|e| e.payload.to_vec()).collect();
    assert!(
        payloads[..3] == wanted[..],
        "sizes {:?}",
        payloads.iter().map(Vec::len).collect::<Vec<_>>()
    );
    assert_eq!(&payloads[3..], [b"{\"a\": 1}".to_vec(), b"text".to_vec()]);
    assert_eq!(events[3].headers, [("h".to_owned(), "v".to_owned())]);
    assert_eq!(events[0].id.get_version_num(), 7);
    assert_eq!((events[4].id, events[4].version), (id, Some(3)));
}

#[tokio::test]
async fn sql_refuses_by_name_and_size_and_never_shows_the_value() {
    let server = Server::start().await;
    let pump = Pump::start(&server, 4, 1).await;
    let own = server.own().await;
    let long = "s".repeat(513);
    let cases = [
        (
            format!("'orders', 't', '{long}', 'x'"),
            "key is 513 bytes; it must have 1 to 512",
        ),
        (
            format!("'orders', '{long}', 'k', 'x'"),
            "topic is 513 bytes; it must have 1 to 255",
        ),
        (
            "'orders', '', 'k', 'x'".into(),
            "topic is 0 bytes; it must have 1 to 255",
        ),
        (
            "'orders', 't', '', 'x'".into(),
            "key is 0 bytes; it must have 1 to 512",
        ),
        (
            "'orders', 't', E'a\\u0085', 'x'".into(),
            "key has a control character",
        ),
        (
            "'orders', null, 'k', 'x'".into(),
            "topic, payload and content_type must not be null",
        ),
        ("'other', 't', 'k', 'x'".into(), "there is no outbox of this name"),
        (
            "'orders', 't', 'k', 'x', '{\"a\": 1}'".into(),
            "headers must have texts as names and values",
        ),
        (
            "'orders', 't', 'k', 'x', jsonb_build_object('a', repeat('s', 16384))".into(),
            "headers is 16385 bytes; the limit is 16384",
        ),
    ];
    for (arguments, wanted) in cases {
        for name in ["enqueue", "enqueue_ordered"] {
            let text = format!("select tidegate.{name}({arguments})");
            assert_eq!(sql(&own, &text).await.unwrap_err(), wanted);
        }
    }
    let text = "select tidegate.enqueue_ordered('orders', 't', null, 'x')";
    assert_eq!(
        sql(&own, text).await.unwrap_err(),
        "key must not be null: there is no order without it"
    );
    assert_eq!(pump.depth().await, 0);
}

/// Writers meet on few keys. What each key's lock was held for, in order, is what is published.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enqueue_ordered_keeps_the_order_of_commits_under_contention() {
    let server = Server::start().await;
    let mut pump = Pump::start(&server, 4, 1).await;
    let order: Arc<Mutex<BTreeMap<String, Vec<Uuid>>>> = Arc::default();
    let mut writers = Vec::new();
    for writer in 0..6_usize {
        let (mut own, order) = (server.own().await, Arc::clone(&order));
        writers.push(tokio::spawn(async move {
            for n in 0..40 {
                let key = format!("key-{}", (writer + n) % 3);
                let tx = own.transaction().await.unwrap();
                let call = "select tidegate.enqueue_ordered('orders', 'orders', $1, 'x'::text)";
                let id: Uuid = tx.query_one(call, &[&key]).await.unwrap().get(0);
                tx.batch_execute("select pg_sleep(0.0005)").await.unwrap();
                order.lock().unwrap().entry(key).or_default().push(id);
                tx.commit().await.unwrap();
            }
        }));
    }
    let mut published: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
    let mut count = 0;
    while count < 240 {
        for event in pump.drain().await {
            count += 1;
            published.entry(event.key.unwrap()).or_default().push(event.id);
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(published, *order.lock().unwrap());
}

#[tokio::test]
async fn each_role_may_do_what_its_name_says_and_no_more() {
    let server = Server::start().await;
    let mut pump = Pump::start(&server, 4, 1).await;
    let own = server.own().await;
    for _ in 0..2 {
        own.batch_execute(&roles_sql("tidegate")).await.unwrap();
    }
    let refused = async |statement: &str| {
        let error = own.batch_execute(statement).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{statement}");
    };
    own.batch_execute("set role tidegate_producer").await.unwrap();
    sql(&own, "select tidegate.enqueue('orders', 't', 'k', 'x')")
        .await
        .unwrap();
    sql(&own, "select tidegate.enqueue_ordered('orders', 't', 'k', 'x')")
        .await
        .unwrap();
    for table in [
        "outbox",
        "lane",
        "member",
        "outbox_parked",
        "outbox_archive",
        "lease",
        "sweep",
    ] {
        refused(&format!("select * from tidegate.{table}")).await;
    }
    let chosen = "insert into tidegate.outbox (seq, outbox, lane, event_id, topic, content_type, payload, occurred_at) \
                  overriding system value values (1, 1, 1, gen_random_uuid(), 't', 't', '', 1)";
    refused(chosen).await;
    pump.outbox.enqueue_in(&own, [draft("k")]).await.unwrap();
    refused("delete from tidegate.outbox").await;
    refused("update tidegate.outbox_settings set lanes = 1").await;
    own.batch_execute("reset role; set role tidegate_auditor")
        .await
        .unwrap();
    own.batch_execute("select seq, event_id from tidegate.outbox")
        .await
        .unwrap();
    refused("select payload from tidegate.outbox").await;
    refused("select tidegate.enqueue('orders', 't', 'k', 'x')").await;
    own.batch_execute("reset role").await.unwrap();
    let relay = "alter role relay set search_path = ''; grant tidegate_relay to relay";
    own.batch_execute(&format!("create role relay login; {relay}"))
        .await
        .unwrap();
    let url = server.postgres.url().replace("postgres@", "relay@");
    let database = tidegate_stores::postgres::Database::open(&url, OpenOptions::default());
    pump.use_database(&database.await.unwrap(), 4, 2).await;
    assert_eq!(pump.drain().await.len(), 3);
    refused("set role tidegate_producer; drop table tidegate.lane").await;
}

#[tokio::test]
async fn another_schema_has_its_own_outboxes() {
    let server = Server::start().await;
    let options = OpenOptions {
        schema: "events".into(),
        ..OpenOptions::default()
    };
    let database = server.with(options).await.unwrap();
    let mut pump = Pump::start(&server, 4, 1).await;
    pump.use_database(&database, 8, 1).await;
    let mut own = server.own().await;
    let id = sql(&own, "select events.enqueue('orders', 't', 'k', 'x')")
        .await
        .unwrap();
    let tx = own.transaction().await.unwrap();
    let more = pump.outbox.enqueue_in(&tx, [draft("k")]).await.unwrap();
    tx.commit().await.unwrap();
    let published: Vec<_> = pump.drain().await.iter().map(|e| e.id).collect();
    assert_eq!(published, [vec![id], more].concat());
    own.batch_execute(&roles_sql("events")).await.unwrap();
    let row = own
        .query_one("select count(*) from tidegate.outbox", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
}

/// Statements travel with their types, and nobody listens.
#[tokio::test]
async fn a_relay_behind_a_pooler_publishes_and_does_not_listen() {
    let server = Server::start().await;
    server.clock.advance(std::time::Duration::from_secs(1));
    let options = OpenOptions {
        pooler: true,
        connections: 1,
        ..OpenOptions::default()
    };
    let database = server.with(options).await.unwrap();
    let mut pump = Pump::on(&database, 4, 1).await;
    let own = server.own().await;
    for n in 0..30 {
        let text = format!("select tidegate.enqueue('orders', 't', 'key-{n}', 'x')");
        sql(&own, &text).await.unwrap();
    }
    assert_eq!(pump.drain().await.len(), 30);
    pump.outbox.rung().await;
    let listening =
        "select count(*) from pg_stat_activity where application_name = 'tidegate' and query ilike 'listen%'";
    assert_eq!(own.query_one(listening, &[]).await.unwrap().get::<_, i64>(0), 0);
}

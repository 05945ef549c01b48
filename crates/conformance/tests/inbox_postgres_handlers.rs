//! Handlers over Postgres: who is to blame for which error, and declared projections with the types of their columns.

#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.

mod postgres_server;

use postgres_server::Server;
use tidegate_conformance::inbox::{LANES, ME, NOW, TTL, lane};
use tidegate_core::dead_letter::Filter;
use tidegate_core::inbox::handler::Handler;
use tidegate_core::inbox::projection::{Column, Projection};
use tidegate_core::inbox::{Applied, Batch, LaneBatch, Position, Retry};
use tidegate_core::lane::Hold;
use tidegate_core::lease::Token;
use tidegate_core::store::{Applier as _, DeadLetters as _, InboxStore as _};
use tidegate_core::stream::{Chain, Entry, EntryId};
use tidegate_core::{Code, Draft, Uuid};
use tidegate_stores::postgres::inbox::{InboxOptions, PostgresInbox, PostgresTx, each};
use tidegate_stores::postgres::projection::PostgresProjection;

/// A consumer over one lane, and a stream to feed it.
struct World {
    server: Server,
    inbox: PostgresInbox,
    token: Token,
    stream: Vec<Entry>,
}

impl World {
    async fn new(schema: &str) -> Self {
        let server = Server::start().await;
        server.own().await.batch_execute(schema).await.unwrap();
        let opened = PostgresInbox::open(server.database.clone(), "test", InboxOptions::default());
        let inbox = opened.await.unwrap();
        let lanes = (0..LANES).map(|slot| (lane(slot), Position::EARLIEST)).collect();
        inbox.register(lanes).await.unwrap();
        let hold = Hold {
            member: ME,
            label: "test".into(),
            ttl: TTL * 1000,
            release: vec![],
            leave: false,
        };
        let token = inbox.hold(hold).await.unwrap().owned[0].token;
        Self {
            server,
            inbox,
            token,
            stream: Vec::new(),
        }
    }

    fn publish(&mut self, draft: Draft) {
        let n = self.stream.len() as u64 + 1;
        let id = Uuid::from_u128(n.into());
        let chain = self.stream.last().map_or(Chain::START, |entry| entry.chain);
        self.stream.push(Entry {
            id: EntryId(0, n),
            lane: lane(0),
            n,
            chain: chain.next(n, Some(id)),
            event: Some(draft.seal(id, NOW).unwrap()),
        });
    }

    async fn apply<H>(&self, handler: H) -> Applied
    where
        H: Handler<PostgresTx> + Send + Sync + 'static,
    {
        let request = Batch {
            member: ME,
            lanes: vec![LaneBatch {
                lane: lane(0),
                token: self.token,
                entries: self.stream.clone(),
                cursor: self.stream.last().unwrap().id,
            }],
            careful: false,
            failures_max: 1000,
            now: NOW,
        };
        let applied = self.inbox.applier(handler).apply(request).await.unwrap();
        for books in self.inbox.books().await.unwrap() {
            assert_eq!(books.ledger.sum(), books.hw.cast_signed());
        }
        applied
    }

    /// Key, class, fingerprint and message of everything parked.
    async fn parked(&self) -> Vec<[String; 4]> {
        let letters = self.inbox.ls(Filter::default()).await.unwrap();
        letters
            .into_iter()
            .map(|l| {
                [
                    l.key.into_string(),
                    l.class,
                    l.fingerprint,
                    l.message.into_string(),
                ]
            })
            .collect()
    }

    async fn keys(&self) -> Vec<String> {
        let key = |[key, ..]: [String; 4]| key.trim_start_matches("k:").to_owned();
        self.parked().await.into_iter().map(key).collect()
    }

    async fn text(&self, query: &str) -> Option<String> {
        let rows = self.server.own().await.query(query, &[]).await.unwrap();
        rows.first().and_then(|row| row.get(0))
    }
}

fn row(key: &str, payload: &str) -> Draft {
    Draft::new("accounts", key).payload("application/json", payload.as_bytes().to_vec())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_database_refuses_parks_the_key_without_its_values() {
    let mut world =
        World::new("create table account (id text primary key, balance bigint check (balance >= 0))").await;
    for (key, balance) in [("a", 1), ("b", -71_234_567), ("c", 3), ("b", 4)] {
        world.publish(row(key, &balance.to_string()));
    }
    let applied = world
        .apply(each(async |tx, event| {
            let balance: i64 = serde_text(&event.event.payload);
            let key = event.event.key.as_deref();
            let sql = "insert into account values ($1, $2) on conflict (id) do update set balance = excluded.balance";
            tx.execute(sql, &[&key, &balance]).await?;
            Ok(())
        }))
        .await;
    assert_eq!((applied.counts.applied, applied.counts.parked), (2, 1));
    let parked = world.parked().await;
    assert_eq!(parked.len(), 1);
    let [key, class, fingerprint, message] = &parked[0];
    assert!(key.ends_with('b'), "{key}");
    assert_eq!(
        (class.as_str(), fingerprint.as_str()),
        ("data", "23514 account_balance_check")
    );
    assert!(!message.contains("71234567"), "{message}");
    assert_eq!(
        world
            .text("select string_agg(id, ',' order by id) from account")
            .await
            .unwrap(),
        "a,c"
    );
}

fn serde_text(payload: &[u8]) -> i64 {
    std::str::from_utf8(payload).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_database_is_to_blame_for_blames_no_event() {
    let mut world = World::new("create table account (id text primary key)").await;
    world.publish(row("a", "1"));
    for state in ["40001", "40P01", "53300", "57014", "55P03", "25006"] {
        let applied = world
            .apply(each(async move |tx, _| {
                let raise = format!("do $$ begin raise exception 'no' using errcode = '{state}'; end $$");
                tx.batch_execute(&raise).await?;
                Ok(())
            }))
            .await;
        assert!(applied.pause.is_some(), "{state}");
        assert_eq!((applied.counts.applied, applied.counts.parked), (0, 0), "{state}");
    }
    assert_eq!(world.parked().await.len(), 0);
    // Class 40 is not all of it: a constraint is the data's.
    let applied = world
        .apply(each(async |tx, _| {
            let raise = "do $$ begin raise exception 'no' using errcode = '40002'; end $$";
            tx.batch_execute(raise).await?;
            Ok(())
        }))
        .await;
    assert_eq!((applied.pause.is_some(), applied.counts.parked), (false, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_that_a_handler_swallows_parks_its_event_and_no_other() {
    let mut world = World::new("create table account (id text primary key)").await;
    for key in ["a", "bad", "b"] {
        world.publish(row(key, "1"));
    }
    let applied = world
        .apply(each(async |tx, event| {
            let key = event.event.key.as_deref();
            tx.execute("insert into account values ($1)", &[&key]).await?;
            if key == Some("bad") {
                // The server has ended the transaction; a commit would be answered like one that was done.
                let _ = tx.execute("insert into account values ($1)", &[&key]).await;
            }
            Ok(())
        }))
        .await;
    assert!(applied.pause.is_none(), "{applied:?}");
    assert_eq!((applied.counts.applied, applied.counts.parked), (2, 1));
    assert_eq!(world.keys().await, ["bad"]);
    let accounts = "select string_agg(id, ',' order by id) from account";
    assert_eq!(world.text(accounts).await.unwrap(), "a,b");
}

/// What it committed by itself stands; the event waits, and is never lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_ends_the_transaction_parks_the_event_and_no_retry_loses_it() {
    for ending in ["rollback", "commit", "rollback; begin", "commit; begin"] {
        let mut world = World::new("create table account (id text primary key)").await;
        for key in ["a", "bad", "b"] {
            world.publish(row(key, "1"));
        }
        let handler = || {
            each(async move |tx, event| {
                let key = event.event.key.as_deref();
                if key == Some("bad") {
                    tx.batch_execute(ending).await?;
                } else {
                    // What an early commit made durable comes again.
                    let sql = "insert into account values ($1) on conflict do nothing";
                    tx.execute(sql, &[&key]).await?;
                }
                Ok(())
            })
        };
        let applied = world.apply(handler()).await;
        assert!(applied.pause.is_none(), "{ending}: {applied:?}");
        assert_eq!(
            (applied.counts.applied, applied.counts.parked),
            (2, 1),
            "{ending}"
        );
        assert_eq!(world.keys().await, ["bad"], "{ending}");
        let request = Retry {
            failures_max: 16,
            member: ME,
            lanes: vec![(lane(0), world.token)],
            now: NOW.after(TTL),
        };
        let retried = world.inbox.applier(handler()).retry(request).await.unwrap();
        assert_eq!(retried.counts.applied, 0, "{ending}: {retried:?}");
        assert_eq!(world.keys().await, ["bad"], "{ending}");
        let events = "select count(*)::text from tidegate.inbox_parked_event";
        assert_eq!(world.text(events).await.unwrap(), "1", "{ending}");
        let accounts = "select string_agg(id, ',' order by id) from account";
        let accounts = world.text(accounts).await.unwrap();
        assert_eq!(accounts, "a,b", "{ending}");
        for books in world.inbox.books().await.unwrap() {
            assert_eq!(books.ledger.sum(), books.hw.cast_signed(), "{ending}");
        }
    }
}

async fn projection(world: &World, columns: &[&str], version: Option<&str>) -> PostgresProjection {
    let mapping = Projection {
        table: "account".into(),
        key: "id".into(),
        columns: columns.iter().map(|name| Column::new(*name, *name)).collect(),
        version: version.map(str::to_owned),
    };
    PostgresProjection::open(&world.server.database, mapping)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_projection_gives_values_the_types_of_their_columns() {
    let mut world = World::new(
        "create table account (id text primary key, at timestamptz, open boolean, total numeric, tags jsonb, note text)",
    )
    .await;
    world.publish(row(
        "ä",
        r#"{"at":"2026-01-31T12:00:00Z","open":true,"total":"12345678901234567890.12","tags":{"a":[1,2]},"note":"x\"y"}"#,
    ));
    world.publish(row(
        "digits",
        r#"{"at":null,"open":null,"total":12345678901234567890.123456789,"tags":null,"note":null}"#,
    ));
    world.publish(row(
        "bad",
        r#"{"at":"no time","open":true,"total":1,"tags":null,"note":null}"#,
    ));
    world.publish(row(
        "nulls",
        r#"{"at":null,"open":null,"total":null,"tags":null,"note":null}"#,
    ));
    let columns = ["at", "open", "total", "tags", "note"];
    let applied = world.apply(projection(&world, &columns, None).await).await;
    assert_eq!((applied.counts.applied, applied.counts.parked), (3, 1));
    let digits = world
        .text("select total::text from account where id = 'digits'")
        .await;
    assert_eq!(digits.unwrap(), "12345678901234567890.123456789");
    let parked = world.parked().await;
    assert_eq!((parked[0][1].as_str(), parked[0][2].as_str()), ("data", "22007"));
    assert!(!parked[0][3].contains("no time"), "{:?}", parked[0]);
    let shown =
        "select concat_ws('|', at at time zone 'UTC', open, total, tags, note) from account where id = 'ä'";
    assert_eq!(
        world.text(shown).await.unwrap(),
        "2026-01-31 12:00:00|t|12345678901234567890.12|{\"a\": [1, 2]}|x\"y"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_never_goes_back_and_a_delete_is_one_too() {
    let mut world =
        World::new("create table account (id text primary key, balance bigint, version bigint)").await;
    let big = 9_007_199_254_740_993;
    let stands = "select concat_ws('|', balance, version) from account where id = 'a'";
    for (payload, version, expect) in [
        (Some(1), big, Some("1|9007199254740993")),
        (Some(2), big - 1, Some("1|9007199254740993")),
        (None, big - 1, Some("1|9007199254740993")),
        (Some(3), big + 1, Some("3|9007199254740994")),
        (None, big + 2, None),
    ] {
        let draft = match payload {
            Some(balance) => row("a", &format!("{{\"balance\":{balance}}}")),
            None => Draft::new("accounts", "a").header("op", "delete"),
        };
        world.publish(draft.version(version));
        let handler = projection(&world, &["balance"], Some("version")).await;
        assert_eq!(world.apply(handler).await.counts.applied, 1);
        assert_eq!(world.text(stands).await.as_deref(), expect);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_projection_is_checked_against_its_table() {
    let world = World::new("create table account (id text, balance bigint)").await;
    for columns in [vec!["balance"], vec!["balanse"]] {
        let mapping = Projection {
            table: "account".into(),
            key: "id".into(),
            columns: columns.iter().map(|name| Column::new(*name, *name)).collect(),
            version: None,
        };
        let error = PostgresProjection::open(&world.server.database, mapping)
            .await
            .unwrap_err();
        assert_eq!(error.code(), Code::OptionsInvalid, "{error}");
    }
    let own = Projection {
        table: "tidegate.sweep".into(),
        key: "name".into(),
        columns: vec![Column::new("version", "version")],
        version: None,
    };
    let error = PostgresProjection::open(&world.server.database, own)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::OptionsInvalid);
    assert!(error.context().contains("Tidegate"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_and_nul_stand_in_a_dead_letter_as_they_came() {
    let mut world = World::new("create table account (id text primary key)").await;
    let bytes = vec![0, 255, 0xC3, 0x28, 0];
    world.publish(Draft::new("accounts", "a").payload("application/octet-stream", bytes.clone()));
    let failing =
        || each(async |_tx, _event| Err(tidegate_stores::postgres::HandlerError::poison("no", "never")));
    assert_eq!(world.apply(failing()).await.counts.parked, 1);
    let stored = world.server.own().await;
    let stored = stored
        .query_one("select payload from tidegate.inbox_parked_event", &[])
        .await
        .unwrap();
    assert_eq!(stored.get::<_, Vec<u8>>(0), bytes);
}

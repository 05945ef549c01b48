//! The outbox inside transactions of sqlx.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection as _, Transaction};
use tempfile::TempDir;
use tidegate::store::{OutboxStore, StreamStore};
use tidegate::stores::sqlite::{Database, OpenOptions, SqliteOutbox, SqliteStream, Wanted, rusqlite};
use tidegate::stream::EntryId;
use tidegate::{Code, Draft, Error, Event, Relay, Uuid, limits};

struct World {
    _folder: TempDir,
    path: PathBuf,
    outbox: SqliteOutbox,
    stream: Arc<SqliteStream>,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let db = Database::open(&path, OpenOptions::default()).unwrap();
        let wanted = Wanted {
            lanes: 4,
            archive: false,
        };
        let world = Self {
            outbox: SqliteOutbox::open(&db, "orders", wanted).await.unwrap(),
            stream: Arc::new(SqliteStream::open(&db, "orders").await.unwrap()),
            _folder: folder,
            path,
        };
        world
            .own()
            .execute_batch("create table orders (id text primary key)")
            .unwrap();
        world
    }

    /// A connection of the user's, in sqlx.
    async fn sqlx(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .busy_timeout(Duration::ZERO);
        SqliteConnection::connect_with(&options).await.unwrap()
    }

    /// And one in rusqlite.
    fn own(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.path).unwrap()
    }

    async fn waiting(&self) -> u64 {
        self.outbox
            .lanes()
            .await
            .unwrap()
            .iter()
            .map(|row| row.depth)
            .sum()
    }

    fn relay(&self) -> tidegate::Worker {
        let outbox = Arc::new(self.outbox.clone());
        Relay::new("orders", outbox, self.stream.clone()).build().unwrap()
    }

    async fn published(&self) -> Vec<Event> {
        let page = self
            .stream
            .read(EntryId::START, None, 10_000, usize::MAX)
            .await
            .unwrap();
        page.entries.into_iter().filter_map(|entry| entry.event).collect()
    }
}

fn drafts(count: usize) -> impl Iterator<Item = Draft> {
    (0..count).map(|n| Draft::new("orders", format!("key-{}", n % 7)))
}

async fn place(tx: &mut Transaction<'_, Sqlite>, id: &str) {
    sqlx::query("insert into orders values (?1)")
        .bind(id)
        .execute(&mut **tx)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_event_exists_exactly_when_the_sqlx_transaction_commits() {
    let world = World::new().await;
    let mut own = world.sqlx().await;
    for (commit, expect) in [(false, 0), (true, 2)] {
        let mut tx = own.begin().await.unwrap();
        place(&mut tx, "o-1").await;
        let ids = world.outbox.enqueue_sqlx(&mut tx, drafts(2)).await.unwrap();
        assert_eq!(ids.len(), 2);
        if commit {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
        assert_eq!(world.waiting().await, expect);
    }
}

#[tokio::test]
async fn a_savepoint_of_sqlx_takes_its_events_with_it() {
    let world = World::new().await;
    let mut own = world.sqlx().await;
    let mut outer = own.begin().await.unwrap();
    world.outbox.enqueue_sqlx(&mut outer, drafts(1)).await.unwrap();
    let mut inner = outer.begin().await.unwrap();
    world.outbox.enqueue_sqlx(&mut inner, drafts(3)).await.unwrap();
    inner.rollback().await.unwrap();
    outer.commit().await.unwrap();
    assert_eq!(world.waiting().await, 1);
}

/// One event for each shape of its fields.
fn shapes() -> Vec<Draft> {
    let mut chosen = Draft::new("orders", "k'ey ü").version(i64::MIN);
    chosen.id = Some(Uuid::from_u128(7));
    let mut headers = Draft::new("orders", "h").payload("application/octet-stream", vec![0, 255, 0]);
    headers.headers = vec![("a".into(), "1".into()), ("a".into(), "'\"; ü".into())];
    vec![
        chosen,
        headers,
        Draft::keyless("orders").version(0),
        Draft::new(
            "t".repeat(limits::TOPIC_BYTES_MAX),
            "k".repeat(limits::KEY_BYTES_MAX),
        ),
        Draft::new("orders", "large").payload("x/y", vec![7; limits::PAYLOAD_BYTES_MAX]),
    ]
}

/// Without what is given at enqueue.
fn comparable(mut event: Event) -> Event {
    event.occurred_at = tidegate::Timestamp::default();
    if event.id != Uuid::from_u128(7) {
        event.id = Uuid::nil();
    }
    event
}

async fn published_through(sqlx: bool) -> Vec<Event> {
    let world = World::new().await;
    if sqlx {
        let mut own = world.sqlx().await;
        let mut tx = own.begin().await.unwrap();
        world.outbox.enqueue_sqlx(&mut tx, shapes()).await.unwrap();
        tx.commit().await.unwrap();
    } else {
        let mut own = world.own();
        let tx = own.transaction().unwrap();
        world.outbox.enqueue_in(&tx, shapes()).unwrap();
        tx.commit().unwrap();
    }
    world.relay().run_once().await.unwrap();
    let mut events: Vec<Event> = world.published().await.into_iter().map(comparable).collect();
    events.sort_by(|a, b| (&a.key, &a.topic).cmp(&(&b.key, &b.topic)));
    events
}

#[tokio::test]
async fn both_adapters_write_the_same_rows() {
    let (sqlx, rusqlite) = (published_through(true).await, published_through(false).await);
    assert_eq!(sqlx.len(), shapes().len());
    assert!(sqlx == rusqlite, "the events differ");
}

#[tokio::test]
async fn a_batch_larger_than_one_statement_is_whole_and_in_order() {
    let world = World::new().await;
    let mut own = world.sqlx().await;
    let mut tx = own.begin().await.unwrap();
    let ids = world.outbox.enqueue_sqlx(&mut tx, drafts(2_500)).await.unwrap();
    assert_eq!(
        world.outbox.enqueue_sqlx(&mut tx, []).await.unwrap(),
        Vec::<Uuid>::new()
    );
    tx.commit().await.unwrap();
    assert_eq!(world.relay().run_once().await.unwrap(), 2_500);
    let published = world.published().await;
    for key in 0..7 {
        let of_key = |n: &usize| n % 7 == key;
        let expected: Vec<Uuid> = (0..2_500).filter(of_key).map(|n| ids[n]).collect();
        let name = format!("key-{key}");
        let seen: Vec<Uuid> = published
            .iter()
            .filter(|event| event.key.as_deref() == Some(&name))
            .map(|event| event.id)
            .collect();
        assert_eq!(seen, expected);
    }
}

/// Outside each limit, one at a time.
fn refused() -> Vec<Draft> {
    let mut header = Draft::new("orders", "k");
    header.headers = vec![("n".into(), "v".repeat(limits::HEADERS_BYTES_MAX + 1))];
    vec![
        Draft::new("", "k"),
        Draft::new("t".repeat(limits::TOPIC_BYTES_MAX + 1), "k"),
        Draft::new("orders", "k".repeat(limits::KEY_BYTES_MAX + 1)),
        Draft::new("orders", "k").payload("x/y", vec![0; limits::PAYLOAD_BYTES_MAX + 1]),
        Draft::new("orders", "k").payload("", vec![0]),
        Draft::new("orders", "k\0ey"),
        header,
    ]
}

#[tokio::test]
async fn both_adapters_refuse_the_same_events_in_the_same_words() {
    let world = World::new().await;
    let (mut own, mut other) = (world.sqlx().await, world.own());
    for draft in refused() {
        let mut tx = own.begin().await.unwrap();
        let good = Draft::new("orders", "good");
        let sqlx = world
            .outbox
            .enqueue_sqlx(&mut tx, [good.clone(), draft.clone()])
            .await
            .unwrap_err();
        tx.commit().await.unwrap();
        let tx = other.transaction().unwrap();
        let rusqlite = world.outbox.enqueue_in(&tx, [good, draft]).unwrap_err();
        tx.commit().unwrap();
        assert_eq!(sqlx.code(), Code::EventInvalid);
        assert_eq!(sqlx.to_string(), rusqlite.to_string());
    }
    assert_eq!(
        world.waiting().await,
        0,
        "the good event of a refused batch either"
    );
}

async fn elsewhere(mut own: SqliteConnection, outbox: &SqliteOutbox) -> Error {
    let mut tx = own.begin().await.unwrap();
    outbox.enqueue_sqlx(&mut tx, drafts(1)).await.unwrap_err()
}

#[tokio::test]
async fn a_sqlx_transaction_on_another_database_is_refused() {
    let (world, other) = (World::new().await, World::new().await);
    let empty = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    for own in [other.sqlx().await, empty] {
        let error = elsewhere(own, &world.outbox).await;
        assert_eq!(error.code(), Code::OptionsInvalid);
        assert!(error.context().contains("another database"), "{error}");
    }
    assert_eq!((world.waiting().await, other.waiting().await), (0, 0));
}

/// SQLite rolls back by itself, for instance in `insert or rollback`: sqlx does not know.
#[tokio::test]
async fn a_sqlx_transaction_that_sqlite_has_ended_is_refused() {
    let world = World::new().await;
    let mut own = world.sqlx().await;
    let mut tx = own.begin().await.unwrap();
    place(&mut tx, "o-1").await;
    sqlx::query("insert or rollback into orders values ('o-1')")
        .execute(&mut *tx)
        .await
        .unwrap_err();
    let error = world.outbox.enqueue_sqlx(&mut tx, drafts(1)).await.unwrap_err();
    assert_eq!(error.code(), Code::OptionsInvalid);
    assert!(error.context().contains("no transaction"), "{error}");
    drop(tx);
    assert_eq!(world.waiting().await, 0);
}

/// Two writers: the second is told that the file is busy, in the same code as with rusqlite, and goes on afterwards.
#[tokio::test]
async fn two_writers_take_turns_and_their_events_keep_the_order_of_their_commits() {
    let world = World::new().await;
    let (mut first, mut second, mut third) = (world.sqlx().await, world.sqlx().await, world.own());
    third.busy_timeout(Duration::ZERO).unwrap();
    let mut written = Vec::new();
    for _ in 0..20 {
        let mut tx = first.begin().await.unwrap();
        written.extend(world.outbox.enqueue_sqlx(&mut tx, one()).await.unwrap());
        let mut late = second.begin().await.unwrap();
        let busy = world.outbox.enqueue_sqlx(&mut late, one()).await.unwrap_err();
        assert_eq!(busy.code(), Code::StoreBusy, "{busy}");
        late.rollback().await.unwrap();
        let own = third.transaction().unwrap();
        let busy = world.outbox.enqueue_in(&own, one()).unwrap_err();
        assert_eq!(busy.code(), Code::StoreBusy, "{busy}");
        drop(own);
        tx.commit().await.unwrap();

        let own = third.transaction().unwrap();
        written.extend(world.outbox.enqueue_in(&own, one()).unwrap());
        own.commit().unwrap();
        let mut late = second.begin().await.unwrap();
        written.extend(world.outbox.enqueue_sqlx(&mut late, one()).await.unwrap());
        late.commit().await.unwrap();
    }
    assert_eq!(world.relay().run_once().await.unwrap(), 60);
    let published: Vec<Uuid> = world.published().await.iter().map(|event| event.id).collect();
    assert_eq!(published, written);
}

fn one() -> [Draft; 1] {
    [Draft::new("orders", "k")]
}

/// What sqlx commits rings for those who wait in this process, and a running relay publishes it.
#[tokio::test]
async fn a_commit_of_sqlx_rings() {
    let world = World::new().await;
    let mut own = world.sqlx().await;
    let relay = world.relay();
    relay.run_once().await.unwrap();
    let rung = world.outbox.database().rung();
    let mut tx = own.begin().await.unwrap();
    world.outbox.enqueue_sqlx(&mut tx, one()).await.unwrap();
    tx.commit().await.unwrap();
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, rung).await.expect("no ring");
    relay.start();
    let arrived = async {
        while world.published().await.is_empty() {
            world.outbox.database().rung().await;
        }
    };
    tokio::time::timeout(patience, arrived)
        .await
        .expect("not published");
    assert!(relay.stop(patience).await.cleanly);
}

//! Handlers over SQLite: who is to blame for which error, set-based batches, declared projections, and emitting.

#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.

use std::collections::BTreeMap;

use tempfile::TempDir;
use tidegate_conformance::inbox::{LANES, ME, NOW, TTL, lane};
use tidegate_core::dead_letter::{Courier, Filter, Letter, Untold};
use tidegate_core::inbox::block::block_on;
use tidegate_core::inbox::handler::Handler;
use tidegate_core::inbox::projection::{Column, Projection};
use tidegate_core::inbox::{Applied, Batch, LaneBatch, Options, Position, Retry};
use tidegate_core::lane::Hold;
use tidegate_core::lease::Token;
use tidegate_core::store::{Applier, DeadLetterSink, DeadLetters, InboxStore};
use tidegate_core::stream::{Chain, Entry, EntryId};
use tidegate_core::{Draft, Event, Ticks, Uuid};
use tidegate_stores::loud::LoudSink;
use tidegate_stores::sqlite::dead_letter_table::TableSink;
use tidegate_stores::sqlite::inbox::{InboxOptions, SqliteInbox, SqliteTx, batch, each};
use tidegate_stores::sqlite::outbox::{SqliteOutbox, Wanted};
use tidegate_stores::sqlite::projection::SqliteProjection;
use tidegate_stores::sqlite::rusqlite::Connection;
use tidegate_stores::sqlite::{Database, HandlerError, OpenOptions};

/// A consumer over one lane, and a stream to feed it.
struct World {
    database: Database,
    inbox: SqliteInbox,
    token: Token,
    stream: Vec<Entry>,
    _folder: TempDir,
}

impl World {
    fn new(schema: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = OpenOptions {
            foreign_keys: true,
            ..OpenOptions::default()
        };
        let database = Database::open(folder.path().join("test.db"), options).unwrap();
        let made = database.write(move |sql| {
            sql.connection().execute_batch(schema).unwrap();
            Ok(())
        });
        block_on(made).unwrap();
        let inbox = block_on(SqliteInbox::open(
            database.clone(),
            "test",
            InboxOptions::default(),
        ))
        .unwrap();
        let lanes = (0..LANES).map(|slot| (lane(slot), Position::EARLIEST)).collect();
        block_on(inbox.register(lanes)).unwrap();
        let token = block_on(inbox.hold(hold())).unwrap().owned[0].token;
        Self {
            database,
            inbox,
            token,
            stream: Vec::new(),
            _folder: folder,
        }
    }

    /// Appends an event; returns its number.
    fn publish(&mut self, draft: Draft) -> u64 {
        let n = u64::try_from(self.stream.len()).unwrap() + 1;
        let id = Uuid::from_u128(n.into());
        let chain = self.stream.last().map_or(Chain::START, |entry| entry.chain);
        self.stream.push(Entry {
            id: EntryId(0, n),
            lane: lane(0),
            n,
            chain: chain.next(n, Some(id)),
            event: Some(draft.seal(id, NOW).unwrap()),
        });
        n
    }

    fn apply<H>(&self, handler: H) -> Applied
    where
        H: for<'t> Handler<SqliteTx<'t>> + Send + Sync + 'static,
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
        let applied = block_on(self.inbox.applier(handler).apply(request)).unwrap();
        for books in block_on(self.inbox.books()).unwrap() {
            assert_eq!(books.ledger.sum(), books.hw.cast_signed());
        }
        applied
    }

    fn letters(&self) -> Vec<Letter> {
        block_on(self.inbox.ls(Filter::default())).unwrap()
    }

    /// Key, class and fingerprint of everything parked.
    fn parked(&self) -> Vec<(String, String, String)> {
        let letters = self.letters().into_iter();
        letters
            .map(|l| (l.key.into_string(), l.class, l.fingerprint))
            .collect()
    }

    fn rows(&self, query: &'static str) -> Vec<(String, Option<i64>)> {
        block_on(
            self.database
                .read(move |sql| sql.query("test", query, [], |row| Ok((row.get(0)?, row.get(1)?)))),
        )
        .unwrap()
    }
}

fn hold() -> Hold {
    Hold {
        member: ME,
        label: "test".into(),
        ttl: TTL * 1000,
        release: vec![],
        leave: false,
    }
}

const ACCOUNTS: &str = "create table account (
  id text primary key, balance integer check (balance >= 0), email text unique, owner text not null default 'x'
) strict;";

fn draft(key: &str, balance: i64) -> Draft {
    Draft::new("accounts", key).json(&serde_json(balance)).unwrap()
}

fn serde_json(balance: i64) -> BTreeMap<&'static str, i64> {
    BTreeMap::from([("balance", balance)])
}

fn balance(event: &Event) -> i64 {
    let text = std::str::from_utf8(&event.payload).unwrap();
    let digits = text.trim_start_matches("{\"balance\":").trim_end_matches('}');
    digits.parse().unwrap()
}

/// Constraint and type errors are the event's: class, and a fingerprint of code and name, without a value.
#[test]
fn h001_what_the_database_refuses_parks_the_key() {
    let mut world = World::new(ACCOUNTS);
    for key in ["fine", "check", "unique", "type", "null", "syntax", "row"] {
        world.publish(draft(key, 1));
    }
    let applied = world.apply(each(|db, event| {
        let key = event.event.key.as_deref().unwrap_or_default();
        let run = |sql: &str| db.execute(sql, []);
        match key {
            "fine" => run("insert into account (id, balance, email) values ('fine', 1, 'jane@example.org')"),
            "check" => run("insert into account (id, balance) values ('check', -5)"),
            "unique" => run("insert into account (id, email) values ('unique', 'jane@example.org')"),
            "type" => run("insert into account (id, balance) values ('type', 'much')"),
            "null" => run("insert into account (id, owner) values ('null', null)"),
            "syntax" => run("insert into acount values (1)"),
            _ => db
                .query_row("select balance from account where id = 'none'", [], |row| {
                    row.get::<_, i64>(0)
                })
                .map(|_| 1),
        }?;
        Ok(())
    }));
    assert!(applied.pause.is_none());
    assert_eq!(applied.counts.applied, 1);
    let expected = [
        ("k:check", "data", "SQLITE_CONSTRAINT_CHECK balance >= 0"),
        ("k:unique", "data", "SQLITE_CONSTRAINT_UNIQUE account.email"),
        ("k:type", "data", "SQLITE_CONSTRAINT_DATATYPE account.balance"),
        ("k:null", "data", "SQLITE_CONSTRAINT_NOTNULL account.owner"),
        ("k:syntax", "handler", "SQLITE_ERROR"),
        ("k:row", "data", "driver no row"),
    ];
    let parked = world.parked();
    let parked: Vec<_> = parked
        .iter()
        .map(|(k, c, f)| (k.as_str(), c.as_str(), f.as_str()))
        .collect();
    assert_eq!(parked, expected);
}

/// A constraint that is checked at commit names no event: the search finds it, and the others are applied.
#[test]
fn h002_a_deferred_constraint_is_found_by_halving() {
    let mut world = World::new(
        "create table parent (id text primary key);
         create table child (id text primary key, parent text references parent deferrable initially deferred);
         insert into parent values ('p');",
    );
    for key in ["a", "b", "orphan", "c", "orphan", "d"] {
        world.publish(draft(key, 1));
    }
    let handler = each(|db, event| {
        let key = event.event.key.as_deref().unwrap_or_default();
        let parent = if key == "orphan" { "none" } else { "p" };
        db.execute(
            "insert into child values (?1, ?2)",
            [&format!("{key}{}", event.n), parent],
        )?;
        Ok(())
    });
    let applied = world.apply(handler);
    assert!(applied.pause.is_none(), "{applied:?}");
    assert_eq!((applied.counts.applied, applied.counts.queued), (4, 2));
    assert_eq!(
        world.parked(),
        [(
            "k:orphan".into(),
            "data".into(),
            "commit SQLITE_CONSTRAINT_FOREIGNKEY".into()
        )]
    );
}

/// `INSERT OR ROLLBACK`, or a rollback of one's own, must not let positions stand without effects.
#[test]
fn h003_a_handler_that_ends_the_transaction_parks_the_event() {
    let mut world = World::new(ACCOUNTS);
    for key in ["a", "bad", "b"] {
        world.publish(draft(key, 1));
    }
    let handler = || {
        each(|db, event| {
            let key = event.event.key.as_deref().unwrap_or_default();
            db.execute("insert into account (id) values (?1)", [key])?;
            if key == "bad" {
                db.execute_batch("rollback")?;
            }
            Ok(())
        })
    };
    let parked = [("k:bad".into(), "handler".into(), "transaction ended".into())];
    let applied = world.apply(handler());
    assert!(applied.pause.is_none(), "{applied:?}");
    assert_eq!(world.parked(), parked);
    let ids: Vec<String> = world
        .rows("select id, balance from account order by id")
        .into_iter()
        .map(|r| r.0)
        .collect();
    assert_eq!(ids, ["a", "b"]);
    let request = Retry {
        failures_max: 16,
        member: ME,
        lanes: vec![(lane(0), world.token)],
        now: NOW.after(TTL),
    };
    let retried = block_on(world.inbox.applier(handler()).retry(request)).unwrap();
    assert_eq!((retried.counts.applied, world.parked()), (0, parked.into()));
    let waiting = world.rows("select key, n from tidegate_inbox_parked_event");
    assert_eq!(waiting.len(), 1);
}

/// A full disk blames nobody: the consumer pauses, and applies when there is room.
#[test]
fn h004_a_full_disk_blames_nobody() {
    let mut world = World::new("create table blob (data blob);");
    for _ in 0..5 {
        world.publish(draft("a", 1));
    }
    let limit = |pages: i64| {
        block_on(world.database.call(move |writer| {
            let sql = format!("pragma max_page_count = {pages}");
            writer.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap();
            Ok(())
        }))
        .unwrap();
    };
    let handler = || {
        each(|db, _| {
            db.execute("insert into blob values (zeroblob(300000))", [])?;
            Ok(())
        })
    };
    limit(1);
    for _ in 0..3 {
        let applied = world.apply(handler());
        let code = applied.pause.map(|error| error.code());
        assert_eq!(code, Some(tidegate_core::Code::StoreFull));
        assert!(world.parked().is_empty());
    }
    limit(1_000_000);
    assert_eq!(world.apply(handler()).counts.applied, 5);
}

/// Set-based: one statement for all events; the failing one is found and the rest stands.
#[test]
fn h005_a_batch_closure_is_one_call_until_an_event_fails() {
    let mut world = World::new(ACCOUNTS);
    for i in 0..200 {
        world.publish(draft(&format!("k{i}"), if i == 137 { -1 } else { i }));
    }
    let applied = world.apply(batch(|db, events| {
        let mut insert = db.prepare_cached("insert into account (id, balance) values (?1, ?2)")?;
        for event in events {
            insert.execute((event.event.key.as_deref(), balance(&event.event)))?;
        }
        Ok(())
    }));
    assert_eq!((applied.counts.applied, applied.counts.parked), (199, 1));
    assert_eq!(
        world.parked(),
        [(
            "k:k137".into(),
            "data".into(),
            "SQLITE_CONSTRAINT_CHECK balance >= 0".into()
        )]
    );
}

/// Events emitted by a handler are in the outbox if, and only if, its effects stand.
#[test]
fn h006_emitted_events_commit_with_the_effects() {
    let mut world = World::new(ACCOUNTS);
    for key in ["a", "bad", "b"] {
        world.publish(draft(key, 1));
    }
    let outbox = block_on(SqliteOutbox::open(&world.database, "out", Wanted::default())).unwrap();
    let applied = world.apply(each(move |db, event| {
        let key = event.event.key.as_deref().unwrap_or_default();
        outbox.enqueue_in(db, [Draft::new("derived", key)])?;
        if key == "bad" {
            return Err(HandlerError::poison("bad", "no"));
        }
        Ok(())
    }));
    assert_eq!(applied.counts.applied, 2);
    let keys: Vec<String> = world
        .rows("select key, null from tidegate_outbox order by seq")
        .into_iter()
        .map(|r| r.0)
        .collect();
    assert_eq!(keys, ["a", "b"]);
}

/// A retry runs the same handler in the same kind of transaction.
#[test]
fn h007_a_mended_cause_is_applied_by_the_retry() {
    let mut world = World::new(ACCOUNTS);
    world.publish(draft("late", 1));
    let needs_owner = || {
        each(|db, event| {
            let key = event.event.key.as_deref().unwrap_or_default();
            db.query_row("select id from account where id = 'owner'", [], |_| Ok(()))?;
            db.execute("insert into account (id) values (?1)", [key])?;
            Ok(())
        })
    };
    assert_eq!(world.apply(needs_owner()).counts.parked, 1);
    let mend = |sql: &tidegate_stores::sqlite::Sql<'_>| {
        sql.execute("test", "insert into account (id) values ('owner')", [])
    };
    block_on(world.database.write(mend)).unwrap();
    let request = Retry {
        failures_max: 16,
        member: ME,
        lanes: vec![(lane(0), world.token)],
        now: NOW.after(TTL),
    };
    let retried = block_on(world.inbox.applier(needs_owner()).retry(request)).unwrap();
    assert_eq!((retried.counts.applied, retried.counts.unparked), (1, 1));
}

fn projection(version: Option<&str>) -> Projection {
    Projection {
        table: "account".into(),
        key: "id".into(),
        columns: vec![Column::new("balance", "balance")],
        version: version.map(str::to_owned),
    }
}

fn projected(version: Option<&str>) -> SqliteProjection {
    SqliteProjection::new(projection(version)).unwrap()
}

/// Equal to applying the events one by one.
#[test]
fn h020_a_projection_is_the_fold_of_its_events() {
    let mut world = World::new(ACCOUNTS);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut expected = BTreeMap::new();
    for _ in 0..10 {
        for _ in 0..100 {
            let (key, value) = (format!("k{}", rng.u8(..40)), rng.i64(0..1_000_000));
            if rng.u8(..4) == 0 {
                world.publish(Draft::new("accounts", &key).header("op", "delete"));
                expected.remove(&key);
            } else {
                world.publish(draft(&key, value));
                expected.insert(key, Some(value));
            }
        }
        let applied = world.apply(projected(None));
        assert_eq!(applied.counts.applied, 100);
        let rows: BTreeMap<_, _> = world
            .rows("select id, balance from account")
            .into_iter()
            .collect();
        assert_eq!(rows, expected);
    }
}

/// With a version column a lower version neither writes nor deletes; versions above 2^53 stay apart.
#[test]
fn h021_a_version_column_never_goes_back() {
    let mut world =
        World::new("create table account (id text primary key, balance integer, version integer);");
    let big = 9_007_199_254_740_993;
    world.publish(draft("a", 1).version(big));
    world.apply(projected(Some("version")));
    world.publish(draft("a", 2).version(big - 1));
    world.publish(
        Draft::new("accounts", "a")
            .header("op", "delete")
            .version(big - 1),
    );
    world.apply(projected(Some("version")));
    let version = "select id, version from account";
    assert_eq!(world.rows(version), [("a".into(), Some(big))]);
    assert_eq!(
        world.rows("select id, balance from account"),
        [("a".into(), Some(1))]
    );
    world.publish(Draft::new("accounts", "a").header("op", "delete").version(big));
    world.apply(projected(Some("version")));
    assert!(world.rows(version).is_empty());
}

/// A missing field, or a value that a constraint refuses, parks its key only.
#[test]
fn h022_a_projection_parks_what_cannot_be_a_row() {
    let mut world = World::new(ACCOUNTS);
    world.publish(draft("a", 1));
    world.publish(Draft::new("accounts", "missing").payload("application/json", "{}"));
    world.publish(draft("negative", -1));
    world.publish(draft("b", 2));
    let applied = world.apply(projected(None));
    assert_eq!((applied.counts.applied, applied.counts.parked), (2, 2));
    let parked: Vec<_> = world
        .parked()
        .into_iter()
        .map(|(k, c, f)| format!("{k} {c} {f}"))
        .collect();
    assert_eq!(
        parked,
        [
            "k:missing decode missing balance",
            "k:negative data SQLITE_CONSTRAINT_CHECK balance >= 0",
        ]
    );
}

/// What a table refuses is refused too when a later event of the key, in the same batch, would have covered it.
#[test]
fn h025_a_later_event_does_not_hide_what_the_table_refuses() {
    let good = || draft("a", 2);
    for gone in [false, true] {
        let mut world = World::new(ACCOUNTS);
        world.publish(draft("b", 1));
        world.publish(draft("a", -1));
        let last = Draft::new("accounts", "a").header("op", "delete");
        world.publish(if gone { last } else { good() });
        let applied = world.apply(projected(None));
        assert_eq!((applied.counts.applied, applied.counts.queued), (1, 2));
        assert_eq!(
            world.rows("select id, balance from account"),
            [("b".into(), Some(1))]
        );
        let (key, ..) = &world.parked()[0];
        assert_eq!(key, "k:a");
    }
}

/// What a table refuses by more than types is asked of it for every value.
#[test]
fn h028_a_value_is_hidden_by_no_later_one_whatever_refuses_it() {
    let plain = "create table account (id text primary key, balance integer);";
    for refuses in [
        "create table account (id text primary key, balance integer check (balance >= 0));",
        "create table account (id text primary key, balance integer); create trigger no before insert on account
         when new.balance < 0 begin select raise(abort, 'no'); end;",
        "create table account (id text primary key, balance integer); create unique index one on account (balance);
         insert into account values ('z', -1);",
        "create table account (id text primary key, balance integer); create unique index one on account (abs(balance));
         insert into account values ('z', 1);",
        "create table account (id text primary key, balance integer,
           root integer generated always as (json_extract('[1]', iif(balance < 0, 'no', '$[0]'))) stored);",
        "create table account (id text primary key, balance integer);
         create index odd on account (json_extract('[1]', iif(balance < 0, 'no', '$[0]')));",
        "create table account (id text primary key, balance integer) strict;",
        plain,
    ] {
        let mut world = World::new(refuses);
        let words = Draft::new("accounts", "a").payload("application/json", r#"{"balance": "words"}"#);
        let by_type = refuses.ends_with("strict;");
        world.publish(if by_type { words } else { draft("a", -1) });
        world.publish(draft("a", 2));
        let applied = world.apply(projected(None));
        let queued = if refuses == plain { 0 } else { 2 };
        assert_eq!(applied.counts.queued, queued, "{refuses}");
    }
}

/// A hot key costs a row for each batch, not one for each event.
#[test]
fn h029_values_of_one_key_fold_where_the_table_refuses_by_type_alone() {
    let mut world = World::new("create table account (id text primary key, balance integer);");
    for n in 1..=400 {
        world.publish(draft("a", n));
    }
    let changes = || block_on(world.database.call(|writer| Ok(writer.total_changes()))).unwrap();
    let before = changes();
    let applied = world.apply(projected(None));
    assert_eq!(applied.counts.applied, 400);
    assert_eq!(
        world.rows("select id, balance from account"),
        [("a".into(), Some(400))]
    );
    let rows = changes() - before;
    assert!(rows < 20, "{rows} rows written");
}

/// An integer that the database cannot hold parks its event; a float is one.
#[test]
fn h026_an_integer_beyond_64_bits_is_not_bent_into_a_float() {
    let mut world = World::new("create table account (id text primary key, balance);");
    let with = |key: &str, json: &str| {
        Draft::new("accounts", key).payload("application/json", format!("{{\"balance\": {json}}}"))
    };
    world.publish(with("max", "9223372036854775807"));
    world.publish(with("beyond", "9223372036854775808"));
    world.publish(with("far", "99999999999999999999999"));
    world.publish(with("real", "1e3"));
    let applied = world.apply(projected(None));
    assert_eq!((applied.counts.applied, applied.counts.parked), (2, 2));
    let causes: Vec<_> = world
        .parked()
        .into_iter()
        .map(|(_, class, cause)| (class, cause))
        .collect();
    let cause = ("decode".to_owned(), "too large in balance".to_owned());
    assert_eq!(causes, [cause.clone(), cause]);
    assert_eq!(
        world.rows("select id, balance from account where typeof(balance) = 'integer'"),
        [("max".into(), Some(i64::MAX))]
    );
    let real = "select typeof(balance), cast(balance as integer) from account where id = 'real'";
    assert_eq!(world.rows(real), [("real".into(), Some(1000))]);
}

/// What is nested too deep for JSON readers is no concern where it is not declared, and is named where it is.
#[test]
fn h027_deep_nesting_neither_overflows_nor_misleads() {
    let mut world = World::new("create table account (id text primary key, balance);");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let with =
        |key: &str, json: &str| Draft::new("accounts", key).payload("application/json", json.to_owned());
    world.publish(with("other", &format!("{{\"other\": {deep}, \"balance\": 1}}")));
    world.publish(with("mapped", &format!("{{\"balance\": {deep}}}")));
    let applied = world.apply(projected(None));
    assert_eq!((applied.counts.applied, applied.counts.parked), (1, 1));
    let letter = world.letters().remove(0);
    assert_eq!(letter.fingerprint, "too deep in balance");
    let message = letter.message.into_string();
    assert!(message.contains("127 levels"), "{message}");
}

/// A missing table or a key without an index is found before the first event.
#[test]
fn h023_a_projection_is_checked_against_its_table() {
    let connection = Connection::open_in_memory().unwrap();
    assert!(projected(None).check(&connection).is_err());
    connection
        .execute_batch("create table account (id text, balance integer);")
        .unwrap();
    assert!(
        projected(None).check(&connection).is_err(),
        "the key is not unique"
    );
    connection
        .execute_batch("create unique index u on account (id);")
        .unwrap();
    projected(None).check(&connection).unwrap();
    let hostile = Projection {
        table: "account\"; drop table account; --".into(),
        ..projection(None)
    };
    assert!(SqliteProjection::new(hostile).is_err());
}

/// B12: the reference sinks receive redacted copies, and telling again replaces.
#[test]
fn h024_the_table_sink_holds_redacted_copies() {
    let mut world = World::new(ACCOUNTS);
    world.publish(
        Draft::new("accounts", "jane@example.org")
            .payload("application/json", "{\"email\": \"jane@example.org\"}"),
    );
    let skip = InboxOptions {
        rules: Options {
            attempts_max: 0,
            ..Options::default()
        },
        ..InboxOptions::default()
    };
    world.inbox = block_on(SqliteInbox::open(world.database.clone(), "test", skip)).unwrap();
    world.apply(each(|_, _| {
        Err(HandlerError::poison("why", "mail to jane@example.org bounced"))
    }));
    let table = block_on(TableSink::open(world.database.clone(), "graveyard")).unwrap();
    let mut courier = Courier::default();
    for sink in [&table as &dyn DeadLetterSink, &LoudSink] {
        let letter = block_on(world.inbox.untold(Untold::default())).unwrap().remove(0);
        block_on(sink.accept(&letter)).unwrap();
    }
    let told = block_on(courier.round(&world.inbox, &table, None, Ticks::default())).unwrap();
    assert_eq!(told, 1);
    let rows =
        world.rows("select key || message || headers || payload || fingerprint, waiting from graveyard");
    assert_eq!(rows.len(), 1, "told twice, one row");
    assert!(
        rows[0].0.contains("why") && !rows[0].0.contains("jane"),
        "{rows:?}"
    );
    assert!(block_on(TableSink::open(world.database.clone(), "a\"b")).is_err());
}

/// The seed's fault "two consumers in one database starve each other".
#[test]
fn h008_two_consumers_of_one_database_do_not_meet() {
    let mut world = World::new("create table log (line text);");
    for key in ["a", "bad", "b"] {
        world.publish(draft(key, 1));
    }
    let log = |name: &'static str, bad: bool| {
        each(move |db, event| {
            db.execute("insert into log values (?1)", [format!("{name}{}", event.n)])?;
            match event.event.key.as_deref() {
                Some("bad") if bad => Err(HandlerError::poison("bad", "no")),
                _ => Ok(()),
            }
        })
    };
    assert_eq!(world.apply(log("x", true)).counts.parked, 1);
    let second = block_on(SqliteInbox::open(
        world.database.clone(),
        "second",
        InboxOptions::default(),
    ));
    world.inbox = second.unwrap();
    block_on(world.inbox.register(vec![(lane(0), Position::EARLIEST)])).unwrap();
    world.token = block_on(world.inbox.hold(hold())).unwrap().owned[0].token;
    assert_eq!(world.apply(log("y", false)).counts.applied, 3);
    let lines: Vec<String> = world
        .rows("select line, null from log order by rowid")
        .into_iter()
        .map(|row| row.0)
        .collect();
    assert_eq!(lines, ["x1", "x3", "y1", "y2", "y3"]);
    assert!(world.parked().is_empty(), "those of the first are its own");
}

/// Defaults of the options are the documented ones.
#[test]
fn h030_defaults() {
    let options = Options::default();
    assert_eq!((options.attempts_max, options.crashes_max), (8, 3));
    assert_eq!(
        (options.key_events_max, options.parked_events_max),
        (10_000, 100_000)
    );
}

//! The inbox suite over Postgres.

#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.

mod postgres_server;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use postgres_server::{Server, TestClock};
use tidegate_conformance::inbox::memory::{Memory, verdict};
use tidegate_conformance::inbox::random::Random;
use tidegate_conformance::inbox::{
    Act, Doomed, LaneView, ParkedView, Plan, Snapshot, World, class_name, doomed_plan,
};
use tidegate_conformance::{counts, inbox, inbox_cases};
use tidegate_core::Timestamp;
use tidegate_core::inbox::handler::{Handler, LocalBoxFuture, Mode};
use tidegate_core::inbox::transaction::{Ledger, ParkedState, Tally};
use tidegate_core::inbox::{Delivered, Options, Position, Verdict};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::memory::Clock;
use tidegate_core::store::{Applier, DeadLetters, InboxStore};
use tidegate_core::stream::{Chain, EntryId};
use tidegate_stores::postgres::inbox::{InboxOptions, PostgresInbox, PostgresTx};
use tidegate_stores::postgres::{Database, OpenOptions};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Row};

macro_rules! suite {
    ($($group:ident :: $case:ident),* $(,)?) => {
        $(#[test] fn $case() { let runtime = runtime(); let _entered = runtime.enter(); inbox::$group::$case(&Postgres::new(&runtime)); })*
    };
}
inbox_cases!(suite);

/// Any difference between the store and its specification is a bug.
#[test]
fn c081_random_runs_are_equal_to_the_memory_store() {
    let seeds = counts::budget("TIDEGATE_INBOX_SEEDS", 8);
    counts::add("conformance.inbox.runs", seeds);
    let runtime = runtime();
    let _entered = runtime.enter();
    for seed in 0..seeds {
        let (postgres, memory) = (Postgres::new(&runtime), Memory::new());
        let mut ours = Random::new(&postgres, seed);
        let mut theirs = Random::new(&memory, seed);
        for step in 0..40 {
            assert_eq!(ours.step(), theirs.step(), "seed {seed}, step {step}");
        }
        ours.heal();
    }
}

/// Not a test: what [`World::doomed`] runs as a process of its own.
#[test]
#[ignore = "run by other cases, with its task in the environment"]
fn doomed_process() {
    let read = |name: &str| std::env::var(name).expect("run by another case");
    let number = |name: &str| read(name).parse::<u64>().unwrap();
    let runtime = runtime();
    let _entered = runtime.enter();
    let clock = Clock::default();
    clock.advance(Duration::from_micros(number("DOOMED_CLOCK")));
    let world = Postgres::at(&runtime, &read("DOOMED_URL"), clock);
    let run = Doomed {
        member: Nonce(number("DOOMED_MEMBER").into()),
        tokens: read("DOOMED_TOKENS")
            .split(',')
            .map(|t| Token(t.parse().unwrap()))
            .collect(),
        careful: number("DOOMED_CAREFUL") == 1,
        retry: Some(number("DOOMED_RETRY"))
            .filter(|s| *s > 0)
            .map(Duration::from_secs),
    };
    let applier = world.applier(doomed_plan(), Options::default());
    match run.retry {
        None => drop(runtime.block_on(applier.apply(run.batch(&world))).unwrap()),
        Some(after) => drop(runtime.block_on(applier.retry(run.request(after))).unwrap()),
    }
}

/// Stores are called outside the runtime, as the suite does; their connections live in it.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

struct Postgres<'r> {
    runtime: &'r Runtime,
    url: String,
    database: Database,
    inbox: PostgresInbox,
    clock: Clock,
    _server: Option<Server>,
}

impl<'r> Postgres<'r> {
    fn new(runtime: &'r Runtime) -> Self {
        let server = runtime.block_on(Server::start());
        let table =
            "create table effect (at bigint generated always as identity, lane integer, n bigint, key text)";
        runtime.block_on(async { server.own().await.batch_execute(table).await.unwrap() });
        let world = Self::at(runtime, &server.postgres.url(), server.clock.clone());
        Self {
            _server: Some(server),
            ..world
        }
    }

    fn at(runtime: &'r Runtime, url: &str, clock: Clock) -> Self {
        let options = OpenOptions {
            clock: Some(Arc::new(TestClock(clock.clone()))),
            ..OpenOptions::default()
        };
        let database = runtime.block_on(Database::open(url, options)).unwrap();
        let opened = PostgresInbox::open(database.clone(), "test", InboxOptions::default());
        let inbox = runtime.block_on(opened).unwrap();
        Self {
            runtime,
            url: url.to_owned(),
            database,
            inbox,
            clock,
            _server: None,
        }
    }
}

impl World for Postgres<'_> {
    fn inbox(&self) -> Arc<dyn InboxStore> {
        Arc::new(self.inbox.clone())
    }

    fn applier(&self, plan: Plan, rules: Options) -> Arc<dyn Applier> {
        let options = InboxOptions {
            rules,
            ..InboxOptions::default()
        };
        let opened = PostgresInbox::open(self.database.clone(), "test", options);
        Arc::new(self.runtime.block_on(opened).unwrap().applier(Planned(plan)))
    }

    fn pass_time(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn snapshot(&self) -> Snapshot {
        self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
            let running = tokio::spawn(connection);
            client
                .batch_execute("begin isolation level repeatable read")
                .await
                .unwrap();
            let view = view(&client).await;
            running.abort();
            view
        })
    }

    fn letters(&self) -> Arc<dyn DeadLetters> {
        Arc::new(self.inbox.clone())
    }

    fn doomed(&self, run: &Doomed) -> bool {
        let tokens: Vec<String> = run.tokens.iter().map(ToString::to_string).collect();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "doomed_process"])
            .env("DOOMED_URL", &self.url)
            .env("DOOMED_CLOCK", self.clock.now().as_micros().to_string())
            .env("DOOMED_MEMBER", run.member.0.to_string())
            .env("DOOMED_TOKENS", tokens.join(","))
            .env("DOOMED_CAREFUL", u8::from(run.careful).to_string())
            .env(
                "DOOMED_RETRY",
                run.retry.unwrap_or_default().as_secs().to_string(),
            )
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        match status.code() {
            Some(0) => false,
            Some(ENDED) => true,
            other => panic!("the process failed in another way: {other:?}"),
        }
    }

    fn statements(&self) -> Option<u64> {
        // Begin and commit are not among them.
        Some(self.database.statements() + 2 * self.database.commits())
    }

    /// One look after each call, at what it left of the transaction.
    fn apply_cost(&self, calls: u64) -> u64 {
        4 + calls
    }
}

/// Exit status of a doomed process, unlike any of the test harness.
const ENDED: i32 = 9;

struct Planned(Plan);

impl Handler<PostgresTx> for Planned {
    fn mode(&self) -> Mode {
        self.0.mode
    }

    fn apply<'a>(&'a self, tx: &'a mut PostgresTx, events: &'a [Delivered]) -> LocalBoxFuture<'a, Verdict> {
        Box::pin(async move {
            for (index, event) in events.iter().enumerate() {
                let key = event.event.key.as_deref().unwrap_or("-");
                let (slot, n) = (i32::from(event.lane.slot), event.n.cast_signed());
                tx.execute(
                    "insert into effect (lane, n, key) values ($1, $2, $3)",
                    &[&slot, &n, &key],
                )
                .await
                .unwrap();
                if (self.0.act)(event) == Act::End {
                    std::process::exit(ENDED);
                }
                if let Some(verdict) = verdict(&self.0, index, event) {
                    return verdict;
                }
            }
            Verdict::Applied
        })
    }
}

async fn all<T>(client: &Client, sql: &str, row: impl FnMut(&Row) -> T) -> Vec<T> {
    client.query(sql, &[]).await.unwrap().iter().map(row).collect()
}

async fn view(db: &Client) -> Snapshot {
    Snapshot {
        effects: all(db, "select lane, n, key from effect order by at", |row| {
            (slot(row, 0), number(row, 1), row.get(2))
        })
        .await,
        lanes: all(
            db,
            "select lane, hw, chain, cursor_hi, cursor_lo, clean, start, applied, voids, skipped, parked, discarded
             from tidegate.consumer_lane order by lineage, lane",
            lane_view,
        )
        .await,
        parked: all(
            db,
            "select lane, key, state, attempts, next_at, class, fingerprint, message,
               (select string_agg(n::text, ',' order by n) from tidegate.inbox_parked_event as e
                where e.key = p.key), events
             from tidegate.inbox_parked as p order by lineage, key collate \"C\"",
            parked_view,
        )
        .await,
        skipped: all(
            db,
            "select lane, n from tidegate.inbox_skipped order by lane, n",
            |row| (slot(row, 0), number(row, 1)),
        )
        .await,
        attempts: all(
            db,
            "select lane, n, tenures from tidegate.inbox_attempt order by lane, n",
            |row| (slot(row, 0), number(row, 1), row.get::<_, i32>(2).cast_unsigned()),
        )
        .await,
    }
}

fn slot(row: &Row, at: usize) -> u16 {
    u16::try_from(row.get::<_, i32>(at)).unwrap()
}

fn number(row: &Row, at: usize) -> u64 {
    row.get::<_, i64>(at).cast_unsigned()
}

fn lane_view(row: &Row) -> LaneView {
    LaneView {
        slot: slot(row, 0),
        position: Position {
            hw: number(row, 1),
            chain: Chain(row.get::<_, Vec<u8>>(2).try_into().unwrap()),
            cursor: EntryId(number(row, 3), number(row, 4)),
            clean: row.get(5),
        },
        ledger: Ledger {
            start: number(row, 6),
            tally: Tally {
                applied: row.get(7),
                voids: row.get(8),
                skipped: row.get(9),
                parked: row.get(10),
            },
            discarded: row.get(11),
        },
    }
}

fn parked_view(row: &Row) -> ParkedView {
    let state: String = row.get(2);
    let events: String = row.get(8);
    let events: Vec<u64> = events.split(',').map(|n| n.parse().unwrap()).collect();
    assert_eq!(
        number(row, 9),
        u64::try_from(events.len()).unwrap(),
        "the counter of the key"
    );
    ParkedView {
        slot: slot(row, 0),
        key: row.get(1),
        state: match state.as_str() {
            "retrying" => ParkedState::Retrying,
            _ => ParkedState::Dead,
        },
        attempts: row.get::<_, i32>(3).cast_unsigned(),
        next_at: Timestamp::from_micros(row.get(4)),
        class: class_name(&row.get::<_, String>(5)),
        fingerprint: row.get(6),
        message: row.get(7),
        events,
    }
}

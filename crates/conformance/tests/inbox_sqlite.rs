//! The inbox suite over SQLite.

#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_conformance::inbox::memory::{Memory, verdict};
use tidegate_conformance::inbox::random::Random;
use tidegate_conformance::inbox::{
    Act, Doomed, LaneView, ParkedView, Plan, Snapshot, World, class_name, doomed_plan,
};
use tidegate_conformance::{counts, inbox, inbox_cases};
use tidegate_core::inbox::block::block_on;
use tidegate_core::inbox::handler::{Handler, LocalBoxFuture, Mode};
use tidegate_core::inbox::transaction::{Ledger, ParkedState, Tally};
use tidegate_core::inbox::{Delivered, Options, Position, Verdict};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::store::{Applier, DeadLetters, InboxStore};
use tidegate_core::stream::{Chain, EntryId};
use tidegate_core::time::micros;
use tidegate_core::{Ticks, Timestamp, Uuid};
use tidegate_stores::sqlite::inbox::{InboxOptions, SqliteInbox, SqliteTx};
use tidegate_stores::sqlite::rusqlite::{Connection, Row};
use tidegate_stores::sqlite::{Clock, Database, OpenOptions};

macro_rules! suite {
    ($($group:ident :: $case:ident),* $(,)?) => {
        $(#[test] fn $case() { inbox::$group::$case(&Sqlite::new()); })*
    };
}
inbox_cases!(suite);

/// Any difference between the store and its specification is a bug.
#[test]
fn c081_random_runs_are_equal_to_the_memory_store() {
    let seeds = counts::budget("TIDEGATE_INBOX_SEEDS", 8);
    counts::add("conformance.inbox.runs", seeds);
    for seed in 0..seeds {
        let (sqlite, memory) = (Sqlite::new(), Memory::new());
        let mut ours = Random::new(&sqlite, seed);
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
    let world = Sqlite::at(
        Path::new(&read("DOOMED_PATH")),
        i64::try_from(number("DOOMED_CLOCK")).unwrap(),
    );
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
        None => drop(block_on(applier.apply(run.batch(&world))).unwrap()),
        Some(after) => drop(block_on(applier.retry(run.request(after))).unwrap()),
    }
}

struct Sqlite {
    database: Database,
    inbox: SqliteInbox,
    clock: Arc<TestClock>,
    _folder: Option<TempDir>,
}

#[derive(Debug, Default)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    fn boot(&self) -> Ticks {
        Ticks::from_micros(self.0.load(Ordering::SeqCst))
    }

    fn boot_id(&self) -> Uuid {
        Uuid::from_u128(1)
    }
}

impl Sqlite {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let world = Self::at(&folder.path().join("test.db"), 0);
        let table = "create table effect (at integer primary key, lane integer, n integer, key text)";
        block_on(world.database.write(move |sql| sql.execute("test", table, []))).unwrap();
        Self {
            _folder: Some(folder),
            ..world
        }
    }

    fn at(path: &Path, now: i64) -> Self {
        let clock = Arc::new(TestClock(AtomicI64::new(now)));
        let options = OpenOptions {
            clock: clock.clone(),
            ..OpenOptions::default()
        };
        let database = Database::open(path, options).unwrap();
        let inbox = block_on(SqliteInbox::open(
            database.clone(),
            "test",
            InboxOptions::default(),
        ))
        .unwrap();
        Self {
            database,
            inbox,
            clock,
            _folder: None,
        }
    }
}

impl World for Sqlite {
    fn inbox(&self) -> Arc<dyn InboxStore> {
        Arc::new(self.inbox.clone())
    }

    fn applier(&self, plan: Plan, rules: Options) -> Arc<dyn Applier> {
        let options = InboxOptions {
            rules,
            ..InboxOptions::default()
        };
        let inbox = block_on(SqliteInbox::open(self.database.clone(), "test", options)).unwrap();
        Arc::new(inbox.applier(Planned(plan)))
    }

    fn pass_time(&self, by: Duration) {
        self.clock.0.fetch_add(micros(by), Ordering::SeqCst);
    }

    fn snapshot(&self) -> Snapshot {
        block_on(self.database.read(|sql| Ok(view(sql.connection())))).unwrap()
    }

    fn letters(&self) -> Arc<dyn DeadLetters> {
        Arc::new(self.inbox.clone())
    }

    fn doomed(&self, run: &Doomed) -> bool {
        let tokens: Vec<String> = run.tokens.iter().map(ToString::to_string).collect();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "doomed_process"])
            .env("DOOMED_PATH", self.database.path())
            .env("DOOMED_CLOCK", self.clock.0.load(Ordering::SeqCst).to_string())
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
        Some(self.database.statements())
    }
}

/// Exit status of a doomed process, unlike any of the test harness.
const ENDED: i32 = 9;

struct Planned(Plan);

impl Handler<SqliteTx<'_>> for Planned {
    fn mode(&self) -> Mode {
        self.0.mode
    }

    fn apply<'a>(&'a self, tx: &'a mut SqliteTx<'_>, events: &'a [Delivered]) -> LocalBoxFuture<'a, Verdict> {
        Box::pin(async move {
            for (index, event) in events.iter().enumerate() {
                let key = event.event.key.as_deref().unwrap_or("-");
                tx.prepare_cached("insert into effect (lane, n, key) values (?1, ?2, ?3)")
                    .unwrap()
                    .execute((event.lane.slot, event.n.cast_signed(), key))
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

fn all<T>(db: &Connection, sql: &str, row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>) -> Vec<T> {
    let mut statement = db.prepare(sql).unwrap();
    statement
        .query_map([], row)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn view(db: &Connection) -> Snapshot {
    Snapshot {
        effects: all(db, "select lane, n, key from effect order by at", |row| {
            Ok((row.get(0)?, number(row, 1)?, row.get(2)?))
        }),
        lanes: all(
            db,
            "select lane, hw, chain, cursor_hi, cursor_lo, clean, start, applied, voids, skipped, parked, discarded
             from tidegate_consumer_lane order by lineage, lane",
            lane_view,
        ),
        parked: all(
            db,
            "select lane, key, state, attempts, next_at, class, fingerprint, message,
               (select group_concat(n) from (select n from tidegate_inbox_parked_event as e
                where e.key = p.key order by n)), events
             from tidegate_inbox_parked as p order by lineage, key",
            parked_view,
        ),
        skipped: all(
            db,
            "select lane, n from tidegate_inbox_skipped order by lane, n",
            |row| Ok((row.get(0)?, number(row, 1)?)),
        ),
        attempts: all(
            db,
            "select lane, n, tenures from tidegate_inbox_attempt order by lane, n",
            |row| Ok((row.get(0)?, number(row, 1)?, row.get(2)?)),
        ),
    }
}

fn number(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(at)?.cast_unsigned())
}

fn lane_view(row: &Row<'_>) -> rusqlite::Result<LaneView> {
    Ok(LaneView {
        slot: row.get(0)?,
        position: Position {
            hw: number(row, 1)?,
            chain: Chain(row.get(2)?),
            cursor: EntryId(number(row, 3)?, number(row, 4)?),
            clean: row.get(5)?,
        },
        ledger: Ledger {
            start: number(row, 6)?,
            tally: Tally {
                applied: row.get(7)?,
                voids: row.get(8)?,
                skipped: row.get(9)?,
                parked: row.get(10)?,
            },
            discarded: row.get(11)?,
        },
    })
}

fn parked_view(row: &Row<'_>) -> rusqlite::Result<ParkedView> {
    let state: String = row.get(2)?;
    let events: String = row.get(8)?;
    let events: Vec<u64> = events.split(',').map(|n| n.parse().unwrap()).collect();
    assert_eq!(
        number(row, 9)?,
        u64::try_from(events.len()).unwrap(),
        "the counter of the key"
    );
    Ok(ParkedView {
        slot: row.get(0)?,
        key: row.get(1)?,
        state: match state.as_str() {
            "retrying" => ParkedState::Retrying,
            _ => ParkedState::Dead,
        },
        attempts: row.get(3)?,
        next_at: Timestamp::from_micros(row.get(4)?),
        class: class_name(&row.get::<_, String>(5)?),
        fingerprint: row.get(6)?,
        message: row.get(7)?,
        events,
    })
}

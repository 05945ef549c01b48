//! The outbox suite over SQLite, and what only a file, a user's transaction and processes can show.

// Helpers are tests too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod sqlite_file;

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sqlite_file::File;
use tidegate_conformance::outbox::Subject;
use tidegate_conformance::{counts, outbox_suite};
use tidegate_core::lane::Hold;
use tidegate_core::lease::Nonce;
use tidegate_core::memory::Clock;
use tidegate_core::outbox::{LaneTurn, LaneTurned, Planned, Turn};
use tidegate_core::store::{BoxFuture, OutboxStore, Sink, StreamStore};
use tidegate_core::stream::{Appended, EntryId, LaneAppend, Numbered};
use tidegate_core::{Code, Draft, Event, Uuid};
use tidegate_stores::sqlite::outbox::Wanted;
use tidegate_stores::sqlite::{Database, OpenOptions, SqliteOutbox, SqliteStream};

impl Subject for File {
    fn outbox(&self, lanes: u16, archive: bool) -> BoxFuture<'_, Arc<dyn OutboxStore>> {
        Box::pin(async move {
            let outbox = SqliteOutbox::open(&self.database(), "orders", Wanted { lanes, archive }).await;
            Arc::new(outbox.unwrap()) as Arc<dyn OutboxStore>
        })
    }

    fn clock(&self) -> Clock {
        self.clock.clock.clone()
    }
}

outbox_suite!(File::new());

fn drafts(count: usize) -> Vec<Draft> {
    (0..count)
        .map(|n| Draft::new("orders", format!("key-{n}")).payload("text/plain", vec![7; 200]))
        .collect()
}

async fn open(file: &File, archive: bool) -> SqliteOutbox {
    SqliteOutbox::open(&file.database(), "orders", Wanted { lanes: 64, archive })
        .await
        .unwrap()
}

fn own_connection(file: &File) -> Connection {
    let own = Connection::open(&file.path).unwrap();
    own.execute_batch("create table if not exists orders (id text primary key)")
        .unwrap();
    own
}

async fn depth(outbox: &SqliteOutbox) -> u64 {
    outbox.lanes().await.unwrap().iter().map(|row| row.depth).sum()
}

#[tokio::test]
async fn an_event_exists_exactly_when_the_users_transaction_commits() {
    let file = File::new();
    let outbox = open(&file, false).await;
    let mut own = own_connection(&file);
    for (commit, expect) in [(false, 0), (true, 2)] {
        let tx = own.transaction().unwrap();
        tx.execute("insert into orders values ('o-1')", []).unwrap();
        let ids = outbox.enqueue_in(&tx, drafts(2)).unwrap();
        assert_eq!(ids.len(), 2);
        if commit {
            tx.commit().unwrap();
        } else {
            drop(tx);
        }
        assert_eq!(depth(&outbox).await, expect);
    }
}

#[tokio::test]
async fn enqueueing_outside_a_transaction_or_elsewhere_is_refused() {
    let file = File::new();
    let outbox = open(&file, false).await;
    let own = own_connection(&file);
    let error = outbox.enqueue_in(&own, drafts(1)).unwrap_err();
    assert_eq!(error.code(), Code::OptionsInvalid);
    assert!(error.context().contains("no transaction"), "{error}");

    let other = File::new();
    open(&other, false).await;
    for elsewhere in [own_connection(&other), Connection::open_in_memory().unwrap()] {
        elsewhere.execute_batch("begin").unwrap();
        let error = outbox.enqueue_in(&elsewhere, drafts(1)).unwrap_err();
        assert!(error.context().contains("another database"), "{error}");
    }
    own.execute_batch("begin").unwrap();
    let bad = Draft::new("orders", "k").payload("text/plain", vec![0; 1024 * 1024 + 1]);
    assert_eq!(
        outbox.enqueue_in(&own, [bad]).unwrap_err().code(),
        Code::EventInvalid
    );
    assert_eq!(depth(&outbox).await, 0);
}

#[tokio::test]
async fn other_lanes_are_refused_and_both_numbers_named() {
    let file = File::new();
    open(&file, false).await;
    let wanted = Wanted {
        lanes: 16,
        archive: false,
    };
    let error = SqliteOutbox::open(&file.database(), "orders", wanted)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::SettingsDiffer);
    assert!(
        error.context().contains("64") && error.context().contains("16"),
        "{error}"
    );
    for (name, lanes) in [("", 64), ("x", 3), ("x", 2048), ("nul\0", 64)] {
        let wanted = Wanted {
            lanes,
            archive: false,
        };
        let error = SqliteOutbox::open(&file.database(), name, wanted)
            .await
            .unwrap_err();
        assert_eq!(error.code(), Code::OptionsInvalid);
    }
    assert!(
        open(&file, true).await.settings().await.unwrap().archive,
        "the archive may be switched"
    );
}

#[tokio::test]
async fn outboxes_of_one_file_do_not_meet() {
    let file = File::new();
    let db = file.database();
    let wanted = Wanted {
        lanes: 1,
        archive: true,
    };
    let a = SqliteOutbox::open(&db, "a", wanted).await.unwrap();
    let b = SqliteOutbox::open(&db, "b", wanted).await.unwrap();
    assert_ne!(a.lineage(), b.lineage());
    for outbox in [&a, &b] {
        let own = own_connection(&file);
        own.execute_batch("begin").unwrap();
        outbox.enqueue_in(&own, drafts(3)).unwrap();
        own.execute_batch("commit").unwrap();
    }
    let mut pump = Pump::new(a, None, 1);
    while pump.round().await > 0 {}
    assert_eq!((depth(&pump.outbox).await, depth(&b).await), (0, 3));
}

#[tokio::test]
async fn a_row_that_somebody_deleted_fences_its_lane_only() {
    let file = File::new();
    let outbox = open(&file, false).await;
    let own = own_connection(&file);
    own.execute_batch("begin").unwrap();
    outbox.enqueue_in(&own, drafts(200)).unwrap();
    own.execute_batch("commit").unwrap();
    let held = outbox.hold(hold(1)).await.unwrap();
    let part = |load: bool, plan| {
        let lanes = held.owned.iter().map(|o| LaneTurn {
            lane: o.lane,
            token: o.token,
            settle: None,
            plan,
            load,
        });
        Turn {
            member: Nonce(1),
            lanes: lanes.collect(),
            bytes_max: usize::MAX,
        }
    };
    outbox.turn(part(false, 100)).await.unwrap();
    let (seq, lane): (i64, u16) = own
        .query_row(
            "select seq, lane from tidegate_outbox order by seq limit 1",
            [],
            |r| Ok((r.get(0)?, r.get(1)?)),
        )
        .unwrap();
    own.execute("delete from tidegate_outbox where seq = ?1", [seq])
        .unwrap();
    for turned in outbox.turn(part(true, 0)).await.unwrap() {
        assert_eq!(turned.outcome == LaneTurned::Fenced, turned.lane.slot == lane);
    }
}

fn hold(member: u128) -> Hold {
    Hold {
        member: Nonce(member),
        label: format!("pump {member}"),
        ttl: Duration::from_secs(1),
        release: Vec::new(),
        leave: false,
    }
}

/// The simplest honest relay: hold, register, load, append, settle.
struct Pump {
    outbox: SqliteOutbox,
    stream: Option<SqliteStream>,
    member: u128,
}

impl Pump {
    fn new(outbox: SqliteOutbox, stream: Option<SqliteStream>, member: u128) -> Self {
        Self {
            outbox,
            stream,
            member,
        }
    }

    /// Returns how many events were settled.
    async fn round(&mut self) -> usize {
        let held = self.outbox.hold(hold(self.member)).await.unwrap();
        let turn = |lanes| Turn {
            member: Nonce(self.member),
            lanes,
            bytes_max: 1 << 20,
        };
        let asks = held.owned.iter().map(|o| LaneTurn {
            lane: o.lane,
            token: o.token,
            settle: None,
            plan: 20,
            load: true,
        });
        let turned = self.outbox.turn(turn(asks.collect())).await.unwrap();
        let mut appends = Vec::new();
        for (owned, turned) in held.owned.iter().zip(turned) {
            if let LaneTurned::Planned { events, .. } = turned.outcome {
                let entries = numbered(&events, owned.state.chain);
                if !entries.is_empty() {
                    appends.push(LaneAppend {
                        lane: owned.lane,
                        token: owned.token,
                        entries,
                    });
                }
            }
        }
        let appends = self.publish(appends).await;
        let settles = appends.iter().filter_map(|append| {
            let last = append.entries.last()?;
            Some(LaneTurn {
                lane: append.lane,
                token: append.token,
                settle: Some((last.n, last.chain)),
                plan: 0,
                load: false,
            })
        });
        let settles: Vec<_> = settles.collect();
        self.outbox.turn(turn(settles)).await.unwrap();
        appends.iter().map(|a| a.entries.len()).sum()
    }

    /// Appends what the stream does not have yet, and returns what it has.
    async fn publish(&self, appends: Vec<LaneAppend>) -> Vec<LaneAppend> {
        let Some(stream) = &self.stream else {
            return appends;
        };
        let asked = appends.iter().map(|a| (a.lane, a.token)).collect();
        let registers = stream.register(asked).await.unwrap();
        let mut rest = appends.clone();
        for (append, register) in rest.iter_mut().zip(registers) {
            let at = register.unwrap().n;
            append.entries.retain(|e| e.n > at);
        }
        let outcomes = stream.append(rest).await.unwrap();
        let stood = |outcome: &Appended| matches!(outcome, Appended::Through(_));
        appends
            .into_iter()
            .zip(&outcomes)
            .filter(|(_, o)| stood(o))
            .map(|(a, _)| a)
            .collect()
    }
}

fn numbered(planned: &[Planned], mut chain: tidegate_core::stream::Chain) -> Vec<Numbered> {
    let mut number = |p: &Planned| {
        chain = chain.next(p.n, p.event.as_ref().map(|e| e.id));
        Numbered {
            n: p.n,
            chain,
            event: p.event.clone(),
        }
    };
    planned.iter().map(&mut number).collect()
}

/// Work is counted, not timed: these numbers gate.
#[tokio::test]
async fn a_turn_over_64_lanes_runs_a_constant_number_of_statements() {
    let file = File::new();
    let outbox = open(&file, false).await;
    let db = outbox.database().clone();
    let mut seen = Vec::new();
    for rows in [64, 1000, 1000] {
        let events: Vec<_> = drafts(rows).into_iter().map(sealed).collect();
        outbox.enqueue(events).await.unwrap();
        let held = outbox.hold(hold(1)).await.unwrap();
        let before = db.statements();
        let asks = held.owned.iter().map(|o| LaneTurn {
            lane: o.lane,
            token: o.token,
            settle: None,
            plan: 1000,
            load: false,
        });
        let turn = |lanes| Turn {
            member: Nonce(1),
            lanes,
            bytes_max: usize::MAX,
        };
        let turned = outbox.turn(turn(asks.collect())).await.unwrap();
        let planned = db.statements() - before;
        let settles = held.owned.iter().zip(turned).map(|(o, t)| {
            let LaneTurned::Planned { events, .. } = t.outcome else {
                panic!("the lane is mine");
            };
            let last = numbered(&events, o.state.chain).pop();
            LaneTurn {
                lane: o.lane,
                token: o.token,
                settle: last.map(|l| (l.n, l.chain)),
                plan: 1000,
                load: false,
            }
        });
        let before = db.statements();
        outbox.turn(turn(settles.collect())).await.unwrap();
        seen.push((planned, db.statements() - before));
    }
    // Begin, fence, poll, lanes, commit; and begin, fence, settle, lanes, commit.
    assert_eq!(seen, [(5, 5), (5, 5), (5, 5)]);
    assert_eq!(depth(&outbox).await, 0);
    let before = db.statements();
    outbox.hold(hold(1)).await.unwrap();
    let held = db.statements() - before;
    assert!(held <= 7, "a hold ran {held} statements");
}

/// Steps of SQLite's machine for one turn of 64 rows and its settling, with so many rows waiting.
async fn work_at(backlog: usize, archive: bool) -> u64 {
    let file = File::new();
    let outbox = open(&file, archive).await;
    let db = outbox.database().clone();
    let events: Vec<_> = drafts(backlog).into_iter().map(sealed).collect();
    outbox.enqueue(events).await.unwrap();
    let held = outbox.hold(hold(1)).await.unwrap();
    let before = db.steps();
    for owned in &held.owned[..4] {
        let part = |settle, plan| Turn {
            member: Nonce(1),
            lanes: vec![LaneTurn {
                lane: owned.lane,
                token: owned.token,
                settle,
                plan,
                load: false,
            }],
            bytes_max: usize::MAX,
        };
        let planned = outbox.turn(part(None, 16)).await.unwrap().remove(0).outcome;
        let LaneTurned::Planned { events, .. } = planned else {
            panic!("the lane is mine");
        };
        assert_eq!(events.len(), 16);
        let last = numbered(&events, owned.state.chain).pop().unwrap();
        outbox.turn(part(Some((last.n, last.chain)), 0)).await.unwrap();
    }
    db.steps() - before
}

#[tokio::test]
async fn a_turn_costs_the_same_at_any_backlog() {
    for archive in [false, true] {
        let (small, large) = (work_at(3_000, archive).await, work_at(30_000, archive).await);
        assert!(
            large <= small + small / 20,
            "{small} steps at 3,000 rows, {large} at 30,000"
        );
    }
}

fn sealed(draft: Draft) -> Event {
    draft
        .seal(Uuid::now_v7(), tidegate_core::Timestamp::from_micros(1))
        .unwrap()
}

// ---- processes ----

const ROLE: &str = "TIDEGATE_TEST_OUTBOX_FILE";
const PER_PROCESS: i64 = 150;
const KEYS: i64 = 10;

/// Not a test of its own: what [`processes_share_one_file`] starts, again and again.
#[tokio::test]
async fn child_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (path, number) = role.split_once('#').unwrap();
    let number: i64 = number.parse().unwrap();
    let db = Database::open(path, OpenOptions::default()).unwrap();
    let wanted = Wanted {
        lanes: 16,
        archive: false,
    };
    let outbox = SqliteOutbox::open(&db, "orders", wanted).await.unwrap();
    let stream = SqliteStream::open(&db, "orders").await.unwrap();
    let mut own = Connection::open(path).unwrap();
    own.busy_timeout(Duration::from_secs(20)).unwrap();
    let member = Uuid::new_v4().as_u128();
    let mut pump = Pump::new(outbox, Some(stream), member);
    let mut version = own
        .query_row("select count(*) from done where process = ?1", [number], |r| {
            r.get::<_, i64>(0)
        })
        .unwrap();
    loop {
        if version < PER_PROCESS {
            let tx = own
                .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
                .unwrap();
            tx.execute("insert into done values (?1, ?2)", (number, version))
                .unwrap();
            let key = format!("{number}-{}", version % KEYS);
            let draft = Draft::new("orders", key).version(version);
            pump.outbox.enqueue_in(&tx, [draft]).unwrap();
            tx.commit().unwrap();
            version += 1;
        }
        pump.round().await;
    }
}

fn spawn(path: &std::path::Path, number: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child_process", "--exact", "--nocapture"])
        .env(ROLE, format!("{}#{number}", path.display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Three processes enqueue and relay on one file, and are killed and started again all the while: each event is in
/// the stream once, and each key in its order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_share_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let db = Database::open(&path, OpenOptions::default()).unwrap();
    let stream = SqliteStream::open(&db, "orders").await.unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch("create table done (process, version, primary key (process, version))")
        .unwrap();
    let mut children: Vec<_> = (0..3).map(|n| spawn(&path, n)).collect();
    let started = Instant::now();
    let mut kills = 0;
    let mut entries = Vec::new();
    while entries.len() < 3 * usize::try_from(PER_PROCESS).unwrap() {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "{} entries",
            entries.len()
        );
        tokio::time::sleep(Duration::from_millis(150)).await;
        if kills < 8 {
            let victim = kills % 3;
            children[victim].kill().unwrap();
            children[victim].wait().unwrap();
            children[victim] = spawn(&path, victim);
            kills += 1;
        }
        entries = stream
            .read(EntryId::START, None, 100_000, usize::MAX)
            .await
            .unwrap()
            .entries;
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    entries = stream
        .read(EntryId::START, None, 100_000, usize::MAX)
        .await
        .unwrap()
        .entries;
    assert_eq!(
        i64::try_from(entries.len()).unwrap(),
        3 * PER_PROCESS,
        "each event once"
    );
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for entry in entries {
        let event = entry.event.unwrap();
        let (key, version) = (event.key.unwrap(), event.version.unwrap());
        let before = last.insert(key.clone(), version);
        assert!(
            before.is_none_or(|b| b + KEYS == version),
            "{key}: {version} after {before:?}"
        );
    }
    counts::add("conformance.outbox.kills", kills as u64);
}

//! `kill -9` of the real binary at every named point, a restart, and an audit of the three databases.
//!
//! Each test lets one worker process end itself by SIGKILL at its point, starts another, waits until everything is
//! applied, and counts: nothing lost, doubled or out of order, and a clean drain at the end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tidegate::crash::POINTS;
use tidegate_cli::demo::process::Process;
use tidegate_cli::demo::producer::Producer;
use tidegate_cli::demo::script::{Played, lose_tail};
use tidegate_cli::demo::stage::Stage;
use tidegate_cli::demo::{audit, data};

const EVENTS: usize = 300;
const PATIENCE: Duration = Duration::from_secs(40);

struct World {
    _dir: tempfile::TempDir,
    stage: Stage,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_tidegate"));
        let stage = Stage::create(dir.path(), binary, 1).unwrap();
        let records = data::load(None, "origin", |reason| panic!("{reason}"))
            .unwrap()
            .records[..EVENTS]
            .to_vec();
        Producer::start(&stage, records, 1, Duration::ZERO)
            .unwrap()
            .join()
            .unwrap();
        Self { _dir: dir, stage }
    }

    fn start(&self, role: &str, name: &str, crash_at: Option<&str>) -> Process {
        let fault = crash_at.map(|point| ("TIDEGATE_CRASH_AT", point));
        Process::start(&self.stage, role, name, fault.as_slice()).unwrap()
    }

    fn count(&self, file: &str, query: &str) -> usize {
        let connection = rusqlite::Connection::open(self.stage.dir.join(file)).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        connection
            .query_row(query, [], |r| r.get::<_, i64>(0))
            .unwrap()
            .try_into()
            .unwrap()
    }

    fn done(&self) -> bool {
        self.count("target.db", "select count(*) from applied") >= EVENTS
            && self.count("service.db", "select count(*) from tidegate_outbox") == 0
            && self.count("stream.db", "select count(*) from tidegate_entry") >= EVENTS
    }

    fn ready(&self, name: &str) -> bool {
        let log = std::fs::read_to_string(self.stage.dir.join(format!("{name}.log"))).unwrap();
        log.contains("is ready")
    }

    fn wait(&self, what: &str, mut until: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !until() {
            assert!(
                Instant::now() < deadline,
                "waited {PATIENCE:?} for {what}\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn logs(&self) -> String {
        let log = |path: &Path| {
            format!(
                "== {}\n{}",
                path.display(),
                std::fs::read_to_string(path).unwrap()
            )
        };
        let paths = std::fs::read_dir(&self.stage.dir)
            .unwrap()
            .map(|e| e.unwrap().path());
        paths
            .filter(|p| p.extension().is_some_and(|e| e == "log"))
            .map(|p| log(&p))
            .collect()
    }

    fn run_to_the_end(&self, relay: &str, consumer: &str) {
        let mut workers = [
            self.start("relay", relay, None),
            self.start("consumer", consumer, None),
        ];
        self.wait("everything to be applied", || self.done());
        self.wait("both to be ready", || {
            [relay, consumer].iter().all(|name| self.ready(name))
        });
        for worker in &mut workers {
            worker.signal(Signal::TERM);
            let status = worker.wait(Duration::from_secs(5));
            assert!(
                status.is_some_and(|s| s.success()),
                "drain of {}: {status:?}",
                worker.name()
            );
        }
    }
}

fn killed_at(point: &str, count: u32, lose: bool) {
    let world = World::new();
    if lose {
        world.run_to_the_end("relay-0", "consumer-0");
        let mut stream = world.stage.connect_stream().unwrap();
        assert_eq!(lose_tail(&mut stream, 100).unwrap(), 100);
    }
    let (role, other) = if point.starts_with("relay") {
        ("relay", "consumer")
    } else {
        ("consumer", "relay")
    };
    let mut victim = world.start(role, "victim", Some(&format!("{point}:{count}")));
    let helper = world.start(other, "helper", None);
    world.wait("the victim to reach its point", || victim.ended());
    let status = victim.wait(Duration::ZERO);
    assert!(
        status.is_none_or(|s| s.code().is_none()),
        "ended by itself: {status:?}\n{}",
        world.logs()
    );
    drop(helper);
    world.run_to_the_end("relay-1", "consumer-1");
    let report = audit::audit(&world.stage, &Played::default(), true).unwrap();
    assert_eq!(report.events_committed, EVENTS as u64);
    let counts = (
        report.events_published,
        report.events_applied,
        report.lost,
        report.doubled,
        report.out_of_order,
    );
    assert_eq!(
        counts,
        (EVENTS as u64, EVENTS as u64, 0, 0, 0),
        "{report}\n{}",
        world.logs()
    );
    record();
}

/// Adds to the counts that the test script prints.
fn record() {
    use std::io::Write;
    let Some(path) = std::env::var_os("TIDEGATE_COUNTS_FILE") else {
        return;
    };
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(b"kill_points 1\n").unwrap();
}

macro_rules! killed {
    ($($name:ident: $point:literal, $count:literal, $lose:literal;)+) => {
        /// Points at which a test here kills the binary.
        const KILLED: &[&str] = &[$($point,)+];

        $(#[test] fn $name() { killed_at($point, $count, $lose); })+
    };
}

/// A point that is named and never reached fails its own test; this one asks that enough are named.
#[test]
fn enough_points_are_killed() {
    let wanted = std::env::var("TIDEGATE_KILL_POINTS").map_or(20, |text| text.parse().unwrap());
    let named: BTreeSet<_> = KILLED.iter().copied().collect();
    assert!(
        named.len() >= wanted,
        "{} points are killed and audited; TIDEGATE_KILL_POINTS asks for {wanted}",
        named.len()
    );
    let unknown: Vec<_> = named.iter().filter(|point| !POINTS.contains(point)).collect();
    assert!(unknown.is_empty(), "no such points: {unknown:?}");
}

killed! {
    relay_before_hold: "relay.before_hold", 2, false;
    relay_after_hold: "relay.after_hold", 1, false;
    relay_before_turn: "relay.before_turn", 2, false;
    relay_after_turn: "relay.after_turn", 2, false;
    relay_before_append: "relay.before_append", 2, false;
    relay_after_append: "relay.after_append", 2, false;
    relay_before_register: "relay.before_register", 1, false;
    relay_after_register: "relay.after_register", 1, false;
    relay_before_refill: "relay.before_refill", 2, true;
    relay_after_refill: "relay.after_refill", 2, true;
    consumer_before_hold: "consumer.before_hold", 2, false;
    consumer_after_hold: "consumer.after_hold", 2, false;
    consumer_before_discover: "consumer.before_discover", 1, false;
    consumer_after_discover: "consumer.after_discover", 1, false;
    consumer_before_read: "consumer.before_read", 2, false;
    consumer_after_read: "consumer.after_read", 2, false;
    consumer_before_apply: "consumer.before_apply", 2, false;
    consumer_after_apply: "consumer.after_apply", 2, false;
    consumer_before_retry: "consumer.before_retry", 1, false;
    consumer_after_retry: "consumer.after_retry", 1, false;
    consumer_before_publish_hold: "consumer.before_publish_hold", 1, false;
}

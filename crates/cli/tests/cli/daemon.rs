//! `run`: from emit to a row, health and metrics, and every way to end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::world::{CANARY, Said, World};

const SHOP: &str = r#"
[store]
db = { url = "sqlite:shop.db" }
target = { url = "sqlite:target.db" }
[outbox.orders]
store = "db"
stream = "orders"
ttl = "1s"
[stream.orders]
store = "db"
[consumer.copy]
stream = "orders"
store = "target"
start = "earliest"
ttl = "1s"
table = { name = "orders_copy", key = "id", version = "version", columns = { id = "id", total = "total" } }
[http]
listen = "127.0.0.1:0"
"#;

/// Longest wait for anything that should come soon; a bound, not a pause.
const SOON: Duration = Duration::from_secs(20);

pub(crate) struct Daemon {
    child: Child,
    out: BufReader<ChildStdout>,
    address: String,
}

impl Daemon {
    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
        let mut command = world.command(&[&["run", "--json"], args].concat());
        // Every daemon here shows that no environment can end one: only the demo's workers obey it.
        command.env("TIDEGATE_CRASH_AT", "relay.before_hold");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        let started: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let listen = started["started"]["listen"].as_str().expect("an address");
        let address = listen.trim_start_matches("http://").to_owned();
        Self { child, out, address }
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        stream.set_read_timeout(Some(SOON)).expect("set");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.address
        )
        .expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|s| s.parse().ok())
            .expect("a status");
        (status, body.to_owned())
    }

    /// Why it is not ready, if it is not.
    pub(crate) fn unready(&self) -> Option<String> {
        let (status, body) = self.get("/readyz");
        (status == 503).then_some(body)
    }

    fn signal(&self) {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a process");
        kill_process(pid, Signal::TERM).expect("signalled");
    }

    /// Drains it, which must be clean.
    pub(crate) fn stop(self) {
        self.signal();
        self.end().0.ok();
    }

    /// What it said after the first line, and how long it took to end.
    fn end(mut self) -> (Said, Duration) {
        let begun = Instant::now();
        let mut out = String::new();
        self.out.read_to_string(&mut out).expect("read");
        let mut output = self.child.wait_with_output().expect("ended");
        output.stdout = out.into_bytes();
        (Said::of(&output), begun.elapsed())
    }
}

#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn shop() -> World {
    let world = World::new();
    world.write("tidegate.toml", SHOP);
    let target = rusqlite::Connection::open(world.path("target.db")).expect("opened");
    target
        .execute_batch("create table orders_copy (id integer primary key, total integer, version integer)")
        .expect("made");
    world
}

pub(crate) fn rows(world: &World) -> Vec<(i64, i64, i64)> {
    let target = rusqlite::Connection::open(world.path("target.db")).expect("opened");
    let mut query = target
        .prepare("select id, total, version from orders_copy order by id")
        .expect("prepared");
    let rows = query
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .expect("queried");
    rows.collect::<Result<_, _>>().expect("read")
}

/// Holds the write lock of a file: nothing of the daemon's can commit there, releases included.
pub(crate) fn locked(world: &World, file: &str) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(world.path(file)).expect("opened");
    connection.busy_timeout(SOON).expect("set");
    connection.execute_batch("begin immediate").expect("locked");
    connection
}

#[test]
fn events_become_rows_of_the_declared_projection() {
    let world = shop();
    let daemon = Daemon::start(&world, &["-c", "tidegate.toml"]);
    let lines = "{\"topic\":\"o\",\"key\":1,\"version\":1,\"payload\":{\"id\":1,\"total\":5}}\n\
                 {\"topic\":\"o\",\"key\":2,\"version\":1,\"payload\":{\"id\":2,\"total\":6}}\n\
                 {\"topic\":\"o\",\"key\":1,\"version\":2,\"payload\":{\"id\":1,\"total\":7}}\n";
    world
        .run_with(&["emit", "-c", "tidegate.toml"], lines.as_bytes())
        .ok();
    let expected = vec![(1, 7, 2), (2, 6, 1)];
    wait_for("the projection", || (rows(&world) == expected).then_some(()));

    let tailed = world
        .run(&["tail", "-c", "tidegate.toml", "--json", "--key", "1"])
        .ok()
        .lines();
    let totals: Vec<_> = tailed
        .iter()
        .map(|line| line["payload"]["total"].clone())
        .collect();
    assert_eq!(totals, [5, 7], "in order of the key");

    assert_eq!(daemon.get("/metrics").0, 200);
    for line in [
        "tidegate_relay_published_total{relay=\"orders\"} 3",
        "tidegate_consumer_applied_total{consumer=\"copy\"} 3",
        "tidegate_worker_live{worker=\"relay/orders\"} 1",
        "tidegate_outbox_depth{outbox=\"orders\"}",
    ] {
        // Gauges are sampled: a worker that has just become live shows at the next sample.
        wait_for(line, || daemon.get("/metrics").1.contains(line).then_some(()));
    }
    assert_eq!(
        daemon.get("/healthz"),
        (200, "{\"alive\":true,\"reasons\":[]}\n".to_owned())
    );
    assert_eq!(
        daemon.get("/readyz"),
        (200, "{\"ready\":true,\"reasons\":[]}\n".to_owned())
    );
    assert_eq!(daemon.get("/nothing").0, 404);

    daemon.signal();
    let (said, took) = daemon.end();
    let said = said.ok();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(said.json()["drained"]["cleanly"], true);
    let status = world
        .run(&["status", "-c", "tidegate.toml", "--json"])
        .ok()
        .json();
    assert_eq!(status["outboxes"][0]["depth"], 0);
    assert_eq!(
        status["outboxes"][0]["owners"],
        serde_json::json!({}),
        "lanes are handed over"
    );
    assert_eq!(status["consumers"][0]["behind"], 0);
    let left: Vec<_> = world
        .names()
        .into_iter()
        .filter(|name| name.contains(".db-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

fn emit(world: &World, id: u32) {
    let line =
        format!("{{\"topic\":\"o\",\"key\":{id},\"version\":1,\"payload\":{{\"id\":{id},\"total\":5}}}}\n");
    let args = ["emit", "-c", "tidegate.toml"];
    world.run_with(&args, line.as_bytes()).ok();
}

/// When the stream took its newest entry.
fn taken_at(world: &World) -> Option<jiff::Timestamp> {
    let stream = rusqlite::Connection::open(world.path("shop.db")).expect("opened");
    let newest = stream.query_row("select max(appended_at) from tidegate_entry", [], |row| {
        row.get::<_, Option<i64>>(0)
    });
    let micros = newest.expect("read")?;
    Some(jiff::Timestamp::from_microsecond(micros).expect("a time"))
}

/// The same file is fine for `check`, and `run` does what it says.
#[test]
fn a_consumer_starts_at_the_first_event_since_a_time() {
    let world = shop();
    let (before, _) = SHOP.split_once("[consumer.copy]").expect("a consumer");
    world.write(
        "tidegate.toml",
        format!("{before}\n[http]\nlisten = \"127.0.0.1:0\"\n"),
    );
    let daemon = Daemon::start(&world, &["-c", "tidegate.toml"]);
    emit(&world, 1);
    let first = wait_for("the first event", || taken_at(&world));
    daemon.stop();

    let since = first + Duration::from_micros(1);
    let start = format!("start = \"at:{since}\"");
    world.write("tidegate.toml", SHOP.replace("start = \"earliest\"", &start));
    world.run(&["check", "-c", "tidegate.toml"]).ok();
    let daemon = Daemon::start(&world, &["-c", "tidegate.toml"]);
    emit(&world, 2);
    wait_for("the second event", || (!rows(&world).is_empty()).then_some(()));
    daemon.stop();
    assert_eq!(rows(&world), [(2, 5, 1)]);
}

#[test]
fn a_payload_that_cannot_be_applied_is_shown_nowhere() {
    let world = shop();
    let daemon = Daemon::start(&world, &["-c", "tidegate.toml", "-v"]);
    let lines = format!(
        "{{\"topic\":\"o\",\"key\":1,\"payload\":{{\"id\":\"{CANARY}\",\"total\":[\"{CANARY}\"]}}}}\n\
         {{\"topic\":\"o\",\"key\":2,\"version\":1,\"payload\":{{\"id\":2,\"total\":6}}}}\n"
    );
    world
        .run_with(&["emit", "-c", "tidegate.toml"], lines.as_bytes())
        .ok();
    wait_for("the healthy key", || (rows(&world) == [(2, 6, 1)]).then_some(()));
    wait_for("the parked key", || {
        daemon
            .get("/metrics")
            .1
            .contains("tidegate_consumer_parked_total{consumer=\"copy\"} 1")
            .then_some(())
    });
    assert!(!daemon.get("/metrics").1.contains(CANARY));
    assert!(!daemon.get("/readyz").1.contains(CANARY));
    daemon.signal();
    // `end` looks for the canary in everything that was said.
    let (said, _) = daemon.end();
    assert!(!said.ok().out.contains(CANARY));
}

#[test]
fn without_a_file_it_serves_the_embedded_database_and_says_so() {
    let world = World::new();
    let daemon = Daemon::start(&world, &["--set", "http.listen=127.0.0.1:0"]);
    world.run(&["emit", "--topic", "a", "--payload", "1"]).ok();
    wait_for("the entry", || {
        (world.run(&["tail", "--json"]).out.lines().count() == 1).then_some(())
    });
    daemon.signal();
    daemon.end().0.ok();
}

#[test]
fn a_drain_past_its_deadline_is_cut_with_75_and_loses_nothing() {
    let world = shop();
    let daemon = Daemon::start(&world, &["-c", "tidegate.toml", "--set", "drain.timeout=1s"]);
    wait_for("readiness", || (daemon.get("/readyz").0 == 200).then_some(()));
    let lock = locked(&world, "shop.db");
    daemon.signal();
    wait_for("the word of the drain", || {
        let (status, body) = daemon.get("/readyz");
        (status == 503 && body.contains("\"draining\"")).then_some(())
    });
    let (said, took) = daemon.end();
    assert_eq!(said.status, 75, "{said:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    // A relay that held no lane yet has nothing to release and may end in time.
    let cut = said.json()["drained"]["cut"].to_string();
    assert!(cut.contains("relay/orders") || cut.contains("sweep/db"), "{cut}");
    drop(lock);
    world
        .run(&["emit", "-c", "tidegate.toml", "--topic", "a", "--payload", "1"])
        .ok();
}

#[test]
fn a_second_signal_ends_at_once_with_130() {
    let world = shop();
    let daemon = Daemon::start(&world, &["-c", "tidegate.toml"]);
    wait_for("readiness", || (daemon.get("/readyz").0 == 200).then_some(()));
    let _lock = locked(&world, "shop.db");
    daemon.signal();
    wait_for("the word of the drain", || {
        (daemon.get("/readyz").0 == 503).then_some(())
    });
    // Later than an echo of the first.
    std::thread::sleep(Duration::from_millis(300));
    daemon.signal();
    let (said, took) = daemon.end();
    assert_eq!(said.status, 130, "{said:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
}

/// A terminal signals the whole group, and `timeout`, `cargo run` and their like pass on what they get.
#[test]
fn the_same_signal_twice_at_once_is_one() {
    let world = shop();
    let daemon = Daemon::start(&world, &["-c", "tidegate.toml"]);
    wait_for("readiness", || (daemon.get("/readyz").0 == 200).then_some(()));
    let lock = locked(&world, "shop.db");
    daemon.signal();
    wait_for("the word of the drain", || {
        (daemon.get("/readyz").0 == 503).then_some(())
    });
    daemon.signal();
    lock.execute_batch("rollback").expect("unlocked");
    daemon.end().0.ok();
}

#[test]
fn an_outage_is_a_reason_not_to_be_ready_and_ends_by_itself() {
    let world = shop();
    let daemon = Daemon::start(&world, &["-c", "tidegate.toml"]);
    wait_for("readiness", || (daemon.get("/readyz").0 == 200).then_some(()));
    let lock = locked(&world, "shop.db");
    let reasons = wait_for("the outage", || {
        let (status, body) = daemon.get("/readyz");
        (status == 503).then_some(body)
    });
    assert!(reasons.contains("relay/orders: paused: "), "{reasons}");
    assert_eq!(
        daemon.get("/healthz").0,
        200,
        "an outage is no reason to be replaced"
    );
    lock.execute_batch("rollback").expect("unlocked");
    wait_for("readiness", || (daemon.get("/readyz").0 == 200).then_some(()));
    daemon.signal();
    daemon.end().0.ok();
}

#[test]
fn a_port_in_use_is_named_and_nothing_is_opened() {
    let world = World::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = taken.local_addr().expect("an address");
    let said = world.run(&[
        "run",
        "--set",
        &format!("http.listen={address}"),
        "--set",
        "log.level=error",
    ]);
    said.fails(
        4,
        &format!(
            "no configuration file: serving sqlite:tidegate.db with what is declared by default\nerror: TG0060 the address \
             is already in use: http.listen {address}\n  because: Address already in use (os error 98)\n  read on: \
             tidegate explain TG0060\n"
        ),
    );
    assert!(world.names().is_empty());
}

#[test]
fn several_daemons_on_one_file_are_normal() {
    let world = shop();
    let first = Daemon::start(&world, &["-c", "tidegate.toml"]);
    let second = Daemon::start(&world, &["-c", "tidegate.toml"]);
    let mut lines = String::new();
    for n in 0..200 {
        use std::fmt::Write as _;
        writeln!(
            lines,
            "{{\"topic\":\"o\",\"key\":{n},\"version\":1,\"payload\":{{\"id\":{n},\"total\":1}}}}"
        )
        .expect("written");
    }
    world
        .run_with(&["emit", "-c", "tidegate.toml"], lines.as_bytes())
        .ok();
    wait_for("all rows", || (rows(&world).len() == 200).then_some(()));
    for daemon in [first, second] {
        // Also the one whose sweeps wait for their leases.
        wait_for("readiness", || (daemon.get("/readyz").0 == 200).then_some(()));
        daemon.signal();
        daemon.end().0.ok();
    }
}

/// Replaced as a restored backup replaces it, or removed: in both the daemon must not go on with what nobody sees.
#[test]
fn a_replaced_or_removed_file_ends_the_daemon_and_nothing_is_written_to_the_old_one() {
    for (name, file) in [("db", "shop.db"), ("target", "target.db")] {
        for replaced in [true, false] {
            let world = shop();
            let daemon = Daemon::start(&world, &["-c", "tidegate.toml"]);
            wait_for("readiness", || (daemon.get("/readyz").0 == 200).then_some(()));
            let path = world.path(file);
            let copy = world.path("copy.db");
            rusqlite::Connection::open(&path)
                .expect("opened")
                .execute("vacuum into ?1", [copy.to_str().expect("a path")])
                .expect("copied");
            if replaced {
                std::fs::rename(&copy, &path).expect("replaced");
            } else {
                std::fs::remove_file(&path).expect("removed");
            }
            let (said, _) = daemon.end();
            assert_eq!(said.status, 4, "{said:?}");
            let error = format!(
                "store {name}, {}",
                path.canonicalize().unwrap_or(path.clone()).display()
            );
            assert!(
                said.err.contains("TG0019") && said.err.contains(&error),
                "{said:?}"
            );
            assert_eq!(path.exists(), replaced, "made anew by the one that lost it");
        }
    }
}

/// What is committed to a WAL that was removed, no later start sees.
#[test]
fn a_removed_wal_ends_the_daemon() {
    for file in ["shop.db", "target.db"] {
        let world = shop();
        let daemon = Daemon::start(&world, &["-c", "tidegate.toml"]);
        wait_for("readiness", || (daemon.get("/readyz").0 == 200).then_some(()));
        std::fs::remove_file(world.path(&format!("{file}-wal"))).expect("removed");
        let (said, _) = daemon.end();
        assert_eq!(said.status, 4, "{said:?}");
        assert!(said.err.contains("TG0019"), "{said:?}");
    }
}

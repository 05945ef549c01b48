//! `demo`: what it shows, with its own and with other data, and every way to end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::daemon::wait_for;
use crate::world::{CANARY, Said, World};

const OWN_DATA: [&str; 8] = [
    "demo",
    "--json",
    "--data",
    "own.ndjson",
    "--key",
    "k",
    "--seed",
    "101",
];

fn outcomes(report: &Value) -> BTreeMap<String, String> {
    let text = |promise: &Value, field: &str| promise[field].as_str().expect("text").to_owned();
    let promises = report["promises"].as_array().expect("promises");
    promises
        .iter()
        .map(|p| (text(p, "promise"), text(p, "outcome")))
        .collect()
}

fn not_kept(report: &Value) -> Vec<(String, String)> {
    outcomes(report)
        .into_iter()
        .filter(|(_, outcome)| outcome != "kept")
        .collect()
}

fn records(keys: impl Iterator<Item = u32>) -> String {
    let mut text = String::new();
    for (n, key) in keys.enumerate() {
        writeln!(text, "{{\"k\":\"key-{key}\",\"n\":{n}}}").expect("written");
    }
    text
}

#[test]
fn every_fault_meets_data_in_the_shipped_records() {
    let world = World::new();
    let said = world.run(&["demo", "--json", "--keep", "kept"]).ok();
    assert_eq!(said.err, "", "silent with --json where no terminal is");
    let report = said.json();
    assert_eq!(not_kept(&report), [], "{report}");
    assert_eq!(report["promises_kept"], true);
    for field in ["lost", "doubled", "out_of_order", "on_the_way", "lines_refused"] {
        assert_eq!(report[field], 0, "{field}");
    }
    for field in ["events_committed", "events_published", "events_applied"] {
        assert_eq!(report[field], 3000, "{field}");
    }
    for (field, count) in [("parked", 1), ("killed", 2), ("refilled", 150)] {
        assert_eq!(report[field], count, "{field}");
    }
    for field in [
        "events_rolled_back",
        "takeovers",
        "redriven",
        "duplicates_refused",
    ] {
        assert!(report[field].as_u64().is_some_and(|n| n > 0), "{field}: {report}");
    }
    let names = std::fs::read_dir(world.path("kept")).expect("kept");
    let wal = names.filter(|e| {
        e.as_ref()
            .expect("entry")
            .path()
            .to_string_lossy()
            .contains(".db-")
    });
    assert_eq!(wal.count(), 0, "the files are whole");
}

#[test]
fn one_key_is_enough_and_bad_lines_are_named_and_passed_over() {
    let world = World::new();
    let mut text = records((0..200).map(|_| 7));
    let bad = [
        format!("{{\"k\":\"{}\",\"v\":\"{CANARY}\"}}", "x".repeat(513)),
        format!("{{\"k\":\"a\\u0000{CANARY}\"}}"),
        format!("{{\"k\":1,\"v\":\"{}\"}}", "y".repeat(1024 * 1024)),
        format!("{{\"other\":\"{CANARY}\"}}"),
        CANARY.to_owned(),
    ];
    text.push_str(&bad.join("\n"));
    world.write("own.ndjson", text);
    let said = world.run(&OWN_DATA);
    let report = said.json();
    let said = said.fails(
        2,
        "line 201: key is 513 bytes; the limit is 512\n\
         line 202: key has the control character U+0000 at byte 1; none is allowed\n\
         line 203: payload is 1048590 bytes; the limit is 1048576\n\
         line 204: has no field \"k\", which --key names\n\
         line 205: is not JSON: unexpected character at column 1\n",
    );
    let poison = "a poison event holds back its key only".to_owned();
    assert_eq!(not_kept(&report), [(poison, "not_shown".to_owned())], "{said:?}");
    assert_eq!(report["promises_kept"], true);
    assert_eq!(
        (&report["events_applied"], &report["lines_refused"]),
        (&200.into(), &5.into())
    );
}

#[test]
fn two_hundred_records_of_as_many_keys_are_enough() {
    let world = World::new();
    world.write("own.ndjson", records(0..200));
    let report = world.run(&OWN_DATA).ok().json();
    assert_eq!(not_kept(&report), [], "{report}");
    assert_eq!(
        (&report["events_applied"], &report["redriven"]),
        (&200.into(), &1.into())
    );
}

#[test]
fn data_that_cannot_be_played_ends_before_anything_is_started() {
    let world = World::new();
    world.write("few.ndjson", records(0..199) + "oops\n");
    let said = world.run(&["demo", "--data", "few.ndjson", "--key", "k"]);
    said.fails(
        2,
        "line 200: is not JSON: unexpected character at column 1\n\
         error: TG0006 an argument is wrong or missing: --data has 199 good lines and 1 refused; the demo needs at least 200 \
         good ones\n  read on: tidegate explain TG0006\n",
    );
    let said = world.run(&["demo", "--data", "nope.ndjson"]);
    said.fails(
        5,
        "error: TG0005 the named thing does not exist: nope.ndjson cannot be read: No such file or directory (os error 2)\n  \
         read on: tidegate explain TG0005\n",
    );
    let said = world.run(&["demo", "--keep", "."]);
    said.fails(
        2,
        "error: TG0006 an argument is wrong or missing: --keep . exists and is not empty; name a new folder\n  read on: \
         tidegate explain TG0006\n",
    );
    assert_eq!(world.names(), ["few.ndjson"]);
}

/// A demo that runs, with its temporary folder in the world's.
struct Playing<'a> {
    world: &'a World,
    demo: Child,
}

impl<'a> Playing<'a> {
    fn start(world: &'a World, args: &[&str]) -> Self {
        let mut command = world.command(&[&["demo"], args].concat());
        command
            .env("TMPDIR", world.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let demo = command.spawn().expect("started");
        Self { world, demo }
    }

    /// State and process id of each worker whose folder is in the world's.
    fn workers(&self) -> Vec<(String, char, i32)> {
        let here = self.world.dir.path().to_string_lossy().into_owned();
        let processes = std::fs::read_dir("/proc").expect("listed");
        processes
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
            .filter_map(|pid| worker(pid, &here))
            .collect()
    }

    fn wait_for_state(&self, wanted: char) {
        wait_for("a worker in this state", || {
            let mut workers = self.workers().into_iter();
            workers.any(|(_, state, _)| state == wanted).then_some(())
        });
    }

    fn wait_for_the_end_of_workers(&self) {
        wait_for("the end of every worker", || {
            self.workers().is_empty().then_some(())
        });
    }

    fn signal(&self, signal: Signal) {
        send(i32::try_from(self.demo.id()).expect("a number"), signal);
    }

    fn end(self) -> Said {
        Said::of(&self.demo.wait_with_output().expect("ended"))
    }
}

/// The name of a worker process, if it is one of this folder and has not ended.
fn worker(pid: i32, folder: &str) -> Option<(String, char, i32)> {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).into_owned();
    let words: Vec<_> = command.split('\0').collect();
    let ours = words.contains(&"demo-worker") && words.iter().any(|word| word.starts_with(folder));
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
    let name = words.iter().skip_while(|word| **word != "--name").nth(1)?;
    (ours && state != 'Z').then(|| ((*name).to_owned(), state, pid))
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a process"), signal).expect("signalled");
}

#[test]
fn a_signal_ends_every_worker_also_a_stopped_one_and_removes_the_folder() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let world = World::new();
        let playing = Playing::start(&world, &[]);
        playing.wait_for_state('T');
        playing.signal(signal);
        playing.wait_for_the_end_of_workers();
        let said = playing.end();
        assert_eq!((said.status, &*said.out), (130, ""), "{said:?}");
        let last = said.err.lines().last().expect("a line");
        assert_eq!(last, format!("ended by {name}: every worker has ended"));
        assert_eq!(world.names(), [""; 0]);
    }
}

#[test]
fn workers_end_by_themselves_when_the_demo_is_killed() {
    let world = World::new();
    let mut playing = Playing::start(&world, &[]);
    playing.wait_for_state('T');
    playing.signal(Signal::KILL);
    playing.demo.wait().expect("ended");
    playing.wait_for_the_end_of_workers();
}

/// The folder of a demo whose workers are started.
fn folder(world: &World) -> PathBuf {
    wait_for("the workers", || {
        let folder = world.names().into_iter().next().map(|name| world.path(&name))?;
        folder.join("consumer-2.log").exists().then_some(folder)
    })
}

fn open(folder: &std::path::Path, file: &str) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(folder.join(file)).expect("opened");
    connection
        .busy_timeout(std::time::Duration::from_secs(20))
        .expect("set");
    connection
}

/// How many promises ended so.
fn only(report: &Value, outcome: &str) -> usize {
    outcomes(report).values().filter(|o| *o == outcome).count()
}

#[test]
fn a_wait_that_runs_out_is_named_the_files_stay_and_no_promise_is_broken() {
    let world = World::new();
    let playing = Playing::start(&world, &["--json", "--patience", "1"]);
    // Whoever holds this lock keeps the stream from growing.
    let stream = open(&folder(&world), "stream.db");
    stream.execute_batch("begin immediate").expect("locked");
    let said = playing.end();
    let report = said.json();
    let error: Value = serde_json::from_str(&said.err).expect("an error");
    assert_eq!(
        (said.status, &error["error"]["code"]),
        (4, &"TG0042".into()),
        "{said:?}"
    );
    let waited = error["error"]["message"].as_str().expect("text");
    assert!(
        waited.starts_with("nothing moved for 1s while waiting for "),
        "{waited}"
    );
    assert_eq!(report["unfinished"], waited);
    assert_eq!(report["promises_kept"], true, "{report}");
    assert!(
        only(&report, "not_shown") > 0 && only(&report, "broken") == 0,
        "{report}"
    );
    let kept = PathBuf::from(report["kept_in"].as_str().expect("a folder"));
    for name in ["service.db", "stream.db", "target.db", "relay-1.log"] {
        assert!(kept.join(name).exists(), "{name}");
    }
}

#[test]
fn a_worker_that_ends_by_itself_is_named() {
    let world = World::new();
    let playing = Playing::start(&world, &["--json"]);
    let pid = wait_for("a relay", || {
        let mut workers = playing.workers().into_iter();
        workers.find_map(|(name, _, pid)| (name == "relay-3").then_some(pid))
    });
    send(pid, Signal::TERM);
    let said = playing.end();
    let error: Value = serde_json::from_str(&said.err).expect("an error");
    assert_eq!(error["error"]["code"], "TG0041", "{said:?}");
    let message = error["error"]["message"].as_str().expect("text");
    assert!(message.starts_with("relay-3 ended by itself: "), "{message}");
    assert_eq!(said.json()["unfinished"], message);
}

#[test]
fn what_the_service_meets_ends_the_story_at_once() {
    let world = World::new();
    let playing = Playing::start(&world, &["--json"]);
    let refuse = "create trigger full before insert on flight begin select raise(abort, 'full'); end";
    open(&folder(&world), "service.db")
        .execute_batch(refuse)
        .expect("refused from now on");
    let said = playing.end();
    let error: Value = serde_json::from_str(&said.err).expect("an error");
    assert_eq!(
        (said.status, &error["error"]["code"]),
        (4, &"TG0010".into()),
        "{said:?}"
    );
    assert_eq!(error["error"]["causes"][0], "full");
    let report = said.json();
    assert_eq!(report["unfinished"], error["error"]["message"]);
    assert_eq!(report["promises_kept"], true, "{report}");
}

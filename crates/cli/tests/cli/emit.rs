//! `emit`: every bad input with its exact message; what is good is kept.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::daemon::wait_for;
use crate::world::{CANARY, Said, World};

const READ_ON_EVENT: &str = "  read on: tidegate explain TG0001\n";

#[test]
fn one_event_answers_with_its_id() {
    let world = World::new();
    let said = world
        .run(&[
            "emit",
            "--topic",
            "orders",
            "--key",
            "42",
            "--payload",
            "{\"total\":7}",
        ])
        .ok();
    let id: uuid::Uuid = said.out.trim().parse().expect("an id");
    assert_eq!(id.get_version_num(), 7);
    assert_eq!(world.waiting("tidegate.db"), ["{\"total\":7}"]);
    assert_eq!(world.names(), ["tidegate.db"], "the WAL is folded in");
}

#[test]
fn a_malformed_line_is_named_and_the_others_go_on() {
    let world = World::new();
    let input = format!("{{\"topic\":\"a\",\"payload\":1}}\n{CANARY}\n\n{{\"topic\":\"a\",\"payload\":2}}\n");
    let said = world.run_with(&["emit"], input.as_bytes());
    let made = world.path("tidegate.db").canonicalize().expect("made");
    said.fails(
        2,
        &format!(
            "made {}\nline 2: is not JSON: unexpected character at column 1\n2 events committed, 1 line refused\n",
            made.display()
        ),
    );
    assert_eq!(world.waiting("tidegate.db"), ["1", "2"]);
}

#[test]
fn each_bad_line_has_its_reason() {
    let long = |n: usize| "x".repeat(n);
    let cases = [
        (
            format!("{{\"topic\":\"a\",\"payload\":\"{CANARY}\""),
            "is not JSON: it ends too early".to_owned(),
        ),
        (format!("[\"{CANARY}\"]"), "is not a JSON object".to_owned()),
        (
            format!("{{\"topic\":\"a\",\"payload\":\"{}\"}}", long(1024 * 1024)),
            "payload is 1048578 bytes; the limit is 1048576".to_owned(),
        ),
        (
            format!("{{\"topic\":\"a\",\"key\":\"{}\",\"payload\":1}}", long(513)),
            "key is 513 bytes; the limit is 512".to_owned(),
        ),
        (
            format!("{{\"topic\":\"{}\",\"payload\":1}}", long(256)),
            "topic is 256 bytes; the limit is 255".to_owned(),
        ),
        (
            format!("{{\"topic\":\"a\",\"key\":\"\\u0000{CANARY}\",\"payload\":1}}"),
            "key has the control character U+0000 at byte 0; none is allowed".to_owned(),
        ),
        (
            format!("{{\"topic\":\"a\\n{CANARY}\",\"payload\":1}}"),
            "topic has the control character U+000A at byte 1; none is allowed".to_owned(),
        ),
        (
            format!(
                "{{\"topic\":\"a\",\"headers\":{{\"h\":\"{}\"}},\"payload\":1}}",
                long(17_000)
            ),
            "headers is 17001 bytes; the limit is 16384".to_owned(),
        ),
        (
            format!("{{\"topic\":\"a\",\"payloda\":\"{CANARY}\"}}"),
            "has an unknown field; did you mean \"payload\"?".to_owned(),
        ),
    ];
    for (line, reason) in cases {
        let world = World::new();
        let input = format!("{{\"topic\":\"a\",\"payload\":1}}\n{line}\n{{\"topic\":\"a\",\"payload\":3}}\n");
        let said = world.run_with(&["emit", "--json"], input.as_bytes());
        let expected = format!("line 2: {reason}\n");
        let summary = said.fails(2, &expected).json();
        assert_eq!(
            (&summary["committed"], &summary["refused"]),
            (&2.into(), &1.into())
        );
        assert_eq!(world.waiting("tidegate.db"), ["1", "3"], "{reason}");
    }
}

#[test]
fn limits_are_inclusive() {
    let world = World::new();
    let (key, topic) = ("k".repeat(512), "t".repeat(255));
    let payload = format!("\"{}\"", "x".repeat(1024 * 1024 - 2));
    let line = format!("{{\"topic\":\"{topic}\",\"key\":\"{key}\",\"payload\":{payload}}}");
    world.run_with(&["emit"], line.as_bytes()).ok();
    assert_eq!(world.waiting("tidegate.db"), [payload]);
}

#[test]
fn a_missing_key_field_is_named() {
    let world = World::new();
    let input =
        format!("{{\"origin\":\"HNL\",\"n\":1}}\n{{\"from\":\"{CANARY}\"}}\n{{\"origin\":7,\"n\":3}}\n");
    let args = ["emit", "--json", "--topic", "flights", "--key-field", "origin"];
    let said = world.run_with(&args, input.as_bytes());
    said.fails(2, "line 2: has no field \"origin\", which --key-field names\n");
    assert_eq!(world.waiting("tidegate.db").len(), 2);
}

#[test]
fn an_over_long_line_is_passed_over_whole() {
    let world = World::new();
    let mut input = format!(
        "{{\"topic\":\"a\",\"payload\":\"{}\"}}",
        "x".repeat(9 * 1024 * 1024)
    );
    input.push_str("\n{\"topic\":\"a\",\"payload\":2}\n");
    let said = world.run_with(&["emit", "--json"], input.as_bytes());
    said.fails(2, "line 1: is longer than 8388608 bytes\n");
    assert_eq!(world.waiting("tidegate.db"), ["2"]);
}

#[test]
fn wrong_arguments_of_one_event_make_no_file() {
    let (key, topic) = ("k".repeat(513), "t".repeat(256));
    let cases: [(&[&str], &str); 4] = [
        (
            &["--topic", "a", "--key", &key, "--payload", CANARY],
            "key is 513 bytes; the limit is 512",
        ),
        (
            &["--topic", &topic, "--payload", CANARY],
            "topic is 256 bytes; the limit is 255",
        ),
        (
            &["--topic", "", "--payload", CANARY],
            "topic is empty; it needs at least 1 byte",
        ),
        (
            &["--topic", "a", "--key", "a\tb", "--payload", CANARY],
            "key has the control character U+0009 at byte 1; none is allowed",
        ),
    ];
    for (args, reason) in cases {
        let world = World::new();
        let said = world.run(&[&["emit"], args].concat());
        said.fails(
            2,
            &format!("error: TG0001 an event is outside its limits: {reason}\n{READ_ON_EVENT}"),
        );
        assert!(world.names().is_empty());
    }
}

#[test]
fn a_payload_file_over_the_limit_is_refused_and_one_of_bytes_is_kept() {
    let world = World::new();
    world
        .write("big", vec![b'x'; 1024 * 1024 + 1])
        .write("photo", [0xff, 0xd8]);
    let said = world.run(&["emit", "--topic", "a", "--payload-file", "big"]);
    let reason = "payload is over 1048576 bytes, the limit";
    said.fails(
        2,
        &format!("error: TG0001 an event is outside its limits: {reason}\n{READ_ON_EVENT}"),
    );
    world
        .run(&["emit", "--topic", "a", "--payload-file", "photo"])
        .ok();
    let connection = rusqlite::Connection::open(world.path("tidegate.db")).expect("opened");
    let query = "select content_type, payload from tidegate_outbox";
    let stored: (String, Vec<u8>) = connection
        .query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("one row");
    assert_eq!(stored, ("application/octet-stream".to_owned(), vec![0xff, 0xd8]));
}

#[test]
fn a_flag_that_lines_would_ignore_is_refused() {
    let world = World::new();
    let said = world.run(&["emit", "--topic", "a", "--version", "3"]);
    said.fails(
        2,
        "error: TG0006 an argument is wrong or missing: --version needs --payload or --payload-file\n  \
         read on: tidegate explain TG0006\n",
    );
}

#[test]
fn a_long_input_is_committed_in_order_and_can_be_resumed() {
    let world = World::new();
    let mut input = String::new();
    for n in 1..=5000 {
        writeln!(input, "{{\"topic\":\"a\",\"key\":\"k\",\"payload\":{n}}}").expect("written");
    }
    world.write("events.ndjson", &input);
    let said = world
        .run(&["emit", "--json", "--file", "events.ndjson", "--skip", "1000"])
        .ok();
    let expected = serde_json::json!({
        "committed": 4000, "refused": 0, "skipped": 1000, "last_committed_line": 5000, "interrupted": false,
        "stopped_by": null, "unknown_lines": null,
    });
    assert_eq!(said.json(), expected);
    let numbers: Vec<u32> = world
        .waiting("tidegate.db")
        .iter()
        .map(|n| n.parse().expect("a number"))
        .collect();
    assert_eq!(numbers, (1001..=5000).collect::<Vec<_>>());
}

#[test]
fn a_missing_file_is_not_found() {
    let world = World::new();
    let said = world.run(&["emit", "--file", "nope.ndjson"]);
    said.fails(
        5,
        "error: TG0005 the named thing does not exist: nope.ndjson cannot be read: No such file or directory (os error 2)\n  \
         read on: tidegate explain TG0005\n",
    );
    assert!(world.names().is_empty());
}

#[test]
fn an_unknown_outbox_has_a_suggestion() {
    let world = World::new();
    world.run(&["emit", "--topic", "a", "--payload", "1"]).ok();
    let said = world.run(&["emit", "--topic", "a", "--payload", CANARY, "--outbox", "mian"]);
    said.fails(
        5,
        "error: TG0005 the named thing does not exist: no outbox mian; did you mean main?\n  read on: tidegate explain TG0005\n",
    );
    assert_eq!(world.waiting("tidegate.db").len(), 1);
}

#[test]
fn an_interrupt_ends_after_whole_lines_and_says_where_to_go_on() {
    let world = World::new();
    let mut command = world.command(&["emit"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut stdin = child.stdin.take().expect("piped");
    for n in 1..=3 {
        writeln!(stdin, "{{\"topic\":\"a\",\"payload\":{n}}}").expect("written");
    }
    // What has arrived is committed without waiting for more.
    wait_for("three rows", || {
        (world.path("tidegate.db").exists() && world.count("tidegate.db") == 3).then_some(())
    });
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process");
    kill_process(pid, Signal::INT).expect("signalled");
    let said = Said::of(&child.wait_with_output().expect("ended"));
    drop(stdin);
    assert_eq!(said.status, 130, "{said:?}");
    let end = "3 events committed\ninterrupted after line 3; go on with --skip 3\n";
    assert!(said.err.ends_with(end), "{said:?}");
    assert_eq!(world.waiting("tidegate.db"), ["1", "2", "3"]);
}

#[test]
fn a_file_that_another_process_keeps_locked_is_busy_and_nothing_is_written() {
    let world = World::new();
    world.run(&["emit", "--topic", "a", "--payload", "1"]).ok();
    let lock = rusqlite::Connection::open(world.path("tidegate.db")).expect("opened");
    lock.execute_batch("begin immediate").expect("locked");
    let said = world.run(&["emit", "--topic", "a", "--payload", CANARY]);
    assert_eq!(said.status, 4, "{said:?}");
    let message = "error: TG0011 a store stayed locked for longer than the time-out: ";
    assert!(said.err.starts_with(message), "{said:?}");
    drop(lock);
    assert_eq!(world.waiting("tidegate.db"), ["1"]);
}

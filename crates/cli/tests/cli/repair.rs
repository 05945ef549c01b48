//! What people do when something could not be applied: look, redrive, discard, go back. Redacted everywhere.

use crate::daemon::{Daemon, rows, shop, wait_for};
use crate::world::{CANARY, World};

/// A key whose first event the projection refuses, and one that is well.
fn parked(world: &World) -> Daemon {
    let daemon = Daemon::start(world, &["-c", "tidegate.toml"]);
    let lines = format!(
        "{{\"topic\":\"o\",\"key\":1,\"version\":1,\"payload\":{{\"wrong\":\"{CANARY}\",\"email\":\"{CANARY}@example.com\"}}}}\n\
         {{\"topic\":\"o\",\"key\":1,\"version\":2,\"payload\":{{\"id\":1,\"total\":9}}}}\n\
         {{\"topic\":\"o\",\"key\":2,\"version\":1,\"payload\":{{\"id\":2,\"total\":6}}}}\n"
    );
    world
        .run_with(&["emit", "-c", "tidegate.toml"], lines.as_bytes())
        .ok();
    wait_for("the healthy key", || (rows(world) == [(2, 6, 1)]).then_some(()));
    wait_for("the queue", || {
        (letters(world).first()?["waiting"] == 2).then_some(())
    });
    daemon
}

fn letters(world: &World) -> Vec<serde_json::Value> {
    world
        .run(&["dead-letter", "ls", "-c", "tidegate.toml", "--json"])
        .ok()
        .lines()
}

#[test]
fn a_dead_letter_is_shown_redacted_and_discarded_with_a_reason() {
    let world = shop();
    let daemon = parked(&world);
    let listed = letters(&world);
    assert_eq!(listed.len(), 1);
    let id = listed[0]["id"].as_str().expect("an id").to_owned();

    for args in [
        &["dead-letter", "ls", "-c", "tidegate.toml"][..],
        &["dead-letter", "ls", "-c", "tidegate.toml", "--json"],
        &["dead-letter", "show", &id, "-c", "tidegate.toml"],
        &["dead-letter", "show", &id, "-c", "tidegate.toml", "--json"],
    ] {
        let said = world.run(args).ok();
        assert!(!said.out.contains("@example.com"), "{said:?}");
        assert!(!said.out.contains("4111111111111111"), "{said:?}");
    }

    let without = world.run(&["dead-letter", "discard", &id, "-c", "tidegate.toml"]);
    assert_eq!(without.status, 2, "{without:?}");
    assert!(without.err.contains("--reason <TEXT>"), "{without:?}");
    world
        .run(&["dead-letter", "discard", &id, "-c", "tidegate.toml", "--reason", " "])
        .fails(
            2,
            "error: TG0003 an option is outside its limits: the reason is 0 bytes; it needs 1 to 1024\n  read on: tidegate \
             explain TG0003\n",
        );
    let discard = [
        "dead-letter",
        "discard",
        &id,
        "-c",
        "tidegate.toml",
        "--reason",
        "the producer was wrong",
    ];
    assert_eq!(world.run(&discard).ok().err, format!("{id} is discarded\n"));
    assert_eq!(
        world.run(&discard).ok().err,
        format!("{id} was discarded before\n")
    );

    wait_for("the key", || {
        (rows(&world) == [(1, 9, 2), (2, 6, 1)]).then_some(())
    });
    let audit = world
        .run(&["dead-letter", "audit", "-c", "tidegate.toml", "--json"])
        .ok()
        .lines();
    assert_eq!(
        (&audit[0]["action"], &audit[0]["reason"]),
        (&"discard".into(), &"the producer was wrong".into())
    );
    assert!(letters(&world).is_empty());
    daemon.stop();
}

#[test]
fn a_redriven_key_is_applied_in_order_once_its_cause_is_gone() {
    let world = shop();
    let target = rusqlite::Connection::open(world.path("target.db")).expect("opened");
    target.execute_batch("create trigger no before insert on orders_copy when new.id = 1 begin select raise(abort, 'no'); end").expect("made");
    let daemon = Daemon::start(
        &world,
        &["-c", "tidegate.toml", "--set", "consumer.copy.attempts_max=1"],
    );
    let lines = "{\"topic\":\"o\",\"key\":1,\"version\":1,\"payload\":{\"id\":1,\"total\":5}}\n\
                 {\"topic\":\"o\",\"key\":1,\"version\":2,\"payload\":{\"id\":1,\"total\":7}}\n";
    world
        .run_with(&["emit", "-c", "tidegate.toml"], lines.as_bytes())
        .ok();
    wait_for("the dead key", || {
        (letters(&world).first()?["state"] == "dead").then_some(())
    });
    let status = world
        .run(&["status", "-c", "tidegate.toml", "--json"])
        .ok()
        .json();
    let copy = &status["consumers"][0];
    assert_eq!(
        (&copy["dead_keys"], &copy["retrying_keys"], &copy["parked_events"]),
        (&1.into(), &0.into(), &2.into())
    );
    target.execute_batch("drop trigger no").expect("repaired");
    let said = world
        .run(&["dead-letter", "redrive", "--all", "-c", "tidegate.toml", "--json"])
        .ok();
    assert_eq!(said.json(), serde_json::json!({ "redriven_keys": 1 }));
    wait_for("the row", || (rows(&world) == [(1, 7, 2)]).then_some(()));
    daemon.stop();
}

#[test]
fn a_letter_that_is_not_there_or_not_an_id_is_said_so() {
    let world = shop();
    parked(&world).stop();
    let nowhere = "00000000000000000000000000000000/3/4";
    world.run(&["dead-letter", "show", nowhere, "-c", "tidegate.toml"]).fails(
        5,
        &format!(
            "error: TG0005 the named thing does not exist: no dead letter at {nowhere}\n  read on: tidegate explain TG0005\n"
        ),
    );
    let said = world.run(&["dead-letter", "show", "seven", "-c", "tidegate.toml"]);
    assert_eq!(said.status, 2);
    assert!(
        said.err
            .contains("a dead letter's id is lineage/slot/number, as `dead-letter ls` prints it"),
        "{said:?}"
    );
}

#[test]
fn a_rewind_applies_again_what_the_stream_holds_and_is_audited() {
    let world = shop();
    let daemon = Daemon::start(&world, &["-c", "tidegate.toml"]);
    let lines = "{\"topic\":\"o\",\"key\":1,\"version\":1,\"payload\":{\"id\":1,\"total\":5}}\n\
                 {\"topic\":\"o\",\"key\":1,\"version\":2,\"payload\":{\"id\":1,\"total\":7}}\n";
    world
        .run_with(&["emit", "-c", "tidegate.toml"], lines.as_bytes())
        .ok();
    wait_for("the row", || (rows(&world) == [(1, 7, 2)]).then_some(()));
    let target = rusqlite::Connection::open(world.path("target.db")).expect("opened");
    target.execute("delete from orders_copy", []).expect("damaged");

    let lag = world
        .run(&["consumer", "lag", "-c", "tidegate.toml", "--json"])
        .ok()
        .lines();
    let lane = lag.iter().find(|lane| lane["hw"] == 2).expect("a lane")["lane"].to_string();
    let rewind = |to: &str| {
        world.run(&[
            "consumer",
            "rewind",
            "copy",
            "-c",
            "tidegate.toml",
            "--lane",
            &lane,
            "--to",
            to,
            "--reason",
            "lost rows",
        ])
    };
    rewind("3").fails(
        5,
        &format!(
            "error: TG0005 the named thing does not exist: the stream does not hold number 3 of lane {lane}; it holds nothing \
             from there on\n  read on: tidegate explain TG0005\n"
        ),
    );
    assert_eq!(
        rewind("0").ok().err,
        format!("lane {lane} is at 0; 2 events will be applied again\n")
    );
    wait_for("the row again", || (rows(&world) == [(1, 7, 2)]).then_some(()));
    let audit = world
        .run(&["dead-letter", "audit", "-c", "tidegate.toml", "--json"])
        .ok()
        .lines();
    assert_eq!(
        (&audit[0]["action"], &audit[0]["reason"]),
        (&"rewind".into(), &"lost rows".into())
    );
    daemon.stop();
}

#[test]
fn a_rewind_past_parked_events_takes_them_from_the_stream_again() {
    let world = shop();
    let daemon = parked(&world);
    let lag = world
        .run(&["consumer", "lag", "-c", "tidegate.toml", "--json"])
        .ok()
        .lines();
    let lane = lag.iter().find(|lane| lane["hw"] == 2).expect("a lane")["lane"].to_string();
    world
        .run(&[
            "consumer",
            "rewind",
            "copy",
            "-c",
            "tidegate.toml",
            "--lane",
            &lane,
            "--to",
            "0",
            "--reason",
            "again",
        ])
        .ok();
    // The same event fails again, and the same queue forms behind it.
    wait_for("the queue", || {
        (letters(&world).first()?["waiting"] == 2).then_some(())
    });
    let target = rusqlite::Connection::open(world.path("target.db")).expect("opened");
    let books: i64 = target
        .query_row(
            "select count(*) from tidegate_consumer_lane where hw <> start + applied + voids + skipped + parked + discarded",
            [],
            |row| row.get(0),
        )
        .expect("counted");
    assert_eq!(books, 0, "the books of every lane add up");
    daemon.stop();
}

#[test]
fn a_sweep_deletes_what_was_kept_long_enough() {
    let world = shop();
    let short = [
        "-c",
        "tidegate.toml",
        "--set",
        "outbox.orders.archive=1s",
        "--set",
        "stream.orders.retain=1s",
    ];
    let daemon = Daemon::start(&world, &short);
    let lines = "{\"topic\":\"o\",\"key\":1,\"version\":1,\"payload\":{\"id\":1,\"total\":5}}\n";
    world
        .run_with(&["emit", "-c", "tidegate.toml"], lines.as_bytes())
        .ok();
    wait_for("the row", || (rows(&world).len() == 1).then_some(()));
    daemon.stop();
    wait_for("one archived row swept", || {
        let said = world
            .run(&[&["sweep", "run", "db", "--json"], &short[..]].concat())
            .ok();
        (said.json()["swept"].as_u64()? >= 1).then_some(())
    });
    let archive = rusqlite::Connection::open(world.path("shop.db")).expect("opened");
    let kept: i64 = archive
        .query_row("select count(*) from tidegate_outbox_archive", [], |row| {
            row.get(0)
        })
        .expect("counted");
    assert_eq!(kept, 0);
}

#[test]
fn an_unknown_sweep_has_a_suggestion() {
    let world = shop();
    world.run(&["sweep", "run", "targt", "-c", "tidegate.toml"]).fails(
        5,
        "error: TG0005 the named thing does not exist: no sweep targt; did you mean target?\n  read on: tidegate explain \
         TG0005\n",
    );
    let listed = world
        .run(&["sweep", "ls", "-c", "tidegate.toml", "--json"])
        .ok()
        .lines();
    assert_eq!(listed.len(), 2);
}

#[test]
fn a_redrive_of_all_says_that_keys_still_retried_are_not_meant() {
    let world = shop();
    parked(&world).stop();
    let said = world
        .run(&["dead-letter", "redrive", "--all", "-c", "tidegate.toml"])
        .ok();
    assert_eq!(
        said.err,
        "0 keys will be tried again, in order\nonly dead keys are meant; keys still retried by themselves: 1; name one by its \
         id to try it at once\n"
    );
}

/// Without an archive: what the stream lost stays lost, the consumer stops before it, and a person lets it go on.
#[test]
fn a_declared_loss_is_shown_and_gone_past_with_a_reason() {
    let world = shop();
    let config = std::fs::read_to_string(world.path("tidegate.toml")).expect("read");
    let (before, after) = config.split_once("[consumer.copy]").expect("a consumer");
    let (_, http) = after.split_once("[http]").expect("the next table");
    world.write("relay.toml", format!("{before}[http]{http}"));
    let emit = |from: i64, to: i64| {
        let line = |n| {
            format!("{{\"topic\":\"o\",\"key\":1,\"version\":{n},\"payload\":{{\"id\":1,\"total\":{n}}}}}\n")
        };
        let lines: String = (from..=to).map(line).collect();
        world
            .run_with(&["emit", "-c", "tidegate.toml"], lines.as_bytes())
            .ok();
    };
    let daemon = Daemon::start(&world, &["-c", "tidegate.toml"]);
    emit(1, 2);
    wait_for("the row", || (rows(&world) == [(1, 2, 2)]).then_some(()));
    daemon.stop();
    let relay = Daemon::start(&world, &["-c", "relay.toml"]);
    emit(3, 6);
    wait_for("the relay", || {
        let status = world.run(&["status", "-c", "relay.toml", "--json"]).ok().json();
        (status["streams"][0]["published"] == 6).then_some(())
    });
    relay.stop();
    lose(&world, 3);
    let daemon = Daemon::start(&world, &["-c", "tidegate.toml"]);
    let lag = || {
        let lanes = world
            .run(&["consumer", "lag", "-c", "tidegate.toml", "--json"])
            .ok()
            .lines();
        lanes.into_iter().find(|lane| lane["published"] == 6)
    };
    wait_for("the declaration", || {
        (lag()?["lost"] == serde_json::json!({ "from": 4, "through": 6 })).then_some(())
    });
    // Nothing newer comes, and still it is no secret that the consumer cannot go on.
    let reasons = wait_for("the gap", || daemon.unready());
    assert!(reasons.contains("consumer/copy: gap: lane "), "{reasons}");
    let why = "TG0031 numbers after 3 and before 7 are missing; `tidegate consumer lag copy`";
    assert!(reasons.contains(why), "{reasons}");

    let skip = [
        "consumer",
        "skip-lost",
        "copy",
        "-c",
        "tidegate.toml",
        "--reason",
        "the disk of May",
    ];
    assert_eq!(world.run(&skip).ok().err, "3 events given up in 1 lane\n");
    assert_eq!(world.run(&skip).ok().err, "0 events given up in 0 lanes\n");
    emit(7, 7);
    wait_for("the row", || (rows(&world) == [(1, 7, 7)]).then_some(()));
    wait_for("readiness", || daemon.unready().is_none().then_some(()));
    let audit = world
        .run(&["dead-letter", "audit", "-c", "tidegate.toml", "--json"])
        .ok()
        .lines();
    let told = (&audit[0]["action"], &audit[0]["fingerprint"], &audit[0]["reason"]);
    assert_eq!(
        told,
        (
            &"skip-lost".into(),
            &"lost 4..=6".into(),
            &"the disk of May".into()
        )
    );
    daemon.stop();
}

/// Takes the entries after number `n` from the stream, as a lost disk does.
fn lose(world: &World, n: i64) {
    let stream = rusqlite::Connection::open(world.path("shop.db")).expect("opened");
    stream
        .busy_timeout(std::time::Duration::from_secs(20))
        .expect("set");
    stream
        .execute("delete from tidegate_entry where n > ?1", [n])
        .expect("lost");
    stream
        .execute_batch(include_str!("../../src/demo/script/lose_tail.sql"))
        .expect("lost");
}

/// `consumer ls --json`, the one consumer.
fn consumer(world: &World) -> serde_json::Value {
    let listed = world.run(&["consumer", "ls", "-c", "tidegate.toml", "--json"]);
    listed.ok().lines().remove(0)
}

fn remove(world: &World, more: &[&str]) -> crate::world::Said {
    world.run(&[&["consumer", "rm", "copy", "-c", "tidegate.toml"], more].concat())
}

fn entries(world: &World) -> i64 {
    let stream = rusqlite::Connection::open(world.path("shop.db")).expect("opened");
    stream
        .query_row("select count(*) from tidegate_entry", [], |row| row.get(0))
        .expect("counted")
}

/// Entries left after a sweep that keeps nothing that may go.
fn swept(world: &World) -> i64 {
    let args = [
        "sweep",
        "run",
        "db",
        "-c",
        "tidegate.toml",
        "--set",
        "stream.orders.retain=1s",
    ];
    world.run(&args).ok();
    entries(world)
}

fn emit_one(world: &World) {
    let line = "{\"topic\":\"o\",\"key\":1,\"version\":1,\"payload\":{\"id\":1,\"total\":5}}\n";
    let args = ["emit", "-c", "tidegate.toml"];
    world.run_with(&args, line.as_bytes()).ok();
}

/// A consumer that is gone keeps entries from being trimmed, until somebody lets go of them.
#[test]
fn a_consumer_that_is_gone_is_removed() {
    let world = shop();
    let daemon = Daemon::start(&world, &["-c", "tidegate.toml"]);
    emit_one(&world);
    wait_for("the row", || (rows(&world).len() == 1).then_some(()));
    wait_for("the hold", || consumer(&world)["hold_age_ms"].as_u64());
    let running = remove(&world, &["--yes"]);
    assert_eq!(running.status, 2, "{running:?}");
    assert!(
        running.err.contains("TG0003") && running.err.contains("the consumer runs"),
        "{running:?}"
    );
    daemon.stop();

    // It comes back no more; what is published now waits for it.
    let whole = std::fs::read_to_string(world.path("tidegate.toml")).expect("read");
    let (before, _) = whole.split_once("[consumer.copy]").expect("a consumer");
    world.write(
        "tidegate.toml",
        format!("{before}\n[http]\nlisten = \"127.0.0.1:0\"\n"),
    );
    let daemon = Daemon::start(&world, &["-c", "tidegate.toml"]);
    emit_one(&world);
    wait_for("the second entry", || (entries(&world) == 2).then_some(()));
    daemon.stop();
    let age = consumer(&world)["hold_age_ms"].as_u64().expect("a hold");
    wait_for("the hold to be older", || {
        (consumer(&world)["hold_age_ms"].as_u64()? > age + 1_000).then_some(())
    });
    let held = swept(&world);
    assert!(held >= 1, "the last is held back at least");

    remove(&world, &[]).fails(
        2,
        "error: TG0003 an option is outside its limits: consumer copy: its hold on orders would go; nothing is \
         changed without --yes\n  read on: tidegate explain TG0003\n",
    );
    assert_eq!(swept(&world), held);
    assert_eq!(
        remove(&world, &["--yes"]).ok().err,
        "copy: 1 hold let go, 0 positions forgotten\n"
    );
    assert_eq!(swept(&world), 0);
    let left = consumer(&world);
    assert!(left["hold_age_ms"].is_null(), "{left}");
    assert!(left["lanes"].as_u64() > Some(0), "its positions stay: {left}");
    let said = remove(&world, &["--yes", "--positions", "--json"]).ok().json();
    assert_eq!(said["holds"], serde_json::json!([]));
    assert!(said["positions"].as_u64() > Some(0), "{said}");
    assert_eq!(consumer(&world)["lanes"], 0);
    let unknown = world.run(&["consumer", "rm", "cpoy", "-c", "tidegate.toml", "--yes"]);
    assert!(
        unknown.status == 5 && unknown.err.contains("did you mean copy?"),
        "{unknown:?}"
    );
}

/// Nothing that waits for a person is forgotten with the positions.
#[test]
fn positions_with_dead_letters_are_not_forgotten() {
    let world = shop();
    parked(&world).stop();
    wait_for("the heartbeat to end", || {
        let said = remove(&world, &["--yes", "--positions"]);
        (!said.err.contains("the consumer runs")).then_some(said)
    })
    .fails(
        2,
        "error: TG0003 an option is outside its limits: 2 events wait as dead letters; redrive or discard them first\n  \
         read on: tidegate explain TG0003\n",
    );
    assert_eq!(letters(&world).len(), 1);
}

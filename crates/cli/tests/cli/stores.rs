//! Files that cannot be used: each with its message and status, and nothing lost or changed.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::daemon::{Daemon, locked, rows, shop, wait_for};
use crate::world::{CANARY, Said, World, bytes};

const EMIT: [&str; 5] = ["emit", "--topic", "a", "--payload", CANARY];

const EMIT_TO_SHOP: [&str; 5] = ["emit", "-c", "tidegate.toml", "--topic", "orders"];

fn emit_to(db: &str) -> Vec<&str> {
    [&EMIT[..], &["--db", db]].concat()
}

#[test]
fn a_file_that_is_not_a_database_stays_as_it_was() {
    let world = World::new();
    world.write("notes.txt", format!("{CANARY}\n").repeat(100));
    let before = bytes(&world.path("notes.txt"));
    for args in [
        emit_to("sqlite:notes.txt"),
        vec!["status", "--db", "sqlite:notes.txt"],
    ] {
        world.run(&args).fails(
            4,
            "error: TG0015 this is not a Tidegate database: store main, notes.txt\n  because: reading the schema \
             version: SQLITE_NOTADB\n  because: Error code 26: file is not a database\n  read on: tidegate explain TG0015\n",
        );
    }
    assert_eq!(bytes(&world.path("notes.txt")), before);
}

#[test]
fn another_programs_database_is_not_given_tables_unasked() {
    let world = World::new();
    let connection = rusqlite::Connection::open(world.path("app.db")).expect("opened");
    connection
        .execute_batch("create table mine (id integer)")
        .expect("made");
    drop(connection);
    let before = bytes(&world.path("app.db"));
    let tables = "error: TG0015 this is not a Tidegate database: store main, app.db\n  because: Tidegate's tables are \
                  missing or older; `tidegate migrate` adds them\n  read on: tidegate explain TG0015\n";
    world.run(&emit_to("sqlite:app.db")).fails(4, tables);
    world
        .run(&["outbox", "ls", "--db", "sqlite:app.db"])
        .fails(4, tables);
    assert_eq!(bytes(&world.path("app.db")), before);
    world.run(&["migrate", "--db", "sqlite:app.db"]).ok();
    world.run(&emit_to("sqlite:app.db")).ok();
}

#[test]
fn a_database_of_a_newer_schema_is_refused_unchanged() {
    let world = World::new();
    world.run(&["migrate", "--db", "sqlite:new.db"]).ok();
    let connection = rusqlite::Connection::open(world.path("new.db")).expect("opened");
    connection
        .execute("insert into tidegate_schema values (99, 'x', 0)", [])
        .expect("newer");
    drop(connection);
    let before = bytes(&world.path("new.db"));
    for args in [
        emit_to("sqlite:new.db"),
        vec!["run", "--db", "sqlite:new.db", "--set", "http.listen=127.0.0.1:0"],
    ] {
        let said = world.run(&args);
        assert_eq!(said.status, 4, "{said:?}");
        let message = "error: TG0016 the database was written by a newer Tidegate: store main, new.db\n  because: the \
                       database has schema 99; this build knows up to ";
        assert!(said.err.contains(message), "{said:?}");
    }
    assert_eq!(bytes(&world.path("new.db")), before);
}

#[test]
fn a_corrupt_database_is_refused() {
    let world = World::new();
    let mut lines = String::new();
    for n in 0..2000 {
        writeln!(lines, "{{\"topic\":\"a\",\"payload\":\"{CANARY} {n}\"}}").expect("written");
    }
    world
        .run_with(&["emit", "--db", "sqlite:bad.db"], lines.as_bytes())
        .ok();
    let path = world.path("bad.db");
    // Pages that still stand in the write-ahead log would be read from there, whole.
    let database = rusqlite::Connection::open(&path).expect("opened");
    let fold = "pragma wal_checkpoint(truncate)";
    database.query_row(fold, [], |_| Ok(())).expect("folded");
    drop(database);
    let mut content = bytes(&path);
    let size = content.len();
    content[4096..size]
        .iter_mut()
        .step_by(7)
        .for_each(|byte| *byte = 0xa5);
    std::fs::write(&path, &content).expect("damaged");
    let said = world.run(&emit_to("sqlite:bad.db"));
    assert_eq!(said.status, 4, "{said:?}");
    assert!(
        said.err.starts_with("error: TG0014 what is stored is damaged: "),
        "{said:?}"
    );
    assert!(
        said.err.ends_with("  read on: tidegate explain TG0014\n"),
        "{said:?}"
    );
}

#[test]
fn a_folder_or_a_path_below_a_file_is_no_database() {
    let world = World::new();
    std::fs::create_dir(world.path("folder")).expect("made");
    world.write("file", "x");
    world.run(&emit_to("sqlite:folder")).fails(
        4,
        "error: TG0015 this is not a Tidegate database: store main, folder\n  because: folder is a folder\n  read on: \
         tidegate explain TG0015\n",
    );
    world.run(&emit_to("sqlite:file/x.db")).fails(
        5,
        "error: TG0005 the named thing does not exist: store main, file/x.db\n  because: no folder file\n  read on: \
         tidegate explain TG0005\n",
    );
}

#[test]
fn a_command_that_only_looks_creates_nothing() {
    for args in [
        &["status"][..],
        &["tail"],
        &["outbox", "ls"],
        &["outbox", "lanes"],
        &["outbox", "parked"],
        &["consumer", "ls"],
        &["consumer", "lag"],
        &["lease", "ls"],
    ] {
        let world = World::new();
        world.run(args).fails(
            5,
            "error: TG0005 the named thing does not exist: store main, tidegate.db\n  because: no file tidegate.db\n  \
             read on: tidegate explain TG0005\n",
        );
        assert!(world.names().is_empty());
    }
}

/// As root, permissions do not bind: the kernel's file size limit stands in for a full disk.
#[test]
fn a_full_disk_stops_with_the_last_committed_line_and_loses_nothing() {
    let world = World::new();
    world.run(&["emit", "--topic", "a", "--payload", "0"]).ok();
    let mut lines = String::new();
    for n in 1..=20_000 {
        writeln!(
            lines,
            "{{\"topic\":\"a\",\"key\":\"k\",\"payload\":{{\"n\":{n},\"pad\":\"{CANARY}{}\"}}}}",
            "x".repeat(200)
        )
        .expect("written");
    }
    world.write("lines.ndjson", &lines);
    // In units of 512 bytes: 2 MiB, of which the WAL is filled first.
    let said = limited(&world, 4096, "emit --json --file lines.ndjson");
    assert_eq!(said.status, 4, "{said:?}");
    let summary = said.json();
    let last = summary["last_committed_line"].as_u64().expect("a line");
    assert_eq!(summary["committed"].as_u64(), Some(last));
    assert!(last > 0 && last < 20_000, "{summary}");
    // Whole batches stand, and no more; after space is made, the rest follows.
    let resumed = world
        .run(&[
            "emit",
            "--json",
            "--file",
            "lines.ndjson",
            "--skip",
            &last.to_string(),
        ])
        .ok();
    assert_eq!(resumed.json()["committed"].as_u64(), Some(20_000 - last));
    assert_eq!(
        world.waiting("tidegate.db").len(),
        20_001,
        "nothing lost, nothing doubled"
    );
}

fn limited(world: &World, blocks: u32, arguments: &str) -> Said {
    let binary = env!("CARGO_BIN_EXE_tidegate");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec '{binary}' {arguments}");
    let output = Command::new("/bin/sh")
        .args(["-c", &script])
        .current_dir(world.dir.path())
        .stdin(Stdio::null())
        .output()
        .expect("run");
    Said::of(&output)
}

/// Every command that only looks.
const LOOKS: [&[&str]; 13] = [
    &["status"],
    &["tail", "--limit", "1"],
    &["outbox", "ls"],
    &["outbox", "lanes"],
    &["outbox", "parked"],
    &["consumer", "ls"],
    &["consumer", "lag"],
    &["dead-letter", "ls"],
    &["dead-letter", "audit"],
    &["lease", "ls"],
    &["sweep", "ls"],
    &["check"],
    &["config", "explain"],
];

#[test]
fn looking_waits_for_no_writer() {
    let world = shop();
    fill(&world);
    let locks: Vec<_> = ["shop.db", "target.db"].map(|file| locked(&world, file)).into();
    for args in LOOKS {
        world.run(&[args, &["-c", "tidegate.toml"]].concat()).ok();
    }
    for lock in locks {
        lock.execute_batch("rollback").expect("unlocked");
    }
}

#[test]
fn a_file_without_write_permission_can_be_looked_at() {
    let world = shop();
    fill(&world);
    let tidegate = world.path("tidegate");
    std::fs::copy(env!("CARGO_BIN_EXE_tidegate"), &tidegate).expect("copied");
    for file in ["shop.db", "target.db"] {
        set_mode(&world.path(file), 0o444);
    }
    // SQLite keeps the index of a WAL beside the file, also for readers.
    set_mode(world.dir.path(), 0o777);
    let run = |args: &[&str]| {
        let mut command = Command::new(&tidegate);
        command.args(args).current_dir(world.dir.path()).env_clear();
        if rustix::process::geteuid().is_root() {
            // Permissions do not bind root.
            command.uid(65_534).gid(65_534);
        }
        Said::of(&command.output().expect("run"))
    };
    for args in LOOKS {
        run(&[args, &["-c", "tidegate.toml"]].concat()).ok();
    }
    let said = run(&["emit", "-c", "tidegate.toml", "--topic", "t", "--payload", "1"]);
    assert_eq!(said.status, 4, "{said:?}");
    assert!(said.err.starts_with("error: TG0013 "), "{said:?}");
}

fn set_mode(path: &std::path::Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
}

/// One event on its way through everything that the shop declares.
fn fill(world: &World) {
    let daemon = Daemon::start(world, &["-c", "tidegate.toml"]);
    let payload = r#"{"id":1,"total":2,"version":3}"#;
    let event = ["--key", "1", "--version", "3", "--payload", payload];
    world.run(&[&EMIT_TO_SHOP[..], &event].concat()).ok();
    wait_for("the row", || (!rows(world).is_empty()).then_some(()));
    daemon.stop();
}

#[test]
fn a_producer_needs_only_the_store_of_its_outbox() {
    let world = shop();
    let config = std::fs::read_to_string(world.path("tidegate.toml")).expect("read");
    let split = config.replace(
        "[stream.orders]\nstore = \"db\"",
        "[stream.orders]\nstore = \"log\"",
    );
    let split = split.replace("[store]\n", "[store]\nlog = { url = \"sqlite:log.db\" }\n");
    world.write("tidegate.toml", split);
    let emit = [&EMIT_TO_SHOP[..], &["--payload", "1"]].concat();
    let target = bytes(&world.path("target.db"));
    world.run(&emit).ok();
    assert!(!world.path("log.db").exists(), "{:?}", world.names());
    assert_eq!(bytes(&world.path("target.db")), target, "no table was added");
    world.write("target.db", "garbage");
    world.run(&emit).ok();
    world.run(&[&emit[..], &["--outbox", "orders"]].concat()).ok();
    assert_eq!(world.count("shop.db"), 3);
}

#[test]
fn a_declared_table_that_is_missing_is_named_with_its_consumer() {
    let world = shop();
    std::fs::remove_file(world.path("target.db")).expect("removed");
    let said = world.run(&["run", "-c", "tidegate.toml", "--set", "log.level=error"]);
    assert_eq!(said.status, 3, "{said:?}");
    assert!(
        said.err.contains("consumer.copy.table cannot be written in "),
        "{said:?}"
    );
    assert!(said.err.contains("no such table: orders_copy"), "{said:?}");
}

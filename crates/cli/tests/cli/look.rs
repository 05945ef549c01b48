//! Configuration, explanations and completions; pipes that close.

use std::process::Stdio;

use crate::world::{CANARY, Said, World};

#[test]
fn all_problems_of_a_configuration_come_at_once() {
    let world = World::new();
    world.write(
        "tidegate.toml",
        format!(
            "[store]\ndb = {{ url = \"nats://u:{CANARY}@h/d\" }}\n[outbox.orders]\nstore = \"bd\"\nstream = \"orders\"\n\
             ttl = \"10ms\"\nlanse = 64\n[stream.orders]\nstore = \"db\"\nretain = \"7\"\n"
        ),
    );
    let said = world.run(&["check", "-c", "tidegate.toml"]);
    let expected = include_str!("golden/check-problems.txt");
    said.fails(3, expected);
    let said = world.run(&["check", "-c", "tidegate.toml", "--json"]);
    assert_eq!(
        (said.status, said.json()["problems"].as_array().map(Vec::len)),
        (3, Some(5))
    );
    let said = world.run(&["run", "-c", "tidegate.toml"]);
    said.fails(3, expected);
    assert_eq!(world.names(), ["tidegate.toml"]);
}

#[test]
fn a_ttl_too_short_to_renew_is_refused_with_its_reason() {
    let world = World::new();
    for ttl in ["999ms", "0s", "2h", "5"] {
        let said = world.run(&["check", "--set", &format!("outbox.main.ttl={ttl}")]);
        assert_eq!(said.status, 3, "{said:?}");
        assert!(
            said.err.contains(&format!("--set: outbox.main.ttl = {ttl}: ")),
            "{said:?}"
        );
    }
}

#[test]
fn a_server_is_not_named_on_the_command_line() {
    let world = World::new();
    for url in [
        format!("postgres://app:{CANARY}@db/shop"),
        format!("redis://:{CANARY}@cache"),
    ] {
        let said = world.run(&["status", "--db", &url]);
        said.fails(
            2,
            "error: TG0006 an argument is wrong or missing: --db takes a file, such as sqlite:shop.db; a server needs a \
             configuration, where its URL does not show in the list of processes\n  read on: tidegate explain TG0006\n",
        );
    }
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let world = World::new();
    let said = world.run(&["run", "-c", "nope.toml"]);
    said.fails(
        3,
        "error: TG0002 the configuration has problems: nope.toml cannot be read\n  because: No such file or directory (os \
         error 2)\n  read on: tidegate explain TG0002\n",
    );
}

#[test]
fn config_explain_masks_secrets_and_names_origins() {
    let world = World::new();
    let mut command = world.command(&["config", "explain", "--json", "--set", "drain.timeout=5s"]);
    command.env("TIDEGATE__LOG__LEVEL", "debug");
    let said = Said::of(&command.output().expect("run")).ok();
    let values = said.json();
    let of = |path: &str| {
        values
            .as_array()
            .and_then(|all| all.iter().find(|v| v["path"] == path))
            .cloned()
    };
    let timeout = of("drain.timeout").expect("explained");
    assert_eq!(
        (&timeout["value"], &timeout["origin"]["from"]),
        (&"5s".into(), &"set".into())
    );
    let level = of("log.level").expect("explained");
    assert_eq!(
        (&level["value"], &level["origin"]["variable"]),
        (&"debug".into(), &"TIDEGATE__LOG__LEVEL".into())
    );
}

#[test]
fn an_unknown_code_has_a_suggestion() {
    let world = World::new();
    world.run(&["explain", "TG0113"]).fails(
        5,
        "error: TG0005 the named thing does not exist: no code TG0113; did you mean TG0013?\n  read on: tidegate explain \
         TG0005\n",
    );
}

#[test]
fn every_code_has_a_page() {
    let world = World::new();
    let listed = world.run(&["explain", "--json"]).ok().lines();
    assert!(listed.len() >= 20);
    for code in listed {
        let id = code["code"].as_str().expect("a code");
        let page = world.run(&["explain", id]).ok();
        assert!(page.out.starts_with(&format!("# {id}: ")), "{page:?}");
    }
}

#[test]
fn completions_are_scripts() {
    let world = World::new();
    for (shell, mark) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef tidegate"),
        ("fish", "complete -c tidegate"),
    ] {
        let said = world.run(&["completions", shell]).ok();
        assert!(said.out.contains(mark), "{shell}");
    }
}

#[test]
fn errors_are_objects_for_programs() {
    let world = World::new();
    let said = world.run(&["status", "--json"]);
    assert_eq!((said.status, said.out.as_str()), (5, ""));
    let error: serde_json::Value = serde_json::from_str(&said.err).expect("an object");
    assert_eq!(error["error"]["code"], "TG0005");
    assert_eq!(error["error"]["effect"], "not_applied");
    assert_eq!(error["error"]["exit"], 5);
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let world = World::new();
    let mut command = world.command(&["migrate", "--print"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    drop(child.stdout.take());
    Said::of(&child.wait_with_output().expect("ended")).fails(0, "");
}

#[test]
fn a_wrong_argument_is_an_object_for_a_program() {
    let world = World::new();
    for (args, message) in [
        (
            &["emit", "--nope", "--json"][..],
            "unexpected argument '--nope' found",
        ),
        (&["--json"], "a command is missing"),
        (&["--json", "tial"], "unrecognized subcommand 'tial'"),
        (
            &["dead-letter", "discard", "--json"],
            "the following required arguments were not provided: --reason <TEXT> <ID>",
        ),
    ] {
        let said = world.run(args);
        let error: serde_json::Value =
            serde_json::from_str(&said.err).unwrap_or_else(|e| panic!("{e}: {said:?}"));
        let error = &error["error"];
        assert_eq!(
            (said.status, &error["code"], &error["message"]),
            (2, &"TG0006".into(), &message.into()),
            "{said:?}"
        );
        assert!(said.out.is_empty());
    }
    let help = world.run(&["emit", "--help", "--json"]).ok();
    assert!(help.out.starts_with("Write events"), "{help:?}");
}

#[test]
fn a_place_beyond_the_end_of_a_stream_is_refused() {
    let world = World::new();
    world.run(&["migrate"]).ok();
    let daemon = crate::daemon::Daemon::start(&world, &[]);
    daemon.stop();
    let said = world.run(&["tail", "--from", "0-9999"]);
    said.fails(
        2,
        "error: TG0006 an argument is wrong or missing: --from 0-9999 is beyond the last entry of the stream, 0-0\n  read \
         on: tidegate explain TG0006\n",
    );
}

//! `docs/commands.md` is what the binary says: help pages as they are printed, and transcripts as they happen.
//! `BLESS=1 cargo test -p tidegate-cli` writes the page anew.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::daemon::{Daemon, wait_for};
use crate::world::World;

const INTRODUCTION: &str = "\
# Commands

Made by `crates/cli/tests/cli/golden.rs` from the binary's own words; the test compares the two, and `BLESS=1 cargo test \
-p tidegate-cli` writes the page anew. In transcripts, what differs from run to run is replaced: `<id>`, `<time>`, `<token>`, `<port>`.

Data goes to standard output, words for people to standard error. With `--json` a command prints one object, or one a \
line, and an error is an object `{\"error\":{\"code\",\"title\",\"message\",\"causes\",\"effect\",\"exit\"}}` on standard error. A reader that \
goes away ends a command quietly.

The flags of every command are listed once, in the first page below.
";

/// What to type, and what is then seen.
struct Seen {
    command: &'static str,
    /// A daemon has published two events before.
    published: bool,
    lines: &'static [&'static str],
}

const SEEN: &[Seen] = &[
    Seen {
        command: "run",
        published: false,
        lines: &[
            "timeout --foreground --preserve-status 2 tidegate run --set http.listen=127.0.0.1:0 --set log.level=error; echo status $?",
        ],
    },
    Seen {
        command: "check",
        published: false,
        lines: &[
            "tidegate check",
            "tidegate check --set outbox.main.lanes=63; echo status $?",
        ],
    },
    Seen {
        command: "migrate",
        published: false,
        lines: &["tidegate migrate"],
    },
    Seen {
        command: "emit",
        published: false,
        lines: &[
            "tidegate emit --topic orders --key 42 --payload '{\"total\":7}'",
            "printf '{\"topic\":\"orders\",\"payload\":1}\\noops\\n' | tidegate emit; echo status $?",
        ],
    },
    Seen {
        command: "tail",
        published: true,
        lines: &["tidegate tail", "tidegate tail --json --limit 1"],
    },
    Seen {
        command: "status",
        published: true,
        lines: &["tidegate status"],
    },
    Seen {
        command: "outbox",
        published: false,
        lines: &[
            "tidegate emit --topic orders --key 42 --payload 7",
            "tidegate outbox ls",
        ],
    },
    Seen {
        command: "explain",
        published: false,
        lines: &["tidegate explain TG0012"],
    },
];

/// Every command that is shown, by its words.
fn pages() -> Vec<Vec<String>> {
    fn walk(command: &clap::Command, words: &[String], pages: &mut Vec<Vec<String>>) {
        for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            let words = [words, &[below.get_name().to_owned()]].concat();
            pages.push(words.clone());
            walk(below, &words, pages);
        }
    }
    let mut pages = vec![Vec::new()];
    walk(&tidegate_cli::args::command(), &[], &mut pages);
    pages
}

/// The page as it is printed, without the flags that every page ends with.
fn help(words: &[String]) -> String {
    let world = World::new();
    let args: Vec<_> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let said = world.run(&args).ok();
    assert_eq!(said.err, "");
    let lines: Vec<_> = said.out.lines().map(str::trim_end).collect();
    let page = lines.join("\n") + "\n";
    match page.split_once("\nEverywhere:\n") {
        Some((before, after)) => format!(
            "{before}{}",
            after
                .split_once("\n\n")
                .map_or(String::new(), |(_, rest)| format!("\n{rest}"))
        ),
        None => page,
    }
}

fn publish(world: &World) {
    for (key, payload) in [("42", "{\"total\":1}"), ("42", "{\"total\":2}")] {
        world
            .run(&["emit", "--topic", "orders", "--key", key, "--payload", payload])
            .ok();
    }
    let daemon = Daemon::start(world, &["--set", "http.listen=127.0.0.1:0"]);
    wait_for("two entries", || {
        (world.run(&["tail"]).out.lines().count() == 2).then_some(())
    });
    wait_for("the sweep", || {
        world
            .run(&["lease", "ls"])
            .out
            .contains("sweep/main")
            .then_some(())
    });
    daemon.stop();
}

fn transcript(seen: &Seen) -> String {
    let world = World::new();
    if seen.published {
        publish(&world);
    }
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_tidegate"));
    let folder = binary.parent().expect("a folder").display().to_string();
    let mut text = String::new();
    for line in seen.lines {
        let output = Command::new("/bin/sh")
            .args(["-c", &format!("exec 2>&1; {line}")])
            .current_dir(world.dir.path())
            .env_clear()
            .env("PATH", format!("{folder}:/usr/bin:/bin"))
            .stdin(Stdio::null())
            .output()
            .expect("run");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        writeln!(text, "$ {line}\n{}", said.trim_end()).expect("written");
    }
    let here = world.dir.path().canonicalize().expect("there");
    replaced(&text.replace(&format!("{}/", here.display()), "./"))
}

/// What differs from run to run.
fn replaced(text: &str) -> String {
    const PATTERNS: [(&str, &str); 6] = [
        (
            "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "<id>",
        ),
        (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "<time>"),
        (r"\b\d+(\.\d)?m?s +", "<time>  "),
        (r"\b\d+(\.\d)?m?s\b", "<time>"),
        (r"\b\d{16}\b", "<token>"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
    ];
    PATTERNS.iter().fold(text.to_owned(), |text, (pattern, word)| {
        let pattern = regex::Regex::new(pattern).expect("a pattern");
        pattern.replace_all(&text, *word).into_owned()
    })
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for words in pages() {
        let name = [&["tidegate".to_owned()], &words[..]].concat().join(" ");
        let depth = if words.len() < 2 { "##" } else { "###" };
        write!(page, "\n{depth} {name}\n\n```text\n{}```\n", help(&words)).expect("written");
        if let Some(seen) = SEEN.iter().find(|seen| words == [seen.command.to_owned()]) {
            let text = transcript(seen);
            write!(page, "\nYou will see:\n\n```console\n{text}```\n").expect("written");
        }
    }
    page
}

#[test]
fn docs_commands_md_is_what_the_binary_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let said = page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &said).expect("written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let difference = said
        .lines()
        .zip(written.lines())
        .find(|(said, written)| said != written);
    assert!(
        said == written,
        "docs/commands.md differs; BLESS=1 writes it. First difference: {difference:#?}"
    );
}

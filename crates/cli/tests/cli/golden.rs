//! `docs/commands.md` is what the binary says: help pages as they are printed, and transcripts as they happen.
//! `BLESS=1 cargo test -p tidegate-cli` writes the page anew.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::world::World;

const INTRODUCTION: &str = "\
# Commands

Made by `crates/cli/tests/cli/golden.rs` from the binary's own words; the test compares the two, and `BLESS=1 cargo test \
-p tidegate-cli` writes the page anew. In transcripts, ids and times are replaced by `<id>` and `<time>`.

Data goes to standard output, words for people to standard error. With `--json` a command prints one object, or one a \
line, and an error is an object `{\"error\":{\"code\",\"title\",\"message\",\"causes\",\"effect\",\"exit\"}}` on standard error. A reader that \
goes away ends a command quietly.
";

/// What to type, and what is then seen; each in a folder of its own.
const TRANSCRIPTS: &[(&str, &[&str])] = &[
    (
        "check",
        &["tidegate check", "tidegate check --set outbox.main.lanes=63"],
    ),
    ("explain", &["tidegate explain TG0012"]),
    ("migrate", &["tidegate migrate"]),
    (
        "emit",
        &[
            "tidegate emit --topic orders --key 42 --payload '{\"total\":7}'",
            "printf '{\"topic\":\"orders\",\"payload\":1}\\noops\\n' | tidegate emit; echo status $?",
        ],
    ),
    (
        "outbox",
        &[
            "tidegate emit --topic orders --key 42 --payload 7",
            "tidegate outbox ls",
        ],
    ),
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

fn help(words: &[String]) -> String {
    let world = World::new();
    let args: Vec<_> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let said = world.run(&args).ok();
    assert_eq!(said.err, "");
    said.out
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

fn transcript(lines: &[&str]) -> String {
    let world = World::new();
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_tidegate"));
    let folder = binary.parent().expect("a folder").display().to_string();
    let mut text = String::new();
    for line in lines {
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
    static IDS: LazyLock<regex::Regex> = LazyLock::new(|| {
        regex::Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").expect("a pattern")
    });
    static AGES: LazyLock<regex::Regex> =
        LazyLock::new(|| regex::Regex::new(r"(?m)\b\d+(\.\d)?m?s +").expect("a pattern"));
    AGES.replace_all(&IDS.replace_all(text, "<id>"), "<time>  ")
        .into_owned()
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for words in pages() {
        let name = [&["tidegate".to_owned()], &words[..]].concat().join(" ");
        let depth = if words.len() < 2 { "##" } else { "###" };
        write!(page, "\n{depth} {name}\n\n```text\n{}```\n", help(&words)).expect("written");
        let seen = TRANSCRIPTS.iter().find(|(of, _)| words == [of.to_owned()]);
        if let Some((_, lines)) = seen {
            write!(page, "\nYou will see:\n\n```console\n{}```\n", transcript(lines)).expect("written");
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

//! The top page of `--help`: commands by purpose, examples and exit statuses.

use std::fmt::Write as _;

use clap::Subcommand as _;

use super::Command;
use crate::exit::Exit;

pub(super) const TEMPLATE: &str = "\
{about}

Usage: tidegate <COMMAND> [OPTIONS]

{before-help}Flags of every command:
{options}{after-help}";

/// Every command under the purpose it serves; a test holds this list against the commands.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start here", &["demo"]),
    ("Run", &["run", "check", "config", "migrate"]),
    ("Use", &["emit", "tail", "status"]),
    (
        "Operate",
        &["outbox", "consumer", "dead-letter", "lease", "sweep"],
    ),
    ("Learn", &["explain", "completions"]),
];

const EXAMPLES: &str = "\
Examples:
  tidegate demo                                            see it work
  tidegate run                                             serve ./tidegate.db
  tidegate run -c tidegate.toml                            serve what the file declares
  tidegate emit --topic orders --key 42 --payload '{\"total\":7}'
  tidegate emit --topic flights --key-field origin --file flights.ndjson
  tidegate tail --follow --json
  tidegate status --db sqlite:shop.db
";

pub(super) fn groups() -> String {
    let commands = Command::augment_subcommands(clap::Command::new("tidegate"));
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{title}:");
        for name in *names {
            let about = commands.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<12} {about}");
        }
        text.push('\n');
    }
    text
}

pub(super) fn closing() -> String {
    let mut text = format!("{EXAMPLES}\nExit status:\n");
    for exit in Exit::ALL {
        let _ = writeln!(text, "  {:>3}  {}", exit.status(), exit.meaning());
    }
    text.push_str("\nData goes to standard output, words for people to standard error.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_a_group() {
        let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let commands = Command::augment_subcommands(clap::Command::new("tidegate"));
        let mut declared: Vec<_> = commands
            .get_subcommands()
            .filter(|c| !c.is_hide_set())
            .map(|c| c.get_name().to_owned())
            .collect();
        let mut listed: Vec<_> = grouped.into_iter().map(str::to_owned).collect();
        declared.sort();
        listed.sort();
        assert_eq!(declared, listed);
    }
}

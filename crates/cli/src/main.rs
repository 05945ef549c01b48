//! The `tidegate` binary: parse, run, exit status.

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use tidegate_cli::args::Args;
use tidegate_cli::global::Global;
use tidegate_cli::{Failure, error};

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(refused) if refused.use_stderr() && wants_json() => return refuse(&refused),
        Err(refused) => refused.exit(),
    };
    let global = args.global.clone();
    let exit = tidegate_cli::dispatch(args).unwrap_or_else(|failure| error::report(&failure, &global));
    exit.into()
}

/// What cannot be parsed can still ask for an answer that can be.
fn wants_json() -> bool {
    std::env::args_os().any(|argument| argument == "--json")
}

fn refuse(refused: &clap::Error) -> ExitCode {
    let text = refused.to_string();
    let said = match refused.kind() {
        // The text is the help page, or names hidden commands too.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            "a command is missing"
        }
        // Hints and the usage come after the first paragraph.
        _ => text.split("\n\n").next().unwrap_or_default(),
    };
    let said: Vec<_> = said.trim_start_matches("error: ").split_whitespace().collect();
    let global = Global {
        json: true,
        ..Global::default()
    };
    error::report(&Failure::argument(said.join(" ")), &global).into()
}

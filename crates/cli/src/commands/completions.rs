//! `completions SHELL`.

use std::io::Cursor;

use clap_complete::Shell;

use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;

/// For which shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate"
)]
pub struct Args {
    /// The shell
    pub shell: Shell,
}

/// Prints the script that completes `command`.
pub(crate) fn run(context: &Context, args: &Args, command: &mut clap::Command) -> Ended {
    let mut script = Cursor::new(Vec::new());
    clap_complete::generate(args.shell, command, "tidegate", &mut script);
    let script =
        String::from_utf8(script.into_inner()).map_err(|e| Failure::Output(std::io::Error::other(e)))?;
    context.out.text(&script)?;
    Ok(Exit::Ok)
}

//! `config explain`: each effective value, where it came from, and what it does.

use clap::Subcommand;

use crate::context::{Context, Ended};
use crate::exit::Exit;
use crate::settings;

/// What to show.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print each effective value, where it came from, and what it does; secrets are masked
    Explain,
}

/// Prints the explanation.
pub(crate) fn run(context: &Context, command: &Command) -> Ended {
    let Command::Explain = command;
    let explanation = settings::load(&context.global)?.explanation;
    if context.out.is_json() {
        context.out.object(&explanation)?;
    } else {
        context.out.text(&explanation.to_string())?;
    }
    Ok(Exit::Ok)
}

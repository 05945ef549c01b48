//! `dead-letter`.

use clap::Subcommand;

use super::{Context, Ended};
use crate::exit::Exit;

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List
    Ls,
}

pub(super) async fn run(_: &Context, _: &Command) -> Ended {
    Ok(Exit::Ok)
}

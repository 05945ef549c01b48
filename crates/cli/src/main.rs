//! The `tidegate` binary: parse, run, exit status.

use std::process::ExitCode;

use clap::Parser;
use tidegate_cli::args::Args;
use tidegate_cli::{commands, error};

fn main() -> ExitCode {
    let args = Args::parse();
    let global = args.global.clone();
    let exit = commands::run(args).unwrap_or_else(|failure| error::report(&failure, &global));
    exit.into()
}

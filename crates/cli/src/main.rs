//! The `tidegate` binary.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidegate_cli::demo;

#[derive(Parser)]
struct Args {
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    #[command(hide = true)]
    DemoWorker(demo::worker::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    match args.command {
        Command::Demo(demo) => match demo::run(&demo, args.json) {
            Ok(report) => {
                match args.json {
                    true => println!("{}", serde_json::to_string_pretty(&report).unwrap_or_default()),
                    false => println!("{report}"),
                }
                ExitCode::from(u8::from(!report.promises_kept))
            }
            Err(error) => {
                eprintln!("{error} {:?}", std::error::Error::source(&error));
                ExitCode::from(2)
            }
        },
        Command::DemoWorker(worker) => match demo::worker::run(&worker) {
            Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
            Err(error) => {
                eprintln!("{error}");
                ExitCode::from(4)
            }
        },
    }
}

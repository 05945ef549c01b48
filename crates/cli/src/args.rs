//! The command line: what can be typed, and its help.

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    completions, config, consumer, dead_letter, emit, explain, lease, migrate, outbox, run, sweep, tail,
};
use crate::demo;
use crate::global::Global;

mod help;

/// Events out of a service's database and into others: nothing lost, doubled or reordered.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version,
    max_term_width = 110,
    disable_help_subcommand = true,
    help_template = help::TEMPLATE,
    before_help = help::groups(),
    after_help = help::closing(),
)]
pub struct Args {
    /// Flags that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// See it work: real events through kills and faults, with counted evidence
    Demo(demo::Args),
    /// A worker process of the demo
    #[command(hide = true)]
    DemoWorker(demo::worker::Args),
    /// Run every declared relay, consumer and sweep, with metrics and health over HTTP
    Run(run::Args),
    /// Say whether the configuration is valid; all problems at once
    Check,
    /// Show the configuration
    #[command(subcommand)]
    Config(config::Command),
    /// Add or upgrade Tidegate's tables
    Migrate(migrate::Args),
    /// Show outboxes, streams, consumers and leases at a glance
    Status,
    /// Write events to an outbox, from arguments, a file or standard input
    Emit(emit::Args),
    /// Show published events
    Tail(tail::Args),
    /// Look into outboxes; release parked keys
    #[command(subcommand)]
    Outbox(outbox::Command),
    /// Look into consumers; rewind one
    #[command(subcommand)]
    Consumer(consumer::Command),
    /// Look at events that could not be applied; redrive or discard them
    #[command(subcommand)]
    DeadLetter(dead_letter::Command),
    /// Look at leases; break one
    #[command(subcommand)]
    Lease(lease::Command),
    /// Run interval jobs by hand
    #[command(subcommand)]
    Sweep(sweep::Command),
    /// Explain an error code
    Explain(explain::Args),
    /// Print the completion script of a shell
    Completions(completions::Args),
}

/// The whole command line, for help pages and completions.
pub fn command() -> clap::Command {
    Args::command()
}

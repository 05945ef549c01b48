//! The flags that every command takes.

use std::path::PathBuf;

/// Flags that every command takes.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// Configuration file; without one, `./tidegate.db` with one outbox and one stream named `main`
    #[arg(short, long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Replaces one value of the configuration; may be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Uses this database file instead of a configuration, such as sqlite:shop.db
    #[arg(long, global = true, value_name = "URL", conflicts_with = "config")]
    pub db: Option<String>,
    /// Writes for programs: one object, or one a line
    #[arg(long, global = true)]
    pub json: bool,
    /// Logs more; may be repeated
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Writes no colour; so does `NO_COLOR` in the environment
    #[arg(long, global = true)]
    pub no_color: bool,
}

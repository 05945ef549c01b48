//! Logs: on standard error, at the level that the command, the configuration and `-v` ask for.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::{Format, Level, Log};
use crate::global::Global;

/// For `run`: as configured; `-v` shows more, `RUST_LOG` decides over all.
pub(crate) fn daemon(log: &Log, global: &Global) {
    start(log.level, log.format, global);
}

/// For other commands: warnings.
pub(crate) fn command(global: &Global) {
    start(Level::Warn, Format::Text, global);
}

fn start(level: Level, format: Format, global: &Global) {
    let base = match level {
        Level::Error => 0,
        Level::Warn => 1,
        Level::Info => 2,
        Level::Debug => 3,
        Level::Trace => 4,
    };
    let names = ["error", "warn", "info", "debug", "trace"];
    let name = names.get(base + usize::from(global.verbose)).unwrap_or(&"trace");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(name));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // A subscriber that is already there, as in tests, stays.
    let _ = match format {
        Format::Text => lines.with_ansi(colour(global)).try_init(),
        Format::Json => lines.json().try_init(),
    };
}

fn colour(global: &Global) -> bool {
    let refused = global.no_color || std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    !refused && std::io::stderr().is_terminal()
}

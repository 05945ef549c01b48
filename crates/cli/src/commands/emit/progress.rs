//! How far a long input is: a bar on a terminal, a line every few seconds elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::context::Context;
use crate::output;
use crate::text::counted;

/// Between two lines where no terminal is.
const EVERY: Duration = Duration::from_secs(5);

/// Silent with `--json`.
pub(super) enum Progress {
    Silent,
    Lines { next: Instant },
    Bar(ProgressBar),
}

impl Progress {
    pub(super) fn new(context: &Context, bytes: Option<u64>) -> Self {
        match bytes {
            _ if context.out.is_json() => Progress::Silent,
            Some(bytes) if output::person_watches() => Progress::Bar(bar(bytes)),
            _ => Progress::Lines {
                next: Instant::now() + EVERY,
            },
        }
    }

    /// So many bytes of the input are read.
    pub(super) fn at(&self, bytes: u64) {
        if let Progress::Bar(bar) = self {
            bar.set_position(bytes);
        }
    }

    /// So many events are committed in all.
    pub(super) fn committed(&mut self, events: u64) {
        match self {
            Progress::Bar(bar) => bar.set_message(counted(events, "event")),
            Progress::Lines { next } if Instant::now() >= *next => {
                *next = Instant::now() + EVERY;
                output::warn(format!("{} committed", counted(events, "event")));
            }
            Progress::Silent | Progress::Lines { .. } => {}
        }
    }

    /// Prints while no bar is in the way.
    pub(super) fn pause(&self, print: impl FnOnce()) {
        match self {
            Progress::Bar(bar) => bar.suspend(print),
            Progress::Silent | Progress::Lines { .. } => print(),
        }
    }

    pub(super) fn finish(&self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn bar(bytes: u64) -> ProgressBar {
    let template = "{wide_bar} {percent:>3}%  {msg}  {binary_bytes_per_sec}  {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style)
}

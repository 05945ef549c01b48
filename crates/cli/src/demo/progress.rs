//! A bar on a terminal; plain lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// What the demo tells people while it runs, on standard error.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: u64,
    quiet: bool,
    said: Instant,
    begun: Instant,
}

impl Progress {
    /// `quiet` says nothing.
    pub fn new(total: u64, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal() && !quiet;
        let bar = terminal.then(|| {
            let style = ProgressStyle::with_template("{elapsed:>4} [{bar:32}] {pos}/{len} applied  {msg}");
            ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let begun = Instant::now();
        Self {
            bar,
            total,
            quiet,
            said: begun,
            begun,
        }
    }

    /// An event of the story.
    pub fn say(&mut self, line: &str) {
        if self.quiet {
            return;
        }
        let line = format!("{:5.1} s  {line}", self.begun.elapsed().as_secs_f64());
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    /// How many events are applied.
    pub fn at(&mut self, applied: u64) {
        match &self.bar {
            Some(bar) => bar.set_position(applied),
            None if self.quiet || self.said.elapsed() < Duration::from_secs(2) => {}
            None => {
                self.said = Instant::now();
                let total = self.total;
                self.say(&format!("{applied} of {total} applied"));
            }
        }
    }

    /// Ends the bar.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

//! A bar on a terminal; plain lines elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// How it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// A bar, and lines above it.
    Bar,
    /// Lines.
    Lines,
    /// Nothing.
    Silent,
}

impl Manner {
    /// A person at a terminal sees the bar also while a program reads the report.
    fn of(json: bool, terminal: bool) -> Self {
        match (json, terminal) {
            (_, true) => Manner::Bar,
            (false, false) => Manner::Lines,
            (true, false) => Manner::Silent,
        }
    }
}

/// What the demo tells people while it runs, on standard error.
pub struct Progress {
    manner: Manner,
    bar: Option<ProgressBar>,
    total: u64,
    said: Instant,
    begun: Instant,
}

impl Progress {
    /// `json` says that a program reads the report.
    pub fn new(total: u64, json: bool) -> Self {
        let manner = Manner::of(json, output::person_watches());
        let begun = Instant::now();
        Self {
            manner,
            bar: (manner == Manner::Bar).then(|| bar(total)),
            total,
            said: begun,
            begun,
        }
    }

    /// An event of the story.
    pub fn say(&mut self, line: &str) {
        let line = format!("{:5.1} s  {line}", self.begun.elapsed().as_secs_f64());
        match (self.manner, &self.bar) {
            (Manner::Silent, _) => {}
            (_, Some(bar)) => bar.println(line),
            (_, None) => output::warn(line),
        }
    }

    /// How many events are applied.
    pub fn at(&mut self, applied: u64) {
        match &self.bar {
            Some(bar) => bar.set_position(applied),
            None if self.said.elapsed() < Duration::from_secs(2) => {}
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

fn bar(total: u64) -> ProgressBar {
    let template = "{elapsed:>4} [{bar:32}] {pos}/{len} applied  {msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::Manner;

    #[test]
    fn a_terminal_has_a_bar_also_with_json_and_a_program_alone_has_nothing() {
        assert_eq!(
            [(false, true), (true, true), (false, false), (true, false)].map(|(j, t)| Manner::of(j, t)),
            [Manner::Bar, Manner::Bar, Manner::Lines, Manner::Silent]
        );
    }
}

//! What the benchmarks share: options, meters, and the line of JSON at the end.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

/// Options from the command line.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Print nothing but the JSON object.
    pub(crate) json: bool,
    /// Events of one round.
    pub(crate) events: usize,
    /// Rounds; the median counts.
    pub(crate) rounds: usize,
    /// Rows of the large backlog; none: do not measure it.
    pub(crate) backlog: Option<usize>,
    /// Where the files are made; default: the system's folder for temporary files.
    pub(crate) dir: Option<PathBuf>,
}

impl Options {
    /// Reads the command line. Ends the process at an unknown option.
    pub(crate) fn read() -> Self {
        let mut options = Self {
            json: false,
            events: 100_000,
            rounds: 5,
            backlog: None,
            dir: None,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || words.next().and_then(|n| n.parse().ok());
            match word.as_str() {
                "--json" => options.json = true,
                "--events" => options.events = number().unwrap_or_else(|| usage(&word)),
                "--rounds" => options.rounds = number().unwrap_or_else(|| usage(&word)),
                "--backlog" => options.backlog = Some(number().unwrap_or_else(|| usage(&word))),
                "--dir" => options.dir = Some(words.next().unwrap_or_else(|| usage(&word)).into()),
                // cargo adds it.
                "--bench" => {}
                _ => usage(&word),
            }
        }
        options
    }

    /// A folder that is removed with the returned value.
    pub(crate) fn folder(&self) -> tempfile::TempDir {
        match &self.dir {
            Some(dir) => tempfile::tempdir_in(dir).unwrap(),
            None => tempfile::tempdir().unwrap(),
        }
    }
}

fn usage<T>(word: &str) -> T {
    eprintln!("{word}: unknown, or its value is missing; see bench/run --help");
    std::process::exit(2)
}

/// Figures in the order they were taken.
pub(crate) struct Report {
    quiet: bool,
    figures: Map<String, Value>,
}

impl Report {
    /// Starts with the machine's cores and the build.
    pub(crate) fn new(name: &str, options: &Options) -> Self {
        let mut report = Self {
            quiet: options.json,
            figures: Map::new(),
        };
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        report.text("bench", name);
        report.figures.insert("cores".into(), cores.into());
        report
    }

    /// A word.
    pub(crate) fn text(&mut self, name: &str, value: &str) {
        self.figures.insert(name.into(), value.into());
    }

    /// A number, to four significant digits or so.
    pub(crate) fn number(&mut self, name: &str, value: f64) {
        if !self.quiet {
            println!("{name:<36} {value:>14.4}");
        }
        let short = if value.abs() >= 100.0 {
            value.round()
        } else {
            (value * 10_000.0).round() / 10_000.0
        };
        self.figures.insert(name.into(), short.into());
    }

    /// A line for people.
    pub(crate) fn say(&self, line: &str) {
        if !self.quiet {
            println!("{line}");
        }
    }

    /// The last line.
    pub(crate) fn finish(self) {
        println!("{}", Value::Object(self.figures));
    }
}

/// Wall time and processor time of a stretch of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    began: Instant,
    processor: Duration,
}

/// How long a stretch took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Took {
    /// On the wall.
    pub(crate) wall: Duration,
    /// Of all threads of this process.
    pub(crate) processor: Duration,
}

impl Stretch {
    /// Begins now.
    pub(crate) fn begin() -> Self {
        Self {
            began: Instant::now(),
            processor: processor_time(),
        }
    }

    /// Ends now.
    pub(crate) fn end(self) -> Took {
        Took {
            wall: self.began.elapsed(),
            processor: processor_time().saturating_sub(self.processor),
        }
    }
}

impl Took {
    /// Events in a second of wall time.
    pub(crate) fn per_second(self, events: usize) -> f64 {
        events as f64 / self.wall.as_secs_f64()
    }

    /// Microseconds of processor time for each event.
    pub(crate) fn micros_each(self, events: usize) -> f64 {
        self.processor.as_secs_f64() * 1e6 / events as f64
    }
}

fn processor_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec.cast_unsigned(), u32::try_from(t.tv_nsec).unwrap())
}

/// The highest resident set since [`forget_peak`], in megabytes.
pub(crate) fn peak_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}

/// Starts the measurement of the peak anew.
pub(crate) fn forget_peak() {
    // Without the right to do so the peak is that of the whole process, which is never too low.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The middle one; sorts.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which this part of the values lies; sorts.
pub(crate) fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() - 1) as f64 * part;
    values[at.round() as usize]
}

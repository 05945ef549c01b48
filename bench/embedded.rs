//! Commit to applied on SQLite: three files, relay and consumer in this process.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation
)]

#[path = "pipeline.rs"]
mod pipeline;
#[path = "raw.rs"]
#[allow(clippy::cast_possible_wrap)]
mod raw;
#[path = "support.rs"]
#[allow(dead_code, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
mod support;

use std::time::Duration;

use pipeline::{Files, Pipeline, TRANSACTION};
use raw::Raw;
use support::{Options, Report, Stretch, Took, forget_peak, median, peak_mb, quantile};

/// Events per second of the paced run, and how long it lasts.
const PACE: u64 = 2_000;
const PACED_SECONDS: u64 = 5;
/// Events of one paced transaction.
const PACED_TRANSACTION: usize = 20;
/// Producers that commit side by side.
const PRODUCERS: usize = 4;

fn main() {
    let options = Options::read();
    let mut report = Report::new("embedded", &options);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        match options.backlog {
            Some(rows) => backlog(&options, &mut report, rows).await,
            None => pace_and_rounds(&options, &mut report).await,
        }
    });
    report.finish();
}

async fn pace_and_rounds(options: &Options, report: &mut Report) {
    report.number("events_per_round", options.events as f64);
    for producing in [true, false] {
        rounds(options, report, producing).await;
    }
    paced(options, report).await;
}

/// Both programs in turn, so that a busy machine slows both.
async fn rounds(options: &Options, report: &mut Report, producing: bool) {
    let prefix = if producing { "" } else { "drain_" };
    let mut columns: [Vec<f64>; 6] = Default::default();
    let (mut relay, mut consumer) = (Vec::new(), Vec::new());
    forget_peak();
    let mut peak: f64 = 0.0;
    for _ in 0..options.rounds {
        let raw = bare(options, producing);
        forget_peak();
        let (ours, counts) = whole(options, producing).await;
        peak = peak.max(peak_mb());
        let (ours_rate, raw_rate) = (ours.per_second(options.events), raw.per_second(options.events));
        let (ours_cpu, raw_cpu) = (ours.micros_each(options.events), raw.micros_each(options.events));
        let row = [
            ours_rate,
            raw_rate,
            ours_rate / raw_rate,
            ours_cpu,
            raw_cpu,
            raw_cpu / ours_cpu,
        ];
        columns
            .iter_mut()
            .zip(row)
            .for_each(|(column, value)| column.push(value));
        relay.push(counts[0]);
        consumer.push(counts[1]);
    }
    let names = [
        "events_per_s",
        "raw_events_per_s",
        "ratio_to_raw",
        "cpu_us_per_event",
        "raw_cpu_us_per_event",
        "cpu_ratio_to_raw",
    ];
    for (name, column) in names.iter().zip(&mut columns) {
        report.number(&format!("{prefix}{name}"), median(column));
    }
    report.number(&format!("{prefix}peak_rss_mb"), peak);
    if !producing {
        report.number("statements_per_relayed_event", median(&mut relay));
        report.number("statements_per_applied_event", median(&mut consumer));
    }
}

fn bare(options: &Options, producing: bool) -> Took {
    let folder = options.folder();
    let files = Files::in_folder(folder.path());
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            drop(runtime.block_on(Pipeline::open(&files, 0)));
            let raw = Raw::open(&files);
            if !producing {
                raw.fill(options.events);
            }
            let stretch = Stretch::begin();
            raw.run(options.events, producing);
            stretch.end()
        });
        run.join().unwrap()
    })
}

/// Time, and statements for each event on the relay's and the consumer's side.
async fn whole(options: &Options, producing: bool) -> (Took, [f64; 2]) {
    let folder = options.folder();
    let pipeline = Pipeline::open(&Files::in_folder(folder.path()), 0).await;
    pipeline.warm_up().await;
    if !producing {
        pipeline.stop().await;
        pipeline.enqueue(options.events).await;
    }
    let before = pipeline.statements();
    let stretch = Stretch::begin();
    if producing {
        produce(&pipeline, options.events).await;
    } else {
        pipeline.start();
    }
    pipeline.applied_all().await;
    let took = stretch.end();
    let after = pipeline.statements();
    pipeline.stop().await;
    let each = |side: usize| (after[side] - before[side]) as f64 / options.events as f64;
    (took, [each(0), each(1)])
}

async fn produce(pipeline: &Pipeline, events: usize) {
    let each = events / PRODUCERS;
    let (a, b, c, d) = (
        pipeline.enqueue(each),
        pipeline.enqueue(each),
        pipeline.enqueue(each),
        pipeline.enqueue(events - 3 * each),
    );
    tokio::join!(a, b, c, d);
}

/// An even pace well below the limit: how long from a commit to its effect.
async fn paced(options: &Options, report: &mut Report) {
    let folder = options.folder();
    let room = 4096 + (PACE * PACED_SECONDS) as usize;
    let pipeline = Pipeline::open(&Files::in_folder(folder.path()), room).await;
    pipeline.warm_up().await;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) * PACED_TRANSACTION as u32 / PACE as u32);
    let mut committed = Vec::new();
    let stretch = Stretch::begin();
    for _ in 0..PACE * PACED_SECONDS / PACED_TRANSACTION as u64 {
        ticks.tick().await;
        let first = pipeline.transact(PACED_TRANSACTION).await;
        committed.push((first, pipeline.stamps.now()));
    }
    pipeline.applied_all().await;
    let took = stretch.end();
    let waits = committed.iter().flat_map(|(first, at)| {
        let events = *first..*first + PACED_TRANSACTION as u64;
        events.map(|i| pipeline.stamps.applied(i).unwrap().saturating_sub(*at) as f64 / 1e6)
    });
    let mut waits: Vec<f64> = waits.collect();
    pipeline.stop().await;
    report.number("paced_events_per_s", took.per_second(waits.len()));
    report.number("commit_to_applied_ms_p50", quantile(&mut waits, 0.5));
    report.number("commit_to_applied_ms_p99", quantile(&mut waits, 0.99));
    report.number(
        "paced_cpu_share",
        took.processor.as_secs_f64() / took.wall.as_secs_f64(),
    );
}

/// Backlogs of three sizes: the cost of an event and the memory do not depend on what waits.
async fn backlog(options: &Options, report: &mut Report, rows: usize) {
    for (name, rows) in [("small", rows / 100), ("tenth", rows / 10), ("large", rows)] {
        report.say(&format!("filling a backlog of {rows} rows"));
        let folder = options.folder();
        let pipeline = Pipeline::open(&Files::in_folder(folder.path()), 0).await;
        pipeline.warm_up().await;
        pipeline.stop().await;
        pipeline.enqueue(rows / TRANSACTION * TRANSACTION).await;
        forget_peak();
        let before = pipeline.statements();
        let stretch = Stretch::begin();
        pipeline.start();
        pipeline.applied_all().await;
        let took = stretch.end();
        let after = pipeline.statements();
        report.number(&format!("{name}_rows"), rows as f64);
        report.number(&format!("{name}_events_per_s"), took.per_second(rows));
        report.number(&format!("{name}_cpu_us_per_event"), took.micros_each(rows));
        report.number(&format!("{name}_peak_rss_mb"), peak_mb());
        for (side, who) in ["relayed", "applied"].into_iter().enumerate() {
            let count = (after[side] - before[side]) as f64;
            report.number(&format!("{name}_statements_per_{who}_event"), count / rows as f64);
        }
        pipeline.stop().await;
    }
}

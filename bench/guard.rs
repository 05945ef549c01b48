//! Nanoseconds of `Guard::check`, the local check of a lease.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_precision_loss)]

#[path = "support.rs"]
#[allow(
    dead_code,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unchecked_time_subtraction
)]
mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use support::{Options, Report, median};
use tidegate::lease::{Guard, Leases};
use tidegate_core::memory;

const CHECKS: u32 = 2_000_000;

fn main() {
    let options = Options::read();
    let mut report = Report::new("guard", &options);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let leases = Leases::new(Arc::new(memory::lease::Leases::new(memory::Clock::default())));
    let mut rounds = runtime
        .block_on(leases.with("bench", |guard| async move { rounds(&guard, options.rounds) }))
        .unwrap();
    report.number("ns_per_clock_read", median(&mut clock_reads(options.rounds)));
    report.number(
        "ns_per_check_best",
        rounds.iter().copied().fold(f64::MAX, f64::min),
    );
    report.number("ns_per_check", median(&mut rounds));
    report.finish();
}

fn rounds(guard: &Guard, count: usize) -> Vec<f64> {
    (0..count * 4).map(|_| round(guard)).collect()
}

fn round(guard: &Guard) -> f64 {
    let began = Instant::now();
    let mut believed = 0;
    for _ in 0..CHECKS {
        believed += u32::from(black_box(guard).check());
    }
    assert_eq!(believed, CHECKS);
    began.elapsed().as_secs_f64() * 1e9 / f64::from(CHECKS)
}

/// What the check is made of: the boot-time clock of the system.
fn clock_reads(count: usize) -> Vec<f64> {
    let one = |_| {
        let began = Instant::now();
        for _ in 0..CHECKS {
            black_box(tidegate::clock::ticks());
        }
        began.elapsed().as_secs_f64() * 1e9 / f64::from(CHECKS)
    };
    (0..count * 4).map(one).collect()
}

//! What is counted, and that counting disturbs nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use super::{File, failure};
use crate::sweep::Step;

/// Keeps counters by name and labels, or panics.
#[derive(Default)]
struct Book {
    counts: Arc<Mutex<BTreeMap<String, u64>>>,
    panics: bool,
}

struct Entry(String, Arc<Mutex<BTreeMap<String, u64>>>);

impl CounterFn for Entry {
    fn increment(&self, value: u64) {
        *self.1.lock().unwrap().entry(self.0.clone()).or_default() += value;
    }

    fn absolute(&self, _: u64) {}
}

impl Recorder for Book {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        assert!(!self.panics, "an exporter that panics on purpose");
        let labels: Vec<_> = key
            .labels()
            .map(|l| format!("{}={}", l.key(), l.value()))
            .collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Counter::from_arc(Arc::new(Entry(name, Arc::clone(&self.counts))))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Two runs, of which the first fails, under a recorder.
fn swept_under(book: &Book) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    metrics::with_local_recorder(book, || {
        runtime.block_on(async {
            let file = File::new();
            assert!(
                file.sweeper(|_| async { Err(failure()) })
                    .run_once()
                    .await
                    .is_err()
            );
            let worker = file.sweeper(|_| async { Ok(Step::last(3)) });
            worker.run_once().await.unwrap()
        })
    })
}

#[test]
fn runs_and_rows_are_counted_by_sweep_and_outcome() {
    let book = Book::default();
    assert_eq!(swept_under(&book), 3);
    let counts = book.counts.lock().unwrap();
    let sweeps: Vec<_> = counts
        .iter()
        .filter(|(name, _)| name.contains("sweep_"))
        .collect();
    let expected = [
        (
            "tidegate_sweep_runs_total{sweep=nightly,outcome=done}".to_owned(),
            1,
        ),
        (
            "tidegate_sweep_runs_total{sweep=nightly,outcome=failed}".to_owned(),
            1,
        ),
        ("tidegate_sweep_swept_total{sweep=nightly}".to_owned(), 3),
    ];
    assert_eq!(sweeps, expected.iter().map(|(n, c)| (n, c)).collect::<Vec<_>>());
}

#[test]
fn a_metric_that_panics_disturbs_no_sweep() {
    let book = Book {
        panics: true,
        ..Book::default()
    };
    assert_eq!(swept_under(&book), 3);
}

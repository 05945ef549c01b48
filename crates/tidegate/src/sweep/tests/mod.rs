//! Sweepers in real time over leases and checkpoints in a real SQLite file.

mod checkpoint;
mod jobs;
mod metric;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_core::lease::Record;
use tidegate_core::store::{BoxFuture, LeaseStore};
use tidegate_core::{Code, Error, Result};
use tidegate_stores::sqlite::{Database, OpenOptions, lease};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

use super::{Context, Job, Step, Sweeper};
use crate::lease::Leases;
use crate::worker::{State, Worker};

const EVERY: Duration = Duration::from_millis(100);
/// Longer than any test: what happens sooner was not the lease running out.
const LONG: Duration = Duration::from_secs(30);
/// Generous, so that a busy machine fails no test.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file that holds leases, checkpoints and a table to sweep.
struct File {
    dir: tempfile::TempDir,
}

impl File {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    /// As another process would open it.
    fn open(&self) -> Database {
        Database::open(self.dir.path().join("app.db"), OpenOptions::default()).unwrap()
    }

    fn leases(&self, ttl: Duration) -> Leases {
        Leases::new(Arc::new(lease::Leases::new(self.open()))).ttl(ttl)
    }

    async fn record(&self) -> Record {
        let records = lease::Leases::new(self.open()).list().await.unwrap();
        records.into_iter().next().unwrap()
    }

    fn sweeper(&self, job: impl Job + 'static) -> Worker {
        Sweeper::new("nightly", self.leases(LONG), EVERY, job)
            .build()
            .unwrap()
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("in time")
}

/// Looks until it is so.
async fn until(so: impl Fn() -> bool) {
    soon(async {
        while !so() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A job that counts its steps and does one unit in each.
fn counting(steps: &Arc<AtomicU64>) -> impl Fn(Context) -> BoxFuture<'static, Result<Step>> + use<> {
    let steps = Arc::clone(steps);
    move |_| {
        steps.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(Step::last(1)) })
    }
}

fn failure() -> Error {
    Error::new(Code::HandlerFailed, "test")
}

// One run.

#[tokio::test]
async fn run_once_goes_step_by_step_to_the_end_and_releases() {
    let file = File::new();
    let left = Mutex::new(5);
    let worker = file.sweeper(move |_| {
        let mut left = left.lock().unwrap();
        *left -= 1;
        let step = Step {
            done: 2,
            more: *left > 0,
        };
        async move { Ok(step) }
    });
    assert_eq!(worker.name(), "sweep/nightly");
    assert_eq!(soon(worker.run_once()).await.unwrap(), 10);
    let record = file.record().await;
    assert_eq!((record.scope.as_str(), record.holder), ("sweep/nightly", None));
}

#[tokio::test]
async fn run_once_says_who_sweeps_already() {
    let file = File::new();
    let steps = Arc::new(AtomicU64::new(0));
    let leases = file.leases(LONG).holder("the other one");
    let (go, wait) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (held, release) = (go.clone(), wait.clone());
    let other = tokio::spawn(async move {
        leases
            .with("sweep/nightly", |_| async {
                held.notify_one();
                release.notified().await;
            })
            .await
    });
    soon(go.notified()).await;
    let error = soon(file.sweeper(counting(&steps)).run_once()).await.unwrap_err();
    assert_eq!(error.code(), Code::LeaseBusy);
    assert!(error.context().starts_with("held by the other one"), "{error}");
    assert_eq!(steps.load(Ordering::SeqCst), 0);
    wait.notify_one();
    soon(other).await.unwrap().unwrap();
}

#[tokio::test]
async fn run_once_returns_what_went_wrong_and_tries_no_more() {
    let file = File::new();
    let failing = file.sweeper(|_| async { Err(failure()) });
    assert_eq!(
        soon(failing.run_once()).await.unwrap_err().code(),
        Code::HandlerFailed
    );
    let panicking = file.sweeper(|_| async { panic!("on purpose") });
    assert_eq!(
        soon(panicking.run_once()).await.unwrap_err().to_string(),
        "TG0041 a worker stopped unexpectedly: the job panicked"
    );
    assert_eq!(file.record().await.holder, None);
}

#[tokio::test]
async fn options_outside_their_limits_are_refused_when_built() {
    let file = File::new();
    let refused = |name: &str, ttl, every| {
        let sweeper = Sweeper::new(name, file.leases(ttl), every, |_| async { Ok(Step::last(0)) });
        sweeper.build().map(|_| ()).unwrap_err().code()
    };
    assert_eq!(refused("a", LONG, Duration::ZERO), Code::OptionsInvalid);
    assert_eq!(refused("a", Duration::ZERO, EVERY), Code::OptionsInvalid);
    assert_eq!(refused("", LONG, EVERY), Code::EventInvalid);
    assert_eq!(refused(&"n".repeat(64), LONG, EVERY), Code::EventInvalid);
}

// Running on one process.

#[tokio::test]
async fn one_of_two_sweeps_at_an_interval_and_the_other_takes_over() {
    let file = File::new();
    let counts = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    let workers = counts.each_ref().map(|steps| file.sweeper(counting(steps)));
    workers[0].start();
    until(|| workers[0].position() >= 3).await;
    workers[1].start();
    until(|| workers[0].position() >= 6).await;
    assert_eq!(counts[1].load(Ordering::SeqCst), 0);
    assert_eq!((workers[0].status().held, workers[1].status().held), (1, 0));
    assert_eq!((workers[0].state(), workers[0].lag()), (State::Live, None));
    let drained = workers[0].stop(PATIENCE).await;
    assert!(drained.cleanly, "{drained:?}");
    let before = counts[0].load(Ordering::SeqCst);
    until(|| workers[1].position() >= 3).await;
    assert_eq!(counts[0].load(Ordering::SeqCst), before);
    assert!(workers[1].stop(PATIENCE).await.cleanly);
}

#[tokio::test]
async fn a_lost_lease_is_taken_again_and_the_sweep_goes_on() {
    let file = File::new();
    let steps = Arc::new(AtomicU64::new(0));
    let worker = Sweeper::new(
        "nightly",
        file.leases(Duration::from_millis(600)),
        EVERY,
        counting(&steps),
    );
    let worker = worker.build().unwrap();
    worker.start();
    until(|| worker.position() >= 1).await;
    let first = file.record().await.token;
    let store = lease::Leases::new(file.open());
    store.break_lease(super::scope("nightly").unwrap()).await.unwrap();
    soon(async {
        while file.record().await.token == first {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let before = worker.position();
    until(|| worker.position() > before).await;
    assert!(worker.stop(PATIENCE).await.cleanly);
}

// Failures.

#[tokio::test]
async fn a_panic_gives_the_lease_up_at_once_and_the_worker_runs_again() {
    let file = File::new();
    let steps = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&steps);
    let worker = file.sweeper(move |_: Context| {
        let step = count.fetch_add(1, Ordering::SeqCst);
        async move {
            // Long enough for the rival to be waiting.
            sleep(Duration::from_millis(200)).await;
            assert!(step > 0, "the first step panics on purpose");
            Ok(Step::last(1))
        }
    });
    worker.start();
    until(|| worker.status().held == 1).await;
    let rival = file.leases(LONG);
    let token = soon(rival.with("sweep/nightly", |guard| async move { guard.token() })).await;
    assert!(token.is_ok());
    until(|| worker.position() >= 1).await;
    assert_eq!(worker.state(), State::Live);
    assert!(worker.stop(PATIENCE).await.cleanly);
}

#[tokio::test]
async fn a_job_that_always_panics_never_keeps_a_lease_alive() {
    let file = File::new();
    let (sent, mut panics) = mpsc::unbounded_channel();
    let worker = file.sweeper(move |ctx: Context| {
        sent.send((Instant::now(), ctx.token)).unwrap();
        async { panic!("on purpose") }
    });
    worker.start();
    let mut terms = Vec::new();
    for _ in 0..2 {
        terms.push(soon(panics.recv()).await.unwrap());
    }
    assert!(terms[0].1 < terms[1].1, "each under a term of its own");
    until(|| worker.status().held == 0).await;
    assert_eq!(worker.state(), State::Paused);
    assert_eq!(
        worker.status().trouble.unwrap(),
        "TG0041 a worker stopped unexpectedly: the job panicked"
    );
    assert!(worker.stop(PATIENCE).await.cleanly);
    assert_eq!(file.record().await.holder, None);
}

#[tokio::test]
async fn a_failed_run_is_owed_until_one_ends_well() {
    let file = File::new();
    let heal = Arc::new(AtomicU64::new(0));
    let healed = Arc::clone(&heal);
    let worker = file.sweeper(move |_: Context| {
        let well = healed.load(Ordering::SeqCst) > 0;
        async move { if well { Ok(Step::last(1)) } else { Err(failure()) } }
    });
    worker.start();
    until(|| worker.lag().is_some_and(|lag| lag > EVERY)).await;
    assert_eq!((worker.state(), worker.status().behind), (State::Paused, 1));
    heal.store(1, Ordering::SeqCst);
    until(|| worker.position() >= 1).await;
    until(|| worker.state() == State::Live && worker.lag().is_none()).await;
    assert!(worker.stop(PATIENCE).await.cleanly);
}

#[tokio::test]
async fn a_step_that_hangs_is_cut() {
    let file = File::new();
    let worker = Sweeper::new("nightly", file.leases(LONG), EVERY, |ctx: Context| async move {
        assert!(ctx.remaining() <= Duration::from_millis(50));
        std::future::pending().await
    });
    let worker = worker.step_limit(Duration::from_millis(50)).build().unwrap();
    let error = soon(worker.run_once()).await.unwrap_err();
    assert_eq!(error.context(), "a step took longer than 50ms");
}

// Stopping.

#[tokio::test]
async fn a_stop_tells_the_step_what_remains_and_waits_for_it() {
    let file = File::new();
    let (sent, mut told) = mpsc::unbounded_channel();
    let worker = file.sweeper(move |ctx: Context| {
        let sent = sent.clone();
        async move {
            sent.send(ctx.remaining()).unwrap();
            ctx.cancelled().await;
            sent.send(ctx.remaining()).unwrap();
            Ok(Step { done: 1, more: true })
        }
    });
    worker.start();
    assert!(soon(told.recv()).await.unwrap() > PATIENCE);
    let drained = worker.stop(PATIENCE).await;
    assert!(drained.cleanly && drained.took < PATIENCE / 2, "{drained:?}");
    assert!(soon(told.recv()).await.unwrap() <= PATIENCE);
    assert!(told.try_recv().is_err(), "no step follows");
    assert_eq!(file.record().await.holder, None);
}

#[tokio::test]
async fn a_stop_is_bounded_and_says_that_it_cut_something() {
    let file = File::new();
    let (sent, mut begun) = mpsc::unbounded_channel();
    let worker = file.sweeper(move |_| {
        sent.send(()).unwrap();
        std::future::pending()
    });
    worker.start();
    soon(begun.recv()).await.unwrap();
    let limit = Duration::from_millis(100);
    let drained = worker.stop(limit).await;
    assert!(!drained.cleanly && drained.took >= limit, "{drained:?}");
    assert_eq!(worker.state(), State::Stopped);
}

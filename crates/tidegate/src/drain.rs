//! Drain: bounded, ordered shutdown.
//!
//! # What it promises
//! On the first SIGTERM or SIGINT every registered handler runs at once, under one deadline; each is told what remains
//! of it. The report says what ended cleanly. A second signal, not sooner than
//! 250 ms after the first, ends the process at once, like a crash, which loses nothing.
//!
//! Exit status: 0 when everything ended cleanly, 75 when the deadline cut something, 130 after a second signal.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tidegate_core::store::BoxFuture;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::metric::quietly;
use crate::worker::Worker;

/// Exit status when everything ended within the deadline.
pub const EXIT_CLEAN: i32 = 0;
/// Exit status when the deadline cut something (`EX_TEMPFAIL`).
pub const EXIT_CUT: i32 = 75;
/// Exit status after a second signal.
pub const EXIT_SECOND_SIGNAL: i32 = 130;

/// A signal this soon after the first is the same request: a terminal and the program in between, such as `timeout` or
/// `cargo run`, both send it.
const ECHO: Duration = Duration::from_millis(250);

type Handler = dyn Fn(Duration) -> BoxFuture<'static, bool> + Send + Sync;

/// What became of one handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its name.
    pub name: String,
    /// It ended within the deadline and said so.
    pub cleanly: bool,
    /// How long it took.
    pub took: Duration,
}

/// What became of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// All ended cleanly.
    pub cleanly: bool,
    /// From the first signal to the last end.
    pub took: Duration,
    /// In order of registration.
    pub handlers: Vec<Ended>,
}

impl Report {
    /// The exit status that says this.
    pub fn exit_status(&self) -> i32 {
        if self.cleanly { EXIT_CLEAN } else { EXIT_CUT }
    }
}

#[derive(Default)]
struct Inner {
    handlers: Mutex<Vec<(u64, String, Arc<Handler>)>>,
    next: std::sync::atomic::AtomicU64,
    report: OnceCell<Report>,
}

/// The handlers of one process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Drain {
    inner: Arc<Inner>,
}

/// Unregisters its handler when dropped.
pub struct Registration {
    id: u64,
    inner: Weak<Inner>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            lock(&inner.handlers).retain(|(id, _, _)| *id != self.id);
        }
    }
}

impl Registration {
    /// Keeps the handler for the life of the process.
    pub fn forever(mut self) {
        self.inner = Weak::new();
    }
}

impl Drain {
    /// No handlers yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler. It receives the time that remains and says whether it ended cleanly.
    pub fn register<F, Fut>(&self, name: impl Into<String>, handler: F) -> Registration
    where
        F: Fn(Duration) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = bool> + Send + 'static,
    {
        let id = self.inner.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let handler: Arc<Handler> = Arc::new(move |remaining| Box::pin(handler(remaining)));
        lock(&self.inner.handlers).push((id, name.into(), handler));
        Registration {
            id,
            inner: Arc::downgrade(&self.inner),
        }
    }

    /// Adds a worker: stopping it is its handler.
    pub fn register_worker(&self, worker: &Arc<Worker>) -> Registration {
        let name = worker.name().to_owned();
        let worker = Arc::downgrade(worker);
        self.register(name, move |remaining| {
            let worker = worker.upgrade();
            async move {
                match worker {
                    Some(worker) => worker.stop(remaining).await.cleanly,
                    None => true,
                }
            }
        })
    }

    /// Runs every handler at once and returns when all ended or `limit` passed. Idempotent: a second call, also a
    /// concurrent one, waits for and returns the first one's report.
    pub async fn run(&self, limit: Duration) -> Report {
        self.inner
            .report
            .get_or_init(|| self.run_all(limit))
            .await
            .clone()
    }

    async fn run_all(&self, limit: Duration) -> Report {
        let begun = Instant::now();
        let handlers = lock(&self.inner.handlers).clone();
        let tasks: Vec<_> = handlers
            .into_iter()
            .map(|(_, name, handler)| {
                let remaining = limit.saturating_sub(begun.elapsed());
                let task = tokio::spawn(async move { timeout(remaining, handler(remaining)).await });
                (name, task)
            })
            .collect();
        let mut ended = Vec::new();
        for (name, task) in tasks {
            let cleanly = matches!(task.await, Ok(Ok(true)));
            ended.push(Ended {
                name,
                cleanly,
                took: begun.elapsed(),
            });
        }
        let took = begun.elapsed();
        quietly(|| metrics::histogram!("tidegate_drain_duration_seconds").record(took.as_secs_f64()));
        Report {
            cleanly: ended.iter().all(|e| e.cleanly),
            took,
            handlers: ended,
        }
    }

    /// Waits for the first SIGTERM or SIGINT, then runs the handlers. A second signal meanwhile, not sooner than 250 ms
    /// after the first, ends the process with status 130.
    pub async fn on_signals(&self, signals: Signals, limit: Duration) -> Report {
        self.on_signals_or(signals, std::future::pending(), limit).await
    }

    /// As [`Drain::on_signals`], and also when `cause` resolves, to the words for the log.
    pub async fn on_signals_or(
        &self,
        mut signals: Signals,
        cause: impl Future<Output = &'static str>,
        limit: Duration,
    ) -> Report {
        let cause = tokio::select! {
            signal = signals.next() => signal,
            cause = cause => cause,
        };
        tracing::info!(cause, ?limit, "draining; a second signal ends at once");
        let first = Instant::now();
        tokio::spawn(async move {
            signals.again(first).await;
            std::process::exit(EXIT_SECOND_SIGNAL);
        });
        self.run(limit).await
    }
}

/// SIGTERM and SIGINT of this process, from the moment of [`Signals::install`]. Install before any work is started: a
/// signal that comes earlier ends the process by default.
pub struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    /// Takes the two signals over.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn install() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
        })
    }

    /// The name of the next one.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }

    /// Waits for one that came not sooner than 250 ms after `first`: an earlier one is its echo.
    pub async fn again(&mut self, first: Instant) {
        loop {
            self.next().await;
            if first.elapsed() > ECHO {
                return;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn s1_handlers_run_at_once_and_are_told_what_remains() {
        let drain = Drain::new();
        for name in ["a", "b"] {
            drain
                .register(name, |remaining| async move {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    remaining <= LIMIT
                })
                .forever();
        }
        let report = drain.run(LIMIT).await;
        assert!(
            report.cleanly && report.took < Duration::from_millis(190),
            "{report:?}"
        );
        assert_eq!(report.exit_status(), 0);
    }

    #[tokio::test]
    async fn s1_a_handler_past_the_deadline_is_cut_and_named() {
        let drain = Drain::new();
        drain.register("slow", |_| std::future::pending()).forever();
        drain.register("quick", |_| async { true }).forever();
        let report = drain.run(LIMIT).await;
        assert_eq!(report.exit_status(), 75);
        let clean: Vec<_> = report
            .handlers
            .iter()
            .map(|h| (h.name.as_str(), h.cleanly))
            .collect();
        assert_eq!(clean, [("slow", false), ("quick", true)]);
    }

    #[tokio::test]
    async fn a_panicking_handler_is_not_clean_and_stops_nobody_else() {
        let drain = Drain::new();
        drain.register("bad", |_| async { panic!("handler") }).forever();
        drain.register("good", |_| async { true }).forever();
        let report = drain.run(LIMIT).await;
        assert_eq!(report.handlers.iter().filter(|h| h.cleanly).count(), 1);
    }

    #[tokio::test]
    async fn an_unregistered_handler_does_not_run_and_a_second_run_returns_the_first_report() {
        let drain = Drain::new();
        drop(drain.register("gone", |_| async { false }));
        let first = drain.run(LIMIT).await;
        assert!(first.cleanly && first.handlers.is_empty());
        assert_eq!(drain.run(LIMIT).await, first);
    }
}

//! One handle for every worker: relay, consumer, sweeper.
//!
//! A worker is a pure machine and a loop that performs its effects. The loop runs in one task; effects run in tasks of
//! their own and report back as inputs. A loop that panics takes its tasks with it, so nothing renews a lease on its
//! behalf, and is started again with a new identity after a pause.

use std::future::Future;
use std::mem::Discriminant;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tidegate_core::store::{BoxFuture, Doorbell};
use tidegate_core::time::Now;
use tidegate_core::{Error, Reply, Result, Ticks, Timestamp};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::metric::quietly;

/// What a worker is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Not started.
    #[default]
    Idle,
    /// Working, or waiting for work.
    Live,
    /// Waiting for a store or stream to come back, or for keys that all fail alike.
    Paused,
    /// Announcing what it is about to apply, after an unclean take-over.
    Careful,
    /// Waiting for entries that the stream lacks.
    Gap,
    /// At least one lane is stopped until a person acts.
    Halted,
    /// Finishing what is in flight.
    Draining,
    /// Ended.
    Stopped,
    /// The loop ended by a panic and is about to start again.
    Failed,
}

impl State {
    /// The word used in status, metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Live => "live",
            State::Paused => "paused",
            State::Careful => "careful",
            State::Gap => "gap",
            State::Halted => "halted",
            State::Draining => "draining",
            State::Stopped => "stopped",
            State::Failed => "failed",
        }
    }
}

/// A worker at a glance.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// What it is doing.
    pub state: State,
    /// Lanes or leases it holds.
    pub held: usize,
    /// Units done since the start: events published, events applied, rows swept.
    pub done: u64,
    /// Units known to wait.
    pub behind: u64,
    /// When the oldest waiting unit occurred, if one is known.
    pub oldest: Option<Timestamp>,
    /// Nothing waits and nothing is in flight.
    pub quiet: bool,
    /// The last outage, until the next success.
    pub trouble: Option<String>,
}

/// How a stop went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Everything in flight ended and every lane and lease was released within the time.
    pub cleanly: bool,
    /// How long it took.
    pub took: Duration,
}

/// A machine with the means to perform its effects.
pub(crate) trait Work: Send + 'static {
    /// Inputs of the machine.
    type Input: Send + 'static;
    /// The input that says time passed.
    fn tick() -> Self::Input;
    /// The input that says something may have changed.
    fn rung() -> Self::Input;
    /// The input that asks for an orderly end.
    fn stop() -> Self::Input;
    /// One step; effects are spawned on `tasks`. Returns false when the machine has stopped.
    fn step(&mut self, now: Now, input: Self::Input, tasks: &mut JoinSet<Self::Input>) -> bool;
    /// When to tick at the latest.
    fn wake_at(&self) -> Option<Ticks>;
    /// What rings for this worker.
    fn bell(&self) -> Arc<dyn Doorbell>;
    /// For the handle.
    fn status(&self, now: Now) -> Status;
}

/// What the loop shares with its handle.
#[derive(Clone, Default)]
pub(crate) struct Control {
    pub(crate) stop: CancellationToken,
    status: Arc<Mutex<Status>>,
    ends: Arc<OnceLock<Instant>>,
    once: bool,
}

impl Control {
    pub(crate) fn publish(&self, status: Status) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// Works until nothing waits, and no longer.
    pub(crate) fn once(&self) -> bool {
        self.once
    }

    /// What remains of the time that a stop was given; `None` before one.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        self.ends
            .get()
            .map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// For a loop inside this one: the same end, a status and a stop of its own.
    pub(crate) fn inner(&self) -> Self {
        Self {
            ends: self.ends.clone(),
            once: self.once,
            ..Self::default()
        }
    }
}

/// A loop looks at its clock at least this often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Runs a machine until it has stopped. With `once`, it is stopped as soon as it is quiet.
pub(crate) async fn run<W: Work>(mut work: W, control: Control) -> Result<()> {
    let mut tasks = JoinSet::new();
    let bell = work.bell();
    let mut rung = bell.rung();
    let mut asked = false;
    let mut next = Some(W::tick());
    loop {
        if let Some(input) = next.take() {
            if !work.step(clock::now(), input, &mut tasks) {
                return Ok(());
            }
            let mut status = work.status(clock::now());
            if asked {
                status.state = State::Draining;
            }
            let finished = control.once && status.quiet;
            control.publish(status);
            if finished {
                control.stop.cancel();
            }
        }
        // Timers stand still while the machine sleeps; ticks do not.
        let pause = work.wake_at().map_or(LOOK_AGAIN, clock::until);
        let sleep = tokio::time::sleep(pause.min(LOOK_AGAIN));
        next = tokio::select! {
            biased;
            () = control.stop.cancelled(), if !asked => {
                asked = true;
                Some(W::stop())
            }
            Some(done) = tasks.join_next() => Some(done.map_err(panicked)?),
            () = &mut rung => {
                rung = bell.rung();
                Some(W::rung())
            }
            () = sleep => Some(W::tick()),
        };
    }
}

fn panicked(error: tokio::task::JoinError) -> Error {
    Error::new(
        tidegate_core::Code::WorkerStopped,
        "a task of the worker panicked",
    )
    .with_source(error)
}

/// The last outage, until a call of the kind that met it succeeds.
pub(crate) struct Trouble<I> {
    met: Option<(Discriminant<I>, String)>,
    now: Option<String>,
}

impl<I> Default for Trouble<I> {
    fn default() -> Self {
        Self { met: None, now: None }
    }
}

impl<I> Trouble<I> {
    /// The step that is under way met this.
    pub(crate) fn note(&mut self, what: String) {
        self.now = Some(what);
    }

    /// The step over an input of this kind is over. `idle`: nothing is held, so nothing can succeed.
    pub(crate) fn settle(&mut self, kind: Discriminant<I>, idle: bool) {
        if let Some(what) = self.now.take() {
            self.met = Some((kind, what));
        } else if idle || self.met.as_ref().is_some_and(|(met, _)| *met == kind) {
            self.met = None;
        }
    }

    pub(crate) fn is_some(&self) -> bool {
        self.met.is_some()
    }

    pub(crate) fn text(&self) -> Option<String> {
        self.met.as_ref().map(|(_, what)| what.clone())
    }
}

/// Performs one store call within a limit; silence becomes an unknown outcome.
pub(crate) async fn reply<T>(limit: Duration, call: impl Future<Output = Result<T>>) -> Reply<T> {
    match timeout(limit, call).await {
        Ok(result) => result.into(),
        Err(_) => Reply::Unknown(Error::unknown(format!("no reply within {limit:?}"))),
    }
}

type Spawn = dyn Fn(Control) -> BoxFuture<'static, Result<()>> + Send + Sync;

/// A relay, consumer or sweeper, not yet or already running.
///
/// Cheap to share behind an `Arc`. Dropping it stops the work like a crash: lanes and leases expire by themselves.
pub struct Worker {
    name: String,
    spawn: Arc<Spawn>,
    running: Mutex<Option<Running>>,
    status: Arc<Mutex<Status>>,
}

struct Running {
    stop: CancellationToken,
    ends: Arc<OnceLock<Instant>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Worker {
    pub(crate) fn new<F, Fut>(name: impl Into<String>, spawn: F) -> Self
    where
        F: Fn(Control) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        Self {
            name: name.into(),
            spawn: Arc::new(move |control| Box::pin(spawn(control))),
            running: Mutex::new(None),
            status: Arc::default(),
        }
    }

    /// What it was named: `relay/orders`, `consumer/billing`, `sweep/retention`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts the loop on the current tokio runtime; does nothing when it is running.
    pub fn start(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.as_ref().is_some_and(|r| !r.task.is_finished()) {
            return;
        }
        let control = Control {
            status: self.status.clone(),
            ..Control::default()
        };
        let (stop, ends) = (control.stop.clone(), control.ends.clone());
        let task = tokio::spawn(supervise(self.name.clone(), self.spawn.clone(), control));
        *running = Some(Running { stop, ends, task });
    }

    /// Ends what is in flight, releases everything, and returns within `limit`. Idempotent.
    ///
    /// When the limit passes, the loop is cut: like a crash, which loses nothing and leaves lanes to expire.
    pub async fn stop(&self, limit: Duration) -> Drained {
        let begun = Instant::now();
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut running) = running else {
            return Drained {
                cleanly: true,
                took: begun.elapsed(),
            };
        };
        // A limit too long for the clock is none.
        if let Some(at) = begun.checked_add(limit) {
            let _ = running.ends.set(at);
        }
        running.stop.cancel();
        let cleanly = timeout(limit, &mut running.task).await.is_ok();
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.state = State::Stopped;
        status.held = 0;
        Drained {
            cleanly,
            took: begun.elapsed(),
        }
    }

    /// Works until nothing waits, then stops and returns; for tests and cron. Returns the units done.
    ///
    /// # Errors
    /// [`tidegate_core::Code::WorkerStopped`] when the loop panicked.
    ///
    /// # Cancel safety
    /// Dropping it is a crash: nothing is lost, lanes expire by themselves.
    pub async fn run_once(&self) -> Result<u64> {
        let control = Control {
            once: true,
            ..Control::default()
        };
        let status = control.status.clone();
        (self.spawn)(control).await?;
        let done = status.lock().unwrap_or_else(PoisonError::into_inner).done;
        Ok(done)
    }

    /// A snapshot; published after every step.
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        self.status().state
    }

    /// Age of the oldest waiting unit; `None` when nothing waits.
    pub fn lag(&self) -> Option<Duration> {
        self.status().oldest.map(|at| clock::wall().since(at))
    }

    /// Units done since the start.
    pub fn position(&self) -> u64 {
        self.status().done
    }
}

/// Starts the loop again after a panic, with a pause that doubles from one second to thirty.
async fn supervise(name: String, spawn: Arc<Spawn>, control: Control) {
    let mut pause = Duration::from_secs(1);
    loop {
        let begun = Instant::now();
        let ended = tokio::spawn(spawn(control.clone())).abort_on_drop().await;
        let error = match ended {
            Ok(Ok(())) => {
                control.publish(Status {
                    state: State::Stopped,
                    ..Status::default()
                });
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(join) => format!("the loop panicked: {join}"),
        };
        tracing::error!(worker = %name, %error, restart_in = ?pause, "worker failed");
        quietly(|| {
            metrics::counter!("tidegate_worker_restarts_total", "worker" => name.clone()).increment(1);
        });
        control.publish(Status {
            state: State::Failed,
            trouble: Some(error),
            ..Status::default()
        });
        if begun.elapsed() > Duration::from_secs(60) {
            pause = Duration::from_secs(1);
        }
        tokio::select! {
            () = control.stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(Duration::from_secs(30));
    }
}

/// A task that ends with the future that waits for it.
pub(crate) trait AbortOnDrop<T> {
    fn abort_on_drop(self) -> Aborting<T>;
}

pub(crate) struct Aborting<T>(tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<T> for tokio::task::JoinHandle<T> {
    fn abort_on_drop(self) -> Aborting<T> {
        Aborting(self)
    }
}

impl<T> Aborting<T> {
    /// Drops the task's future at its next await.
    pub(crate) fn abort(&self) {
        self.0.abort();
    }
}

impl<T> Drop for Aborting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> Future for Aborting<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(cx)
    }
}

//! A sweep as a loop inside the loop that holds its lease, and what the handle shows of both.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_core::lease::{Nonce, Scope};
use tidegate_core::store::{Doorbell, SweepStore};
use tidegate_core::sweep::machine::{Effect, How, Input, Machine, Note, Options, Outcome, Start, StepId};
use tidegate_core::sweep::{Place, Step};
use tidegate_core::time::Now;
use tidegate_core::{Code, Error, Result, Ticks, Uuid};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::board::{Board, Shown};
use super::{Context, Job};
use crate::lease::{Guard, Leases};
use crate::metric::quietly;
use crate::worker::{self, AbortOnDrop, Control, Status, Work};

/// A sweeper, ready to run.
pub(super) struct Sweep {
    pub(super) name: String,
    pub(super) scope: Scope,
    pub(super) leases: Leases,
    pub(super) job: Arc<dyn Job>,
    pub(super) store: Option<Arc<dyn SweepStore>>,
    pub(super) options: Options,
}

impl Sweep {
    /// Holds the lease whenever it can, and sweeps while it does.
    pub(super) async fn campaign(self: Arc<Self>, control: Control) -> Result<()> {
        let board = Arc::new(Board::default());
        let (sweep, shown, inner) = (Arc::clone(&self), Arc::clone(&board), control.inner());
        let lead = self.leases.lead(self.scope.clone(), move |guard| {
            let failures = shown.failures();
            let term = Arc::new(Term::new(&sweep, guard, &shown, &inner));
            term.run(Start::Spread { failures })
        })?;
        worker::run(Shown { lead, board }, control).await
    }

    /// One run, under a lease of its own.
    pub(super) async fn once(self: Arc<Self>, control: Control) -> Result<()> {
        let board = Arc::new(Board::default());
        let run = |guard| {
            let term = Arc::new(Term::new(&self, guard, &board, &control));
            term.run(Start::Once)
        };
        let ran = self.leases.try_with(self.scope.as_str(), run).await;
        control.publish(board.status());
        match board.take_error() {
            Some(error) => Err(error),
            None => ran?,
        }
    }
}

/// One term, as its steps see it.
struct Term {
    sweep: Arc<Sweep>,
    guard: Guard,
    board: Arc<Board>,
    control: Control,
    /// The token that the fence was opened for.
    opened: AtomicU64,
    handed_over: AtomicBool,
}

impl Term {
    fn new(sweep: &Arc<Sweep>, guard: Guard, board: &Arc<Board>, control: &Control) -> Self {
        Self {
            sweep: Arc::clone(sweep),
            guard,
            board: Arc::clone(board),
            control: control.inner(),
            opened: AtomicU64::new(0),
            handed_over: AtomicBool::new(false),
        }
    }

    /// Sweeps until the guard is cancelled, or the machine gives the lease up.
    async fn run(self: Arc<Self>, start: Start) -> Result<()> {
        let seed = Nonce(Uuid::new_v4().as_u128());
        let work = Sweeping {
            machine: Machine::new(self.sweep.options, seed, start)?,
            term: Arc::clone(&self),
            cut: CancellationToken::new(),
        };
        let cancelled = async {
            self.guard.cancelled().await;
            self.control.stop.cancel();
            pending::<()>().await;
        };
        tokio::select! {
            ended = worker::run(work, self.control.clone()) => ended?,
            () = cancelled => {}
        }
        if self.handed_over.load(Ordering::Acquire) {
            let scope = &self.sweep.scope;
            return Err(Error::new(
                Code::HandlerFailed,
                format!("{scope} gives its lease up"),
            ));
        }
        Ok(())
    }

    async fn step(self: Arc<Self>, until: Ticks) -> Result<Step> {
        let context = self.context(until).await?;
        self.sweep.job.step(&context).await
    }

    async fn context(&self, until: Ticks) -> Result<Context> {
        let Place { version, bytes } = self.place().await?;
        Ok(Context {
            token: self.guard.token(),
            nonce: self.guard.nonce(),
            scope: self.sweep.scope.clone(),
            checkpoint: bytes,
            name: self.sweep.name.clone(),
            version,
            guard: self.guard.clone(),
            until,
            control: self.control.clone(),
        })
    }

    /// Where the job stands; from then on no earlier term can save.
    async fn place(&self) -> Result<Place> {
        let Some(store) = &self.sweep.store else {
            return Ok(Place::default());
        };
        if self.opened.load(Ordering::Acquire) != self.guard.token().0 {
            let token = self.guard.open_fence(store.fences()).await?;
            self.opened.store(token.0, Ordering::Release);
        }
        store.place(self.sweep.name.clone()).await
    }
}

/// The machine with the means to perform its effects.
struct Sweeping {
    machine: Machine,
    term: Arc<Term>,
    /// Of the step that runs.
    cut: CancellationToken,
}

impl Work for Sweeping {
    type Input = Input;

    fn tick() -> Input {
        Input::Tick
    }

    fn rung() -> Input {
        Input::Tick
    }

    fn stop() -> Input {
        Input::Stop
    }

    fn step(&mut self, now: Now, input: Input, tasks: &mut JoinSet<Input>) -> bool {
        for effect in self.machine.step(now.ticks, input) {
            match effect {
                Effect::Step(step) => self.begin(now.ticks, step, tasks),
                Effect::Cut(_) => self.cut.cancel(),
                Effect::Note(note) => self.note(note),
                Effect::Stopped { hand_over } => self.term.handed_over.store(hand_over, Ordering::Release),
            }
        }
        self.term.board.show(&self.machine, now);
        self.machine.wake_at().is_some()
    }

    fn wake_at(&self) -> Option<Ticks> {
        self.machine.wake_at()
    }

    fn bell(&self) -> Arc<dyn Doorbell> {
        Arc::new(Silence)
    }

    fn status(&self, _: Now) -> Status {
        // The board shows it; a single run ends by itself.
        Status::default()
    }
}

impl Sweeping {
    /// The step has a task of its own, so that its panic is its own.
    fn begin(&mut self, now: Ticks, id: StepId, tasks: &mut JoinSet<Input>) {
        self.cut = CancellationToken::new();
        let (term, cut) = (Arc::clone(&self.term), self.cut.clone());
        let step = Arc::clone(&term).step(now.after(term.sweep.options.step_limit));
        let step = tokio::spawn(step).abort_on_drop();
        tasks.spawn(async move {
            let ended = tokio::select! {
                ended = step => ended,
                // The machine has moved on: it looks at no reply to this step.
                () = cut.cancelled() => return Input::Tick,
            };
            let (outcome, error) = match ended {
                Ok(Ok(step)) => (Outcome::Done(step), None),
                Ok(Err(error)) if error.code() == Code::LeaseLost => (Outcome::Lost, Some(error)),
                Ok(Err(error)) => (Outcome::Failed, Some(error)),
                Err(_) => (Outcome::Panicked, Some(panicked())),
            };
            if let Some(error) = error {
                term.board.fail(error);
            }
            Input::Stepped(id, outcome)
        });
    }

    fn note(&self, note: Note) {
        let sweep = || self.term.sweep.name.clone();
        match note {
            Note::Began { missed } => tracing::debug!(sweep = sweep(), missed, "a run begins"),
            Note::Swept(done) => {
                self.term.board.swept(done);
                quietly(|| {
                    metrics::counter!("tidegate_sweep_swept_total", "sweep" => sweep()).increment(done);
                });
            }
            Note::Ended { how, done, took } => {
                self.ended(how);
                let outcome = how.as_str();
                quietly(|| {
                    let runs = metrics::counter!("tidegate_sweep_runs_total", "sweep" => sweep(), "outcome" => outcome);
                    runs.increment(1);
                });
                tracing::debug!(sweep = sweep(), outcome, done, ?took, "a run ended");
            }
        }
    }

    fn ended(&self, how: How) {
        let board = &self.term.board;
        match how {
            How::Done => return board.well(),
            How::Stopped => return,
            How::Cut => board.fail(too_long(&self.term.sweep.options)),
            How::Failed | How::Panicked | How::Lost => {}
        }
        let error = board.status().trouble.unwrap_or_default();
        let sweep = &self.term.sweep.name;
        if how == How::Panicked {
            tracing::error!(%sweep, %error, "a job panicked; its lease is given up");
        } else {
            tracing::warn!(%sweep, %error, "a run failed");
        }
    }
}

fn panicked() -> Error {
    Error::new(Code::WorkerStopped, "the job panicked").with_effect(tidegate_core::Effect::Unknown)
}

fn too_long(options: &Options) -> Error {
    Error::unknown(format!("a step took longer than {:?}", options.step_limit))
}

/// Nothing but time moves a sweep.
struct Silence;

impl Doorbell for Silence {
    fn rung(&self) -> tidegate_core::store::BoxFuture<'_, ()> {
        Box::pin(pending())
    }
}

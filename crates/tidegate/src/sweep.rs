//! Sweeps on tokio: [`tidegate_core::sweep`] is the protocol; here it meets a lease, a clock and your job.
//!
//! A [`Sweeper`] makes a [`Worker`] that campaigns for the lease `sweep/NAME` and, while it leads, runs a [`Job`] at an
//! interval, step by step. [`jobs`] has Tidegate's own; yours is a closure or a type of your own.
//!
//! # Failures
//! A job that fails is run again after a pause; after three failures in a row, or a panic, the lease is given up. A
//! panic ends neither the worker nor the process, and renews nothing.
//!
//! Counted: `tidegate_sweep_runs_total` (labels `sweep`, and `outcome`: done, failed, cut, panicked, lost, stopped) and
//! `tidegate_sweep_swept_total` (label `sweep`).

mod board;
pub mod jobs;
mod term;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::lease::{Nonce, Scope, Token};
use tidegate_core::store::{BoxFuture, SweepStore};
pub use tidegate_core::sweep::machine::{EVERY_MAX, EVERY_MIN, Options};
pub use tidegate_core::sweep::{Mark, Place, Step, scope};
use tidegate_core::{Result, Ticks};

use crate::clock;
use crate::lease::{Guard, Leases};
use crate::worker::{Control, Worker};
use term::Sweep;

/// What a sweep does: called again and again while a run has more.
///
/// An `async` closure from [`Context`] to [`Step`] is a job.
pub trait Job: Send + Sync {
    /// One bounded step, with its own transaction. It must be harmless to repeat, or save a checkpoint in that
    /// transaction (for SQLite: `tidegate_stores::sqlite::sweep::save_checkpoint`).
    ///
    /// # Errors
    /// Any: the run ends and begins again after a pause. [`tidegate_core::Code::LeaseLost`] ends the term.
    ///
    /// # Cancel safety
    /// A step that takes longer than its limit, or than a stop allows, is dropped at its next await.
    fn step<'a>(&'a self, ctx: &'a Context) -> BoxFuture<'a, Result<Step>>;
}

impl<W, F> Job for W
where
    W: Fn(Context) -> F + Send + Sync,
    F: Future<Output = Result<Step>> + Send + 'static,
{
    fn step<'a>(&'a self, ctx: &'a Context) -> BoxFuture<'a, Result<Step>> {
        Box::pin(self(ctx.clone()))
    }
}

/// What a step knows.
#[derive(Clone)]
pub struct Context {
    /// The term's token; where there are checkpoints, the fence of their database is open for it.
    pub token: Token,
    /// The term's nonce.
    pub nonce: Nonce,
    /// The lease, `sweep/NAME`.
    pub scope: Scope,
    /// What the last step saved, whoever ran it; `None` before the first, or without [`Sweeper::checkpoints`].
    pub checkpoint: Option<Vec<u8>>,
    name: String,
    version: u64,
    guard: Guard,
    until: Ticks,
    control: Control,
}

impl Context {
    /// What a save compares: goes into the transaction of the step.
    pub fn mark(&self) -> Mark {
        Mark {
            name: self.name.clone(),
            scope: self.scope.clone(),
            token: self.token,
            nonce: self.nonce,
            version: self.version,
        }
    }

    /// Resolves when the step should end: the worker is being stopped, or the lease was lost.
    pub async fn cancelled(&self) {
        self.guard.cancelled().await;
    }

    /// After this long the step is dropped: its limit, or what remains of a stop.
    pub fn remaining(&self) -> Duration {
        let limit = clock::until(self.until);
        self.control.remaining().map_or(limit, |stop| stop.min(limit))
    }

    /// The lease itself: for a local check, or the fence of another database.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }
}

/// Runs a job at an interval on one process at a time.
pub struct Sweeper {
    name: String,
    leases: Leases,
    job: Arc<dyn Job>,
    store: Option<Arc<dyn SweepStore>>,
    options: Options,
}

impl Sweeper {
    /// `name` is the same on every process that may run the job: at most 63 bytes. `every` is 100 ms to 30 days.
    pub fn new(name: impl Into<String>, leases: Leases, every: Duration, job: impl Job + 'static) -> Self {
        Self {
            name: name.into(),
            leases,
            job: Arc::new(job),
            store: None,
            options: Options {
                every,
                ..Options::default()
            },
        }
    }

    /// Where the job saves its checkpoint: the database of its effects. Costs one read a step, and one write a term.
    #[must_use]
    pub fn checkpoints(mut self, store: Arc<dyn SweepStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Another limit for one step: see [`Options::step_limit`].
    #[must_use]
    pub fn step_limit(mut self, limit: Duration) -> Self {
        self.options.step_limit = limit;
        self
    }

    /// The worker, not yet started. Its position counts what was swept; its lag is how long a run has been owed.
    ///
    /// [`Worker::run_once`] runs the job to its end, now, unless another process holds the lease.
    ///
    /// # Errors
    /// [`tidegate_core::Code::OptionsInvalid`] and [`tidegate_core::Code::EventInvalid`] naming the option, its value
    /// and the limit.
    pub fn build(self) -> Result<Worker> {
        self.options.check()?;
        self.leases.check()?;
        let name = format!("sweep/{}", self.name);
        let sweep = Arc::new(Sweep {
            scope: scope(&self.name)?,
            name: self.name,
            leases: self.leases,
            job: self.job,
            store: self.store,
            options: self.options,
        });
        Ok(Worker::new(name, move |control| {
            let sweep = Arc::clone(&sweep);
            async move {
                if control.once() {
                    sweep.once(control).await
                } else {
                    sweep.campaign(control).await
                }
            }
        }))
    }
}

//! Leases on tokio: [`tidegate_core::lease`] is the protocol; here it meets a store, a clock and your work.
//!
//! - [`Leases::with`] runs something once, under a lease, and fails if the lease was lost meanwhile.
//! - [`Leases::campaign`] keeps a worker running on exactly one process, and takes over by itself.
//!
//! The work gets a [`Guard`]: ask [`Guard::check`] before each effect, stop when [`Guard::cancelled`] resolves, and
//! let the database that holds the effect compare [`Guard::token`] and [`Guard::nonce`] in its own transaction.
//!
//! # Failures
//! A store that is down: the work goes on until trust ends, then is cancelled. Work that does not stop within its
//! budget is dropped at its next await. A panic in the work releases the lease; a panic in the loop ends trust and
//! renews nothing.

mod guard;
mod lead;
mod renewals;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub use guard::Guard;
use lead::{Ended, Lead, Run};
use renewals::Renewals;
pub use tidegate_core::lease::machine::Options;
pub use tidegate_core::lease::{Acquire, Acquired, Fence, Nonce, Opened, Raised, Record, Released, Renewed};
pub use tidegate_core::lease::{Scope, TTL_MAX, TTL_MIN, Term, Token, Trust, machine};
use tidegate_core::store::LeaseStore;
use tidegate_core::{Code, Effect, Error, Result, Retry};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::worker::{self, AbortOnDrop, Control, Work, Worker};

/// What happened to a lease, for hooks. The counters `tidegate_lease_{acquired,renewed,lost,reacquired}_total` with
/// the label `scope` say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A term began.
    Acquired(Token),
    /// The term goes on.
    Renewed(Token),
    /// The term ended, and neither its work nor its owner had asked for that.
    Lost(Token),
    /// A term began after one was lost.
    Reacquired(Token),
}

type Hook = Arc<dyn Fn(&Scope, Change) + Send + Sync>;

/// The leases of one process in one store; cheap to clone.
///
/// All leases of one value and its clones are renewed together: one round trip for each third of a ttl.
#[derive(Clone)]
pub struct Leases {
    store: Arc<dyn LeaseStore>,
    renewals: Arc<Renewals>,
    ttl: Duration,
    holder: String,
    hook: Option<Hook>,
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases")
            .field("ttl", &self.ttl)
            .field("holder", &self.holder)
            .finish_non_exhaustive()
    }
}

impl Leases {
    /// Leases with a ttl of 10 s, labelled with the process id.
    pub fn new(store: Arc<dyn LeaseStore>) -> Self {
        Self {
            renewals: Arc::new(Renewals::new(Arc::clone(&store))),
            store,
            ttl: Options::default().ttl,
            holder: format!("pid {}", std::process::id()),
            hook: None,
        }
    }

    /// Another ttl: see [`Options::ttl`].
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Another label for `lease ls`: at most 200 bytes.
    #[must_use]
    pub fn holder(mut self, label: impl Into<String>) -> Self {
        self.holder = label.into();
        self
    }

    /// Calls `hook` at every change. It must be quick; if it panics, nothing else happens.
    #[must_use]
    pub fn on_change(mut self, hook: impl Fn(&Scope, Change) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Waits for the lease, runs `work` under it, and releases it once the work has ended.
    ///
    /// Waits for as long as somebody else holds the lease, or the store is down. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`Code::LeaseLost`] when the lease was lost before the work ended: what the work did is unknown, and its value
    /// is dropped. [`Code::EventInvalid`] and [`Code::OptionsInvalid`] for a scope, label or ttl outside its limits.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, and then releases the lease in the background.
    pub async fn with<W, F>(&self, scope: impl Into<String>, work: W) -> Result<F::Output>
    where
        W: FnOnce(Guard) -> F,
        F: Future,
    {
        self.scoped(scope.into(), work, |error| error.retry() == Retry::Backoff)
            .await
    }

    /// Like [`Leases::with`], but asks once.
    ///
    /// # Errors
    /// Also [`Code::LeaseBusy`] when somebody else holds the lease, and whatever keeps the store from answering.
    pub async fn try_with<W, F>(&self, scope: impl Into<String>, work: W) -> Result<F::Output>
    where
        W: FnOnce(Guard) -> F,
        F: Future,
    {
        self.scoped(scope.into(), work, |_| false).await
    }

    /// A worker that runs on one process at a time, among all that campaign for the scope.
    ///
    /// Work that returns `Ok` has finished, and the worker ends. Work that fails, panics or loses the lease is started
    /// again under a new term, here or elsewhere. When the worker is stopped, [`Guard::cancelled`] resolves, and the
    /// lease is held and renewed until the work has ended.
    ///
    /// # Errors
    /// [`Code::EventInvalid`] and [`Code::OptionsInvalid`] for a scope or ttl outside its limits.
    pub fn campaign<W, F>(&self, scope: impl Into<String>, work: W) -> Result<Worker>
    where
        W: Fn(Guard) -> F + Send + Sync + 'static,
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let scope = Scope::new(scope)?;
        self.check()?;
        let name = format!("lease/{scope}");
        let (leases, work) = (self.clone(), Arc::new(work));
        Ok(Worker::new(name, move |control| {
            let work = Arc::clone(&work);
            let lead = leases.lead(scope.clone(), move |guard| work(guard));
            async move { worker::run(lead?, control).await }
        }))
    }

    /// The loop of a campaign, for workers that show more than the lease.
    pub(crate) fn lead<W, F>(&self, scope: Scope, work: W) -> Result<impl Work + use<W, F>>
    where
        W: Fn(Guard) -> F + Send + Sync + 'static,
        F: Future<Output = Result<()>> + Send + 'static,
    {
        Lead::new(self.clone(), scope, self.options(false), spawned(work), None)
    }

    /// Checks the ttl.
    pub(crate) fn check(&self) -> Result<()> {
        self.options(false).check()
    }

    fn options(&self, scoped: bool) -> Options {
        Options {
            ttl: self.ttl,
            scoped,
        }
    }

    async fn scoped<W, F>(&self, scope: String, work: W, patient: fn(&Error) -> bool) -> Result<F::Output>
    where
        W: FnOnce(Guard) -> F,
        F: Future,
    {
        let scope = Scope::new(scope)?;
        let (run, mut terms) = handed_over();
        let (not_yet, mut refusals) = mpsc::unbounded_channel();
        let lead = Lead::new(
            self.clone(),
            scope.clone(),
            self.options(true),
            run,
            Some(not_yet),
        )?;
        let control = Control::default();
        // Whichever way this ends, the loop outlives it until the lease is released.
        let _stop = control.stop.clone().drop_guard();
        let lead = tokio::spawn(worker::run(lead, control));
        let ours = loop {
            tokio::select! {
                Some(ours) = terms.recv() => break ours,
                Some(error) = refusals.recv() => if !patient(&error) { return Err(error) },
                else => return Err(Error::new(Code::WorkerStopped, format!("lease/{scope}"))),
            }
        };
        let done = ours.run(work).await;
        // The release is bounded by its own time-out; its outcome changes nothing for the caller.
        let _ = lead.await;
        done.ok_or_else(|| lost(&scope))
    }
}

/// The work of a campaign: a task for each term.
fn spawned<W, F>(work: W) -> Run
where
    W: Fn(Guard) -> F + Send + Sync + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let work = Arc::new(work);
    Arc::new(move |guard, abort| {
        let work = Arc::clone(&work);
        // A panic in making the future is a panic of the work, too.
        let mut task = tokio::spawn(async move { work(guard).await }).abort_on_drop();
        Box::pin(async move {
            let ended = tokio::select! {
                ended = &mut task => ended,
                () = abort.cancelled() => {
                    task.abort();
                    task.await
                }
            };
            match ended {
                Ok(Ok(())) => Ended::Finished,
                Ok(Err(error)) => Ended::Failed(error.to_string()),
                Err(join) if join.is_panic() => Ended::Failed("the work panicked".into()),
                Err(_) => Ended::Failed("the work was dropped".into()),
            }
        })
    })
}

/// A term whose work the caller runs.
struct Ours {
    guard: Guard,
    abort: CancellationToken,
    /// Dropping it says that the work has ended.
    _running: oneshot::Sender<()>,
}

impl Ours {
    /// `None` when the lease was lost before the work had ended.
    async fn run<W, F>(self, work: W) -> Option<F::Output>
    where
        W: FnOnce(Guard) -> F,
        F: Future,
    {
        let done = tokio::select! {
            done = work(self.guard.clone()) => done,
            () = self.abort.cancelled() => return None,
        };
        self.guard.held().then_some(done)
    }
}

/// The work of a scoped run: the caller gets the term, and says that it has ended by dropping its half of a channel.
fn handed_over() -> (Run, mpsc::UnboundedReceiver<Ours>) {
    let (terms, receiver) = mpsc::unbounded_channel();
    let run: Run = Arc::new(move |guard, abort| {
        let (running, ended) = oneshot::channel();
        // A caller that is gone drops the term, and with it its half.
        let _ = terms.send(Ours {
            guard,
            abort,
            _running: running,
        });
        Box::pin(async move {
            let _ = ended.await;
            Ended::Finished
        })
    });
    (run, receiver)
}

fn lost(scope: &Scope) -> Error {
    Error::new(Code::LeaseLost, scope.as_str().to_owned()).with_effect(Effect::Unknown)
}

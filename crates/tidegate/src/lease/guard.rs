//! What work holds while it runs under a lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tidegate_core::lease::machine::{State, Why};
use tidegate_core::lease::{Nonce, Opened, Scope, Term, Token, Trust};
use tidegate_core::store::LeaseStore;
use tidegate_core::{Result, Ticks};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::lost;
use crate::clock;

/// One term, as its work sees it; cheap to clone.
#[derive(Debug, Clone)]
pub struct Guard {
    held: Arc<Held>,
    view: watch::Receiver<View>,
}

#[derive(Debug)]
struct Held {
    scope: Scope,
    nonce: Nonce,
    /// [`Trust`], readable without a lock.
    until: AtomicI64,
    /// The highest token that a sink refused this term for.
    refused: watch::Sender<Token>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct View {
    token: Token,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Stopping,
    Lost,
}

impl Guard {
    /// Whether this process may still believe that it holds the lease. Local: no I/O, tens of nanoseconds.
    ///
    /// True a moment ago is not true now: what must never happen twice belongs into a transaction that compares
    /// [`Guard::token`] and [`Guard::nonce`].
    pub fn check(&self) -> bool {
        let until = Ticks::from_micros(self.held.until.load(Ordering::Acquire));
        Trust { until }.holds(clock::ticks())
    }

    /// The scope.
    pub fn scope(&self) -> &Scope {
        &self.held.scope
    }

    /// The fencing token now; a raise makes it greater.
    pub fn token(&self) -> Token {
        self.view.borrow().token
    }

    /// Tells two holders of an equal token apart.
    pub fn nonce(&self) -> Nonce {
        self.held.nonce
    }

    /// Resolves when the work must stop: the lease was lost or ran out, or the owner of the work said so.
    pub async fn cancelled(&self) {
        let mut view = self.view.clone();
        // An error says that the loop is gone.
        let _ = view.wait_for(|view| view.phase != Phase::Running).await;
    }

    /// Opens the fence register of `sink` for this term: from here on, no earlier term can write there. If the
    /// register is ahead, the lease's token is raised above it, once. Returns the token to write under.
    ///
    /// # Errors
    /// [`tidegate_core::Code::LeaseLost`] when the lease is not held any more, and the sink's own errors.
    pub async fn open_fence(&self, sink: &dyn LeaseStore) -> Result<Token> {
        let token = self.token();
        let Opened::Refused(register) = self.open(sink, token).await? else {
            return Ok(token);
        };
        let raised = self.raise_above(register).await?;
        match self.open(sink, raised).await? {
            Opened::Open => Ok(raised),
            Opened::Refused(_) => Err(lost(self.scope())),
        }
    }

    async fn open(&self, sink: &dyn LeaseStore, token: Token) -> Result<Opened> {
        sink.open_fence(self.scope().clone(), token, self.nonce()).await
    }

    async fn raise_above(&self, register: Token) -> Result<Token> {
        let mut view = self.view.clone();
        self.held.refused.send_replace(register);
        let decided = view
            .wait_for(|view| view.token > register || view.phase == Phase::Lost)
            .await;
        match decided {
            Ok(view) if view.token > register => Ok(view.token),
            _ => Err(lost(self.scope())),
        }
    }

    /// Whether the term goes on, for its work that has just ended.
    pub(super) fn held(&self) -> bool {
        self.check() && self.view.borrow().phase != Phase::Lost
    }
}

/// The loop's end of a guard. Dropping it ends all trust and drops the work: a loop that panics leaves nothing behind.
#[derive(Debug)]
pub(super) struct Desk {
    held: Arc<Held>,
    view: watch::Sender<View>,
    abort: CancellationToken,
}

impl Desk {
    pub(super) fn open(term: &Term, trust: Trust) -> (Self, Guard, watch::Receiver<Token>) {
        let (view, receiver) = watch::channel(View {
            token: term.token,
            phase: Phase::Running,
        });
        let (refused, refusals) = watch::channel(Token(0));
        let held = Arc::new(Held {
            scope: term.scope.clone(),
            nonce: term.nonce,
            until: AtomicI64::new(trust.until.as_micros()),
            refused,
        });
        let guard = Guard {
            held: Arc::clone(&held),
            view: receiver,
        };
        let abort = CancellationToken::new();
        (Self { held, view, abort }, guard, refusals)
    }

    pub(super) fn token(&self) -> Token {
        self.view.borrow().token
    }

    pub(super) fn abort(&self) {
        self.abort.cancel();
    }

    pub(super) fn aborted(&self) -> CancellationToken {
        self.abort.clone()
    }

    /// Makes the guard say what the machine says.
    pub(super) fn publish(&self, state: &State, trust: Trust) {
        self.trust(trust);
        let (phase, token) = match state {
            State::Leading(tenure) => (Phase::Running, tenure.term.token),
            State::Draining {
                tenure,
                why: Why::Stop,
                ..
            } => (Phase::Stopping, tenure.term.token),
            _ => (Phase::Lost, self.token()),
        };
        self.view.send_if_modified(|view| {
            let next = View { token, phase };
            std::mem::replace(view, next) != next
        });
    }

    fn trust(&self, trust: Trust) {
        self.held.until.store(trust.until.as_micros(), Ordering::Release);
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.trust(Trust::NONE);
        self.abort.cancel();
    }
}

//! The holder machine as the work of a [`crate::Worker`]'s loop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::lease::machine::{Attempt, Effect, Input, Machine, Options, State, Why};
use tidegate_core::lease::{Acquire, Acquired, Nonce, Raised, Renewed, Scope, Term, Token, Trust};
use tidegate_core::store::{BoxFuture, Doorbell};
use tidegate_core::time::Now;
use tidegate_core::{Code, Error, Result, Ticks, Uuid};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::guard::{Desk, Guard};
use super::{Change, Leases};
use crate::worker::{Status, Work};

/// Starts the work of a term; resolves when it has ended. The token tells it to drop the work.
pub(super) type Run = Arc<dyn Fn(Guard, CancellationToken) -> BoxFuture<'static, Ended> + Send + Sync>;

/// How work ended.
pub(super) enum Ended {
    Finished,
    Failed(String),
}

/// What the loop hears.
pub(super) enum News {
    Plain(Input),
    /// An acquire did not succeed.
    NotYet(Input, Error),
    /// A request failed, or its outcome is unknown.
    Failed(Attempt, Error),
    /// The work ended.
    Ended(Nonce, Ended),
    /// A guard met a register that is ahead; the channel is for the next time.
    Refused(Nonce, watch::Receiver<Token>),
    /// A renewal round begins.
    Round,
    /// A guard is gone.
    Nothing,
}

pub(super) struct Lead {
    machine: Machine,
    options: Options,
    leases: Leases,
    run: Run,
    /// Where acquires that did not succeed are told.
    not_yet: Option<mpsc::UnboundedSender<Error>>,
    desk: Option<Desk>,
    terms: u64,
    lost_before: bool,
    listening: bool,
    trouble: Option<String>,
}

impl Lead {
    pub(super) fn new(
        leases: Leases,
        scope: Scope,
        options: Options,
        run: Run,
        not_yet: Option<mpsc::UnboundedSender<Error>>,
    ) -> Result<Self> {
        let seed = Nonce(Uuid::new_v4().as_u128());
        Ok(Self {
            machine: Machine::new(scope, options, seed)?,
            options,
            leases,
            run,
            not_yet,
            desk: None,
            terms: 0,
            lost_before: false,
            listening: false,
            trouble: None,
        })
    }
}

impl Work for Lead {
    type Input = News;

    fn tick() -> News {
        News::Plain(Input::Tick)
    }

    fn rung() -> News {
        News::Plain(Input::Wake)
    }

    /// The handle's own limit is what bounds a stop.
    fn stop() -> News {
        News::Plain(Input::Stop {
            within: Duration::MAX,
        })
    }

    fn step(&mut self, now: Now, news: News, tasks: &mut JoinSet<News>) -> bool {
        let before = (self.machine.trust(), self.lost());
        for input in self.inputs(now.ticks, news, tasks) {
            for effect in self.machine.step(now.ticks, input) {
                self.perform(effect, tasks);
            }
        }
        self.publish(before);
        self.machine.state() != &State::Stopped
    }

    fn wake_at(&self) -> Option<Ticks> {
        self.machine.wake_at()
    }

    fn bell(&self) -> Arc<dyn Doorbell> {
        self.leases.store.clone()
    }

    fn status(&self, _: Now) -> Status {
        let state = match self.trouble {
            Some(_) => crate::worker::State::Paused,
            None => crate::worker::State::Live,
        };
        Status {
            state,
            held: usize::from(self.machine.tenure().is_some()),
            done: self.terms,
            trouble: self.trouble.clone(),
            ..Status::default()
        }
    }
}

impl Lead {
    fn inputs(&mut self, now: Ticks, news: News, tasks: &mut JoinSet<News>) -> Vec<Input> {
        match news {
            News::Plain(input) => {
                if matches!(
                    input,
                    Input::Granted { .. } | Input::Renewed { .. } | Input::Busy { .. }
                ) {
                    self.trouble = None;
                }
                vec![input]
            }
            News::NotYet(input, error) => {
                self.trouble = None;
                self.tell(error);
                vec![input]
            }
            News::Failed(attempt, error) => {
                self.trouble = Some(error.to_string());
                self.tell(error);
                vec![Input::Failed { attempt }]
            }
            News::Ended(nonce, ended) => self.ended(now, nonce, ended),
            News::Refused(nonce, mut refused) => {
                let register = *refused.borrow_and_update();
                listen(tasks, nonce, refused);
                vec![Input::FenceRefused { nonce, register }]
            }
            News::Round => {
                self.listening = false;
                self.listen_for_rounds(tasks);
                vec![Input::Join]
            }
            News::Nothing => Vec::new(),
        }
    }

    fn tell(&self, error: Error) {
        if let Some(not_yet) = &self.not_yet {
            // Nobody listens any more once the work has begun.
            let _ = not_yet.send(error);
        }
    }

    /// Work that ended well by itself was the last: the stop comes first, so that nothing is asked again.
    fn ended(&self, now: Ticks, nonce: Nonce, ended: Ended) -> Vec<Input> {
        let drained = Input::Drained { nonce };
        // Work may notice that trust ran out before the loop does.
        let by_itself = matches!(self.machine.state(), State::Leading(_)) && self.machine.trust().holds(now);
        match ended {
            Ended::Finished if by_itself => vec![
                Input::Stop {
                    within: Duration::MAX,
                },
                drained,
            ],
            Ended::Finished => vec![drained],
            Ended::Failed(reason) => {
                tracing::warn!(scope = %self.machine.scope(), reason, "the work under a lease ended");
                vec![drained]
            }
        }
    }

    fn perform(&mut self, effect: Effect, tasks: &mut JoinSet<News>) {
        let store = self.leases.store.clone();
        let limit = self.options.attempt_timeout();
        match effect {
            Effect::Acquire {
                attempt,
                nonce,
                min_token,
            } => {
                let ask = Acquire {
                    scope: self.machine.scope().clone(),
                    nonce,
                    ttl: self.options.ttl,
                    min_token,
                    holder: self.leases.holder.clone(),
                };
                tasks.spawn(async move { acquired(attempt, within(limit, store.acquire(ask)).await) });
            }
            Effect::Renew { attempt, term } => {
                let renewals = self.leases.renewals.clone();
                tasks.spawn(async move { renewed(attempt, within(limit, renewals.renew(term)).await) });
            }
            Effect::Raise { attempt, term, above } => {
                tasks.spawn(async move { raised(attempt, within(limit, store.raise(term, above)).await) });
            }
            Effect::Release { attempt, term } => {
                tasks.spawn(async move { released(attempt, within(limit, store.release(term)).await) });
            }
            Effect::StartWork(term) => self.start(&term, tasks),
            Effect::CancelWork(_) => {}
            Effect::AbortWork(_) => {
                if let Some(desk) = &self.desk {
                    desk.abort();
                }
            }
        }
    }

    fn start(&mut self, term: &Term, tasks: &mut JoinSet<News>) {
        let (desk, guard, refused) = Desk::open(term, self.machine.trust());
        let nonce = term.nonce;
        let work = (self.run)(guard, desk.aborted());
        tasks.spawn(async move { News::Ended(nonce, work.await) });
        listen(tasks, nonce, refused);
        self.listen_for_rounds(tasks);
        self.desk = Some(desk);
        self.terms += 1;
        self.changed(if self.lost_before {
            Change::Reacquired(term.token)
        } else {
            Change::Acquired(term.token)
        });
        self.lost_before = false;
    }

    fn listen_for_rounds(&mut self, tasks: &mut JoinSet<News>) {
        if self.listening || self.machine.tenure().is_none() {
            return;
        }
        self.listening = true;
        let renewals = self.leases.renewals.clone();
        tasks.spawn(async move {
            renewals.begins().await;
            News::Round
        });
    }

    /// Makes guard, hooks and counters say what the machine says.
    fn publish(&mut self, (trust, was_lost): (Trust, bool)) {
        let Some(desk) = &self.desk else { return };
        desk.publish(self.machine.state(), self.machine.trust());
        let token = desk.token();
        if trust != Trust::NONE && self.machine.trust().until > trust.until {
            self.changed(Change::Renewed(token));
        }
        if self.lost() && !was_lost {
            self.lost_before = true;
            self.changed(Change::Lost(token));
        }
        if self.machine.tenure().is_none() {
            self.desk = None;
        }
    }

    fn lost(&self) -> bool {
        matches!(
            self.machine.state(),
            State::Draining {
                why: Why::Lost | Why::Expired,
                ..
            }
        )
    }

    fn changed(&self, change: Change) {
        let name = match change {
            Change::Acquired(_) => "tidegate_lease_acquired_total",
            Change::Renewed(_) => "tidegate_lease_renewed_total",
            Change::Lost(_) => "tidegate_lease_lost_total",
            Change::Reacquired(_) => "tidegate_lease_reacquired_total",
        };
        let scope = self.machine.scope();
        tracing::debug!(%scope, ?change, "lease");
        let hook = self.leases.hook.clone();
        // A hook or an exporter that panics must not disturb the lease.
        let called = catch_unwind(AssertUnwindSafe(|| {
            metrics::counter!(name, "scope" => scope.as_str().to_owned()).increment(1);
            if let Some(hook) = hook {
                hook(scope, change);
            }
        }));
        if called.is_err() {
            tracing::error!(%scope, "a hook panicked");
        }
    }
}

/// Tells of the next refusal that a guard meets.
fn listen(tasks: &mut JoinSet<News>, nonce: Nonce, mut refused: watch::Receiver<Token>) {
    tasks.spawn(async move {
        match refused.changed().await {
            Ok(()) => News::Refused(nonce, refused),
            Err(_) => News::Nothing,
        }
    });
}

async fn within<T>(limit: Duration, call: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(limit, call)
        .await
        .unwrap_or_else(|_| Err(Error::unknown(format!("no reply within {limit:?}"))))
}

fn acquired(attempt: Attempt, reply: Result<Acquired>) -> News {
    match reply {
        Ok(Acquired::Granted(token)) => News::Plain(Input::Granted { attempt, token }),
        Ok(Acquired::Busy { remaining, holder }) => News::NotYet(
            Input::Busy { attempt, remaining },
            Error::new(
                Code::LeaseBusy,
                format!("held by {holder} for another {remaining:.1?}"),
            ),
        ),
        Err(error) => News::Failed(attempt, error),
    }
}

fn renewed(attempt: Attempt, reply: Result<Renewed>) -> News {
    match reply {
        Ok(Renewed::Held) => News::Plain(Input::Renewed { attempt }),
        Ok(Renewed::Lost) => News::Plain(Input::Lost { attempt }),
        Err(error) => News::Failed(attempt, error),
    }
}

fn raised(attempt: Attempt, reply: Result<Raised>) -> News {
    match reply {
        Ok(Raised::To(token)) => News::Plain(Input::Raised { attempt, token }),
        Ok(Raised::NotHeld) => News::Plain(Input::Lost { attempt }),
        Err(error) => News::Failed(attempt, error),
    }
}

fn released(attempt: Attempt, reply: Result<tidegate_core::lease::Released>) -> News {
    match reply {
        Ok(_) => News::Plain(Input::Released { attempt }),
        Err(error) => News::Failed(attempt, error),
    }
}

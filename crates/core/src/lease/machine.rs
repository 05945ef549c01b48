//! The holder machine: one for each scope and process (the protocol is on the page above).
//!
//! Feed it a time and an input; perform the effects it returns; call it again at [`Machine::wake_at`]. Deadlines
//! come before the input, so a process that slept through its trust learns that first.
//!
//! Every request carries an [`Attempt`], every tenure a nonce. A reply to another attempt than the current one, or
//! news of another tenure, changes nothing (L4).

use std::mem;
use std::time::Duration;

use super::draw::Draw;
pub use super::options::Options;
pub use super::protocol::{Asked, Attempt, Effect, Input, State, Tenure, Why};
use super::{Nonce, Scope, Term, Token, Trust};
use crate::error::Result;
use crate::time::Ticks;

/// A follower woken by a bell asks at most this often: quick enough for a hand-over, and a busy bell stays cheap.
const WAKE_PAUSE: Duration = Duration::from_millis(50);

/// The holder of one scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machine {
    scope: Scope,
    options: Options,
    state: State,
    draw: Draw,
    /// Of the next or the current tenure.
    nonce: Nonce,
    /// The least token to ask for.
    floor: Token,
    attempts: u64,
    /// Failed acquires and short tenures in a row; pauses grow with it.
    setbacks: u32,
    /// No further tenure.
    last: bool,
}

impl Machine {
    /// A follower that asks at its first step. Equal seeds give equal behaviour; give every process its own.
    ///
    /// # Errors
    /// [`crate::Code::OptionsInvalid`] when the ttl is outside its limits.
    pub fn new(scope: Scope, options: Options, seed: Nonce) -> Result<Self> {
        options.check()?;
        let mut draw = Draw::new(seed);
        Ok(Self {
            scope,
            options,
            state: State::Follower {
                next_try: Ticks::from_micros(i64::MIN),
                not_before: Ticks::from_micros(i64::MIN),
            },
            nonce: draw.nonce(),
            draw,
            floor: Token(0),
            attempts: 0,
            setbacks: 0,
            last: false,
        })
    }

    /// What it holds or wants.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Where it is.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The tenure whose work runs or drains.
    pub fn tenure(&self) -> Option<&Tenure> {
        match &self.state {
            State::Leading(tenure) | State::Draining { tenure, .. } => Some(tenure),
            _ => None,
        }
    }

    /// How long the work may believe.
    pub fn trust(&self) -> Trust {
        match &self.state {
            State::Leading(tenure)
            | State::Draining {
                tenure,
                why: Why::Stop,
                ..
            } => Trust { until: tenure.until },
            _ => Trust::NONE,
        }
    }

    /// When to call [`Machine::step`] with [`Input::Tick`], if nothing comes before.
    pub fn wake_at(&self) -> Option<Ticks> {
        let timeout = self.options.attempt_timeout();
        let renewal = |tenure: &Tenure| {
            let next = tenure
                .asked
                .map_or(tenure.renew_at, |asked| asked.sent.after(timeout));
            next.min(tenure.until)
        };
        match &self.state {
            State::Follower { next_try, .. } => Some(*next_try),
            State::Asking { sent, .. } | State::Releasing { sent, .. } => Some(sent.after(timeout)),
            State::Leading(tenure) => Some(renewal(tenure)),
            State::Draining {
                tenure,
                why: Why::Stop,
                abort_at,
            } => Some(abort_at.map_or(renewal(tenure), |at| at.min(renewal(tenure)))),
            State::Draining { abort_at, .. } => *abort_at,
            State::Stopped => None,
        }
    }

    /// Takes one input at `now`; returns what to do. Time must not go back.
    ///
    /// Deadlines first, then the input, then whatever is due to be sent.
    pub fn step(&mut self, now: Ticks, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.time_out(now);
        self.trust_ends(now, &mut effects);
        self.take(now, input, &mut effects);
        self.abort_if_due(now, &mut effects);
        self.ask_if_due(now, &mut effects);
        self.renew_if_due(now, &mut effects);
        effects
    }

    fn take(&mut self, now: Ticks, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Tick => {}
            Input::Wake => self.wake(now),
            Input::Join => self.join(now),
            Input::Stop { within } => self.stop(now, within, effects),
            Input::Granted { attempt, token } => self.granted(now, attempt, token, effects),
            Input::Busy { attempt, remaining } => self.busy(now, attempt, remaining),
            Input::Failed { attempt } => self.failed(now, attempt),
            Input::Renewed { attempt } => self.renewed(attempt),
            Input::Lost { attempt } => self.lost(now, attempt, effects),
            Input::Raised { attempt, token } => self.raised(now, attempt, token),
            Input::Released { attempt } => self.released(now, attempt),
            Input::FenceRefused { nonce, register } => self.fence_refused(now, nonce, register, effects),
            Input::Drained { nonce } => self.drained(now, nonce, effects),
        }
    }

    /// Gives up the request on its way, if it has been for too long: its reply no longer counts.
    fn time_out(&mut self, now: Ticks) {
        let timeout = self.options.attempt_timeout();
        match self.state {
            State::Asking { sent, .. } if sent.after(timeout) <= now => self.follow_or_stop(now, now),
            State::Releasing { sent, .. } if sent.after(timeout) <= now => self.rest(now),
            _ => {
                if let Some(tenure) = self.trusted()
                    && tenure
                        .asked
                        .take_if(|asked| asked.sent.after(timeout) <= now)
                        .is_some()
                {
                    tenure.renew_at = now;
                }
            }
        }
    }

    // Following.

    fn ask_if_due(&mut self, now: Ticks, effects: &mut Vec<Effect>) {
        if !matches!(self.state, State::Follower { next_try, .. } if next_try <= now) {
            return;
        }
        let attempt = self.attempt();
        self.state = State::Asking {
            attempt,
            sent: now,
            rung: false,
        };
        effects.push(Effect::Acquire {
            attempt,
            nonce: self.nonce,
            min_token: self.floor,
        });
    }

    fn wake(&mut self, now: Ticks) {
        match &mut self.state {
            State::Follower { next_try, not_before } => *next_try = now.max(*not_before).min(*next_try),
            State::Asking { rung, .. } => *rung = true,
            _ => {}
        }
    }

    fn busy(&mut self, now: Ticks, attempt: Attempt, remaining: Duration) {
        let State::Asking {
            attempt: mine, rung, ..
        } = self.state
        else {
            return;
        };
        if mine != attempt {
            return;
        }
        // A bell may be lost, so a long wait is cut into polls.
        let wait = if rung {
            WAKE_PAUSE
        } else {
            self.draw
                .jitter(self.options.renew_every())
                .min(remaining.max(WAKE_PAUSE))
        };
        self.follow_or_stop(now.after(wait), now.after(WAKE_PAUSE));
    }

    fn granted(&mut self, now: Ticks, attempt: Attempt, token: Token, effects: &mut Vec<Effect>) {
        // A grant later than the attempt's time-out finds another attempt here: a late grant is a loss.
        let State::Asking {
            attempt: mine, sent, ..
        } = self.state
        else {
            return;
        };
        if mine != attempt {
            return;
        }
        let term = Term {
            scope: self.scope.clone(),
            token,
            nonce: self.nonce,
            ttl: self.options.ttl,
        };
        self.floor = self.floor.max(token);
        if self.last {
            return self.release(now, term, effects);
        }
        self.last = self.options.scoped;
        effects.push(Effect::StartWork(term.clone()));
        self.state = State::Leading(Tenure {
            term,
            until: sent.after(self.options.trust()),
            renew_at: sent.after(self.draw.jitter(self.options.renew_every())),
            asked: None,
        });
    }

    fn follow_or_stop(&mut self, next_try: Ticks, not_before: Ticks) {
        self.state = if self.last {
            State::Stopped
        } else {
            State::Follower { next_try, not_before }
        };
    }

    // Leading.

    /// The tenure, while its holder may believe.
    fn trusted(&mut self) -> Option<&mut Tenure> {
        match &mut self.state {
            State::Leading(tenure)
            | State::Draining {
                tenure,
                why: Why::Stop,
                ..
            } => Some(tenure),
            _ => None,
        }
    }

    /// Takes the answer to the tenure's current request; `None` when it is the answer to another.
    fn answered(&mut self, attempt: Attempt) -> Option<Asked> {
        let tenure = self.trusted()?;
        tenure.asked.take_if(|asked| asked.attempt == attempt)
    }

    fn renew_if_due(&mut self, now: Ticks, effects: &mut Vec<Effect>) {
        let due = |tenure: &mut Tenure| tenure.asked.is_none() && tenure.renew_at <= now;
        if !self.trusted().is_some_and(due) {
            return;
        }
        let attempt = self.attempt();
        if let Some(tenure) = self.trusted() {
            tenure.asked = Some(Asked {
                attempt,
                sent: now,
                raise: false,
            });
            let term = tenure.term.clone();
            effects.push(Effect::Renew { attempt, term });
        }
    }

    fn join(&mut self, now: Ticks) {
        let half = self.options.renew_every() / 2;
        if let Some(tenure) = self.trusted()
            && tenure.renew_at.before(half) <= now
        {
            tenure.renew_at = tenure.renew_at.min(now);
        }
    }

    fn renewed(&mut self, attempt: Attempt) {
        let Some(asked) = self.answered(attempt) else {
            return;
        };
        let trust = self.options.trust();
        let interval = self.draw.jitter(self.options.renew_every());
        if let Some(tenure) = self.trusted() {
            tenure.until = asked.sent.after(trust);
            tenure.renew_at = asked.sent.after(interval);
        }
        self.setbacks = 0;
    }

    fn lost(&mut self, now: Ticks, attempt: Attempt, effects: &mut Vec<Effect>) {
        if self.answered(attempt).is_some() {
            self.cancel(Why::Lost, now.after(self.options.stop_budget()), effects);
        }
    }

    fn fence_refused(&mut self, now: Ticks, nonce: Nonce, register: Token, effects: &mut Vec<Effect>) {
        let attempt = Attempt(self.attempts + 1);
        let Some(tenure) = self.trusted() else { return };
        let raising = tenure.asked.is_some_and(|asked| asked.raise);
        if tenure.term.nonce != nonce || register < tenure.term.token || raising {
            return;
        }
        // A renewal on its way carries the old token; its answer no longer counts.
        tenure.asked = Some(Asked {
            attempt,
            sent: now,
            raise: true,
        });
        effects.push(Effect::Raise {
            attempt,
            term: tenure.term.clone(),
            above: register,
        });
        self.attempts = attempt.0;
        self.floor = self.floor.max(Token(register.0.saturating_add(1)));
    }

    fn raised(&mut self, now: Ticks, attempt: Attempt, token: Token) {
        if self.answered(attempt).is_none() {
            return;
        }
        self.floor = self.floor.max(token);
        if let Some(tenure) = self.trusted() {
            tenure.term.token = token;
            tenure.renew_at = now;
        }
    }

    // Ending.

    fn trust_ends(&mut self, now: Ticks, effects: &mut Vec<Effect>) {
        let budget = self.options.stop_budget();
        if let Some(until) = self.trusted().map(|tenure| tenure.until)
            && until <= now
        {
            self.cancel(Why::Expired, until.after(budget), effects);
        }
    }

    fn stop(&mut self, now: Ticks, within: Duration, effects: &mut Vec<Effect>) {
        self.last = true;
        match self.state {
            State::Follower { .. } => self.state = State::Stopped,
            State::Leading(_) => self.cancel(Why::Stop, now.after(within), effects),
            State::Draining { why, .. } => self.cancel(why, now.after(within), effects),
            State::Asking { .. } | State::Releasing { .. } | State::Stopped => {}
        }
    }

    /// Tells the work to stop, or that it has less time than it was told.
    fn cancel(&mut self, why: Why, abort_at: Ticks, effects: &mut Vec<Effect>) {
        self.state = match mem::replace(&mut self.state, State::Stopped) {
            State::Leading(tenure) => {
                effects.push(Effect::CancelWork(tenure.term.nonce));
                State::Draining {
                    tenure,
                    why,
                    abort_at: Some(abort_at),
                }
            }
            State::Draining {
                tenure,
                abort_at: earlier,
                ..
            } => State::Draining {
                tenure,
                why,
                abort_at: earlier.map(|at| at.min(abort_at)),
            },
            other => other,
        };
    }

    fn abort_if_due(&mut self, now: Ticks, effects: &mut Vec<Effect>) {
        if let State::Draining { tenure, abort_at, .. } = &mut self.state
            && abort_at.take_if(|at| *at <= now).is_some()
        {
            effects.push(Effect::AbortWork(tenure.term.nonce));
        }
    }

    fn drained(&mut self, now: Ticks, nonce: Nonce, effects: &mut Vec<Effect>) {
        let (term, why) = match &self.state {
            State::Leading(tenure) => (tenure.term.clone(), None),
            State::Draining { tenure, why, .. } => (tenure.term.clone(), Some(*why)),
            _ => return,
        };
        if term.nonce != nonce {
            return;
        }
        self.setbacks += 1;
        if why == Some(Why::Lost) {
            self.rest(now);
        } else {
            self.release(now, term, effects);
        }
    }

    fn release(&mut self, now: Ticks, term: Term, effects: &mut Vec<Effect>) {
        let attempt = self.attempt();
        self.state = State::Releasing { attempt, sent: now };
        effects.push(Effect::Release { attempt, term });
    }

    fn released(&mut self, now: Ticks, attempt: Attempt) {
        if matches!(self.state, State::Releasing { attempt: mine, .. } if mine == attempt) {
            self.rest(now);
        }
    }

    /// After a tenure: a new nonce, and a pause that lets others take over.
    fn rest(&mut self, now: Ticks) {
        self.nonce = self.draw.nonce();
        self.back_off(now);
    }

    // Requests.

    fn failed(&mut self, now: Ticks, attempt: Attempt) {
        let retry_at = now.after(self.options.pause());
        match self.state {
            State::Asking { attempt: mine, .. } if mine == attempt => {
                self.setbacks += 1;
                self.back_off(now);
            }
            State::Releasing { attempt: mine, .. } if mine == attempt => self.rest(now),
            _ => {
                if self.answered(attempt).is_some()
                    && let Some(tenure) = self.trusted()
                {
                    tenure.renew_at = retry_at;
                }
            }
        }
    }

    /// Pauses for a twentieth of the ttl, doubled by each setback in a row up to a third. No bell cuts it short: my
    /// own release rings, too.
    fn back_off(&mut self, now: Ticks) {
        let doubled = self.options.pause() * (1 << self.setbacks.min(4).saturating_sub(1));
        let pause = self.draw.jitter(doubled.min(self.options.renew_every()));
        self.follow_or_stop(now.after(pause), now.after(pause));
    }

    fn attempt(&mut self) -> Attempt {
        self.attempts += 1;
        Attempt(self.attempts)
    }
}

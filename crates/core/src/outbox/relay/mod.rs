//! The relay machine: owned lanes in, planned batches out, acknowledged rows settled.
//!
//! # The shape
//! At most one [`Effect::Turn`], one [`Effect::Append`], one [`Effect::Register`] and one chore are in flight, beside
//! the hold. A turn settles what the last append acknowledged and plans the next batch, so that the steady state costs
//! one transaction and one append per batch, and neither waits for the other.
//!
//! # One way back from every doubt
//! After an unknown outcome, a fence that moved or a stream that lost entries, the lane is *reloaded*: its state from
//! the next hold, its plan from a turn, its register from the sink. The three are reconciled in [`lane::Lane::reconcile`].
//!
//! Every effect gets exactly one reply; a driver turns silence into [`Reply::Unknown`].

mod due;
mod lane;
mod replies;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, Reply};
use crate::lane::ownership::{self, Ownership};
use crate::lane::{Held, Hold, LaneId};
use crate::lease::{Nonce, Token};
use crate::outbox::{LaneState, Park, ParkReply, Refill, Turn, Turned};
use crate::stream::{Appended, LaneAppend, Lost, Register};
use crate::time::Ticks;

use lane::{Lane, Phase};

/// How a relay works; each number with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Options {
    /// Ownership of lanes.
    pub hold: ownership::Options,
    /// Most events in one plan and in one append: 1,000 keeps a batch under a few milliseconds.
    pub batch_max: u32,
    /// Most payload bytes in one plan: 1 MiB.
    pub bytes_max: usize,
    /// How often registers of idle lanes are compared with what is settled: 2 s bounds how long a loss goes unseen.
    pub audit_every: Duration,
    /// Poll without a ring this often: 1 s, the backstop of the doorbell.
    pub poll_every: Duration,
    /// First pause after an outage; doubles.
    pub backoff_min: Duration,
    /// Longest pause after an outage.
    pub backoff_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hold: ownership::Options {
                label: "relay".into(),
                ..ownership::Options::default()
            },
            batch_max: 1000,
            bytes_max: 1024 * 1024,
            audit_every: Duration::from_secs(2),
            poll_every: Duration::from_secs(1),
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(30),
        }
    }
}

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// Time passed.
    Tick,
    /// The doorbell rang: rows may be waiting.
    Rung,
    /// Reply to [`Effect::Hold`].
    Held(Reply<Held<LaneState>>),
    /// Reply to [`Effect::Turn`].
    Turned(Reply<Vec<Turned>>),
    /// Reply to [`Effect::Append`].
    Appended(Reply<Vec<Appended>>),
    /// Reply to [`Effect::Register`].
    Registered(Reply<Vec<Option<Register>>>),
    /// Reply to [`Effect::Refill`].
    Refilled(Reply<Refill>),
    /// Reply to [`Effect::Park`].
    Parked(Reply<ParkReply>),
    /// Reply to [`Effect::Declare`].
    Declared(Reply<Appended>),
    /// Finish what is in flight, release every lane, then [`Effect::Stopped`].
    Stop,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// One round trip of ownership.
    Hold(Hold),
    /// One transaction of the outbox.
    Turn(Turn),
    /// Append as planned.
    Append(Vec<LaneAppend>),
    /// Raise and read registers.
    Register(Vec<(LaneId, Token)>),
    /// Read settled events back, from this number on.
    Refill {
        /// The lane.
        lane: LaneId,
        /// The tenure's token.
        token: Token,
        /// First number wanted.
        from: u64,
        /// Most events.
        limit: u32,
    },
    /// Set a poisoned key aside.
    Park(Park),
    /// Declare a range lost.
    Declare(Lost, Token),
    /// Something people and metrics want to know.
    Note(Note),
    /// Everything is released; the machine takes no further input.
    Stopped,
}

/// For logs and metrics.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Note {
    /// A lane is mine. `unfinished` planned events were left by the owner before.
    Gained(LaneId, Token, u64),
    /// A lane went: expired, released, or taken.
    Lost(LaneId),
    /// A store or sink refused my token.
    Fenced(LaneId),
    /// Events acknowledged by the sink.
    Published(u64),
    /// Events the stream already had, met after a lost reply or a take-over.
    AlreadyThere(u64),
    /// The stream lost its tail: its register is here, the last settled number is there.
    StreamLost {
        /// The lane.
        lane: LaneId,
        /// The stream's register.
        register: u64,
        /// The last settled number.
        settled: u64,
    },
    /// Events put back.
    Refilled(LaneId, u64),
    /// A range no archive holds.
    DeclaredLost(Lost),
    /// A key was set aside; the count of numbers made void.
    Parked(LaneId, u64),
    /// A database went back in time; the lane stays stopped.
    Forked(LaneId, u64),
    /// A store or the sink cannot work now; a retry comes after this pause.
    Outage(String, Duration),
}

/// For status and lag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Lanes owned.
    pub lanes: usize,
    /// Planned and not yet acknowledged.
    pub unacknowledged: usize,
    /// Lanes stopped by a fork.
    pub forked: usize,
    /// Published since the start.
    pub published: u64,
    /// Ownership is known, nothing waits and nothing is in flight.
    pub quiet: bool,
}

/// Which lanes, under which epoch, an effect in flight is about: replies for an older epoch are no-ops.
type Flight = Vec<(LaneId, u64)>;

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools)]
pub struct Machine {
    options: Options,
    own: Ownership,
    lanes: BTreeMap<LaneId, Lane>,
    epoch: u64,
    turn: Option<Flight>,
    append: Option<Flight>,
    register: Option<Flight>,
    chore: Option<(LaneId, u64)>,
    owned: bool,
    bell: bool,
    poll_at: Ticks,
    audit_at: Ticks,
    pause_until: Ticks,
    /// When a pause ends, of one lane or of all.
    resume_at: Option<Ticks>,
    failures: u32,
    published: u64,
    stopping: bool,
    stopped: bool,
}

impl Machine {
    /// A relay that owns nothing yet. `member` is drawn once per process start.
    pub fn new(options: Options, member: Nonce) -> Self {
        Self {
            own: Ownership::new(member, options.hold.clone()),
            options,
            lanes: BTreeMap::new(),
            epoch: 0,
            turn: None,
            append: None,
            register: None,
            chore: None,
            owned: false,
            bell: true,
            poll_at: Ticks::default(),
            audit_at: Ticks::default(),
            pause_until: Ticks::from_micros(i64::MIN),
            resume_at: None,
            failures: 0,
            published: 0,
            stopping: false,
            stopped: false,
        }
    }

    /// For status.
    pub fn status(&self) -> Status {
        Status {
            lanes: self.lanes.len(),
            unacknowledged: self.lanes.values().map(|l| l.planned.len()).sum(),
            forked: self.lanes.values().filter(|l| l.phase == Phase::Forked).count(),
            published: self.published,
            quiet: self.quiet(),
        }
    }

    /// This worker's nonce.
    pub fn member(&self) -> Nonce {
        self.own.member()
    }

    fn quiet(&self) -> bool {
        let in_flight = self.turn.is_some() || self.append.is_some() || self.register.is_some();
        self.owned && !self.bell && !in_flight && self.chore.is_none() && self.lanes.values().all(Lane::quiet)
    }

    /// Takes one input and says what to do.
    pub fn step(&mut self, now: Ticks, input: Input) -> Vec<Effect> {
        let mut out = Vec::new();
        if self.stopped {
            return out;
        }
        self.take(now, input, &mut out);
        for lane in self.own.expire(now) {
            self.drop_lane(lane, Note::Lost(lane), &mut out);
        }
        self.drive(now, &mut out);
        out
    }

    /// The lane is forked and waits for a person.
    pub fn is_stuck(&self, lane: LaneId) -> bool {
        self.lanes
            .get(&lane)
            .is_some_and(|lane| lane.phase == Phase::Forked)
    }

    /// When to send [`Input::Tick`] at the latest.
    pub fn wake_at(&self) -> Option<Ticks> {
        if self.stopped {
            return None;
        }
        // What is in flight ends by its reply, not by the clock.
        let poll = self.turn.is_none().then_some(self.poll_at);
        let audit = self.register.is_none().then_some(self.audit_at);
        let work = poll.into_iter().chain(audit).min();
        let work = work.filter(|_| !self.stopping).map(|at| at.max(self.pause_until));
        let own = self.own.wake_at().into_iter();
        own.chain(work).chain(self.resume_at).min()
    }

    fn take(&mut self, now: Ticks, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Tick => {}
            Input::Rung => self.bell = true,
            Input::Held(reply) => self.on_held(now, reply, out),
            Input::Turned(reply) => self.on_turned(now, reply, out),
            Input::Appended(reply) => self.on_appended(now, reply, out),
            Input::Registered(reply) => self.on_registered(now, reply, out),
            Input::Refilled(reply) => self.on_refilled(now, reply, out),
            Input::Parked(reply) => self.on_parked(now, reply, out),
            Input::Declared(reply) => self.on_declared(now, reply, out),
            Input::Stop => {
                self.stopping = true;
                self.own.stop(now);
            }
        }
    }

    fn reconcile_all(&mut self, out: &mut Vec<Effect>) {
        let loaded: Vec<_> = self
            .lanes
            .iter()
            .filter(|(_, l)| l.phase == Phase::Loaded)
            .map(|(id, _)| *id)
            .collect();
        for id in loaded {
            self.reconcile(id, out);
        }
    }

    fn reconcile(&mut self, id: LaneId, out: &mut Vec<Effect>) {
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        let settled = lane.settled.0;
        match lane.reconcile() {
            lane::Reconciled::Waiting | lane::Reconciled::Reload | lane::Reconciled::Live(0) => {}
            lane::Reconciled::Live(already) => out.push(Effect::Note(Note::AlreadyThere(already))),
            lane::Reconciled::Lost(register) => {
                out.push(Effect::Note(Note::StreamLost {
                    lane: id,
                    register,
                    settled,
                }));
            }
            lane::Reconciled::Forked(n) => out.push(Effect::Note(Note::Forked(id, n))),
        }
    }

    fn doubt(&mut self, flight: &Flight) {
        for (id, _) in flight {
            if let Some(lane) = current(&mut self.lanes, flight, *id) {
                lane.phase = Phase::Doubt;
                lane.settling = None;
            }
        }
    }

    fn end_chore(&mut self) -> Option<(LaneId, &mut Lane)> {
        let (id, epoch) = self.chore.take()?;
        Some((id, self.lanes.get_mut(&id).filter(|l| l.epoch == epoch)?))
    }

    fn drop_lane(&mut self, id: LaneId, note: Note, out: &mut Vec<Effect>) {
        if matches!(note, Note::Fenced(_)) {
            self.own.fenced(id);
        }
        if self.lanes.remove(&id).is_some() {
            out.push(Effect::Note(note));
        }
    }

    /// Nothing is written for an outage; everything waits, longer each time.
    fn outage(&mut self, now: Ticks, error: &Error, out: &mut Vec<Effect>) {
        let pause = self.pause(now);
        out.push(Effect::Note(Note::Outage(error.to_string(), pause)));
    }

    /// A failure while a pause runs says nothing new: it neither doubles nor lengthens it.
    fn pause(&mut self, now: Ticks) -> Duration {
        if now < self.pause_until {
            return self.pause_until.since(now);
        }
        let pause =
            (self.options.backoff_min * 2u32.pow(self.failures.min(16))).min(self.options.backoff_max);
        self.failures += 1;
        self.pause_until = now.after(pause);
        pause
    }
}

fn is_in(flight: Option<&Flight>, id: LaneId) -> bool {
    flight.into_iter().flatten().any(|(lane, _)| *lane == id)
}

fn current<'a>(lanes: &'a mut BTreeMap<LaneId, Lane>, flight: &Flight, id: LaneId) -> Option<&'a mut Lane> {
    let epoch = flight.iter().find(|(lane, _)| *lane == id)?.1;
    lanes.get_mut(&id).filter(|l| l.epoch == epoch)
}

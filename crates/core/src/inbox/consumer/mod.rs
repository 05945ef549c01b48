//! The consumer machine: owned lanes in, batches to the apply transaction, positions out.
//!
//! # The shape
//! At most one [`Effect::Read`] and one [`Effect::Apply`] (or [`Effect::Retry`]) are in flight, beside the hold and
//! small chores. One reader serves all lanes; each lane remembers how far it has read and what it has seen.
//!
//! # One way back from every doubt
//! A lane that did not come out of an apply where it should (a pause, an unknown commit, a gap) is *rewound*: what was
//! read ahead is dropped and read again after its position. Reading again is always safe, since `n` decides.
//!
//! # Careful mode
//! A lane whose previous owner did not release it is taken in carefully up to `hw + batch_max`: each batch is announced
//! first, so that an event that ends the process is found and nothing else is blamed (ADR-0007).
//!
//! # The breaker
//! Many keys that fail alike are an outage of something else. The breaker opens: nothing is applied for a pause, then a
//! few events are tried, and the first that fails alike ends the call. So each pause, which doubles, parks one key more.
//! A try without that failure closes it.
//!
//! Every effect gets exactly one reply; a driver turns silence into [`Reply::Unknown`].

mod breaker;
mod due;
mod lane;
mod replies;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use uuid::Uuid;

use super::{Applied, Batch, Counts, Failed, Position, Retried, Retry, Start};
use crate::error::{Error, Reply};
use crate::lane::ownership::{self, Ownership};
use crate::lane::{Held, Hold, LaneId};
use crate::lease::{Nonce, Token};
use crate::stream::{Chain, EntryId, Page, Place, Registers};
use crate::time::{Now, Ticks, Timestamp};

use breaker::Breaker;
use lane::{Lane, State};

/// How a consumer works; each number with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Ownership of lanes.
    pub hold: ownership::Options,
    /// Where lanes without a position start.
    pub start: Start,
    /// Most events in one apply: 500 keeps the transaction short and the cost per event near its floor.
    pub batch_max: u32,
    /// Most payload bytes in one page: 4 MiB; with it memory is bounded.
    pub bytes_max: usize,
    /// Read without a ring this often, and look for new lanes: 1 s.
    pub poll_every: Duration,
    /// Longest time between looks at parked keys: 1 s, so that an operator's redrive is seen soon.
    pub retry_every: Duration,
    /// A lane with a gap is read again this often: 5 s, while the relay refills. A halted one is tried as often.
    pub gap_every: Duration,
    /// Distinct keys with one fingerprint, in calls that follow each other, that mean an outage of something else: 16.
    pub breaker_keys: usize,
    /// Events that may fail in one apply, and keys in one retry: 16. Each runs what came before it again, or costs two
    /// commits, on the thread that renews leases.
    pub failures_max: usize,
    /// First pause after a failure of infrastructure; doubles.
    pub backoff_min: Duration,
    /// Longest pause.
    pub backoff_max: Duration,
}

impl Options {
    /// Defaults with a start policy, which has none.
    pub fn new(start: Start) -> Self {
        Self {
            hold: ownership::Options {
                label: "consumer".into(),
                ..ownership::Options::default()
            },
            start,
            batch_max: 500,
            bytes_max: 4 * 1024 * 1024,
            poll_every: Duration::from_secs(1),
            retry_every: Duration::from_secs(1),
            gap_every: Duration::from_secs(5),
            breaker_keys: 16,
            failures_max: 16,
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
    /// The stream's doorbell rang.
    Rung,
    /// Reply to [`Effect::Hold`].
    Held(Reply<Held<Position>>),
    /// Reply to [`Effect::Registers`].
    Registers(Reply<Registers>),
    /// Reply to [`Effect::Locate`].
    Located(Reply<Vec<(LaneId, Place)>>),
    /// Reply to [`Effect::Discover`].
    Discovered(Reply<()>),
    /// Reply to [`Effect::Read`].
    Page(Reply<Page>),
    /// Reply to [`Effect::Apply`].
    Applied(Reply<Applied>),
    /// Reply to [`Effect::Retry`].
    Retried(Reply<Retried>),
    /// Reply to [`Effect::MoveCursors`].
    CursorsMoved(Reply<u64>),
    /// Finish the apply in flight, release every lane, then [`Effect::Stopped`].
    Stop,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// One round trip of ownership.
    Hold(Hold),
    /// Read the stream's registers.
    Registers,
    /// Find where each lane's entries since this time begin.
    Locate(Timestamp),
    /// Create positions for lanes met for the first time.
    Discover(Vec<(LaneId, Position)>),
    /// Read a page of these lanes.
    Read {
        /// After this entry.
        after: EntryId,
        /// Of these lanes.
        lanes: Vec<LaneId>,
        /// Most entries.
        limit: u32,
        /// About this many payload bytes.
        bytes_max: usize,
    },
    /// Take in a batch.
    Apply(Batch),
    /// Try parked keys that are due.
    Retry(Retry),
    /// Move cursors of idle lanes, then publish the consumer's hold on the stream.
    MoveCursors(Vec<(LaneId, Token, EntryId)>),
    /// Something people and metrics want to know.
    Note(Note),
    /// Everything is released; the machine takes no further input.
    Stopped,
}

/// For logs and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A lane is mine, from this position.
    Gained(LaneId, Token, Position),
    /// A lane went: expired, released, or taken.
    Lost(LaneId),
    /// The target database refused my token.
    Fenced(LaneId),
    /// What a committed call did.
    Did(Counts),
    /// Entries are missing after `hw`; the stream is read again from the beginning.
    Gap {
        /// The lane.
        lane: LaneId,
        /// Last number taken in.
        hw: u64,
        /// The entry that came instead of `hw + 1`; when none came, the number after the last that should be there.
        next: u64,
    },
    /// Two histories share a number; the lane stays stopped.
    Forked(LaneId, u64),
    /// The lane stopped until a person acts.
    Halted(LaneId, String),
    /// The stream is shorter than it was, or a new one: read again from the beginning.
    StreamRestarted,
    /// Many keys fail for one reason: reading pauses instead of parking thousands.
    Breaker(String, Duration),
    /// A store or the stream cannot work now; a retry comes after this pause.
    Outage(String, Duration),
}

/// For status and lag.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Lanes owned.
    pub lanes: usize,
    /// Lanes in careful mode.
    pub careful: usize,
    /// Lanes waiting for missing entries.
    pub gaps: usize,
    /// Lanes stopped by a fork, a bound or the policy `halt`.
    pub stopped: usize,
    /// Events the stream has beyond my positions, at the last look.
    pub behind: u64,
    /// When the oldest event read and not applied occurred.
    pub oldest: Option<Timestamp>,
    /// The fingerprint that opened the breaker, while it is open.
    pub breaker: Option<String>,
    /// Totals since the start.
    pub counts: Counts,
    /// Ownership is known, nothing waits in my lanes and nothing is in flight.
    pub quiet: bool,
}

/// Entries in one apply while the breaker is open: one failure costs a key, so a few are enough to know. And while
/// events are taken one at a time: the rest would only be given back.
const TRY: usize = 8;

/// Entries in one apply after one with failures: more of them are likely, and each costs what stands before it again.
const SLOW: usize = 32;

type Flight = Vec<(LaneId, u64)>;

/// The machine.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)]
pub struct Machine {
    options: Options,
    own: Ownership,
    lanes: BTreeMap<LaneId, Lane>,
    known: BTreeSet<LaneId>,
    /// The consumer had no positions when this process first asked.
    new: Option<bool>,
    /// Where lanes that the stream had at the first look start; lanes met later are read from their first event.
    began: Option<BTreeMap<LaneId, Position>>,
    epoch: u64,
    reading: Option<Flight>,
    applying: Option<Flight>,
    asking: bool,
    locating: bool,
    discovering: Option<Vec<LaneId>>,
    moving: Option<Vec<(LaneId, EntryId)>>,
    incarnation: Option<Uuid>,
    more: bool,
    bell: bool,
    /// The stream rang before any lane was known.
    ask: bool,
    poll_at: Ticks,
    ask_at: Ticks,
    retry_at: Ticks,
    move_at: Ticks,
    pause_until: Ticks,
    failures: u32,
    /// Most entries in one apply: few after one with failures; doubles as they go well.
    pace: usize,
    breaker: Breaker,
    /// The last apply took events one at a time.
    doubtful: bool,
    owned: bool,
    asked: bool,
    registers: BTreeMap<LaneId, u64>,
    counts: Counts,
    stopping: bool,
    stopped: bool,
}

impl Machine {
    /// A consumer that owns nothing yet. `member` is drawn once per process start.
    pub fn new(options: Options, member: Nonce) -> Self {
        Self {
            own: Ownership::new(member, options.hold.clone()),
            options,
            lanes: BTreeMap::new(),
            known: BTreeSet::new(),
            new: None,
            began: None,
            epoch: 0,
            reading: None,
            applying: None,
            asking: false,
            locating: false,
            discovering: None,
            moving: None,
            incarnation: None,
            more: false,
            bell: true,
            ask: false,
            poll_at: Ticks::default(),
            ask_at: Ticks::default(),
            retry_at: Ticks::default(),
            move_at: Ticks::default(),
            pause_until: Ticks::from_micros(i64::MIN),
            failures: 0,
            pace: usize::MAX,
            breaker: Breaker::default(),
            doubtful: false,
            owned: false,
            asked: false,
            registers: BTreeMap::new(),
            counts: Counts::default(),
            stopping: false,
            stopped: false,
        }
    }

    /// For status.
    pub fn status(&self) -> Status {
        let count = |f: fn(&Lane) -> bool| self.lanes.values().filter(|l| f(l)).count();
        Status {
            lanes: self.lanes.len(),
            careful: count(Lane::careful),
            gaps: count(Lane::is_missing),
            stopped: count(Lane::is_stopped),
            behind: self.behind(),
            oldest: self.lanes.values().filter_map(Lane::oldest).min(),
            breaker: self.breaker.open().map(str::to_owned),
            counts: self.counts,
            quiet: self.quiet(),
        }
    }

    /// Lanes owned.
    pub fn lanes(&self) -> impl Iterator<Item = LaneId> {
        self.lanes.keys().copied()
    }

    /// The lane waits for entries that are missing, or for a person.
    pub fn is_stuck(&self, lane: LaneId) -> bool {
        let lane = self.lanes.get(&lane);
        lane.is_some_and(|lane| lane.is_missing() || lane.is_stopped())
    }

    /// Every lane of the stream, as last seen, has a position: otherwise nothing can be owned yet.
    pub fn knows_its_lanes(&self) -> bool {
        self.asked && self.registers.keys().all(|id| self.known.contains(id))
    }

    /// This worker's nonce.
    pub fn member(&self) -> Nonce {
        self.own.member()
    }

    fn behind(&self) -> u64 {
        let lane_behind = |(id, l): (&LaneId, &Lane)| {
            self.registers
                .get(id)
                .map_or(0, |n| n.saturating_sub(l.position.hw))
        };
        self.lanes.iter().map(lane_behind).sum()
    }

    fn quiet(&self) -> bool {
        let in_flight = self.reading.is_some() || self.applying.is_some() || self.discovering.is_some();
        let asking = self.asking || self.locating || self.own.asking();
        let waiting = self.bell || self.more || self.lanes.values().any(|l| l.ahead() > 0);
        // Registers read before the first hold tell of lanes that have no position yet.
        self.owned && self.knows_its_lanes() && !asking && !in_flight && !waiting && self.behind() == 0
    }

    /// Takes one input and says what to do.
    pub fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let mut out = Vec::new();
        if self.stopped {
            return out;
        }
        self.take(now.ticks, input, &mut out);
        for lane in self.own.expire(now.ticks) {
            self.drop_lane(lane, Note::Lost(lane), &mut out);
        }
        self.drive(now, &mut out);
        out
    }

    /// When to send [`Input::Tick`] at the latest.
    pub fn wake_at(&self) -> Option<Ticks> {
        if self.stopped {
            return None;
        }
        // What is in flight ends by its reply, not by the clock.
        let owns = !self.lanes.is_empty();
        let work = [
            (self.may_read(), self.poll_at),
            (!self.asking, self.ask_at),
            (owns && self.applying.is_none(), self.retry_at),
            (owns && self.moving.is_none(), self.move_at),
        ];
        let work = work
            .into_iter()
            .filter_map(|(waits, at)| waits.then_some(at))
            .min();
        let work = work.filter(|_| !self.stopping).map(|at| at.max(self.pause_until));
        self.own.wake_at().into_iter().chain(work).min()
    }

    /// No read is in flight, some lane can take entries, and there is room for them.
    fn may_read(&self) -> bool {
        let ahead: usize = self.lanes.values().map(Lane::ahead).sum();
        let live = self.lanes.values().any(|l| l.state == State::Live);
        self.reading.is_none() && live && ahead < self.options.batch_max as usize
    }

    fn take(&mut self, now: Ticks, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Tick => {}
            Input::Rung => {
                self.bell = true;
                self.ask = self.known.is_empty();
            }
            Input::Held(reply) => self.on_held(now, reply, out),
            Input::Registers(reply) => self.on_registers(now, reply, out),
            Input::Located(reply) => self.on_located(now, reply, out),
            Input::Discovered(reply) => self.on_discovered(now, reply, out),
            Input::Page(reply) => self.on_page(now, reply, out),
            Input::Applied(reply) => self.on_applied(now, reply, out),
            Input::Retried(reply) => self.on_retried(now, reply, out),
            Input::CursorsMoved(reply) => self.on_moved(&reply),
            Input::Stop => {
                self.stopping = true;
                self.own.stop(now);
            }
        }
    }

    /// Another incarnation: positions of the old one say nothing about where entries stand.
    fn incarnated(&mut self, incarnation: Uuid, out: &mut Vec<Effect>) {
        let before = self.incarnation.replace(incarnation);
        if before.is_some_and(|b| b != incarnation) {
            self.lanes.values_mut().for_each(|l| l.rewind(EntryId::START));
            self.bell = true;
            out.push(Effect::Note(Note::StreamRestarted));
        }
    }

    fn did(&mut self, counts: Counts, out: &mut Vec<Effect>) {
        if counts != Counts::default() {
            self.counts += counts;
            out.push(Effect::Note(Note::Did(counts)));
        }
    }

    fn watch(&mut self, now: Ticks, counts: Counts, failures: &[Failed], out: &mut Vec<Effect>) {
        let Some(trips) = self.breaker.watch(self.options.breaker_keys, counts, failures) else {
            return;
        };
        let pause = self.doubled(trips);
        self.pause_until = self.pause_until.max(now.after(pause));
        let fingerprint = self.breaker.open().unwrap_or_default().to_owned();
        out.push(Effect::Note(Note::Breaker(fingerprint, pause)));
    }

    fn rewind_all(&mut self, flight: &Flight) {
        for (id, _) in flight {
            if let Some(lane) = current(&mut self.lanes, flight, *id) {
                let cursor = lane.position.cursor;
                lane.rewind(cursor);
            }
        }
        self.bell = true;
    }

    fn drop_lane(&mut self, id: LaneId, note: Note, out: &mut Vec<Effect>) {
        if matches!(note, Note::Fenced(_)) {
            self.own.fenced(id);
        }
        if self.lanes.remove(&id).is_some() {
            out.push(Effect::Note(note));
        }
    }

    fn outage(&mut self, now: Ticks, error: &Error, out: &mut Vec<Effect>) {
        let pause = self.pause(now);
        out.push(Effect::Note(Note::Outage(error.to_string(), pause)));
    }

    /// A failure while a pause runs says nothing new: it neither doubles nor lengthens it.
    fn pause(&mut self, now: Ticks) -> Duration {
        if now < self.pause_until {
            return self.pause_until.since(now);
        }
        let pause = self.doubled(self.failures);
        self.failures += 1;
        self.pause_until = now.after(pause);
        pause
    }

    fn doubled(&self, times: u32) -> Duration {
        (self.options.backoff_min * 2u32.pow(times.min(16))).min(self.options.backoff_max)
    }
}

fn current<'a>(lanes: &'a mut BTreeMap<LaneId, Lane>, flight: &Flight, id: LaneId) -> Option<&'a mut Lane> {
    let epoch = flight.iter().find(|(lane, _)| *lane == id)?.1;
    lanes.get_mut(&id).filter(|l| l.epoch == epoch)
}

/// A start that passes over everything up to this number.
fn after(hw: u64, chain: Chain) -> Position {
    Position {
        hw,
        chain,
        ..Position::EARLIEST
    }
}

//! The consumer on tokio: performs the effects of [`tidegate_core::inbox::consumer`] over a stream and an inbox.

mod letters;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::inbox::Start;
use tidegate_core::inbox::consumer::{Effect, Input, Machine, Note, Options};
use tidegate_core::lease::Nonce;
use tidegate_core::store::{Applier, DeadLetterSink, DeadLetters, Doorbell, InboxStore, StreamStore};
use tidegate_core::time::Now;
use tidegate_core::{Error, Reply, Result, Ticks, Uuid};
use tokio::task::JoinSet;

use crate::crash_point;
use crate::metric::quietly;
use crate::stuck::Stuck;
use crate::worker::{self, State, Status, Trouble, Work, Worker};
use letters::{Desk, Route};

/// Applies a stream to a database.
pub struct Consumer {
    name: String,
    stream: Arc<dyn StreamStore>,
    inbox: Arc<dyn InboxStore>,
    applier: Arc<dyn Applier>,
    options: Options,
    route: Option<Route>,
}

impl Consumer {
    /// A consumer with default options. `start` has no default: each choice loses or repeats something for somebody.
    pub fn new(
        name: impl Into<String>,
        stream: Arc<dyn StreamStore>,
        inbox: Arc<dyn InboxStore>,
        applier: Arc<dyn Applier>,
        start: Start,
    ) -> Self {
        Self {
            name: name.into(),
            stream,
            inbox,
            applier,
            options: Options::new(start),
            route: None,
        }
    }

    /// Changes the options.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Brings the inbox's dead letters to a sink of yours: redacted copies, after the commit, each at least once.
    ///
    /// It happens beside the lanes: a sink that fails, panics or is silent for 30 s holds back nothing. It is offered the
    /// letters again after a pause of 1 s to 5 min. What it has taken is marked in the database, so that a restart goes
    /// on where it was. A sink that blocks its thread blocks a thread of the runtime: use `spawn_blocking` there.
    #[must_use]
    pub fn dead_letters(mut self, letters: Arc<dyn DeadLetters>, sink: Arc<dyn DeadLetterSink>) -> Self {
        self.route = Some(Route { letters, sink });
        self
    }

    /// The worker, not yet started.
    ///
    /// # Errors
    /// [`tidegate_core::Code::OptionsInvalid`] naming the option, the value and the limit.
    pub fn build(self) -> Result<Worker> {
        self.options.hold.validate()?;
        let Self {
            name,
            stream,
            inbox,
            applier,
            options,
            route,
        } = self;
        Ok(Worker::new(format!("consumer/{name}"), move |control| {
            let member = Nonce(Uuid::new_v4().as_u128());
            let desk = Arc::new(Desk::default());
            let (route, known_as) = (route.clone(), name.clone());
            let work = Consuming {
                desk: desk.clone(),
                stopping: false,
                machine: Machine::new(options.clone(), member),
                name: name.clone(),
                stream: stream.clone(),
                inbox: inbox.clone(),
                applier: applier.clone(),
                hold_limit: options.hold.attempt(),
                trouble: Trouble::default(),
                stuck: Stuck::default(),
            };
            async move {
                let work = worker::run(work, control.clone());
                match route {
                    Some(route) => letters::beside(work, route, known_as, desk, control).await,
                    None => work.await,
                }
            }
        }))
    }
}

/// A read or a small write that takes longer than this has no reply.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// A batch may run the user's code: an hour, then it is unknown and given again.
const APPLY_LIMIT: Duration = Duration::from_secs(3600);

struct Consuming {
    desk: Arc<Desk>,
    stopping: bool,
    machine: Machine,
    name: String,
    stream: Arc<dyn StreamStore>,
    inbox: Arc<dyn InboxStore>,
    applier: Arc<dyn Applier>,
    hold_limit: Duration,
    trouble: Trouble<Input>,
    stuck: Stuck,
}

impl Work for Consuming {
    type Input = Input;

    fn tick() -> Input {
        Input::Tick
    }

    fn rung() -> Input {
        Input::Rung
    }

    fn stop() -> Input {
        Input::Stop
    }

    fn step(&mut self, now: Now, input: Input, tasks: &mut JoinSet<Input>) -> bool {
        let kind = std::mem::discriminant(&input);
        let held = matches!(input, Input::Held(Reply::Done(_)));
        let news = match &input {
            Input::Applied(Reply::Done(applied)) => applied.counts.parked + applied.counts.skipped > 0,
            // An outcome that is unknown may stand, and a retry can be a key's last.
            Input::Applied(_) | Input::Retried(_) => true,
            _ => false,
        };
        self.stopping |= matches!(input, Input::Stop);
        for effect in self.machine.step(now, input) {
            match effect {
                Effect::Note(note) => self.note(&note),
                Effect::Stopped => return false,
                effect => self.perform(effect, tasks),
            }
        }
        // Letters of the lanes that a stop releases are still mine to finish.
        if held && !self.stopping {
            self.desk.own(self.machine.lanes().collect());
        } else if news {
            self.desk.ring();
        }
        let machine = &self.machine;
        self.stuck.keep(|lane| machine.is_stuck(lane));
        self.trouble.settle(
            kind,
            held && machine.knows_its_lanes() && machine.status().lanes == 0,
        );
        true
    }

    fn wake_at(&self) -> Option<Ticks> {
        self.machine.wake_at()
    }

    fn bell(&self) -> Arc<dyn Doorbell> {
        self.stream.clone()
    }

    fn status(&self, _: Now) -> Status {
        let status = self.machine.status();
        let state = match () {
            () if status.stopped > 0 => State::Halted,
            () if status.gaps > 0 => State::Gap,
            () if self.trouble.is_some() || status.breaker.is_some() => State::Paused,
            () if status.careful > 0 => State::Careful,
            () => State::Live,
        };
        Status {
            state,
            held: status.lanes,
            done: status.counts.applied,
            behind: status.behind,
            oldest: status.oldest,
            quiet: status.quiet,
            trouble: self
                .stuck
                .text(&format!("`tidegate consumer lag {}`", self.name))
                .or_else(|| status.breaker.as_deref().map(breaker))
                .or_else(|| self.trouble.text()),
        }
    }
}

impl Consuming {
    fn perform(&self, effect: Effect, tasks: &mut JoinSet<Input>) {
        let (stream, inbox, applier) = (self.stream.clone(), self.inbox.clone(), self.applier.clone());
        let hold_limit = self.hold_limit;
        match effect {
            Effect::Hold(hold) => tasks.spawn(async move {
                crash_point!("consumer.before_hold");
                let reply = worker::reply(hold_limit, inbox.hold(hold)).await;
                crash_point!("consumer.after_hold");
                Input::Held(reply)
            }),
            Effect::Registers => tasks
                .spawn(async move { Input::Registers(worker::reply(CALL_LIMIT, stream.registers()).await) }),
            Effect::Locate(time) => tasks
                .spawn(async move { Input::Located(worker::reply(CALL_LIMIT, stream.locate(time)).await) }),
            Effect::Discover(lanes) => tasks.spawn(async move {
                crash_point!("consumer.before_discover");
                let reply = worker::reply(CALL_LIMIT, inbox.register(lanes)).await;
                crash_point!("consumer.after_discover");
                Input::Discovered(reply)
            }),
            Effect::Read {
                after,
                lanes,
                limit,
                bytes_max,
            } => tasks.spawn(async move {
                crash_point!("consumer.before_read");
                let call = stream.read(after, Some(lanes), limit, bytes_max);
                let reply = worker::reply(CALL_LIMIT, call).await;
                crash_point!("consumer.after_read");
                Input::Page(reply)
            }),
            Effect::Apply(batch) => tasks.spawn(async move {
                crash_point!("consumer.before_apply");
                let reply = worker::reply(APPLY_LIMIT, applier.apply(batch)).await;
                crash_point!("consumer.after_apply");
                Input::Applied(reply)
            }),
            Effect::Retry(retry) => tasks.spawn(async move {
                crash_point!("consumer.before_retry");
                let reply = worker::reply(APPLY_LIMIT, applier.retry(retry)).await;
                crash_point!("consumer.after_retry");
                Input::Retried(reply)
            }),
            Effect::MoveCursors(cursors) => {
                let (name, member) = (self.name.clone(), self.machine.member());
                tasks.spawn(async move {
                    let call = async {
                        let moved = if cursors.is_empty() {
                            0
                        } else {
                            inbox.move_cursors(member, cursors).await?
                        };
                        crash_point!("consumer.before_publish_hold");
                        publish_hold(&name, &*inbox, &*stream).await?;
                        Ok::<u64, Error>(moved)
                    };
                    Input::CursorsMoved(worker::reply(CALL_LIMIT, call).await)
                })
            }
            Effect::Note(_) | Effect::Stopped => return,
        };
    }

    fn note(&mut self, note: &Note) {
        let labels = || ("consumer", self.name.clone());
        let count =
            |name: &'static str, by: u64| quietly(|| metrics::counter!(name, &[labels()]).increment(by));
        match note {
            Note::Did(counts) => {
                count("tidegate_consumer_applied_total", counts.applied);
                count("tidegate_consumer_duplicates_total", counts.duplicates);
                count("tidegate_consumer_parked_total", counts.parked);
                count("tidegate_consumer_queued_total", counts.queued);
                count("tidegate_consumer_skipped_total", counts.skipped);
                count("tidegate_consumer_unparked_total", counts.unparked);
                if counts.parked > 0 {
                    tracing::warn!(consumer = %self.name, keys = counts.parked, "keys parked; see `tidegate dead-letter ls`");
                }
            }
            Note::Gained(lane, token, position) => {
                count("tidegate_consumer_lanes_gained_total", 1);
                tracing::debug!(consumer = %self.name, %lane, %token, hw = position.hw, clean = position.clean, "lane gained");
            }
            Note::Lost(lane) => {
                count("tidegate_consumer_lanes_lost_total", 1);
                tracing::debug!(consumer = %self.name, %lane, "lane given up");
            }
            Note::Fenced(lane) => {
                count("tidegate_consumer_fenced_total", 1);
                tracing::warn!(consumer = %self.name, %lane, "fenced: another consumer owns the lane");
            }
            Note::Gap { lane, hw, next } => {
                count("tidegate_consumer_gaps_total", 1);
                self.stuck.note(
                    *lane,
                    format!("TG0031 numbers after {hw} and before {next} are missing"),
                );
                tracing::error!(consumer = %self.name, %lane, hw, next, code = "TG0031", "entries are missing; waiting for a refill");
            }
            Note::Forked(lane, n) => {
                count("tidegate_consumer_forks_total", 1);
                self.stuck
                    .note(*lane, format!("TG0030 two histories share number {n}"));
                tracing::error!(consumer = %self.name, %lane, n, code = "TG0030", "lane stopped: two histories share a number");
            }
            Note::Halted(lane, reason) => {
                count("tidegate_consumer_halts_total", 1);
                self.stuck.note(*lane, reason.clone());
                tracing::error!(consumer = %self.name, %lane, %reason, "lane halted until a person acts");
            }
            Note::StreamRestarted => {
                count("tidegate_consumer_stream_restarts_total", 1);
                tracing::warn!(consumer = %self.name, "the stream is shorter than it was; reading from the beginning");
            }
            Note::Breaker(fingerprint, pause) => {
                count("tidegate_consumer_breaker_total", 1);
                tracing::error!(consumer = %self.name, %fingerprint, ?pause, "many keys fail for one reason; pausing");
            }
            Note::Outage(error, pause) => {
                count("tidegate_consumer_outages_total", 1);
                tracing::warn!(consumer = %self.name, %error, ?pause, "outage; nothing is blamed");
                self.trouble.note(error.clone());
            }
        }
    }
}

fn breaker(fingerprint: &str) -> String {
    format!("breaker: many keys fail with {fingerprint}")
}

/// Tells the stream that nothing after the lowest cursor may be trimmed.
async fn publish_hold(name: &str, inbox: &dyn InboxStore, stream: &dyn StreamStore) -> Result<()> {
    let lowest = inbox.positions().await?.into_iter().map(|(_, p)| p.cursor).min();
    match lowest {
        Some(cursor) => stream.publish_hold(name.to_owned(), cursor).await,
        None => Ok(()),
    }
}

//! The relay on tokio: performs the effects of [`tidegate_core::outbox::relay`] over a store and a sink.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::lease::Nonce;
use tidegate_core::outbox::relay::{Effect, Input, Machine, Note, Options};
use tidegate_core::store::{Doorbell, OutboxStore, Sink};
use tidegate_core::time::Now;
use tidegate_core::{Reply, Ticks, Uuid};
use tokio::task::JoinSet;

use crate::crash_point;
use crate::metric::quietly;
use crate::stuck::Stuck;
use crate::worker::{self, State, Status, Trouble, Work, Worker};

/// Publishes an outbox to a sink.
pub struct Relay {
    name: String,
    outbox: Arc<dyn OutboxStore>,
    sink: Arc<dyn Sink>,
    options: Options,
}

impl Relay {
    /// A relay with default options. `name` is for people and metrics.
    pub fn new(name: impl Into<String>, outbox: Arc<dyn OutboxStore>, sink: Arc<dyn Sink>) -> Self {
        Self {
            name: name.into(),
            outbox,
            sink,
            options: Options::default(),
        }
    }

    /// Replaces the options.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The worker, not yet started.
    ///
    /// # Errors
    /// [`tidegate_core::Code::OptionsInvalid`] naming the option, the value and the limit.
    pub fn build(self) -> tidegate_core::Result<Worker> {
        self.options.hold.validate()?;
        let Self {
            name,
            outbox,
            sink,
            options,
        } = self;
        tracing::info!(relay = %name, guarantee = sink.capabilities().guarantee(), "relay configured");
        Ok(Worker::new(format!("relay/{name}"), move |control| {
            let member = Nonce(Uuid::new_v4().as_u128());
            let work = Relaying {
                machine: Machine::new(options.clone(), member),
                name: name.clone(),
                outbox: outbox.clone(),
                sink: sink.clone(),
                limit: options.hold.attempt().max(Duration::from_secs(1)) * 10,
                hold_limit: options.hold.attempt(),
                trouble: Trouble::default(),
                stuck: Stuck::default(),
            };
            worker::run(work, control)
        }))
    }
}

struct Relaying {
    machine: Machine,
    name: String,
    outbox: Arc<dyn OutboxStore>,
    sink: Arc<dyn Sink>,
    limit: Duration,
    hold_limit: Duration,
    trouble: Trouble<Input>,
    stuck: Stuck,
}

impl Work for Relaying {
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
        for effect in self.machine.step(now.ticks, input) {
            match effect {
                Effect::Note(note) => self.note(&note),
                Effect::Stopped => return false,
                effect => self.perform(effect, tasks),
            }
        }
        let machine = &self.machine;
        self.stuck.keep(|lane| machine.is_stuck(lane));
        self.trouble
            .settle(kind, held && self.machine.status().lanes == 0);
        true
    }

    fn wake_at(&self) -> Option<Ticks> {
        self.machine.wake_at()
    }

    fn bell(&self) -> Arc<dyn Doorbell> {
        self.outbox.clone()
    }

    fn status(&self, _: Now) -> Status {
        let status = self.machine.status();
        let state = match () {
            () if status.forked > 0 => State::Halted,
            () if self.trouble.is_some() => State::Paused,
            () => State::Live,
        };
        Status {
            state,
            held: status.lanes,
            done: status.published,
            behind: status.unacknowledged as u64,
            oldest: None,
            quiet: status.quiet,
            trouble: self
                .stuck
                .text("`tidegate explain TG0030`")
                .or_else(|| self.trouble.text()),
        }
    }
}

impl Relaying {
    fn perform(&self, effect: Effect, tasks: &mut JoinSet<Input>) {
        let (outbox, sink, limit, hold_limit) = (
            self.outbox.clone(),
            self.sink.clone(),
            self.limit,
            self.hold_limit,
        );
        match effect {
            Effect::Hold(hold) => tasks.spawn(async move {
                crash_point!("relay.before_hold");
                let reply = worker::reply(hold_limit, outbox.hold(hold)).await;
                crash_point!("relay.after_hold");
                Input::Held(reply)
            }),
            Effect::Turn(turn) => tasks.spawn(async move {
                crash_point!("relay.before_turn");
                let reply = worker::reply(limit, outbox.turn(turn)).await;
                crash_point!("relay.after_turn");
                Input::Turned(reply)
            }),
            Effect::Append(lanes) => tasks.spawn(async move {
                crash_point!("relay.before_append");
                let reply = worker::reply(limit, sink.append(lanes)).await;
                crash_point!("relay.after_append");
                Input::Appended(reply)
            }),
            Effect::Register(lanes) => tasks.spawn(async move {
                crash_point!("relay.before_register");
                let reply = worker::reply(limit, sink.register(lanes)).await;
                crash_point!("relay.after_register");
                Input::Registered(reply)
            }),
            Effect::Refill {
                lane,
                token,
                from,
                limit: most,
            } => {
                let member = self.machine.member();
                tasks.spawn(async move {
                    crash_point!("relay.before_refill");
                    let call = outbox.refill(member, lane, token, from, most);
                    let reply = worker::reply(limit, call).await;
                    crash_point!("relay.after_refill");
                    Input::Refilled(reply)
                })
            }
            Effect::Park(park) => tasks.spawn(async move {
                crash_point!("relay.before_park");
                let reply = worker::reply(limit, outbox.park(park)).await;
                crash_point!("relay.after_park");
                Input::Parked(reply)
            }),
            Effect::Declare(lost, token) => tasks.spawn(async move {
                Input::Declared(worker::reply(limit, sink.declare_lost(lost, token)).await)
            }),
            Effect::Note(_) | Effect::Stopped => return,
        };
    }

    fn note(&mut self, note: &Note) {
        let relay = || ("relay", self.name.clone());
        let count =
            |name: &'static str, by: u64| quietly(|| metrics::counter!(name, &[relay()]).increment(by));
        match note {
            Note::Published(n) => {
                count("tidegate_relay_published_total", *n);
            }
            Note::Gained(lane, token, unfinished) => {
                count("tidegate_relay_lanes_gained_total", 1);
                tracing::debug!(relay = %self.name, %lane, %token, unfinished, "lane gained");
            }
            Note::Lost(lane) => {
                count("tidegate_relay_lanes_lost_total", 1);
                tracing::debug!(relay = %self.name, %lane, "lane given up");
            }
            Note::Fenced(lane) => {
                count("tidegate_relay_fenced_total", 1);
                tracing::warn!(relay = %self.name, %lane, "fenced: another relay owns the lane");
            }
            Note::AlreadyThere(n) => count("tidegate_relay_already_there_total", *n),
            Note::StreamLost {
                lane,
                register,
                settled,
            } => {
                count("tidegate_relay_stream_losses_total", 1);
                tracing::warn!(relay = %self.name, %lane, register, settled, "the stream lost entries; refilling");
            }
            Note::Refilled(_, n) => count("tidegate_relay_refilled_total", *n),
            Note::DeclaredLost(lost) => {
                count("tidegate_relay_declared_lost_total", lost.through - lost.from + 1);
                tracing::error!(relay = %self.name, lane = %lost.lane, from = lost.from, through = lost.through,
                    "events are gone: the stream lost them and no archive holds them");
            }
            Note::Parked(lane, voided) => {
                count("tidegate_relay_parked_total", 1);
                tracing::warn!(relay = %self.name, %lane, voided, "the sink can never take an event; its key is parked");
            }
            Note::Forked(lane, n) => {
                count("tidegate_relay_forks_total", 1);
                self.stuck
                    .note(*lane, format!("TG0030 two histories share number {n}"));
                tracing::error!(relay = %self.name, %lane, n, code = "TG0030", "lane stopped: two histories share a number");
            }
            Note::Outage(error, pause) => {
                count("tidegate_relay_outages_total", 1);
                tracing::warn!(relay = %self.name, %error, ?pause, "outage; nothing is written");
                self.trouble.note(error.clone());
            }
        }
    }
}

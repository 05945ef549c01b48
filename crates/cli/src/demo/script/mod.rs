//! The story, in order: what is started, what is killed, what is lost, what is redriven.

mod faults;
mod poison;
mod wait;

use std::time::Duration;

use rusqlite::{Connection, params};
use rustix::process::Signal;
use tidegate::Result;

use self::faults::{CONSUMER_KILLED, Fault, RELAY_KILLED, RELAY_STOPPED};
pub use self::faults::{Strike, lose_tail};
pub use self::wait::Stop;
use super::data::Record;
use super::interrupt::Interrupt;
use super::process::Process;
use super::producer::Producer;
use super::progress::Progress;
use super::stage::Stage;
use super::{count, sql};
use crate::text::counted;

/// The service commits its records over about this long.
const SPREAD: Duration = Duration::from_secs(9);
/// The stream loses one in so many entries of all.
const LOSS: u64 = 20;

/// What no database can know: which processes a signal ended or stopped, and with which status others exited.
#[derive(Debug, Default)]
pub struct Played {
    /// Workers whose wait status is SIGKILL.
    pub killed: Vec<Strike>,
    /// The worker that was stopped for longer than its leases and woke up.
    pub woken: Option<Strike>,
    /// Workers that were asked to drain, and whether each exited with 0.
    pub drained: Vec<(String, bool)>,
}

/// What a play needs.
pub struct Cast<'a> {
    /// Where it happens.
    pub stage: &'a Stage,
    /// Who may end it.
    pub interrupt: &'a Interrupt,
    /// Who hears of it.
    pub progress: &'a mut Progress,
    /// Decides what rolls back and what is refused.
    pub seed: u64,
    /// How long it waits while nothing moves.
    pub patience: Duration,
}

struct Play<'a> {
    stage: &'a Stage,
    interrupt: &'a Interrupt,
    progress: &'a mut Progress,
    patience: Duration,
    target: Connection,
    producer: Option<Producer>,
    total: u64,
    poisoned: String,
    workers: Vec<Process>,
    armed: Option<&'static Fault>,
    draining: bool,
    played: Played,
}

/// Plays the story, to its end unless something stops it. No worker runs afterwards.
pub fn play(cast: Cast<'_>, records: Vec<Record>) -> (Played, Result<(), Stop>) {
    let seed = cast.seed;
    match Play::new(cast, &records) {
        Err(error) => (Played::default(), Err(error.into())),
        Ok(mut play) => {
            let ended = play.story(records, seed);
            (std::mem::take(&mut play.played), ended)
        }
    }
}

impl<'a> Play<'a> {
    fn new(cast: Cast<'a>, records: &[Record]) -> Result<Self> {
        let Cast {
            stage,
            interrupt,
            progress,
            seed,
            patience,
        } = cast;
        let target = stage.connect_target()?;
        let poisoned = poison::arm(&target, records, seed)?;
        Ok(Self {
            stage,
            interrupt,
            progress,
            patience,
            target,
            producer: None,
            total: records.len() as u64,
            poisoned,
            workers: Vec::new(),
            armed: None,
            draining: false,
            played: Played::default(),
        })
    }

    fn story(&mut self, records: Vec<Record>, seed: u64) -> Result<(), Stop> {
        self.start_workers()?;
        self.producer = Some(Producer::start(self.stage, records, seed, SPREAD)?);
        self.allow(15);
        self.wait("the first events to arrive", |p| Ok(p.arrived()? >= p.total / 10))?;
        self.kill_a_relay()?;
        self.kill_a_consumer()?;
        self.key_parked()?;
        self.relay_sleeps()?;
        self.stream_loses_its_tail()?;
        self.service_finishes()?;
        self.redrive()?;
        self.wait("every event to be applied", |p| Ok(p.applied()? >= p.total))?;
        self.refilled()?;
        self.drain()
    }

    fn start_workers(&mut self) -> Result<()> {
        for name in ["relay-1", "relay-2", "relay-3"] {
            self.start("relay", name, &[&RELAY_KILLED, &RELAY_STOPPED])?;
        }
        for name in ["consumer-1", "consumer-2"] {
            self.start("consumer", name, &[&CONSUMER_KILLED])?;
        }
        self.progress
            .say("three relays and two consumers started, 64 lanes, leases of 2 s");
        Ok(())
    }

    fn kill_a_relay(&mut self) -> Result<(), Stop> {
        self.arm(&RELAY_KILLED)?;
        self.allow(25);
        let strike = self.strike(&RELAY_KILLED)?;
        self.tell_kill(&strike, "in mid-batch: appended, not yet settled");
        Ok(())
    }

    fn kill_a_consumer(&mut self) -> Result<(), Stop> {
        self.arm(&CONSUMER_KILLED)?;
        self.allow(35);
        let strike = self.strike(&CONSUMER_KILLED)?;
        self.tell_kill(&strike, "between commit and acknowledgement");
        Ok(self.start("consumer", "consumer-3", &[])?)
    }

    fn tell_kill(&mut self, strike: &Strike, moment: &str) {
        self.bury(strike);
        let moment = if strike.at_point {
            moment
        } else {
            "from outside: no worker came to the point where it should end"
        };
        self.progress
            .say(&format!("{} killed -9 {moment}", strike.worker));
        self.played.killed.push(strike.clone());
    }

    fn key_parked(&mut self) -> Result<(), Stop> {
        self.wait("the poisoned key to be parked", |p| p.is_parked())?;
        let line = format!(
            "one event of {} is refused: its key is parked",
            self.poisoned_key()
        );
        self.progress.say(&line);
        Ok(())
    }

    /// A relay that sleeps longer than its leases still holds a planned batch when it wakes up.
    fn relay_sleeps(&mut self) -> Result<(), Stop> {
        let strike = self.stop_a_relay(55)?;
        let name = &strike.worker;
        let moment = if strike.at_point {
            "just before an append"
        } else {
            "at any moment"
        };
        self.progress.say(&format!("{name} stopped (SIGSTOP) {moment}"));
        self.wait("its lanes to be taken over", |p| p.owns_nothing(name))?;
        self.wake(&strike)?;
        self.armed = None;
        self.progress.say(&format!(
            "its lanes have new owners; {name} continues (SIGCONT) and tries to append"
        ));
        self.played.woken = Some(strike);
        Ok(())
    }

    fn stream_loses_its_tail(&mut self) -> Result<(), Stop> {
        self.allow(80);
        self.wait("most records to be committed", |p| {
            Ok(p.committed() * 10 >= p.total * 7)
        })?;
        let lost = lose_tail(&mut self.stage.connect_stream()?, self.total / LOSS)?;
        self.progress
            .say(&format!("the stream loses its last {lost} entries"));
        Ok(())
    }

    fn service_finishes(&mut self) -> Result<(), Stop> {
        self.allow(100);
        self.wait("the service to finish", |p| match &mut p.producer {
            Some(producer) => producer.ended(),
            None => Ok(true),
        })?;
        self.progress.say("the service has committed everything");
        Ok(())
    }

    fn redrive(&mut self) -> Result<(), Stop> {
        self.wait("every other key to be applied", |p| Ok(p.arrived()? >= p.total))?;
        self.target.execute_batch("drop trigger refuse").map_err(sql)?;
        let redriven = counted(super::worker::redrive(self.stage, &self.poisoned)?, "event");
        let line = format!(
            "the cause is fixed; {} redriven: {redriven} in order",
            self.poisoned_key()
        );
        self.progress.say(&line);
        Ok(())
    }

    fn refilled(&mut self) -> Result<(), Stop> {
        let stream = self.stage.connect_stream()?;
        self.wait("the stream to be refilled", |_| {
            Ok(count(&stream, include_str!("missing.sql"), [])? == 0)
        })?;
        self.progress
            .say("the stream holds again what it lost, in the same numbers");
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Stop> {
        self.draining = true;
        for worker in &self.workers {
            worker.signal(Signal::TERM);
        }
        self.wait("every worker to drain", |p| {
            Ok(p.workers.iter_mut().all(Process::ended))
        })?;
        for worker in &mut self.workers {
            let clean = worker.status().is_some_and(|status| status.success());
            self.played.drained.push((worker.name().to_owned(), clean));
        }
        self.progress.say("SIGTERM: every worker drained and exited");
        Ok(())
    }

    /// Lets the service commit up to this part of the records.
    fn allow(&self, percent: u64) {
        let records = if percent >= 100 {
            u64::MAX
        } else {
            self.total * percent / 100
        };
        if let Some(producer) = &self.producer {
            producer.allow(records);
        }
    }

    fn committed(&self) -> u64 {
        self.producer.as_ref().map_or(0, Producer::committed)
    }

    fn arrived(&self) -> Result<u64> {
        count(&self.target, include_str!("arrived.sql"), [])
    }

    fn applied(&self) -> Result<u64> {
        count(&self.target, "select count(*) from applied", [])
    }

    fn is_parked(&self) -> Result<bool> {
        let query = "select count(*) from tidegate_inbox_parked where key = ?1";
        Ok(count(&self.target, query, [&self.poisoned])? > 0)
    }

    fn poisoned_key(&self) -> &str {
        self.poisoned.trim_start_matches("k:")
    }

    fn owns_nothing(&self, label: &str) -> Result<bool> {
        let service = self.stage.connect_service()?;
        let query = "select count(*) from tidegate_lane where label = ?1 and owner is not null";
        Ok(count(&service, query, params![label])? == 0)
    }
}

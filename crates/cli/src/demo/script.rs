//! The story, in order: what is started, what is killed, what is lost, what is redriven.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, params};
use rustix::process::Signal;
use tidegate::{Code, Error, Result};

use super::data::Record;
use super::process::Process;
use super::producer::Producer;
use super::progress::Progress;
use super::stage::Stage;
use super::{count, io, sql};

/// The service commits its records over about this long.
const SPREAD: Duration = Duration::from_secs(9);
/// Nothing in the demo waits longer than this.
const PATIENCE: Duration = Duration::from_secs(30);
/// A worker that has not met its armed fault by then meets it from outside.
const FUSE: Duration = Duration::from_secs(5);
/// Entries that the stream loses.
const LOSS: u32 = 150;

/// What the script did and saw, beside what the databases hold.
#[derive(Debug, Default)]
pub struct Played {
    /// `(lane's register id, n)` of the entries that the stream lost.
    pub lost_entries: Vec<(i64, i64)>,
    /// Workers that ended by SIGKILL.
    pub killed: u64,
    /// Workers that were stopped for longer than their leases and woke up.
    pub zombies: u64,
    /// Workers that drained within the bound and exited with 0.
    pub drained_cleanly: u64,
    /// Workers that were asked to drain.
    pub drained: u64,
    /// The key that was parked, and how many events had to wait behind its head.
    pub parked: Option<(String, u64)>,
    /// Events of other keys applied while the key was parked.
    pub flowed_meanwhile: u64,
}

struct Play<'a> {
    stage: &'a Stage,
    progress: &'a mut Progress,
    target: Connection,
    workers: Vec<Process>,
    played: Played,
}

/// Plays the story to its end.
pub fn play(stage: &Stage, records: Vec<Record>, seed: u64, progress: &mut Progress) -> Result<Played> {
    let total = records.len() as u64;
    let target = stage.connect_target()?;
    arm_poison(&target, &records, seed)?;
    let mut play = Play {
        stage,
        progress,
        target,
        workers: Vec::new(),
        played: Played::default(),
    };
    play.start_workers()?;
    let producer = Producer::start(stage, records, seed, SPREAD)?;
    let percent = |part: u64| producer.allow(total * part / 100);
    percent(15);
    play.wait("the first events to be applied", |p| {
        Ok(p.applied()? >= total / 10)
    })?;
    play.arm("relay-1")?;
    percent(25);
    play.relay_killed()?;
    play.arm("consumer-1")?;
    percent(35);
    play.consumer_killed()?;
    play.key_parked()?;
    play.arm("relay-2")?;
    percent(55);
    play.zombie_woken()?;
    percent(80);
    play.stream_loses_its_tail(&producer, total)?;
    producer.allow(u64::MAX);
    play.wait("the service to finish", |_| Ok(producer.ended()))?;
    producer.join()?;
    play.progress.say("the service has committed everything");
    play.redrive(total)?;
    play.wait("every event to be applied", |p| Ok(p.applied()? >= total))?;
    play.refilled()?;
    play.drain();
    Ok(play.played)
}

/// A constraint in the target database refuses one event in the middle of a key with several.
fn arm_poison(target: &Connection, records: &[Record], seed: u64) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x706f_6973_6f6e);
    let first_quarter = &records[..(records.len() / 4).max(1)];
    let followers = |r: &Record| {
        records
            .iter()
            .filter(|o| o.key == r.key && o.line > r.line)
            .count()
    };
    let busy: Vec<_> = first_quarter.iter().filter(|r| followers(r) >= 2).collect();
    let chosen = random.choice(busy).or(records.first());
    let line = chosen.map_or(1, |r| r.line);
    let trigger = format!(
        "create trigger refuse before insert on applied when new.line = {line}
         begin select raise(abort, 'the demo refuses this record'); end"
    );
    target.execute_batch(&trigger).map_err(sql)
}

impl Play<'_> {
    fn start_workers(&mut self) -> Result<()> {
        let faults = [
            (
                "relay",
                "relay-1",
                Some(("TIDEGATE_CRASH_AT", "relay.after_append")),
            ),
            (
                "relay",
                "relay-2",
                Some(("TIDEGATE_STOP_AT", "relay.before_append")),
            ),
            ("relay", "relay-3", None),
            (
                "consumer",
                "consumer-1",
                Some(("TIDEGATE_CRASH_AT", "consumer.after_apply")),
            ),
            ("consumer", "consumer-2", None),
        ];
        for (role, name, fault) in faults {
            let armed =
                fault.map(|(variable, point)| (variable, format!("{point}@{}", self.fuse(name).display())));
            let armed = armed.as_ref().map(|(variable, at)| (*variable, at.as_str()));
            self.workers.push(Process::start(self.stage, role, name, armed)?);
        }
        self.progress
            .say("three relays and two consumers started, 64 lanes, leases of 2 s");
        Ok(())
    }

    /// The file whose making lets a worker's fault happen at the next pass of its point.
    fn fuse(&self, name: &str) -> PathBuf {
        self.stage.dir.join(format!("{name}.fuse"))
    }

    fn arm(&self, name: &str) -> Result<()> {
        std::fs::write(self.fuse(name), "").map_err(|e| io("arming a fault", e))
    }

    fn die(&mut self, name: &str) -> Result<()> {
        self.unless(name, Signal::KILL, Process::ended)
    }

    /// Waits for a worker's armed fault. With few keys it may own no lane that has work: then the fault comes from
    /// outside, at any moment.
    fn unless(&mut self, name: &str, signal: Signal, state: fn(&mut Process) -> bool) -> Result<()> {
        let given_up = Instant::now() + FUSE;
        self.wait(name, |p| {
            let Some(worker) = p.worker(name) else {
                return Ok(true);
            };
            if Instant::now() > given_up {
                worker.signal(signal);
            }
            Ok(state(worker))
        })
    }

    fn relay_killed(&mut self) -> Result<()> {
        self.die("relay-1")?;
        self.played.killed += 1;
        self.progress
            .say("relay-1 killed -9 in mid-batch: appended, not yet settled");
        Ok(())
    }

    fn consumer_killed(&mut self) -> Result<()> {
        self.die("consumer-1")?;
        self.played.killed += 1;
        self.progress
            .say("consumer-1 killed -9 between commit and acknowledgement");
        self.workers
            .push(Process::start(self.stage, "consumer", "consumer-3", None)?);
        Ok(())
    }

    fn key_parked(&mut self) -> Result<()> {
        self.wait("the poisoned key to be parked", |p| Ok(p.parked_key()?.is_some()))?;
        if let Some(key) = self.parked_key()? {
            self.progress.say(&format!(
                "one event of {} is refused: its key is parked, others flow",
                key.trim_start_matches("k:")
            ));
            self.played.parked = Some((key, 0));
            self.played.flowed_meanwhile = self.applied()?;
        }
        Ok(())
    }

    /// A relay that sleeps longer than its leases still holds a planned batch when it wakes up.
    fn zombie_woken(&mut self) -> Result<()> {
        self.unless("relay-2", Signal::STOP, |w| w.stopped())?;
        self.progress
            .say("relay-2 stopped (SIGSTOP) just before an append");
        self.wait("relay-2's lanes to be taken over", |p| p.owns_nothing("relay-2"))?;
        if let Some(zombie) = self.worker("relay-2") {
            zombie.signal(Signal::CONT);
            self.played.zombies += 1;
        }
        self.progress
            .say("its lanes have new owners; relay-2 continues (SIGCONT) and tries to append");
        Ok(())
    }

    fn stream_loses_its_tail(&mut self, producer: &Producer, total: u64) -> Result<()> {
        self.wait("most records to be committed", |_| {
            Ok(producer.committed() * 10 >= total * 7)
        })?;
        let mut stream = self.stage.connect_stream()?;
        self.played.lost_entries = lose_tail(&mut stream, LOSS)?;
        let count = self.played.lost_entries.len();
        self.progress
            .say(&format!("the stream loses its last {count} entries"));
        Ok(())
    }

    fn redrive(&mut self, total: u64) -> Result<()> {
        let Some((key, _)) = self.played.parked.clone() else {
            return Ok(());
        };
        self.wait("every other key to be applied", |p| {
            Ok(p.applied()? + p.waiting()? >= total)
        })?;
        self.played.flowed_meanwhile = self.applied()?.saturating_sub(self.played.flowed_meanwhile);
        let waiting = self.waiting()?;
        self.played.parked = Some((key.clone(), waiting));
        self.target.execute_batch("drop trigger refuse").map_err(sql)?;
        let redriven = super::worker::redrive(self.stage, &key)?;
        self.progress.say(&format!(
            "the cause is fixed; {} redriven: {redriven} events in order",
            key.trim_start_matches("k:")
        ));
        Ok(())
    }

    fn refilled(&mut self) -> Result<()> {
        let stream = self.stage.connect_stream()?;
        let lost = self.played.lost_entries.clone();
        self.wait("the stream to be refilled", |_| {
            Ok(present(&stream, &lost)? == lost.len() as u64)
        })?;
        self.progress
            .say("the stream holds again what it lost, in the same numbers");
        Ok(())
    }

    fn drain(&mut self) {
        let mut alive: Vec<_> = std::mem::take(&mut self.workers);
        alive.retain_mut(|w| !w.ended());
        for worker in &alive {
            worker.signal(Signal::TERM);
        }
        for mut worker in alive {
            self.played.drained += 1;
            let clean = worker.wait(Duration::from_secs(5)).is_some_and(|s| s.success());
            self.played.drained_cleanly += u64::from(clean);
        }
        self.progress.say("SIGTERM: every worker drained and exited");
    }

    fn worker(&mut self, name: &str) -> Option<&mut Process> {
        self.workers.iter_mut().find(|w| w.name() == name)
    }

    fn applied(&self) -> Result<u64> {
        count(&self.target, "select count(*) from applied", [])
    }

    fn waiting(&self) -> Result<u64> {
        let query = "select count(*) from tidegate_inbox_parked_event";
        count(&self.target, query, [])
    }

    fn parked_key(&self) -> Result<Option<String>> {
        let query = "select key from tidegate_inbox_parked limit 1";
        self.target
            .query_row(query, [], |r| r.get(0))
            .optional()
            .map_err(sql)
    }

    fn owns_nothing(&self, label: &str) -> Result<bool> {
        let service = self.stage.connect_service()?;
        let query = "select count(*) from tidegate_lane where label = ?1 and owner is not null";
        Ok(count(&service, query, [label])? == 0)
    }

    /// Polls, and shows progress meanwhile. A worker that ended by itself is named.
    fn wait(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !done(self)? {
            if Instant::now() > deadline {
                let context = format!("waited {PATIENCE:?} for {what}; see the logs with --keep DIR");
                return Err(Error::new(Code::WorkerStopped, context));
            }
            let applied = self.applied()?;
            self.progress.at(applied);
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// What a failover to a lagging copy does: the newest entries are gone and the registers are back.
pub fn lose_tail(stream: &mut Connection, count: u32) -> Result<Vec<(i64, i64)>> {
    let tx = stream
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(sql)?;
    let lost = {
        let query = "select register, n from tidegate_entry order by id desc limit ?1";
        let mut statement = tx.prepare(query).map_err(sql)?;
        let rows = statement
            .query_map([count], |r| Ok((r.get(0)?, r.get(1)?)))
            .map_err(sql)?;
        rows.collect::<Result<Vec<(i64, i64)>, _>>().map_err(sql)?
    };
    for (register, n) in &lost {
        let delete = "delete from tidegate_entry where register = ?1 and n = ?2";
        tx.execute(delete, params![register, n]).map_err(sql)?;
    }
    tx.execute_batch(include_str!("lose_tail.sql")).map_err(sql)?;
    tx.commit().map_err(sql)?;
    Ok(lost)
}

/// How many of these entries the stream holds.
pub fn present(stream: &Connection, entries: &[(i64, i64)]) -> Result<u64> {
    let query = "select count(*) from tidegate_entry where register = ?1 and n = ?2";
    let mut present = 0;
    for (register, n) in entries {
        present += count(stream, query, params![register, n])?;
    }
    Ok(present)
}

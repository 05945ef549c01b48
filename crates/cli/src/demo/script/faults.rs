//! The faults: where each strikes, and whom it struck.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};
use rustix::process::Signal;
use tidegate::{Code, Error, Result};

use super::super::process::Process;
use super::super::{io, sql};
use super::wait::Patience;
use super::{Play, Stop};

/// When nothing moved for so long and no worker met its armed fault, one meets it from outside.
const FUSE: Duration = Duration::from_secs(10);
/// A relay that stops while it holds a database's write lock is woken and stopped again, at most so often.
const STOPS_MAX: u64 = 10;
/// Longer than any transaction of the demo.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// A fault that strikes one worker of a role at a point of its code: the first that passes it once the fuse is there,
/// which it takes away.
#[derive(Debug)]
pub(super) struct Fault {
    name: &'static str,
    role: &'static str,
    variable: &'static str,
    point: &'static str,
    signal: Signal,
    struck: fn(&mut Process) -> bool,
}

/// A relay ends between append and settle.
pub(super) const RELAY_KILLED: Fault = Fault {
    name: "relay-kill",
    role: "relay",
    variable: "TIDEGATE_CRASH_AT",
    point: "relay.after_append",
    signal: Signal::KILL,
    struck: Process::killed,
};
/// A relay sleeps with a batch in hand.
pub(super) const RELAY_STOPPED: Fault = Fault {
    name: "relay-stop",
    role: "relay",
    variable: "TIDEGATE_STOP_AT",
    point: "relay.before_append",
    signal: Signal::STOP,
    struck: Process::stopped,
};
/// A consumer ends between commit and acknowledgement.
pub(super) const CONSUMER_KILLED: Fault = Fault {
    name: "consumer-kill",
    role: "consumer",
    variable: "TIDEGATE_CRASH_AT",
    point: "consumer.after_apply",
    signal: Signal::KILL,
    struck: Process::killed,
};

/// What a fault did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strike {
    /// Which worker it struck.
    pub worker: String,
    /// It struck at its point; else from outside, at any moment, since no worker passed the point in time.
    pub at_point: bool,
}

impl Play<'_> {
    /// Starts a worker in which the faults of its role can strike.
    pub(super) fn start(&mut self, role: &str, name: &str, faults: &[&Fault]) -> Result<()> {
        let at = |fault: &&Fault| format!("{}@{}", fault.point, self.fuse(fault).display());
        let points: Vec<_> = faults.iter().map(at).collect();
        let variables: Vec<_> = faults
            .iter()
            .zip(&points)
            .map(|(f, at)| (f.variable, &**at))
            .collect();
        self.workers
            .push(Process::start(self.stage, role, name, &variables)?);
        Ok(())
    }

    fn fuse(&self, fault: &Fault) -> PathBuf {
        self.stage.dir.join(format!("{}.fuse", fault.name))
    }

    /// Lets a fault strike.
    pub(super) fn arm(&mut self, fault: &'static Fault) -> Result<()> {
        self.armed = Some(fault);
        fs::write(self.fuse(fault), "").map_err(|e| io("arming a fault", e))
    }

    /// Waits for the armed fault.
    pub(super) fn strike(&mut self, fault: &'static Fault) -> Result<Strike, Stop> {
        let mut quiet = Patience::new(FUSE, Instant::now());
        let fuse = self.fuse(fault);
        let mut at_point = true;
        let mut worker = None;
        self.wait(fault.name, |play| {
            // Who takes the fuse away decides: the worker at its point, or this line.
            let given_up = quiet.is_out(play.moved()?, Instant::now());
            if at_point && given_up && fs::remove_file(&fuse).is_ok() {
                at_point = false;
                play.signal_one(fault);
            }
            worker = play.struck_by(fault);
            Ok(worker.is_some())
        })?;
        Ok(Strike {
            worker: worker.unwrap_or_default(),
            at_point,
        })
    }

    fn signal_one(&self, fault: &Fault) {
        if let Some(worker) = self.workers.iter().find(|w| w.role() == fault.role) {
            worker.signal(fault.signal);
        }
    }

    fn struck_by(&mut self, fault: &Fault) -> Option<String> {
        let mut workers = self.workers.iter_mut();
        let struck = workers.find_map(|w| (w.role() == fault.role && (fault.struck)(w)).then_some(w));
        struck.map(|w| w.name().to_owned())
    }

    /// True for the worker that the armed fault may end.
    pub(super) fn is_victim(armed: Option<&Fault>, worker: &mut Process) -> bool {
        armed.is_some_and(|fault| fault.signal == Signal::KILL && fault.role == worker.role())
            && worker.killed()
    }

    pub(super) fn bury(&mut self, strike: &Strike) {
        self.armed = None;
        self.workers.retain(|w| w.name() != strike.worker);
    }

    /// Stops a relay at a moment when it holds no write lock: nobody could take its lanes over otherwise.
    pub(super) fn stop_a_relay(&mut self, percent: u64) -> Result<Strike, Stop> {
        for again in 0..STOPS_MAX {
            self.arm(&RELAY_STOPPED)?;
            self.allow(percent + again);
            let strike = self.strike(&RELAY_STOPPED)?;
            if self.locks_are_free()? {
                return Ok(strike);
            }
            self.wake(&strike)?;
        }
        let context = format!("a relay held a write lock each of the {STOPS_MAX} times it was stopped");
        Err(Error::new(Code::TimedOut, context).into())
    }

    pub(super) fn wake(&mut self, strike: &Strike) -> Result<(), Stop> {
        self.wait("the stopped relay to go on", |play| {
            let sleeper = play.workers.iter_mut().find(|w| w.name() == strike.worker);
            Ok(sleeper.is_none_or(|w| {
                w.signal(Signal::CONT);
                !w.stopped()
            }))
        })
    }

    /// A lock that can be had is not held by the process that sleeps, which cannot take it either.
    fn locks_are_free(&self) -> Result<bool> {
        Ok(is_free(self.stage.connect_service()?, LOCK_PATIENCE)?
            && is_free(self.stage.connect_stream()?, LOCK_PATIENCE)?)
    }
}

fn is_free(mut connection: Connection, patience: Duration) -> Result<bool> {
    connection.busy_timeout(patience).map_err(sql)?;
    match connection.transaction_with_behavior(TransactionBehavior::Immediate) {
        Ok(_) => Ok(true),
        Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => Ok(false),
        Err(e) => Err(sql(e)),
    }
}

/// What a failover to a lagging copy does: the newest entries are gone and the registers are back. Returns how many.
pub fn lose_tail(stream: &mut Connection, count: u64) -> Result<usize> {
    let tx = stream
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(sql)?;
    let lost = tx
        .execute(include_str!("note_tail.sql"), [count.cast_signed()])
        .map_err(sql)?;
    tx.execute(include_str!("drop_tail.sql"), []).map_err(sql)?;
    tx.execute_batch(include_str!("lose_tail.sql")).map_err(sql)?;
    tx.commit().map_err(sql)?;
    Ok(lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_lock_that_somebody_holds_is_not_free() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Connection::open(dir.path().join("a.db")).unwrap();
        let holder = open();
        holder
            .execute_batch("pragma journal_mode = wal; begin immediate")
            .unwrap();
        assert!(!is_free(open(), Duration::ZERO).unwrap());
        holder.execute_batch("rollback").unwrap();
        assert!(is_free(open(), Duration::ZERO).unwrap());
    }
}

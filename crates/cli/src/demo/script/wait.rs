//! Waiting, with an eye on everything that may end the story early.

use std::time::{Duration, Instant};

use tidegate::{Code, Error, Result};

use super::Play;

/// Why the story ended before its end.
#[derive(Debug)]
pub enum Stop {
    /// By this signal.
    Signal(&'static str),
    /// By this error.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// Runs out after a time in which nothing moved: a machine under load is slow, not stuck.
pub(super) struct Patience {
    limit: Duration,
    seen: (u64, u64),
    since: Instant,
}

impl Patience {
    pub(super) fn new(limit: Duration, now: Instant) -> Self {
        Self {
            limit,
            seen: (0, 0),
            since: now,
        }
    }

    pub(super) fn is_out(&mut self, seen: (u64, u64), now: Instant) -> bool {
        if seen != self.seen {
            self.seen = seen;
            self.since = now;
        }
        now.duration_since(self.since) > self.limit
    }
}

impl Play<'_> {
    /// Polls, and shows progress meanwhile.
    pub(super) fn wait(
        &mut self,
        what: &str,
        mut done: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<(), Stop> {
        let mut patience = Patience::new(self.patience, Instant::now());
        loop {
            self.look()?;
            if done(self)? {
                return Ok(());
            }
            let seen = self.moved()?;
            self.progress.at(seen.0);
            if patience.is_out(seen, Instant::now()) {
                return Err(self.timed_out(what).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What moves while the demo does: events that arrived, and records that were committed.
    pub(super) fn moved(&self) -> Result<(u64, u64)> {
        Ok((self.arrived()?, self.committed()))
    }

    fn timed_out(&self, what: &str) -> Error {
        let context = format!("nothing moved for {:?} while waiting for {what}", self.patience);
        Error::new(Code::TimedOut, context)
    }

    /// A signal, a failure of the service, or a worker that ended by itself.
    fn look(&mut self) -> Result<(), Stop> {
        if let Some(signal) = self.interrupt.received() {
            return Err(Stop::Signal(signal));
        }
        if let Some(producer) = &mut self.producer {
            producer.ended()?;
        }
        if self.draining {
            return Ok(());
        }
        let armed = self.armed;
        let ended = self.workers.iter_mut().find_map(|worker| {
            let status = worker.status()?;
            (!Self::is_victim(armed, worker)).then(|| (worker.name().to_owned(), status))
        });
        match ended {
            None => Ok(()),
            Some((name, status)) => {
                let context = format!("{name} ended by itself: {status}; its last words are in {name}.log");
                Err(Error::new(Code::WorkerStopped, context).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_runs_out_only_while_nothing_moves() {
        let begun = Instant::now();
        let at = |s| begun + Duration::from_secs(s);
        let mut patience = Patience::new(Duration::from_secs(30), begun);
        assert!(!patience.is_out((0, 0), at(30)));
        assert!(!patience.is_out((1, 0), at(31)), "it moved");
        assert!(!patience.is_out((1, 0), at(61)));
        assert!(!patience.is_out((1, 5), at(62)), "it moved");
        assert!(patience.is_out((1, 5), at(93)));
    }
}

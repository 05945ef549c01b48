//! The service: transactions that write a row and its event, some of them rolled back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior, params};
use tidegate::stores::sqlite::SqliteOutbox;
use tidegate::{Code, Draft, Error, Result, Uuid, clock};

use super::data::Record;
use super::stage::Stage;
use super::{runtime, sql};

/// One transaction in so many rolls back; the service then tries again with new event ids.
const ROLLBACK_EVERY: usize = 20;

/// A producer at work. Dropping it stops it.
pub struct Producer {
    thread: Option<JoinHandle<Result<()>>>,
    gate: Arc<Gate>,
}

impl Producer {
    /// Commits the records at an even pace over about `spread`, but none beyond what is [`Producer::allow`]ed; at first
    /// all are.
    pub fn start(stage: &Stage, records: Vec<Record>, seed: u64, spread: Duration) -> Result<Self> {
        let connection = stage.connect_service()?;
        let outbox = runtime()?.block_on(stage.outbox())?;
        let gate = Arc::new(Gate::open());
        let service = Service {
            connection,
            outbox,
            random: fastrand::Rng::with_seed(seed),
        };
        let passed = Arc::clone(&gate);
        let thread = std::thread::spawn(move || produce(service, &records, spread, &passed));
        Ok(Self {
            thread: Some(thread),
            gate,
        })
    }

    /// Lets the producer go on up to this many records.
    pub fn allow(&self, records: u64) {
        self.gate.allowed.store(records, Ordering::Relaxed);
    }

    /// Records committed so far.
    pub fn committed(&self) -> u64 {
        self.gate.committed.load(Ordering::Relaxed)
    }

    /// True when the producer has committed everything.
    ///
    /// # Errors
    /// Why it ended before.
    pub fn ended(&mut self) -> Result<bool> {
        if self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(false);
        }
        self.end().map(|()| true)
    }

    /// Waits for the end.
    pub fn join(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let panicked = || Error::new(Code::Internal, "the producer thread panicked");
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or_else(|_| Err(panicked())),
            None => Ok(()),
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.gate.stopped.store(true, Ordering::Relaxed);
        let _ = self.end();
    }
}

/// How far the producer is and may go.
struct Gate {
    committed: AtomicU64,
    allowed: AtomicU64,
    stopped: AtomicBool,
}

impl Gate {
    fn open() -> Self {
        Self {
            committed: AtomicU64::new(0),
            allowed: AtomicU64::new(u64::MAX),
            stopped: AtomicBool::new(false),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn pass(&self, count: u64) -> u64 {
        let done = self.committed.fetch_add(count, Ordering::Relaxed) + count;
        while done >= self.allowed.load(Ordering::Relaxed) && !self.is_stopped() {
            std::thread::sleep(Duration::from_millis(2));
        }
        done
    }
}

/// Which transactions roll back: one in each block of [`ROLLBACK_EVERY`], at a random place.
#[derive(Default)]
struct Rollbacks {
    left: usize,
    at: usize,
}

impl Rollbacks {
    fn is_next(&mut self, random: &mut fastrand::Rng) -> bool {
        if self.left == 0 {
            self.left = ROLLBACK_EVERY;
            self.at = random.usize(0..ROLLBACK_EVERY);
        }
        self.left -= 1;
        self.left == self.at
    }
}

struct Service {
    connection: Connection,
    outbox: SqliteOutbox,
    random: fastrand::Rng,
}

fn produce(mut service: Service, records: &[Record], spread: Duration, gate: &Gate) -> Result<()> {
    let mut rollbacks = Rollbacks::default();
    let begun = Instant::now();
    let mut rest = records;
    while !rest.is_empty() && !gate.is_stopped() {
        let (now, later) = rest.split_at(service.random.usize(1..=4).min(rest.len()));
        if rollbacks.is_next(&mut service.random) {
            service.transact(now, false)?;
        }
        service.transact(now, true)?;
        service.outbox.database().ring();
        rest = later;
        let done = gate.pass(now.len() as u64);
        let due = share(spread, done, records.len());
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    Ok(())
}

/// The part of `spread` that `done` of `all` records stand for.
fn share(spread: Duration, done: u64, all: usize) -> Duration {
    let per_record = spread / u32::try_from(all.max(1)).unwrap_or(u32::MAX);
    per_record * u32::try_from(done).unwrap_or(u32::MAX)
}

impl Service {
    /// The service's own rows and their events, in one transaction: both or neither.
    fn transact(&mut self, records: &[Record], commit: bool) -> Result<()> {
        let events: Vec<_> = records
            .iter()
            .map(|record| (Uuid::from_u128(self.random.u128(..)), record))
            .collect();
        let tx = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(sql)?;
        for (id, record) in &events {
            insert(&tx, *id, record)?;
        }
        let drafts = events.iter().map(|(id, record)| draft(*id, record));
        self.outbox.enqueue_in(&tx, drafts)?;
        if commit {
            return tx.commit().map_err(sql);
        }
        tx.rollback().map_err(sql)?;
        events.iter().try_for_each(|(id, _)| self.note(*id))
    }

    /// After a rollback no database knows what it held.
    fn note(&self, id: Uuid) -> Result<()> {
        let insert = "insert into rolled_back (event_id) values (?1)";
        self.connection.execute(insert, [id.as_bytes()]).map_err(sql)?;
        Ok(())
    }
}

fn insert(tx: &Connection, id: Uuid, record: &Record) -> Result<()> {
    let insert = "insert into flight (event_id, line, key, body, committed_at) values (?1, ?2, ?3, ?4, ?5)";
    let mut statement = tx.prepare_cached(insert).map_err(sql)?;
    let now = clock::wall().as_micros();
    let line = record.line.cast_signed();
    statement
        .execute(params![id.as_bytes(), line, record.key, record.json, now])
        .map_err(sql)?;
    Ok(())
}

fn draft(id: Uuid, record: &Record) -> Draft {
    Draft::new("flights", &record.key)
        .id(id)
        .version(record.line.cast_signed())
        .payload("application/json", record.json.clone().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_rolls_back_one_transaction_in_twenty() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut rollbacks = Rollbacks::default();
            for _ in 0..3 {
                let block = (0..ROLLBACK_EVERY).filter(|_| rollbacks.is_next(&mut random));
                assert_eq!(block.count(), 1, "seed {seed}");
            }
        }
    }
}

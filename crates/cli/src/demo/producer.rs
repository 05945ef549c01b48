//! The service: transactions that write a row and its event, some of them rolled back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use tidegate::stores::sqlite::SqliteOutbox;
use tidegate::{Draft, Result, Uuid, clock};

use super::data::Record;
use super::sql;
use super::stage::Stage;
use super::worker;

/// One transaction in twenty rolls back; the service then tries again with new event ids.
const ROLLBACK_PERCENT: u8 = 5;

/// A producer at work.
pub struct Producer {
    thread: JoinHandle<Result<()>>,
    committed: Arc<AtomicU64>,
    allowed: Arc<AtomicU64>,
}

impl Producer {
    /// Commits the records at an even pace over about `spread`, but none beyond what is [`Producer::allow`]ed; at first
    /// all are.
    pub fn start(stage: &Stage, records: Vec<Record>, seed: u64, spread: Duration) -> Result<Self> {
        let connection = stage.connect_service()?;
        let outbox = worker::runtime()?.block_on(stage.outbox())?;
        let committed = Arc::new(AtomicU64::new(0));
        let allowed = Arc::new(AtomicU64::new(u64::MAX));
        let gate = Gate {
            committed: committed.clone(),
            allowed: allowed.clone(),
        };
        let thread = std::thread::spawn(move || produce(connection, &outbox, &records, seed, spread, &gate));
        Ok(Self {
            thread,
            committed,
            allowed,
        })
    }

    /// Lets the producer go on up to this many records.
    pub fn allow(&self, records: u64) {
        self.allowed.store(records, Ordering::Relaxed);
    }

    /// Records committed so far.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// True when the producer has ended, well or not.
    pub fn ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end.
    pub fn join(self) -> Result<()> {
        self.thread.join().unwrap_or_else(|_| {
            Err(tidegate::Error::new(
                tidegate::Code::Internal,
                "the producer thread panicked",
            ))
        })
    }
}

/// How far the producer is and may go.
struct Gate {
    committed: Arc<AtomicU64>,
    allowed: Arc<AtomicU64>,
}

impl Gate {
    fn pass(&self, count: u64) -> u64 {
        let done = self.committed.fetch_add(count, Ordering::Relaxed) + count;
        while done >= self.allowed.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(2));
        }
        done
    }
}

fn produce(
    mut connection: Connection,
    outbox: &SqliteOutbox,
    records: &[Record],
    seed: u64,
    spread: Duration,
    gate: &Gate,
) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let begun = Instant::now();
    let mut rest = records;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(random.usize(1..=4).min(rest.len()));
        while random.u8(0..100) < ROLLBACK_PERCENT {
            transact(&mut connection, outbox, now, &mut random, false)?;
        }
        transact(&mut connection, outbox, now, &mut random, true)?;
        outbox.database().ring();
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

/// The service's own row and the event, in one transaction: both or neither.
fn transact(
    connection: &mut Connection,
    outbox: &SqliteOutbox,
    records: &[Record],
    random: &mut fastrand::Rng,
    commit: bool,
) -> Result<()> {
    let immediate = rusqlite::TransactionBehavior::Immediate;
    let tx = connection.transaction_with_behavior(immediate).map_err(sql)?;
    let mut ids = Vec::new();
    let mut drafts = Vec::new();
    for record in records {
        let id = Uuid::from_u128(random.u128(..));
        let insert =
            "insert into flight (event_id, line, key, body, committed_at) values (?1, ?2, ?3, ?4, ?5)";
        let now = clock::wall().as_micros();
        let mut statement = tx.prepare_cached(insert).map_err(sql)?;
        statement
            .execute(params![
                id.as_bytes(),
                record.line.cast_signed(),
                record.key,
                record.json,
                now
            ])
            .map_err(sql)?;
        let body = record.json.clone().into_bytes();
        let draft = Draft::new("flights", &record.key)
            .id(id)
            .version(record.line.cast_signed())
            .payload("application/json", body);
        drafts.push(draft);
        ids.push(id);
    }
    outbox.enqueue_in(&tx, drafts)?;
    if commit {
        return tx.commit().map_err(sql);
    }
    tx.rollback().map_err(sql)?;
    for id in ids {
        let insert = "insert into rolled_back (event_id) values (?1)";
        connection.execute(insert, [id.as_bytes()]).map_err(sql)?;
    }
    Ok(())
}

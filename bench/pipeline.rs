//! Three files, a relay and a consumer in this process, and the projection they keep.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate::inbox::projection::{Column, Projection};
use tidegate::inbox::{Applied, Batch, Retried, Retry, Start};
use tidegate::store::{Applier, BoxFuture, OutboxStore};
use tidegate::stores::sqlite::{
    Database, InboxOptions, OpenOptions, SqliteInbox, SqliteOutbox, SqliteStream, Wanted,
    projection::SqliteProjection,
};
use tidegate::{Consumer, Draft, Event, Relay, Result, Uuid, Worker, clock};

/// Keys of the workload: each tenth of a second or so every key gets a new version.
pub(crate) const KEYS: u64 = 10_000;
/// Bytes of a payload.
pub(crate) const PAYLOAD: usize = 256;
/// Name of outbox, stream and consumer.
pub(crate) const NAME: &str = "bench";
/// Events of one transaction of a producer.
pub(crate) const TRANSACTION: usize = 100;

/// Event number `i`: its version is `i`, its key one of [`KEYS`] in scattered order.
pub(crate) fn event(i: u64) -> Event {
    let key = format!("key-{}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % KEYS);
    let mut payload = format!(r#"{{"key":"{key}","version":{i},"note":""#).into_bytes();
    payload.resize(PAYLOAD - 2, b'x');
    payload.extend_from_slice(b"\"}");
    Draft::new("bench", key)
        .version(i.cast_signed())
        .payload("application/json", payload)
        .seal(Uuid::now_v7(), clock::wall())
        .unwrap()
}

/// Events `from..from + count`.
pub(crate) fn events(from: u64, count: usize) -> Vec<Event> {
    (from..from + count as u64).map(event).collect()
}

/// The table that is kept equal to each key's last event.
const BOARD: &str = "create table if not exists board (key text primary key, version integer not null, \
                     note text not null) strict, without rowid";

fn projection() -> SqliteProjection {
    SqliteProjection::new(Projection {
        table: "board".into(),
        key: "key".into(),
        columns: vec![Column::new("note", "note")],
        version: Some("version".into()),
    })
    .unwrap()
}

/// When each event was applied, in nanoseconds since the beginning.
#[derive(Debug)]
pub(crate) struct Stamps {
    began: Instant,
    applied: Vec<AtomicU64>,
    count: AtomicU64,
}

impl Stamps {
    fn new(room: usize) -> Self {
        Self {
            began: Instant::now(),
            applied: (0..room).map(|_| AtomicU64::new(0)).collect(),
            count: AtomicU64::new(0),
        }
    }

    /// Nanoseconds since the beginning.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap()
    }

    /// When event `i` was applied, if there was room to note it.
    pub(crate) fn applied(&self, i: u64) -> Option<u64> {
        let at = self
            .applied
            .get(usize::try_from(i).unwrap())?
            .load(Ordering::Relaxed);
        (at > 0).then_some(at)
    }

    fn committed(&self, versions: &[i64], count: u64) {
        let now = self.now();
        for version in versions {
            if let Some(at) = self.applied.get(usize::try_from(*version).unwrap()) {
                at.store(now, Ordering::Relaxed);
            }
        }
        self.count.fetch_add(count, Ordering::Release);
    }
}

/// Notes the time at which an apply returned, which is after its commit.
struct Stamping {
    inner: Arc<dyn Applier>,
    stamps: Arc<Stamps>,
}

impl Applier for Stamping {
    fn apply(&self, batch: Batch) -> BoxFuture<'_, Result<Applied>> {
        let entries = batch.lanes.iter().flat_map(|lane| &lane.entries);
        let wanted = !self.stamps.applied.is_empty();
        let versions: Vec<i64> = entries
            .filter(|_| wanted)
            .filter_map(|entry| entry.event.as_ref()?.version)
            .collect();
        Box::pin(async move {
            let applied = self.inner.apply(batch).await?;
            self.stamps.committed(&versions, applied.counts.applied);
            Ok(applied)
        })
    }

    fn retry(&self, retry: Retry) -> BoxFuture<'_, Result<Retried>> {
        self.inner.retry(retry)
    }
}

/// The paths of the three files.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// The service's.
    pub(crate) outbox: PathBuf,
    /// The log.
    pub(crate) stream: PathBuf,
    /// The target.
    pub(crate) target: PathBuf,
}

impl Files {
    /// In this folder.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self {
            outbox: folder.join("service.db"),
            stream: folder.join("stream.db"),
            target: folder.join("target.db"),
        }
    }
}

/// Relay and consumer over three files. The relay's handles and the consumer's are separate, so that each one's
/// statements are counted apart.
pub(crate) struct Pipeline {
    /// The outbox, as relay and producers of one process share it.
    pub(crate) outbox: SqliteOutbox,
    /// When and how many.
    pub(crate) stamps: Arc<Stamps>,
    relay: Worker,
    consumer: Worker,
    relay_side: [Database; 2],
    consumer_side: [Database; 2],
    sent: AtomicU64,
}

fn open(path: &Path) -> Database {
    Database::open(path, OpenOptions::default()).unwrap()
}

impl Pipeline {
    /// Makes the files where they are missing. Nothing runs yet. Events below `room` get stamps.
    pub(crate) async fn open(files: &Files, room: usize) -> Self {
        let relay_side = [open(&files.outbox), open(&files.stream)];
        let consumer_side = [open(&files.stream), open(&files.target)];
        let outbox = SqliteOutbox::open(&relay_side[0], NAME, Wanted::default())
            .await
            .unwrap();
        let sink = SqliteStream::open(&relay_side[1], NAME).await.unwrap();
        let relay = Relay::new(NAME, Arc::new(outbox.clone()), Arc::new(sink))
            .build()
            .unwrap();
        let stream = Arc::new(SqliteStream::open(&consumer_side[0], NAME).await.unwrap());
        make_board(&consumer_side[1]).await;
        let inbox = SqliteInbox::open(consumer_side[1].clone(), NAME, InboxOptions::default());
        let inbox = Arc::new(inbox.await.unwrap());
        let stamps = Arc::new(Stamps::new(room));
        let applier = Arc::new(Stamping {
            inner: Arc::new(inbox.applier(projection())),
            stamps: stamps.clone(),
        });
        let consumer = Consumer::new(NAME, stream, inbox, applier, Start::Earliest)
            .build()
            .unwrap();
        Self {
            outbox,
            stamps,
            relay,
            consumer,
            relay_side,
            consumer_side,
            sent: AtomicU64::new(0),
        }
    }

    /// Starts both workers.
    pub(crate) fn start(&self) {
        self.relay.start();
        self.consumer.start();
    }

    /// Stops both, cleanly.
    pub(crate) async fn stop(&self) {
        for worker in [&self.relay, &self.consumer] {
            assert!(
                worker.stop(Duration::from_secs(10)).await.cleanly,
                "{} did not stop",
                worker.name()
            );
        }
    }

    /// Sends a few events through, so that every lane is owned and known, and every statement prepared.
    pub(crate) async fn warm_up(&self) {
        self.start();
        self.enqueue(4096).await;
        self.applied_all().await;
    }

    /// Commits this many more events, in transactions of [`TRANSACTION`].
    pub(crate) async fn enqueue(&self, count: usize) {
        let mut left = count;
        while left > 0 {
            let some = left.min(TRANSACTION);
            self.transact(some).await;
            left -= some;
        }
    }

    /// One transaction of events; returns the number of the first.
    pub(crate) async fn transact(&self, count: usize) -> u64 {
        let first = self.sent.fetch_add(count as u64, Ordering::Relaxed);
        self.outbox.enqueue(events(first, count)).await.unwrap();
        first
    }

    /// Waits until everything that was sent is applied.
    pub(crate) async fn applied_all(&self) {
        let limit = Instant::now() + Duration::from_secs(600);
        while self.stamps.count.load(Ordering::Acquire) < self.sent.load(Ordering::Relaxed) {
            assert!(Instant::now() < limit, "the events were not applied");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Statements so far: of the relay's side with the producers', and of the consumer's.
    pub(crate) fn statements(&self) -> [u64; 2] {
        [&self.relay_side, &self.consumer_side].map(|side| side.iter().map(Database::statements).sum())
    }
}

async fn make_board(target: &Database) {
    let made = target.write(|sql| sql.execute("board", BOARD, []).map(drop));
    made.await.unwrap();
}

//! Tidegate's own jobs over a real outbox and stream.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::outbox::LaneRow;
use tidegate_core::store::{OutboxStore, StreamStore};
use tidegate_core::stream::EntryId;
use tidegate_core::{Draft, Result, Ticks};
use tidegate_stores::sqlite::dedupe::{DedupeStore, Seen};
use tidegate_stores::sqlite::{Database, SqliteOutbox, SqliteStream, outbox};

use super::{File, soon};
use crate::Relay;
use crate::sweep::jobs::{Retention, Unpublished};

const KEEP: Duration = Duration::from_secs(3600);

struct Line {
    file: File,
    outbox: Arc<SqliteOutbox>,
    stream: Arc<SqliteStream>,
}

impl Line {
    /// An outbox with an archive, and the stream that its events were published to.
    async fn published(events: usize) -> Self {
        let file = File::new();
        let db: Database = file.open();
        let wanted = outbox::Wanted {
            lanes: 4,
            archive: true,
        };
        let line = Self {
            file,
            outbox: Arc::new(SqliteOutbox::open(&db, "orders", wanted).await.unwrap()),
            stream: Arc::new(SqliteStream::open(&db, "orders").await.unwrap()),
        };
        line.enqueue(events).await;
        let relay = Relay::new("orders", line.outbox.clone(), line.stream.clone());
        let relay = relay.build().unwrap();
        assert_eq!(soon(relay.run_once()).await.unwrap(), events as u64);
        line
    }

    async fn enqueue(&self, events: usize) {
        let events: Result<Vec<_>> = (0..events)
            .map(|n| {
                Draft::new("orders", format!("k{n}"))
                    .seal(tidegate_core::Uuid::new_v4(), crate::clock::wall())
            })
            .collect();
        self.outbox.enqueue(events.unwrap()).await.unwrap();
    }

    async fn run(&self, job: impl crate::sweep::Job + 'static) -> u64 {
        soon(self.file.sweeper(job).run_once()).await.unwrap()
    }
}

#[tokio::test]
async fn the_archive_is_kept_for_a_while_and_swept_in_batches() {
    let line = Line::published(25).await;
    assert_eq!(line.run(Retention::archive(line.outbox.clone(), KEEP)).await, 0);
    let all = Retention::archive(line.outbox.clone(), Duration::ZERO).batch(10);
    assert_eq!(line.run(all).await, 25);
    assert_eq!(
        line.run(Retention::archive(line.outbox.clone(), Duration::ZERO))
            .await,
        0
    );
}

#[tokio::test]
async fn a_stream_is_trimmed_below_every_hold_and_no_further() {
    let line = Line::published(25).await;
    assert_eq!(line.run(Retention::stream(line.stream.clone(), KEEP)).await, 0);
    let page = line
        .stream
        .read(EntryId::START, None, 100, 1 << 20)
        .await
        .unwrap();
    let reader = page.entries[11].id;
    line.stream.publish_hold("billing".into(), reader).await.unwrap();
    let all = || Retention::stream(line.stream.clone(), Duration::ZERO).batch(5);
    assert_eq!(line.run(all()).await, 12);
    let page = line
        .stream
        .read(EntryId::START, None, 100, 1 << 20)
        .await
        .unwrap();
    assert_eq!(page.entries.len(), 13);
    assert!(page.entries[0].id > reader);
}

#[tokio::test]
async fn seen_events_are_forgotten_after_their_retention() {
    let line = Line::published(0).await;
    let db = line.outbox.database().clone();
    let hour = Duration::from_secs(3600);
    let store = DedupeStore::new("billing").retention(hour).unwrap();
    let (seen, now) = (store.clone(), crate::clock::wall());
    db.write(move |sql| {
        for n in 0..25 {
            let at = if n < 15 { now.before(hour * 2) } else { now };
            let first = seen.see(sql.connection(), &n.to_string(), "orders", at)?;
            assert_eq!(first, Seen::First);
        }
        Ok(())
    })
    .await
    .unwrap();
    let job = || Retention::dedupe(db.clone(), store.clone()).batch(10);
    assert_eq!((line.run(job()).await, line.run(job()).await), (15, 0));
}

#[tokio::test]
async fn anything_that_expires_can_be_swept() {
    let line = Line::published(0).await;
    let left = Arc::new(Mutex::new(1200_u64));
    let rest = Arc::clone(&left);
    let job = Retention::of(KEEP, move |before, limit| {
        assert!(before < crate::clock::wall().before(KEEP / 2));
        let mut left = left.lock().unwrap();
        let done = (*left).min(limit.into());
        *left -= done;
        Box::pin(async move { Ok(done) })
    });
    assert_eq!(line.run(job).await, 1200);
    assert_eq!(*rest.lock().unwrap(), 0);
}

// The alarm.

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn during(&self, work: impl FnOnce()) -> String {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, work);
        String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn lanes(line: &Line) -> Vec<LaneRow> {
    line.outbox.lanes().await.unwrap()
}

fn alarm(line: &Line) -> Unpublished {
    Unpublished::new("orders", line.outbox.clone(), Duration::from_secs(60))
}

fn at(seconds: u64) -> Ticks {
    Ticks::default().after(Duration::from_secs(seconds))
}

#[tokio::test]
async fn an_outbox_that_flows_raises_no_alarm() {
    let line = Line::published(25).await;
    line.enqueue(5).await;
    let lanes = lanes(&line).await;
    let alarm = alarm(&line);
    assert_eq!(Log::default().during(|| alarm.look(&lanes, at(0))), "");
    assert_eq!(line.run(alarm).await, 0);
}

#[tokio::test]
async fn an_event_that_waits_too_long_names_lane_owner_and_cause_once_a_period() {
    let line = Line::published(3).await;
    let mut lanes = lanes(&line).await;
    lanes[1] = LaneRow {
        owner: Some("pid 7 at host".into()),
        oldest_micros: Some(90_000_000),
        depth: 12,
        ..lanes[1].clone()
    };
    lanes[2] = LaneRow {
        oldest_micros: Some(61_000_000),
        depth: 1,
        ..lanes[2].clone()
    };
    let alarm = alarm(&line);
    let log = Log::default();
    let lane = lanes[1].lane;
    assert_eq!(
        log.during(|| alarm.look(&lanes, at(0))),
        format!(
            "ERROR events wait longer than 60s to be published outbox=orders lane={lane} owner=\"pid 7 at host\" \
             oldest_age=90s waiting=12 lanes=2 cause=\"the owner does not get to them\"\n"
        )
    );
    assert_eq!(log.during(|| alarm.look(&lanes, at(3599))), "");
    assert!(log.during(|| alarm.look(&lanes, at(3600))).contains("lanes=2"));
    // A recovery ends the period.
    assert_eq!(log.during(|| alarm.look(&lanes[3..], at(3601))), "");
    lanes[1].owner = None;
    assert!(
        log.during(|| alarm.look(&lanes, at(3602)))
            .contains("owner=\"nobody\"")
    );
    lanes[1].owner = Some("pid 8".into());
    lanes[1].planned += 2;
    let stuck = log.during(|| alarm.look(&lanes, at(9000)));
    assert!(
        stuck.contains("cause=\"the owner has planned events that the stream does not take\""),
        "{stuck}"
    );
}

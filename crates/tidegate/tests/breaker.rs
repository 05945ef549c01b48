//! Four hundred keys that fail for one reason, at the head of a stream: the consumer stops, says so, and goes on when
//! the reason is mended.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::dead_letter::redact::Redactor;
use tidegate::dead_letter::{Filter, State as Parked};
use tidegate::inbox::handler::Fault;
use tidegate::inbox::{self, Start};
use tidegate::outbox::Settings;
use tidegate::store::{Applier, DeadLetters, InboxStore, OutboxStore};
use tidegate::stores::sqlite::{self, Database, InboxOptions, OpenOptions, SqliteInbox};
use tidegate::{Consumer, Draft, Relay, State, Timestamp, Uuid, Worker, lane};
use tidegate_core::inbox::handler::each;
use tidegate_core::memory::dead_letter::MemoryDeadLetters;
use tidegate_core::memory::inbox::{MemoryInbox, MemoryTx};
use tidegate_core::memory::{Clock, MemoryOutbox, MemoryStream};

const BAD: u128 = 400;
const GOOD: u128 = 200;
const LIMIT: Duration = Duration::from_secs(20);

/// What the handler of the bad keys needs is there.
type Mended = Arc<AtomicBool>;

fn verdict(mended: &Mended, event: &inbox::Delivered) -> Result<(), Fault> {
    let key = event.event.key.as_deref().unwrap_or_default();
    if key.starts_with("bad") && !mended.load(Ordering::SeqCst) {
        return Err(Fault::poison("down", "the other service does not answer"));
    }
    Ok(())
}

/// The bad keys come first in every lane.
async fn published() -> Arc<MemoryStream> {
    let settings = Settings {
        lineage: lane::Lineage(Uuid::from_u128(9)),
        name: "orders".into(),
        lanes: 4,
        archive: false,
    };
    let outbox = Arc::new(MemoryOutbox::new(Clock::default(), settings));
    let event = |n: u128| {
        let kind = if n < BAD { "bad" } else { "good" };
        let draft = Draft::new("orders", format!("{kind}{n}"));
        draft.seal(Uuid::from_u128(n + 1), Timestamp::default()).unwrap()
    };
    outbox
        .enqueue((0..BAD + GOOD).map(event).collect())
        .await
        .unwrap();
    let stream = Arc::new(MemoryStream::new(Clock::default()));
    let relay = Relay::new("orders", outbox, stream.clone()).build().unwrap();
    assert_eq!(u128::from(relay.run_once().await.unwrap()), BAD + GOOD);
    stream
}

struct World {
    stream: Arc<MemoryStream>,
    inbox: Arc<dyn InboxStore>,
    applier: Arc<dyn Applier>,
    letters: Arc<dyn DeadLetters>,
    mended: Mended,
}

impl World {
    fn consumer(&self, pause: Duration) -> Worker {
        let (inbox, applier) = (self.inbox.clone(), self.applier.clone());
        let consumer = Consumer::new("billing", self.stream.clone(), inbox, applier, Start::Earliest);
        let consumer = consumer.options(|options| {
            options.backoff_min = pause;
            options.backoff_max = pause;
        });
        consumer.build().unwrap()
    }

    async fn parked(&self) -> usize {
        let letters = self.letters.ls(Filter::default()).await.unwrap();
        assert!(letters.iter().all(|letter| letter.state != Parked::Skipped));
        letters.len()
    }
}

async fn memory() -> World {
    let (mended, inbox) = (Mended::default(), MemoryInbox::new(Clock::default()));
    let ask = mended.clone();
    let handler = each(move |_: &mut MemoryTx, event: &inbox::Delivered| verdict(&ask, event));
    World {
        stream: published().await,
        applier: Arc::new(inbox.applier(handler, inbox::Options::default(), Redactor::default())),
        letters: Arc::new(MemoryDeadLetters::new(inbox.clone(), Redactor::default())),
        inbox: Arc::new(inbox),
        mended,
    }
}

async fn sqlite(folder: &std::path::Path) -> World {
    let database = Database::open(folder.join("target.db"), OpenOptions::default()).unwrap();
    let inbox = SqliteInbox::open(database, "billing", InboxOptions::default())
        .await
        .unwrap();
    let mended = Mended::default();
    let ask = mended.clone();
    let handler = sqlite::each(move |_, event| verdict(&ask, event).map_err(|_| poison()));
    World {
        stream: published().await,
        applier: Arc::new(inbox.applier(handler)),
        letters: Arc::new(inbox.clone()),
        inbox: Arc::new(inbox),
        mended,
    }
}

fn poison() -> sqlite::HandlerError {
    sqlite::HandlerError::poison("down", "the other service does not answer")
}

async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let ended = tokio::time::timeout(LIMIT, wait).await;
    assert!(ended.is_ok(), "waited {LIMIT:?} for {what}");
}

/// With pauses that do not end while the test runs, exactly the bound is parked; good keys behind wait, as they must.
async fn an_outage_parks_no_more_than_the_bound(world: World) {
    let consumer = world.consumer(Duration::from_secs(3600));
    consumer.start();
    until("the breaker", async || consumer.state() == State::Paused).await;
    let trouble = consumer.status().trouble.unwrap();
    assert!(
        trouble.contains("breaker") && trouble.contains("down"),
        "{trouble}"
    );
    assert_eq!((world.parked().await, consumer.status().done), (16, 0));
    assert!(consumer.stop(LIMIT).await.cleanly);

    // Short pauses: a try parks one key more, until the cause is mended.
    let consumer = world.consumer(Duration::from_millis(1));
    consumer.start();
    until("a few tries", async || world.parked().await > 20).await;
    world.mended.store(true, Ordering::SeqCst);
    let all = u64::try_from(BAD + GOOD).unwrap();
    until("everything to be applied", async || consumer.status().done == all).await;
    until("the good state", async || consumer.state() == State::Live).await;
    assert_eq!(world.parked().await, 0);
    assert!(consumer.stop(LIMIT).await.cleanly);
}

#[tokio::test]
async fn the_breaker_over_the_memory_store() {
    an_outage_parks_no_more_than_the_bound(memory().await).await;
}

#[tokio::test]
async fn the_breaker_over_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    an_outage_parks_no_more_than_the_bound(sqlite(folder.path()).await).await;
}

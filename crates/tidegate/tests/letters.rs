//! B12: dead letters on their way to a sink of the user's, over the memory store and over SQLite.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::dead_letter::redact::Redactor;
use tidegate::dead_letter::{
    Audit, Books, Decided, Detail, Filter, Id, Letter, ParkedKeys, Told, Untold, Which,
};
use tidegate::inbox::{self, Delivered, Policy, Start};
use tidegate::outbox::Settings;
use tidegate::store::{Applier, BoxFuture, DeadLetterSink, DeadLetters, InboxStore, OutboxStore};
use tidegate::stores::sqlite::rusqlite::Connection;
use tidegate::stores::sqlite::{
    Database, HandlerError, InboxOptions, OpenOptions, SqliteInbox, each as each_in_sqlite,
};
use tidegate::{Code, Consumer, Draft, Error, Relay, Result, Timestamp, Uuid, Worker, lane};
use tidegate_core::inbox::handler::{Fault, each};
use tidegate_core::memory::dead_letter::MemoryDeadLetters;
use tidegate_core::memory::inbox::{MemoryInbox, MemoryTx};
use tidegate_core::memory::{Clock, MemoryOutbox, MemoryStream};
use tokio::sync::Notify;

const PATIENCE: Duration = Duration::from_secs(60);
const LANES: u16 = 4;

/// A consumer of one stream; the events whose key begins with `bad` are refused for ever.
struct World {
    store: &'static str,
    outbox: Arc<MemoryOutbox>,
    stream: Arc<MemoryStream>,
    inbox: Arc<dyn InboxStore>,
    applier: Arc<dyn Applier>,
    letters: Arc<dyn DeadLetters>,
    clock: Clock,
    _folder: tempfile::TempDir,
}

fn rules(policy: Policy) -> inbox::Options {
    inbox::Options {
        policy,
        attempts_max: 0,
        ..inbox::Options::default()
    }
}

fn is_bad(event: &Delivered) -> bool {
    event
        .event
        .key
        .as_deref()
        .is_some_and(|key| key.starts_with("bad"))
}

impl World {
    fn new(
        store: &'static str,
        inbox: Arc<dyn InboxStore>,
        applier: Arc<dyn Applier>,
        letters: Arc<dyn DeadLetters>,
        (clock, folder): (Clock, tempfile::TempDir),
    ) -> Self {
        let settings = Settings {
            lineage: lane::Lineage(Uuid::from_u128(9)),
            name: "orders".into(),
            lanes: LANES,
            archive: false,
        };
        Self {
            store,
            outbox: Arc::new(MemoryOutbox::new(Clock::default(), settings)),
            stream: Arc::new(MemoryStream::new(Clock::default())),
            inbox,
            applier,
            letters,
            clock,
            _folder: folder,
        }
    }

    fn memory(policy: Policy) -> Self {
        let clock = Clock::default();
        let inbox = MemoryInbox::new(clock.clone());
        let handler = each(|tx: &mut MemoryTx, event: &Delivered| {
            if is_bad(event) {
                return Err(Fault::poison("refused", "mail to jane@example.org bounced"));
            }
            tx.append(event.event.id.to_string(), "applied");
            Ok(())
        });
        let applier = inbox.applier(handler, rules(policy), Redactor::default());
        let letters = MemoryDeadLetters::new(inbox.clone(), Redactor::default());
        let outside = (clock, tempfile::tempdir().unwrap());
        Self::new(
            "memory",
            Arc::new(inbox),
            Arc::new(applier),
            Arc::new(letters),
            outside,
        )
    }

    async fn sqlite(policy: Policy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path().join("target.db"), OpenOptions::default()).unwrap();
        let options = InboxOptions {
            rules: rules(policy),
            ..InboxOptions::default()
        };
        let inbox = Arc::new(SqliteInbox::open(database, "billing", options).await.unwrap());
        let handler = each_in_sqlite(|_: &Connection, event: &Delivered| {
            if is_bad(event) {
                return Err(HandlerError::poison(
                    "refused",
                    "mail to jane@example.org bounced",
                ));
            }
            Ok(())
        });
        let applier = Arc::new(inbox.applier(handler));
        let outside = (Clock::default(), folder);
        Self::new("SQLite", inbox.clone(), applier, inbox, outside)
    }

    /// Publishes one event for each key.
    async fn publish(&self, keys: &[&str]) {
        let event = |key: &&str| {
            let draft = Draft::new("orders", *key)
                .payload("application/json", r#"{"email":"jane@example.org","order":7}"#);
            draft.seal(Uuid::now_v7(), Timestamp::from_micros(1)).unwrap()
        };
        self.outbox
            .enqueue(keys.iter().map(event).collect())
            .await
            .unwrap();
        let relay = Relay::new("orders", self.outbox.clone(), self.stream.clone());
        relay.build().unwrap().run_once().await.unwrap();
    }

    fn consumer(&self, letters: Arc<dyn DeadLetters>, sink: &Post) -> Worker {
        let (stream, inbox) = (self.stream.clone(), self.inbox.clone());
        Consumer::new("billing", stream, inbox, self.applier.clone(), Start::Earliest)
            .options(|options| options.hold.ttl = Duration::from_secs(1))
            .dead_letters(letters, Arc::new(sink.clone()))
            .build()
            .unwrap()
    }

    fn with(&self, sink: &Post) -> Worker {
        self.consumer(self.letters.clone(), sink)
    }

    async fn once(&self, sink: &Post) -> u64 {
        let worker = self.with(sink);
        tokio::time::timeout(PATIENCE, worker.run_once())
            .await
            .expect("run_once ends")
            .unwrap()
    }

    async fn untold(&self) -> usize {
        self.letters.untold(Untold::default()).await.unwrap().len()
    }

    /// Lets leases of a consumer that is gone expire.
    async fn expire(&self) {
        self.clock.advance(Duration::from_secs(5));
        if self.store == "SQLite" {
            tokio::time::sleep(Duration::from_millis(1100)).await;
        }
    }
}

async fn worlds(policy: Policy) -> [World; 2] {
    [World::memory(policy), World::sqlite(policy).await]
}

/// How the sink meets a letter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Takes,
    Fails,
    Panics,
    /// Takes it and never answers.
    Hangs,
}

/// Remembers what it was given. Clones share.
#[derive(Clone, Default)]
struct Post(Arc<PostBox>);

#[derive(Default)]
struct PostBox {
    moods: Mutex<Vec<Mood>>,
    broken_for: Mutex<Option<Mood>>,
    taken: Mutex<Vec<Detail>>,
    offered: AtomicU32,
    moved: Notify,
}

impl Post {
    /// Meets the first letters so.
    fn moody(moods: &[Mood]) -> Self {
        let post = Self::default();
        *post.0.moods.lock().unwrap() = moods.iter().rev().copied().collect();
        post
    }

    /// Meets the letter of `bad` so, always.
    fn against_bad(mood: Mood) -> Self {
        let post = Self::default();
        *post.0.broken_for.lock().unwrap() = Some(mood);
        post
    }

    fn mood(&self, letter: &Detail) -> Mood {
        self.0.offered.fetch_add(1, Ordering::Relaxed);
        let of_letter = *self.0.broken_for.lock().unwrap();
        match of_letter {
            Some(mood) if letter.letter.key.as_str().ends_with("bad") => mood,
            _ => self.0.moods.lock().unwrap().pop().unwrap_or(Mood::Takes),
        }
    }

    fn taken(&self) -> usize {
        self.0.taken.lock().unwrap().len()
    }

    fn keys(&self) -> BTreeMap<String, usize> {
        let mut keys = BTreeMap::new();
        for letter in self.0.taken.lock().unwrap().iter() {
            *keys.entry(letter.letter.key.as_str().to_owned()).or_default() += 1;
        }
        keys
    }

    async fn until(&self, what: &str, done: impl Fn() -> bool) {
        let waited = async {
            while !done() {
                let moved = self.0.moved.notified();
                let _ = tokio::time::timeout(Duration::from_millis(20), moved).await;
            }
        };
        tokio::time::timeout(PATIENCE, waited)
            .await
            .unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {what}"));
    }
}

impl DeadLetterSink for Post {
    fn accept<'a>(&'a self, letter: &'a Detail) -> BoxFuture<'a, Result<()>> {
        let mood = self.mood(letter);
        assert!(mood != Mood::Panics, "the sink's own fault");
        Box::pin(async move {
            if mood == Mood::Fails {
                return Err(Error::new(Code::StoreUnavailable, "the post office is closed"));
            }
            self.0.taken.lock().unwrap().push(letter.clone());
            self.0.moved.notify_waiters();
            if mood == Mood::Hangs {
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    }
}

#[tokio::test]
async fn b12_letters_reach_the_sink_redacted_and_once() {
    for policy in [Policy::Park, Policy::Skip] {
        for world in worlds(policy).await {
            let post = Post::default();
            world.publish(&["a", "bad", "b", "bad-2"]).await;
            assert_eq!(world.once(&post).await, 2, "{}", world.store);
            assert_eq!(world.once(&post).await, 0);
            assert_eq!(post.keys(), [("k:bad".into(), 1), ("k:bad-2".into(), 1)].into());
            let seen = format!("{:?}", post.0.taken.lock().unwrap());
            assert!(!seen.contains("jane"), "{seen}");
            assert!(seen.contains("order"), "what is harmless is there");
            assert_eq!(world.letters.ls(Filter::default()).await.unwrap().len(), 2);
        }
    }
}

/// The lanes go on while the sink is silent.
#[tokio::test]
async fn b12_a_silent_sink_holds_back_no_lane() {
    for world in worlds(Policy::Park).await {
        let post = Post::moody(&[Mood::Hangs]);
        let worker = world.with(&post);
        world.publish(&["bad", "a"]).await;
        worker.start();
        post.until("the letter", || post.taken() == 1).await;
        for round in 1..=3 {
            world.publish(&["a", "b", "c", "bad-2"]).await;
            post.until("the lanes", || worker.status().done == 1 + 3 * round)
                .await;
        }
        assert_eq!((post.taken(), world.untold().await), (1, 2));
        assert!(worker.stop(Duration::from_secs(4)).await.cleanly);
    }
}

#[tokio::test]
async fn b12_a_sink_that_fails_for_a_time_loses_nothing() {
    for world in worlds(Policy::Park).await {
        let post = Post::moody(&[Mood::Fails, Mood::Panics]);
        let worker = world.with(&post);
        world.publish(&["bad", "bad-2", "a"]).await;
        worker.start();
        post.until("both letters", || post.taken() == 2).await;
        assert_eq!(post.keys().len(), 2);
        assert_eq!(post.0.offered.load(Ordering::Relaxed), 4, "not retried hot");
        worker.stop(PATIENCE).await;
        assert_eq!(world.untold().await, 0);
    }
}

/// A panic is the sink's, about one letter: the worker lives, the other letters arrive, this one stays.
#[tokio::test]
async fn b12_a_panic_in_the_sink_ends_nothing() {
    for mood in [Mood::Panics, Mood::Fails] {
        for world in worlds(Policy::Skip).await {
            let post = Post::against_bad(mood);
            let worker = world.with(&post);
            world.publish(&["bad", "bad-2", "bad-3", "a"]).await;
            worker.start();
            post.until("the others", || post.taken() == 2).await;
            world.publish(&["b"]).await;
            post.until("the lanes", || worker.status().done == 2).await;
            assert!(worker.stop(PATIENCE).await.cleanly);
            let left = world.letters.untold(Untold::default()).await.unwrap();
            let left: Vec<_> = left.iter().map(|l| l.letter.key.as_str()).collect();
            assert_eq!(left, ["k:bad"], "{}", world.store);
        }
    }
}

/// The process ends after the sink took the letter and before that was recorded: it is delivered twice, then no more.
#[tokio::test]
async fn b12_a_crash_between_delivery_and_record_repeats_one_letter() {
    for world in worlds(Policy::Park).await {
        let post = Post::moody(&[Mood::Takes, Mood::Hangs]);
        world.publish(&["bad", "bad-2", "bad-3"]).await;
        let worker = world.with(&post);
        worker.start();
        post.until("two letters", || post.taken() == 2).await;
        drop(worker);
        assert_eq!(world.untold().await, 2);
        for _ in 0..2 {
            world.expire().await;
            world.once(&post).await;
        }
        assert_eq!(world.untold().await, 0);
        let mut times: Vec<_> = post.keys().into_values().collect();
        times.sort_unstable();
        assert_eq!(times, [1, 1, 2], "{}", world.store);
    }
}

/// The record fails once, before it stands or after: the letter comes twice, or once.
#[tokio::test]
async fn b12_a_record_without_a_reply_loses_nothing() {
    for stands in [true, false] {
        for world in worlds(Policy::Park).await {
            let forgetful = Arc::new(Forgetful {
                letters: world.letters.clone(),
                stands,
                done: AtomicBool::new(false),
            });
            let post = Post::default();
            let worker = world.consumer(forgetful.clone(), &post);
            world.publish(&["bad", "a"]).await;
            worker.start();
            let times = if stands { 1 } else { 2 };
            post.until("the letter", || post.taken() == times).await;
            while world.untold().await > 0 {
                tokio::task::yield_now().await;
            }
            worker.stop(PATIENCE).await;
            assert_eq!(post.taken(), times, "{}", world.store);
        }
    }
}

/// A clean stop ends the letter that is under way, and repeats none.
#[tokio::test]
async fn b12_a_drain_ends_the_letter_under_way() {
    for world in worlds(Policy::Park).await {
        let slow = Slow::default();
        world.publish(&["bad", "bad-2"]).await;
        let consumer = Consumer::new(
            "billing",
            world.stream.clone(),
            world.inbox.clone(),
            world.applier.clone(),
            Start::Earliest,
        );
        let worker = consumer
            .dead_letters(world.letters.clone(), Arc::new(slow.clone()))
            .build()
            .unwrap();
        worker.start();
        slow.0.begun.notified().await;
        let (drained, ()) = tokio::join!(worker.stop(PATIENCE), async { slow.0.go_on.notify_one() });
        assert!(drained.cleanly);
        assert_eq!(slow.0.taken.load(Ordering::Relaxed), 1, "and begins no other");
        assert_eq!(world.untold().await, 1, "{}", world.store);
    }
}

/// Two processes share the lanes: each letter goes to the sink of one of them.
#[tokio::test]
async fn b12_two_consumers_deliver_each_letter_once() {
    for world in worlds(Policy::Park).await {
        let post = Post::default();
        let workers = [world.with(&post), world.with(&post)];
        world.publish(&["a", "b", "c", "d", "e", "f", "g", "h"]).await;
        for worker in &workers {
            worker.start();
        }
        post.until("a fair share", || {
            workers.iter().all(|w| w.status().held == usize::from(LANES) / 2)
        })
        .await;
        let keys: Vec<String> = (0..40).map(|n| format!("bad-{n}")).collect();
        world
            .publish(&keys.iter().map(String::as_str).collect::<Vec<_>>())
            .await;
        post.until("all letters", || post.taken() >= 40).await;
        for worker in &workers {
            worker.stop(PATIENCE).await;
        }
        assert_eq!(world.untold().await, 0);
        assert!(post.keys().values().all(|times| *times == 1), "{:?}", post.keys());
    }
}

/// Takes a letter when told to.
#[derive(Clone, Default)]
struct Slow(Arc<SlowBox>);

#[derive(Default)]
struct SlowBox {
    begun: Notify,
    go_on: Notify,
    taken: AtomicU32,
}

impl DeadLetterSink for Slow {
    fn accept<'a>(&'a self, _: &'a Detail) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.0.begun.notify_one();
            self.0.go_on.notified().await;
            self.0.taken.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    }
}

/// Loses the reply of the first record.
struct Forgetful {
    letters: Arc<dyn DeadLetters>,
    stands: bool,
    done: AtomicBool,
}

impl DeadLetters for Forgetful {
    fn ls(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Letter>>> {
        self.letters.ls(filter)
    }

    fn show(&self, id: Id) -> BoxFuture<'_, Result<Option<Detail>>> {
        self.letters.show(id)
    }

    fn redrive(&self, which: Which, reason: String, now: Timestamp) -> BoxFuture<'_, Result<u64>> {
        self.letters.redrive(which, reason, now)
    }

    fn discard(&self, id: Id, reason: String, now: Timestamp) -> BoxFuture<'_, Result<Decided>> {
        self.letters.discard(id, reason, now)
    }

    fn release(&self, id: Id, reason: String, now: Timestamp) -> BoxFuture<'_, Result<Decided>> {
        self.letters.release(id, reason, now)
    }

    fn audit(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Audit>>> {
        self.letters.audit(limit)
    }

    fn books(&self) -> BoxFuture<'_, Result<Vec<Books>>> {
        self.letters.books()
    }

    fn parked_keys(&self) -> BoxFuture<'_, Result<ParkedKeys>> {
        self.letters.parked_keys()
    }

    fn untold(&self, which: Untold) -> BoxFuture<'_, Result<Vec<Detail>>> {
        self.letters.untold(which)
    }

    fn told(&self, letters: Vec<Told>) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.done.swap(true, Ordering::Relaxed) {
                return self.letters.told(letters).await;
            }
            if self.stands {
                self.letters.told(letters).await?;
            }
            Err(Error::unknown("the reply was lost"))
        })
    }
}

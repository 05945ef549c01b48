//! The stream suite over Redis, and what only a server that forgets can show.

// Helpers are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use tidegate_conformance::stream::{Stream, Subject};
use tidegate_conformance::stream_suite;
use tidegate_conformance::testbed::Redis;
use tidegate_core::lane::{LaneId, Lineage};
use tidegate_core::lease::Token;
use tidegate_core::memory::Clock;
use tidegate_core::store::{BoxFuture, Sink as _, StreamStore as _};
use tidegate_core::stream::{Appended, Chain, EntryId, LaneAppend, Numbered};
use tidegate_core::{Code, Effect, Timestamp, Uuid};
use tidegate_stores::redis::{self as store, Database, OpenOptions, RedisStream};

struct Server {
    redis: Redis,
    clock: Clock,
}

#[derive(Debug)]
struct TestClock(Clock);

impl store::Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.now().as_micros())
    }
}

impl Server {
    fn start() -> Self {
        Self {
            redis: Redis::start(),
            clock: Clock::default(),
        }
    }

    async fn database(&self) -> Database {
        let options = OpenOptions {
            clock: Some(Arc::new(TestClock(self.clock.clone()))),
            ..OpenOptions::default()
        };
        Database::open(&self.redis.url(), options).await.unwrap()
    }

    async fn open(&self) -> RedisStream {
        RedisStream::open(&self.database().await, "orders").await.unwrap()
    }

    fn command(&self, command: &str) {
        let client = redis::Client::open(self.redis.url()).unwrap();
        let mut words = command.split(' ');
        let mut call = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            call.arg(word);
        });
        call.exec(&mut client.get_connection().unwrap()).unwrap();
    }
}

impl Subject for Server {
    fn stream(&self, payload_max: usize) -> BoxFuture<'_, Arc<dyn Stream>> {
        Box::pin(async move { Arc::new(self.open().await.with_payload_max(payload_max)) as Arc<dyn Stream> })
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }
}

stream_suite!(Server::start());

fn lane() -> LaneId {
    LaneId {
        lineage: Lineage(Uuid::from_u128(1)),
        slot: 3,
    }
}

fn voids(from: (u64, Chain), count: u64, token: u64) -> LaneAppend {
    let mut chain = from.1;
    let entries = (from.0 + 1..=from.0 + count).map(|n| {
        chain = chain.next(n, None);
        Numbered {
            n,
            chain,
            event: None,
        }
    });
    LaneAppend {
        lane: lane(),
        token: Token(token),
        entries: entries.collect(),
    }
}

async fn one(stream: &RedisStream, append: LaneAppend) -> Appended {
    stream.append(vec![append]).await.unwrap().remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_stream_is_a_new_incarnation_with_empty_registers() {
    let server = Server::start();
    let stream = server.open().await;
    assert_eq!(
        one(&stream, voids((0, Chain::START), 5, 3)).await,
        Appended::Through(5)
    );
    let before = stream.registers().await.unwrap();
    let page = stream.read(EntryId::START, None, 10, 1000).await.unwrap();
    assert_eq!(page.incarnation, before.incarnation);
    server.command("FLUSHALL");
    let after = stream.registers().await.unwrap();
    assert_ne!(after.incarnation, before.incarnation);
    assert_eq!(after.lanes, []);
    let empty = stream.read(page.scanned, None, 10, 1000).await.unwrap();
    assert_eq!(
        (empty.last, empty.incarnation),
        (EntryId::START, after.incarnation)
    );
    // What this handle remembers of the register does not let an append through.
    let chain = before.lanes[0].1.chain;
    match one(&stream, voids((5, chain), 1, 3)).await {
        Appended::Moved(register) => assert_eq!(register.n, 0),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        one(&stream, voids((0, Chain::START), 6, 3)).await,
        Appended::Through(6)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_empty_is_used_again() {
    let server = Server::start();
    let stream = server.open().await;
    one(&stream, voids((0, Chain::START), 300, 3)).await;
    server.redis.kill();
    let down = stream
        .append(vec![voids((0, Chain::START), 1, 3)])
        .await
        .unwrap_err();
    assert!(
        matches!(down.code(), Code::StoreUnavailable | Code::OutcomeUnknown),
        "{down}"
    );
    server.redis.restart();
    let mut tries = 0;
    let registers = loop {
        match stream.register(vec![(lane(), Token(3))]).await {
            Ok(registers) => break registers,
            Err(error) => assert_ne!(error.effect(), Effect::Applied),
        }
        tries += 1;
        assert!(tries < 200, "the server is back");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(registers[0].unwrap().n, 0);
    assert_eq!(
        one(&stream, voids((0, Chain::START), 300, 3)).await,
        Appended::Through(300)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let server = Server::start();
    let stream = server.open().await;
    let mut chain = Chain::START;
    for n in 0..3 {
        let append = voids((n, chain), 1, 3);
        chain = append.entries[0].chain;
        assert_eq!(one(&stream, append).await, Appended::Through(n + 1));
        assert_eq!(
            stream
                .read(EntryId::START, None, 10, 1000)
                .await
                .unwrap()
                .entries
                .len() as u64,
            n + 1
        );
        server.command("SCRIPT FLUSH");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_handles_that_race_one_appends_each_number() {
    let server = Server::start();
    let streams = [server.open().await, server.open().await];
    let mut racers = tokio::task::JoinSet::new();
    for stream in streams.clone() {
        racers.spawn(async move {
            let (mut n, mut chain) = (0, Chain::START);
            while n < 500 {
                let append = voids((n, chain), 7, 3);
                (n, chain) = match one(&stream, append.clone()).await {
                    Appended::Through(n) => (n, append.entries.last().unwrap().chain),
                    Appended::Moved(register) => (register.n, register.chain),
                    other => panic!("{other:?}"),
                };
            }
        });
    }
    while let Some(ended) = racers.join_next().await {
        ended.unwrap();
    }
    let page = streams[0]
        .read(EntryId::START, None, 10_000, 1 << 20)
        .await
        .unwrap();
    let mut chain = Chain::START;
    for (entry, n) in page.entries.iter().zip(1..) {
        chain = chain.next(n, None);
        assert_eq!((entry.n, entry.chain), (n, chain));
    }
    assert!(page.entries.len() >= 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_sixteen_digits_are_told_apart() {
    let server = Server::start();
    let stream = server.open().await;
    let token = (1 << 53) - 2;
    one(&stream, voids((0, Chain::START), 1, token)).await;
    let next = voids((1, Chain::START.next(1, None)), 1, token - 1);
    assert_eq!(one(&stream, next.clone()).await, Appended::Fenced(Token(token)));
    let raised = stream.register(vec![(lane(), Token(token + 1))]).await.unwrap();
    assert_eq!(raised[0].unwrap().token, Token(token + 1));
    let next = LaneAppend {
        token: Token(token),
        ..next
    };
    assert_eq!(one(&stream, next).await, Appended::Fenced(Token(token + 1)));
}

#[tokio::test]
async fn a_server_that_may_drop_keys_is_refused() {
    let redis = Redis::start_with(&[("maxmemory-policy", "allkeys-lru")]);
    let error = Database::open(&redis.url(), OpenOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::OptionsInvalid);
    assert_eq!(
        error.context(),
        "maxmemory-policy is allkeys-lru: the server may drop keys; it must be noeviction"
    );
}

#[tokio::test]
async fn a_wrong_password_is_denied_and_never_shown() {
    let redis = Redis::start_with(&[("requirepass", "right-5f1c")]);
    for url in [
        redis.url(),
        format!("redis://:wrong-77aa@127.0.0.1:{}", redis.port()),
    ] {
        let error = Database::open(&url, OpenOptions::default()).await.unwrap_err();
        assert_eq!(error.code(), Code::StoreDenied, "{error:?}");
        let said = format!("{error} {error:?}");
        assert!(!said.contains("wrong-77aa"), "{said}");
    }
    let right = format!("redis://:right-5f1c@127.0.0.1:{}/2", redis.port());
    let db = Database::open(&right, OpenOptions::default()).await.unwrap();
    assert_eq!(db.place(), format!("127.0.0.1:{}/2", redis.port()));
    assert!(!format!("{db:?}").contains("right-5f1c"));
}

//! The lease suite over Redis, and what a server that forgets does to leases.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests.

use std::sync::Arc;
use std::time::Duration;

use tidegate_conformance::lease::Subject;
use tidegate_conformance::lease_suite;
use tidegate_conformance::testbed::Redis;
use tidegate_core::lease::{Acquire, Acquired, Nonce, Renewed, Scope, Term, Token};
use tidegate_core::memory::Clock;
use tidegate_core::store::{BoxFuture, LeaseStore};
use tidegate_core::{Result, Timestamp};
use tidegate_stores::redis::lease::Leases;
use tidegate_stores::redis::{self as store, Database, OpenOptions};

struct Server {
    redis: Redis,
    database: Database,
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
    async fn start() -> Self {
        let (redis, clock) = (Redis::start(), Clock::default());
        let options = OpenOptions {
            clock: Some(Arc::new(TestClock(clock.clone()))),
            ..OpenOptions::default()
        };
        let database = Database::open(&redis.url(), options).await.unwrap();
        Self {
            redis,
            database,
            clock,
        }
    }

    fn flush(&self) {
        let client = redis::Client::open(self.redis.url()).unwrap();
        redis::cmd("FLUSHALL")
            .exec(&mut client.get_connection().unwrap())
            .unwrap();
    }
}

impl Subject for Server {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(Leases::new(self.database.clone()).wait(Duration::ZERO))
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn guarded<'a>(&'a self, scope: &'a Scope, token: Token, nonce: Nonce) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            Leases::new(self.database.clone())
                .check_fence(scope, token, nonce)
                .await
        })
    }
}

lease_suite!(Server::start().await);

const TTL: Duration = Duration::from_secs(10);

fn ask(nonce: u128) -> Acquire {
    Acquire {
        scope: Scope::new("job").unwrap(),
        nonce: Nonce(nonce),
        ttl: TTL,
        min_token: Token(0),
        holder: "one".into(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_over_a_flush_and_the_old_term_is_lost() {
    let server = Server::start().await;
    server.clock.advance(Duration::from_secs(1_800_000_000));
    let store = server.store();
    let Acquired::Granted(before) = store.acquire(ask(1)).await.unwrap() else {
        panic!("granted");
    };
    server.flush();
    server.clock.advance(Duration::from_micros(1));
    let old = Term {
        scope: ask(1).scope,
        token: before,
        nonce: Nonce(1),
        ttl: TTL,
    };
    assert_eq!(store.renew(vec![old]).await.unwrap(), [Renewed::Lost]);
    let Acquired::Granted(after) = store.acquire(ask(2)).await.unwrap() else {
        panic!("granted");
    };
    assert!(after > before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scope_that_nobody_remembers_is_waited_for() {
    let server = Server::start().await;
    let store = Leases::new(server.database.clone()).wait(TTL);
    for (pass, left) in [(0, 10), (4, 6)] {
        server.clock.advance(Duration::from_secs(pass));
        match store.acquire(ask(1)).await.unwrap() {
            Acquired::Busy { remaining, holder } => {
                assert_eq!((remaining, holder.as_str()), (Duration::from_secs(left), ""));
            }
            other @ Acquired::Granted(_) => panic!("{other:?}"),
        }
        let records = store.list().await.unwrap();
        assert_eq!(
            (records[0].holder.clone(), records[0].remaining),
            (None, Duration::ZERO)
        );
    }
    server.clock.advance(Duration::from_secs(6));
    assert!(matches!(
        store.acquire(ask(1)).await.unwrap(),
        Acquired::Granted(_)
    ));
}

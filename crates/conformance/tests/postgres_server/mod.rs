//! A private Postgres with Tidegate's tables, on a clock that the test moves.

#![allow(dead_code)] // Each test file uses a part.

use std::sync::Arc;

use tidegate_conformance::testbed::Postgres;
use tidegate_core::Timestamp;
use tidegate_core::memory::Clock;
use tidegate_stores::postgres::{self, Database, OpenOptions};
use tokio_postgres::{Client, NoTls};

/// The server, one handle, and the clock of every handle.
pub(crate) struct Server {
    pub(crate) postgres: Postgres,
    pub(crate) database: Database,
    pub(crate) clock: Clock,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct TestClock(pub(crate) Clock);

impl postgres::Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.now().as_micros())
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        let postgres = Postgres::start();
        let clock = Clock::default();
        let database = open(&postgres, &clock).await;
        Self {
            postgres,
            database,
            clock,
        }
    }

    /// Another handle, as another process would have.
    pub(crate) async fn another(&self) -> Database {
        open(&self.postgres, &self.clock).await
    }

    /// A connection of the user's own.
    pub(crate) async fn own(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.postgres.url(), NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Server {
    /// Another handle with options of its own, on the same clock.
    pub(crate) async fn with(&self, options: OpenOptions) -> tidegate_core::Result<Database> {
        let options = OpenOptions {
            clock: Some(Arc::new(TestClock(self.clock.clone()))),
            ..options
        };
        Database::open(&self.postgres.url(), options).await
    }
}

async fn open(postgres: &Postgres, clock: &Clock) -> Database {
    let options = OpenOptions {
        clock: Some(Arc::new(TestClock(clock.clone()))),
        ..OpenOptions::default()
    };
    Database::open(&postgres.url(), options).await.unwrap()
}

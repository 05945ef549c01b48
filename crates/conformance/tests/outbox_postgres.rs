//! The outbox suite over Postgres, and what only a server, a user's transaction and late commits can show.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests.

mod postgres_server;

use std::sync::Arc;

use postgres_server::Server;
use tidegate_conformance::outbox::Subject;
use tidegate_conformance::outbox_suite;
use tidegate_core::memory::Clock;
use tidegate_core::store::{BoxFuture, OutboxStore};
use tidegate_stores::postgres::PostgresOutbox;
use tidegate_stores::postgres::outbox::Wanted;

impl Subject for Server {
    fn outbox(&self, lanes: u16, archive: bool) -> BoxFuture<'_, Arc<dyn OutboxStore>> {
        Box::pin(async move {
            let database = self.another().await;
            let outbox = PostgresOutbox::open(&database, "orders", Wanted { lanes, archive }).await;
            Arc::new(outbox.unwrap()) as Arc<dyn OutboxStore>
        })
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }
}

outbox_suite!(Server::start().await);

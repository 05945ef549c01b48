//! The lease suite over Postgres.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests.

mod postgres_server;

use std::sync::Arc;

use postgres_server::Server;
use tidegate_conformance::lease::Subject;
use tidegate_conformance::lease_suite;
use tidegate_core::Result;
use tidegate_core::lease::{Nonce, Scope, Token};
use tidegate_core::memory::Clock;
use tidegate_core::store::{BoxFuture, LeaseStore};
use tidegate_stores::postgres::lease::{Leases, check_fence};

impl Subject for Server {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(Leases::new(self.database.clone()))
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn guarded<'a>(&'a self, scope: &'a Scope, token: Token, nonce: Nonce) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let mut own = self.own().await;
            let tx = own.transaction().await.unwrap();
            let accepted = check_fence(&tx, &self.database, scope, token, nonce).await;
            tx.commit().await.unwrap();
            accepted
        })
    }
}

lease_suite!(Server::start().await);

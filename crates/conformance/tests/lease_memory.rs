//! The lease suite over the memory store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests.

use std::future::ready;
use std::sync::Arc;

use tidegate_conformance::lease::Subject;
use tidegate_conformance::lease_suite;
use tidegate_core::Result;
use tidegate_core::lease::{Nonce, Scope, Token};
use tidegate_core::memory::{Clock, lease::Leases};
use tidegate_core::store::{BoxFuture, LeaseStore};

struct Memory {
    clock: Clock,
    leases: Leases,
}

impl Memory {
    fn new() -> Self {
        let clock = Clock::default();
        let leases = Leases::new(clock.clone());
        Self { clock, leases }
    }
}

impl Subject for Memory {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(self.leases.clone())
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn guarded<'a>(&'a self, scope: &'a Scope, token: Token, nonce: Nonce) -> BoxFuture<'a, Result<bool>> {
        Box::pin(ready(Ok(self.leases.check_fence(scope, token, nonce))))
    }
}

lease_suite!(Memory::new());

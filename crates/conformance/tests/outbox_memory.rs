//! The outbox suite over the memory store.

use std::future::ready;
use std::sync::{Arc, OnceLock};

use tidegate_conformance::outbox::Subject;
use tidegate_conformance::outbox_suite;
use tidegate_core::Uuid;
use tidegate_core::lane::Lineage;
use tidegate_core::memory::{Clock, MemoryOutbox};
use tidegate_core::outbox::Settings;
use tidegate_core::store::{BoxFuture, OutboxStore};

#[derive(Default)]
struct Memory {
    clock: Clock,
    outbox: OnceLock<MemoryOutbox>,
}

impl Subject for Memory {
    fn outbox(&self, lanes: u16, archive: bool) -> BoxFuture<'_, Arc<dyn OutboxStore>> {
        let settings = Settings {
            lineage: Lineage(Uuid::from_u128(1)),
            name: "orders".into(),
            lanes,
            archive,
        };
        let make = || MemoryOutbox::new(self.clock.clone(), settings);
        Box::pin(ready(
            Arc::new(self.outbox.get_or_init(make).clone()) as Arc<dyn OutboxStore>
        ))
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }
}

outbox_suite!(Memory::default());

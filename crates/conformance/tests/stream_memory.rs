//! The stream suite over the memory store, and the losses that only it can have.

use std::future::ready;
use std::sync::Arc;

use tidegate_conformance::stream::{Stream, Subject};
use tidegate_conformance::stream_suite;
use tidegate_core::Uuid;
use tidegate_core::lane::{LaneId, Lineage};
use tidegate_core::lease::Token;
use tidegate_core::memory::{Clock, MemoryStream};
use tidegate_core::store::{BoxFuture, Sink, StreamStore};
use tidegate_core::stream::{Chain, EntryId, LaneAppend, Numbered};

struct Memory {
    clock: Clock,
    stream: MemoryStream,
}

impl Memory {
    fn new() -> Self {
        let clock = Clock::default();
        let stream = MemoryStream::new(clock.clone());
        Self { clock, stream }
    }
}

impl Subject for Memory {
    fn stream(&self, payload_max: usize) -> BoxFuture<'_, Arc<dyn Stream>> {
        self.stream.limit_payload(payload_max);
        Box::pin(ready(Arc::new(self.stream.clone()) as Arc<dyn Stream>))
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }
}

stream_suite!(Memory::new());

fn voids(slot: u16, count: u64) -> LaneAppend {
    let mut chain = Chain::START;
    let entries = (1..=count).map(|n| {
        chain = chain.next(n, None);
        Numbered {
            n,
            chain,
            event: None,
        }
    });
    LaneAppend {
        lane: LaneId {
            lineage: Lineage(Uuid::from_u128(1)),
            slot,
        },
        token: Token(3),
        entries: entries.collect(),
    }
}

#[tokio::test]
async fn a_forgotten_tail_takes_the_registers_back_with_it() {
    let stream = MemoryStream::new(Clock::default());
    let appends = vec![voids(0, 3), voids(1, 2)];
    stream.append(appends.clone()).await.unwrap();
    let before = stream.contents();
    assert_eq!(stream.forget_tail(3), 3);
    let contents = stream.contents();
    let registers: Vec<_> = contents.registers.values().map(|r| r.n).collect();
    assert_eq!((contents.last, registers), (2, vec![2, 0]));
    assert_eq!(
        contents.registers[&appends[0].lane].chain,
        appends[0].entries[1].chain
    );
    assert_eq!(stream.forget_tail(9), 2);
    stream.restore(before);
    assert_eq!(stream.contents().last, 5);
}

#[tokio::test]
async fn a_flush_begins_a_new_life() {
    let stream = MemoryStream::new(Clock::default());
    stream.append(vec![voids(0, 3)]).await.unwrap();
    let before = stream.registers().await.unwrap().incarnation;
    stream.flush();
    let page = stream.read(EntryId::START, None, 10, 10).await.unwrap();
    assert_ne!(page.incarnation, before);
    assert_eq!((page.entries.len(), page.last), (0, EntryId::START));
    assert!(stream.registers().await.unwrap().lanes.is_empty());
}

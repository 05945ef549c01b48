//! The workers over the memory stores: the shortest way from a committed event to an effect applied once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::format_collect
)]

use std::sync::Arc;
use std::time::Duration;

use tidegate::dead_letter::redact::Redactor;
use tidegate::inbox::{self, Start};
use tidegate::outbox::Settings;
use tidegate::store::OutboxStore;
use tidegate::{Consumer, Draft, Relay, State, Timestamp, Uuid, lane};
use tidegate_core::inbox::handler::each;
use tidegate_core::memory::{Clock, MemoryOutbox, MemoryStream, inbox::MemoryInbox};

fn outbox() -> MemoryOutbox {
    let settings = Settings {
        lineage: lane::Lineage(Uuid::from_u128(9)),
        name: "orders".into(),
        lanes: 4,
        archive: true,
    };
    MemoryOutbox::new(Clock::default(), settings)
}

fn event(n: u128) -> tidegate::Event {
    let key = format!("k{}", n % 7);
    Draft::new("orders", key)
        .seal(Uuid::from_u128(n), Timestamp::default())
        .unwrap()
}

#[tokio::test]
async fn run_once_publishes_and_applies_each_event_once_in_order() {
    let outbox = Arc::new(outbox());
    let stream = Arc::new(MemoryStream::new(Clock::default()));
    let inbox = Arc::new(MemoryInbox::new(Clock::default()));
    let handler = each(
        |tx: &mut tidegate_core::memory::inbox::MemoryTx, d: &inbox::Delivered| {
            tx.append(
                d.event.key.clone().unwrap_or_default(),
                &format!("{},", d.event.id.as_u128()),
            );
            Ok::<(), tidegate_core::inbox::handler::Fault>(())
        },
    );
    let applier = Arc::new(inbox.applier(handler, inbox::Options::default(), Redactor::default()));
    outbox.enqueue((1..=3000).map(event).collect()).await.unwrap();

    let relay = Relay::new("orders", outbox.clone(), stream.clone())
        .build()
        .unwrap();
    let consumer = Consumer::new("billing", stream.clone(), inbox.clone(), applier, Start::Earliest)
        .build()
        .unwrap();
    let limit = Duration::from_secs(10);
    assert_eq!(
        tokio::time::timeout(limit, relay.run_once())
            .await
            .unwrap()
            .unwrap(),
        3000
    );
    assert_eq!(
        tokio::time::timeout(limit, consumer.run_once())
            .await
            .unwrap()
            .unwrap(),
        3000
    );
    for key in 0..7u128 {
        let expected: String = (1..=3000)
            .filter(|n| n % 7 == key)
            .map(|n| format!("{n},"))
            .collect();
        assert_eq!(inbox.contents().table.get(&format!("k{key}")), Some(&expected));
    }
}

#[tokio::test]
async fn a_started_worker_stops_cleanly_within_its_limit() {
    let relay = Relay::new(
        "orders",
        Arc::new(outbox()),
        Arc::new(MemoryStream::new(Clock::default())),
    )
    .build()
    .unwrap();
    relay.start();
    relay.start();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!((relay.state(), relay.status().held), (State::Live, 4));
    let drained = relay.stop(Duration::from_secs(2)).await;
    assert!(
        drained.cleanly && drained.took < Duration::from_secs(1),
        "{drained:?}"
    );
    assert!(relay.stop(Duration::from_secs(2)).await.cleanly);
}

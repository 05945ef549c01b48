//! B21: a sink of the user's own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::outbox::Settings;
use tidegate::publish::{AtLeastOnce, Publish, Published};
use tidegate::store::{BoxFuture, OutboxStore, Sink};
use tidegate::{Draft, Event, Relay, State, Timestamp, Uuid, lane};
use tidegate_core::memory::{Clock, MemoryOutbox};

/// Remembers what it was given; answers as told.
#[derive(Clone, Default)]
struct Post {
    sent: Arc<Mutex<Vec<(String, u128)>>>,
    down: Arc<Mutex<u32>>,
    /// The subject that was missing has been made.
    mended: Arc<AtomicBool>,
}

impl Publish for Post {
    fn publish<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, Published> {
        Box::pin(async move {
            let mut down = self.down.lock().unwrap();
            if *down > 0 {
                *down -= 1;
                return Published::Unavailable("503".into());
            }
            if event.topic == "poison" && !self.mended.load(Ordering::Relaxed) {
                return Published::Poison("no such subject".into());
            }
            self.sent
                .lock()
                .unwrap()
                .push((event.key.clone().unwrap(), event.id.as_u128()));
            Published::Done
        })
    }
}

impl Post {
    /// What was sent of a key, in that order.
    fn ids(&self, key: &str) -> Vec<u128> {
        let sent = self.sent.lock().unwrap();
        let of_key = sent.iter().filter(|(k, _)| k == key);
        of_key.map(|(_, id)| *id).collect()
    }
}

fn outbox() -> Arc<MemoryOutbox> {
    let lineage = lane::Lineage(Uuid::from_u128(9));
    Arc::new(MemoryOutbox::new(
        Clock::default(),
        Settings {
            lineage,
            name: "o".into(),
            lanes: 2,
            archive: false,
        },
    ))
}

fn event(id: u128, topic: &str, key: &str) -> Event {
    Draft::new(topic, key)
        .seal(Uuid::from_u128(id), Timestamp::default())
        .unwrap()
}

async fn run(outbox: &Arc<MemoryOutbox>, post: &Post) -> u64 {
    let sink = Arc::new(AtLeastOnce::new(post.clone()));
    let relay = Relay::new("o", outbox.clone(), sink).build().unwrap();
    tokio::time::timeout(Duration::from_secs(20), relay.run_once())
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn b21_a_users_sink_gets_every_event_in_order_per_key() {
    let (outbox, post) = (outbox(), Post::default());
    let events = (1..=500).map(|n| event(n, "t", &format!("k{}", n % 5)));
    outbox.enqueue(events.collect()).await.unwrap();
    assert_eq!(run(&outbox, &post).await, 500);
    for key in 0..5u128 {
        let sent = post.sent.lock().unwrap();
        let ids: Vec<_> = sent
            .iter()
            .filter(|(k, _)| *k == format!("k{key}"))
            .map(|(_, id)| *id)
            .collect();
        assert_eq!(ids, (1..=500).filter(|n| n % 5 == key).collect::<Vec<_>>());
    }
    assert!(outbox.lanes().await.unwrap().iter().all(|l| l.depth == 0));
}

#[tokio::test]
async fn b3_an_outage_of_a_users_sink_blames_no_event() {
    let (outbox, post) = (outbox(), Post::default());
    *post.down.lock().unwrap() = 3;
    outbox
        .enqueue((1..=10).map(|n| event(n, "t", "k")).collect())
        .await
        .unwrap();
    assert_eq!(run(&outbox, &post).await, 10);
    assert!(outbox.parked(10).await.unwrap().is_empty());
}

#[tokio::test]
async fn o4_poison_at_a_users_sink_parks_its_key_only_and_release_keeps_order() {
    let (outbox, post) = (outbox(), Post::default());
    let events = [
        event(1, "t", "a"),
        event(2, "poison", "a"),
        event(3, "t", "a"),
        event(4, "t", "b"),
    ];
    outbox.enqueue(events.to_vec()).await.unwrap();
    run(&outbox, &post).await;
    let sent: Vec<_> = post.sent.lock().unwrap().iter().map(|(_, id)| *id).collect();
    assert!(
        sent.contains(&1) && sent.contains(&4) && !sent.contains(&3),
        "{sent:?}"
    );
    let parked = outbox.parked(10).await.unwrap();
    assert_eq!(
        (parked.len(), parked[0].events, parked[0].reason.as_str()),
        (1, 2, "no such subject")
    );
    let later = [event(5, "t", "a"), event(6, "t", "b")];
    outbox.enqueue(later.to_vec()).await.unwrap();
    run(&outbox, &post).await;
    assert_eq!(post.ids("a"), [1], "what comes later waits behind it");

    post.mended.store(true, Ordering::Relaxed);
    assert_eq!(outbox.release(parked[0].key.clone()).await.unwrap(), 3);
    run(&outbox, &post).await;
    assert_eq!((post.ids("a"), post.ids("b")), (vec![1, 2, 3, 5], vec![4, 6]));
    assert!(outbox.parked(10).await.unwrap().is_empty());
    assert!(outbox.lanes().await.unwrap().iter().all(|l| l.depth == 0));
}

#[tokio::test]
async fn a_sink_without_registers_says_at_least_once() {
    let sink = AtLeastOnce::new(Post::default());
    assert_eq!(sink.capabilities().guarantee(), "at least once");
    let relay = Relay::new("o", outbox(), Arc::new(sink)).build().unwrap();
    assert_eq!(relay.state(), State::Idle);
}

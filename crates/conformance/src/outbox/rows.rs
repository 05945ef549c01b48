//! Rows: what goes in, and what is told about it.

use std::time::Duration;

use tidegate_core::{Code, Event, limits};

use super::{Subject, event, events, ids, key_in, single};

pub async fn o_001_events_come_back_as_they_went_in(subject: &dyn Subject) {
    let relay = single(subject, false).await;
    let full = Event {
        version: Some(-7),
        headers: vec![
            ("traceparent".into(), "00-abc".into()),
            ("b".into(), String::new()),
            ("b".into(), "\"quoted\" ✓".into()),
        ],
        payload: b"\0binary\0\xff".to_vec().into(),
        ..event("clé ✓ 'quoted'", u128::MAX)
    };
    let bare = Event {
        key: None,
        payload: Vec::new().into(),
        ..event("", 0x1234)
    };
    relay
        .store
        .enqueue(vec![full.clone(), bare.clone()])
        .await
        .unwrap();
    let back: Vec<_> = relay
        .plan(10)
        .await
        .into_iter()
        .map(|p| p.event.unwrap())
        .collect();
    assert_eq!(back, [full, bare]);
}

pub async fn o_002_a_payload_may_fill_its_limit_and_no_more(subject: &dyn Subject) {
    let relay = single(subject, false).await;
    for bytes in [limits::PAYLOAD_BYTES_MAX - 1, limits::PAYLOAD_BYTES_MAX] {
        let large = Event {
            payload: vec![0; bytes].into(),
            ..event("k", bytes as u128)
        };
        relay.store.enqueue(vec![large.clone()]).await.unwrap();
        let back = relay.plan(1).await.remove(0).event.unwrap();
        assert_eq!(back, large);
    }
    let over = Event {
        payload: vec![0; limits::PAYLOAD_BYTES_MAX + 1].into(),
        ..event("k", 9)
    };
    let error = relay.store.enqueue(vec![over]).await.unwrap_err();
    assert_eq!(error.code(), Code::EventInvalid);
    assert!(error.context().contains("1048577"), "the size is named: {error}");
}

pub async fn o_003_every_field_has_a_limit(subject: &dyn Subject) {
    let relay = single(subject, false).await;
    let base = event("k", 1);
    let with = |change: &dyn Fn(&mut Event)| {
        let mut changed = base.clone();
        change(&mut changed);
        changed
    };
    let fits = [
        with(&|e| e.key = Some("k".repeat(limits::KEY_BYTES_MAX))),
        with(&|e| e.topic = "t".repeat(limits::TOPIC_BYTES_MAX)),
        with(&|e| e.headers = vec![("h".into(), "v".repeat(limits::HEADERS_BYTES_MAX - 1))]),
    ];
    relay.store.enqueue(fits.to_vec()).await.unwrap();
    let refused = [
        with(&|e| e.key = Some("k".repeat(limits::KEY_BYTES_MAX + 1))),
        with(&|e| e.key = Some(String::new())),
        with(&|e| e.key = Some("nul\0".into())),
        with(&|e| e.topic = "t".repeat(limits::TOPIC_BYTES_MAX + 1)),
        with(&|e| e.topic = String::new()),
        with(&|e| e.headers = vec![("h".into(), "v".repeat(limits::HEADERS_BYTES_MAX))]),
    ];
    for bad in refused {
        let error = relay.store.enqueue(vec![bad]).await.unwrap_err();
        assert_eq!(error.code(), Code::EventInvalid);
    }
    assert_eq!(relay.depth().await, 3);
}

pub async fn o_004_a_batch_with_one_bad_event_leaves_nothing(subject: &dyn Subject) {
    let relay = single(subject, false).await;
    let mut batch = events("k", 1..=5);
    batch[4].topic = String::new();
    relay.store.enqueue(batch).await.unwrap_err();
    assert_eq!(relay.depth().await, 0);
}

pub async fn o_005_an_empty_batch_is_nothing(subject: &dyn Subject) {
    let relay = single(subject, false).await;
    relay.store.enqueue(Vec::new()).await.unwrap();
    assert_eq!(relay.depth().await, 0);
}

pub async fn o_006_an_event_lies_in_the_lane_of_its_key(subject: &dyn Subject) {
    let store = subject.outbox(8, false).await;
    for slot in 0..8 {
        store.enqueue(vec![event(&key_in(slot, 8, 0), 1)]).await.unwrap();
        store
            .enqueue(events(&key_in(slot, 8, 1), 1..=u128::from(slot)))
            .await
            .unwrap();
    }
    let depths: Vec<_> = store.lanes().await.unwrap().iter().map(|row| row.depth).collect();
    assert_eq!(depths, [1, 2, 3, 4, 5, 6, 7, 8]);
}

pub async fn o_007_settings_are_as_they_were_made(subject: &dyn Subject) {
    let store = subject.outbox(16, true).await;
    let settings = store.settings().await.unwrap();
    assert_eq!((settings.lanes, settings.archive), (16, true));
    assert_eq!(store.lanes().await.unwrap().len(), 16);
    let again = subject.outbox(16, true).await.settings().await.unwrap();
    assert_eq!(again, settings);
}

pub async fn o_008_depth_and_age_are_told(subject: &dyn Subject) {
    let relay = single(subject, false).await;
    let now = subject.clock().now().as_micros();
    let mut batch = events("k", 1..=3);
    for event in &mut batch {
        event.occurred_at = tidegate_core::Timestamp::from_micros(now);
    }
    relay.store.enqueue(batch).await.unwrap();
    subject.clock().advance(Duration::from_millis(1500));
    let row = relay.store.lanes().await.unwrap().remove(0);
    assert_eq!((row.depth, row.oldest_micros), (3, Some(1_500_000)));
    assert_eq!(row.owner.as_deref(), Some("relay-a"));
    assert_eq!(row.token, relay.token());
    assert_eq!(ids(&relay.plan(2).await), [1, 2]);
    let row = relay.store.lanes().await.unwrap().remove(0);
    assert_eq!((row.depth, row.settled, row.planned), (3, 0, 2));
    subject.clock().advance(super::TTL);
    let row = relay.store.lanes().await.unwrap().remove(0);
    assert_eq!(row.owner, None, "expired");
}

pub async fn o_009_an_enqueue_rings(subject: &dyn Subject) {
    let relay = single(subject, false).await;
    let bell = relay.store.rung();
    relay.store.enqueue(events("k", 1..=1)).await.unwrap();
    bell.await;
    let other = subject.outbox(1, false).await;
    let bell = relay.store.rung();
    other.enqueue(events("k", 2..=2)).await.unwrap();
    bell.await;
}

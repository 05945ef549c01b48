use std::time::Duration;

use super::{SHOP, accept, file, with_set};
use crate::config::{Policy, Start, Table};

#[test]
fn a_declared_projection_is_read_with_the_defaults_of_the_design() {
    let consumer = accept(&file(SHOP))
        .config
        .consumer
        .remove("billing")
        .expect("declared");
    let columns =
        [("id", "id"), ("total", "total")].map(|(column, field)| (column.to_owned(), field.to_owned()));
    let table = Table {
        name: "orders_copy".to_owned(),
        key: "id".to_owned(),
        version: Some("version".to_owned()),
        columns: columns.into(),
    };
    assert_eq!(consumer.table, table);
    assert_eq!((consumer.start, consumer.policy), (Start::Earliest, Policy::Park));
    assert_eq!((consumer.batch_max, consumer.attempts_max), (500, 8));
    assert_eq!(
        (consumer.ttl, consumer.backoff_max),
        (Duration::from_secs(10), Duration::from_secs(30))
    );
}

#[test]
fn a_start_in_time_is_read_as_an_instant() {
    let config = accept(&with_set(
        file(SHOP),
        &["consumer.billing.start=at:2026-01-31T01:00:00+01:00"],
    ))
    .config;
    let instant: jiff::Timestamp = "2026-01-31T00:00:00Z".parse().expect("a time");
    assert_eq!(config.consumer["billing"].start, Start::At(instant));
}

#[test]
fn every_limit_includes_its_ends() {
    for arguments in [
        [
            "outbox.orders.lanes=1",
            "outbox.orders.ttl=1s",
            "consumer.billing.batch_max=1",
            "stream.orders.retain=1s",
        ],
        [
            "outbox.orders.lanes=1024",
            "outbox.orders.ttl=1h",
            "consumer.billing.batch_max=10000",
            "stream.orders.retain=3650d",
        ],
    ] {
        accept(&with_set(file(SHOP), &arguments));
    }
}

#[test]
fn one_store_can_serve_outbox_stream_and_consumer() {
    let config = accept(&file(SHOP)).config;
    assert_eq!(config.outbox["orders"].store, config.stream["orders"].store);
    assert_eq!(config.consumer["billing"].stream, config.outbox["orders"].stream);
}

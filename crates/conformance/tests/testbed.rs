//! The servers of the testbed themselves.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Instant;

use tidegate_conformance::testbed::{Postgres, Redis};
use tidegate_stores::postgres::{Database, OpenOptions};

#[tokio::test]
async fn a_postgres_starts_is_killed_and_starts_again_with_its_data() {
    let began = Instant::now();
    let server = Postgres::start();
    println!("started after {:?}", began.elapsed());
    let db = Database::open(&server.url(), OpenOptions::default())
        .await
        .unwrap();
    drop(db);
    server.kill();
    assert!(
        Database::open(&server.url(), OpenOptions::default())
            .await
            .is_err()
    );
    server.restart();
    let without = OpenOptions {
        migrate: false,
        ..OpenOptions::default()
    };
    Database::open(&server.url(), without).await.unwrap();
}

#[tokio::test]
async fn a_redis_starts_is_killed_and_starts_again() {
    let server = Redis::start();
    let client = redis::Client::open(server.url()).unwrap();
    client.get_connection().unwrap();
    server.kill();
    assert!(client.get_connection().is_err());
    server.restart();
    client.get_connection().unwrap();
}

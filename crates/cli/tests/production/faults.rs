//! One test for each fault: events go on to be written while it happens, and in the end both databases are equal.

use std::time::Duration;

use rustix::process::Signal;

use crate::bank::Producers;
use crate::world::{SOON, World, connect};

/// Longer than the ttl of every lease in these tests.
const BEYOND_TTL: Duration = Duration::from_millis(3500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_database_follows_and_nothing_waits_in_the_end() {
    let world = World::new("", "").await;
    let (one, two) = (world.daemon(), world.daemon());
    let producers = Producers::start(&world.service, 4, 40);
    producers.more(500).await;
    let committed = producers.end().await;
    world.settle().await;
    let published: i64 = connect(&world.service)
        .await
        .query_one("select sum(settled)::bigint from tidegate.lane", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(
        published.unsigned_abs(),
        committed,
        "one event for each committed transaction"
    );
    one.stop();
    two.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_daemon_is_replaced() {
    let world = World::new("", "").await;
    let mut daemons = vec![world.daemon(), world.daemon()];
    let producers = Producers::start(&world.service, 4, 40);
    for _ in 0..4 {
        producers.more(200).await;
        daemons.remove(0).kill();
        daemons.push(world.daemon());
    }
    producers.end().await;
    world.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_stopped_beyond_its_ttl_does_no_harm_when_it_wakes() {
    let world = World::new("", "").await;
    let (sleeper, _other) = (world.daemon(), world.daemon());
    let producers = Producers::start(&world.service, 4, 40);
    for _ in 0..2 {
        producers.more(200).await;
        sleeper.signal(Signal::STOP);
        tokio::time::sleep(BEYOND_TTL).await;
        sleeper.signal(Signal::CONT);
    }
    producers.more(200).await;
    producers.end().await;
    world.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_databases_come_back_and_nothing_is_lost_or_doubled() {
    let world = World::new("", "").await;
    let _daemons = (world.daemon(), world.daemon());
    let producers = Producers::start(&world.service, 4, 40);
    for server in [&world.service, &world.follower, &world.service, &world.follower] {
        producers.more(150).await;
        server.kill();
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.restart();
    }
    producers.more(100).await;
    producers.end().await;
    world.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_or_empty_redis_is_refilled_from_the_archive() {
    let world = World::new("archive = \"1h\"", "").await;
    let _daemons = (world.daemon(), world.daemon());
    let producers = Producers::start(&world.service, 4, 40);
    producers.more(300).await;
    let client = redis::Client::open(world.redis.url()).unwrap();
    redis::cmd("FLUSHALL")
        .exec(&mut client.get_connection().unwrap())
        .unwrap();
    producers.more(300).await;
    world.redis.kill();
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.redis.restart();
    producers.more(300).await;
    producers.end().await;
    world.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_without_an_archive_declares_exactly_what_is_lost_and_consumers_stop_there() {
    let world = World::new("", "").await;
    let relay = world.daemon();
    let producers = Producers::start(&world.service, 4, 8);
    producers.more(200).await;
    producers.end().await;
    world.settle().await;
    // The follower is locked while events are published and lost.
    let lock = connect(&world.follower).await;
    lock.batch_execute("begin; lock table orders_copy in access exclusive mode")
        .await
        .unwrap();
    let producers = Producers::start(&world.service, 4, 8);
    producers.more(100).await;
    producers.end().await;
    until_published(&world).await;
    let client = redis::Client::open(world.redis.url()).unwrap();
    redis::cmd("FLUSHALL")
        .exec(&mut client.get_connection().unwrap())
        .unwrap();
    let producers = Producers::start(&world.service, 4, 8);
    producers.more(100).await;
    producers.end().await;
    until_published(&world).await;
    lock.batch_execute("rollback").await.unwrap();
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        let lag = world.ok(&["consumer", "lag", "copy", "--json"]);
        let lanes: Vec<serde_json::Value> = lag
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let stuck = lanes.iter().filter(|lane| {
            let hw = lane["hw"].as_u64().unwrap();
            let range = (lane["lost"]["from"].as_u64(), lane["lost"]["through"].as_u64());
            matches!(range, (Some(from), Some(through)) if from <= hw + 1 && hw < through)
        });
        let moving = lanes
            .iter()
            .filter(|lane| lane["lost"].is_null() && lane["behind"].as_u64().is_none_or(|behind| behind > 0))
            .filter(|lane| lane["hw"] != 0)
            .count();
        if stuck.count() > 0 && moving == 0 {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{lag}\n{}", world.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    world.ok(&[
        "consumer",
        "skip-lost",
        "copy",
        "--reason",
        "a flush without an archive",
    ]);
    // Rows changed after the loss are equal again: their events hold the whole row.
    let producers = Producers::start(&world.service, 4, 8);
    producers.more(200).await;
    producers.end().await;
    world.settle().await;
    relay.stop();
}

/// Everything that was committed is in the stream.
async fn until_published(world: &World) {
    let client = connect(&world.service).await;
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        let waiting: i64 = client
            .query_one("select count(*) from tidegate.outbox", &[])
            .await
            .unwrap()
            .get(0);
        if waiting == 0 {
            return;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "{waiting} rows wait\n{}",
            world.log()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

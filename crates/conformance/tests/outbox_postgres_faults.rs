//! Faults of the Postgres outbox: killed servers, locks of others, relays that meet, rows that somebody deleted.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests.

mod postgres_relay;
mod postgres_server;

use std::collections::BTreeMap;
use std::time::Duration;

use postgres_relay::{Pump, end};
use postgres_server::Server;
use tidegate_core::lane::LaneId;
use tidegate_core::lease::Nonce;
use tidegate_core::memory::Clock;
use tidegate_core::outbox::{LaneTurn, LaneTurned, Park, ParkReply};
use tidegate_core::store::OutboxStore as _;
use tidegate_core::{Code, Draft, Effect, Event, Timestamp, Uuid};
use tidegate_stores::postgres::OpenOptions;

fn events(count: usize) -> Vec<Event> {
    let event = |n| {
        let draft = Draft::new("orders", format!("key-{}", n % 20)).payload("text/plain", vec![7; 100]);
        draft.seal(Uuid::now_v7(), Timestamp::from_micros(1)).unwrap()
    };
    (0..count).map(event).collect()
}

fn planned(outcome: LaneTurned) -> Vec<tidegate_core::outbox::Planned> {
    match outcome {
        LaneTurned::Planned { events, .. } => events,
        LaneTurned::Fenced => panic!("the lane is mine"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_during_a_turn_leaves_the_plan_or_none_of_it() {
    let server = Server::start().await;
    let pump = Pump::start(&server, 1, 1).await;
    pump.outbox.enqueue(events(30)).await.unwrap();
    let held = pump.hold().await.unwrap();
    let first = planned(pump.plan(&held, 10).await.unwrap().remove(0).outcome);
    assert_eq!(first.len(), 10);
    // The turn waits at the lane's row when the server dies.
    let mut own = server.own().await;
    let tx = own.transaction().await.unwrap();
    tx.batch_execute("select from tidegate.lane for update")
        .await
        .unwrap();
    let turn = tokio::spawn(async move { pump.plan(&held, 20).await });
    let other = server.own().await;
    let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
    while other.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
    server.postgres.kill();
    let error = turn.await.unwrap().unwrap_err();
    assert!(
        matches!(error.effect(), Effect::NotApplied | Effect::Unknown),
        "{error:?}"
    );
    server.postgres.restart();
    let mut next = Pump::start(&server, 1, 2).await;
    server.clock.advance(Duration::from_secs(5));
    let held = next.hold().await.unwrap();
    assert_eq!(held.owned[0].state.planned, 10);
    let again = planned(next.plan(&held, 0).await.unwrap().remove(0).outcome);
    assert_eq!(again, first);
    assert_eq!(next.drain().await.len(), 30);
}

#[tokio::test]
async fn a_read_only_server_is_told_from_a_broken_one() {
    let server = Server::start().await;
    let pump = Pump::start(&server, 4, 1).await;
    pump.outbox.enqueue(events(4)).await.unwrap();
    let own = server.own().await;
    own.batch_execute("alter database postgres set default_transaction_read_only = on")
        .await
        .unwrap();
    let mut read_only = Pump::start(&server, 4, 1).await;
    let error = read_only.try_round().await.unwrap_err();
    assert_eq!(
        (error.code(), error.effect()),
        (Code::StoreReadOnly, Effect::NotApplied)
    );
    let error = read_only.outbox.enqueue(events(1)).await.unwrap_err();
    assert_eq!(
        (error.code(), error.effect()),
        (Code::StoreReadOnly, Effect::NotApplied)
    );
    assert_eq!(read_only.depth().await, 4);
}

#[tokio::test]
async fn a_lane_that_another_session_locks_is_busy_and_nothing_is_lost() {
    let server = Server::start().await;
    let options = OpenOptions {
        lock_timeout: Duration::from_millis(100),
        ..OpenOptions::default()
    };
    server.clock.advance(Duration::from_secs(1));
    let mut pump = Pump::on(&server.with(options).await.unwrap(), 4, 1).await;
    pump.outbox.enqueue(events(40)).await.unwrap();
    let held = pump.hold().await.unwrap();
    let mut own = server.own().await;
    let tx = own.transaction().await.unwrap();
    tx.batch_execute("select from tidegate.lane where slot = 2 for update")
        .await
        .unwrap();
    for error in [
        pump.plan(&held, 9).await.unwrap_err(),
        pump.hold().await.unwrap_err(),
    ] {
        assert_eq!(
            (error.code(), error.effect()),
            (Code::StoreBusy, Effect::NotApplied)
        );
    }
    tx.rollback().await.unwrap();
    assert_eq!(pump.drain().await.len(), 40);
}

/// What one relay settled, and how many of its settles were fenced.
#[derive(Default)]
struct Work {
    settled: Vec<(LaneId, u64, Uuid)>,
    fenced: usize,
}

impl Work {
    /// Plans a little and settles it. A sleeper's lease runs out in between, and another identity takes its lanes.
    async fn round(&mut self, pump: &mut Pump, clock: &Clock, sleeper: bool) {
        let held = pump.hold().await.unwrap();
        let turned = pump.plan(&held, 7).await.unwrap();
        let mut settles = Vec::new();
        let mut batch = BTreeMap::new();
        for (owned, turned) in held.owned.iter().zip(turned) {
            let LaneTurned::Planned { events, .. } = turned.outcome else {
                continue;
            };
            if events.is_empty() {
                continue;
            }
            settles.push(LaneTurn {
                lane: owned.lane,
                token: owned.token,
                settle: Some(end(owned.state.chain, &events)),
                plan: 0,
                load: false,
            });
            batch.insert(owned.lane, events);
        }
        let member = pump.member;
        if sleeper {
            clock.advance(Duration::from_secs(2));
            pump.member += 100;
            pump.hold().await.unwrap();
        }
        let late = std::mem::replace(&mut pump.member, member);
        for turned in pump.send(settles).await.unwrap() {
            if turned.outcome == LaneTurned::Fenced {
                self.fenced += 1;
                continue;
            }
            let events = batch.remove(&turned.lane).unwrap();
            let numbers = events
                .into_iter()
                .map(|p| (turned.lane, p.n, p.event.unwrap().id));
            self.settled.extend(numbers);
        }
        pump.member = late;
    }
}

/// Three relays hold, plan and settle at once while lanes change hands: no deadlock, each number and each event once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_that_meet_neither_block_nor_double() {
    let server = Server::start().await;
    let producer = Pump::start(&server, 16, 9).await.outbox;
    let writing = tokio::spawn(async move {
        for _ in 0..60 {
            producer.enqueue(events(10)).await.unwrap();
        }
    });
    let mut working = Vec::new();
    for member in 1..=3 {
        let (mut pump, clock) = (Pump::start(&server, 16, member).await, server.clock.clone());
        working.push(tokio::spawn(async move {
            let mut work = Work::default();
            for round in 0..40_u128 {
                work.round(&mut pump, &clock, round % 3 == member % 3).await;
            }
            (work, pump)
        }));
    }
    let mut seen = BTreeMap::new();
    let mut last = None;
    let (mut fences, mut owners) = (0, 0);
    for task in working {
        let (work, pump) = task.await.unwrap();
        fences += work.fenced;
        owners += usize::from(!work.settled.is_empty());
        for (lane, n, id) in work.settled {
            assert_eq!(
                seen.insert((lane, n), id),
                None,
                "number {n} of {lane} was settled twice"
            );
        }
        last = Some(pump);
    }
    println!("{owners} relays settled, {fences} settles were fenced");
    assert!(owners > 1 && fences > 0, "lanes never changed hands");
    writing.await.unwrap();
    server.clock.advance(Duration::from_secs(60));
    let rest = last.unwrap().drain().await;
    let mut ids: Vec<_> = seen.into_values().chain(rest.iter().map(|e| e.id)).collect();
    assert_eq!(ids.len(), 600);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 600, "each event once");
}

#[tokio::test]
async fn a_row_that_somebody_deleted_fences_its_lane_only() {
    let server = Server::start().await;
    let pump = Pump::start(&server, 16, 1).await;
    pump.outbox.enqueue(events(200)).await.unwrap();
    let held = pump.hold().await.unwrap();
    pump.plan(&held, 100).await.unwrap();
    let delete =
        "delete from tidegate.outbox where seq = (select min(seq) from tidegate.outbox) returning lane";
    let lane: i16 = server.own().await.query_one(delete, &[]).await.unwrap().get(0);
    for turned in pump.plan(&held, 0).await.unwrap() {
        let hit = turned.lane.slot == u16::try_from(lane).unwrap();
        assert_eq!(turned.outcome == LaneTurned::Fenced, hit);
    }
}

/// An open transaction has drawn a number below those that a release draws: the release waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_keeps_its_order_with_a_producer_that_commits_late() {
    let server = Server::start().await;
    let mut pump = Pump::start(&server, 1, 1).await;
    let event = |n| Draft::new("orders", "k").id(Uuid::from_u128(n));
    let seal = |n| event(n).seal(Uuid::nil(), Timestamp::from_micros(1)).unwrap();
    pump.outbox.enqueue(vec![seal(1), seal(2)]).await.unwrap();
    let held = pump.hold().await.unwrap();
    pump.plan(&held, 1).await.unwrap();
    let park = Park {
        member: Nonce(1),
        lane: held.owned[0].lane,
        token: held.owned[0].token,
        n: 1,
        followers: true,
        reason: "poison".into(),
    };
    let parked = pump.outbox.park(park).await.unwrap();
    assert!(matches!(parked, ParkReply::Parked { .. }));
    let mut own = server.own().await;
    let tx = own.transaction().await.unwrap();
    pump.outbox.enqueue_in(&tx, [event(3)]).await.unwrap();
    let outbox = pump.outbox.clone();
    let releasing = tokio::spawn(async move { outbox.release("k".into()).await });
    let other = server.own().await;
    let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
    while other.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(!releasing.is_finished(), "it must wait");
    }
    tx.commit().await.unwrap();
    assert_eq!(releasing.await.unwrap().unwrap(), 2);
    let ids: Vec<_> = pump.drain().await.iter().map(|e| e.id.as_u128()).collect();
    assert_eq!(ids, [1, 2, 3]);
}

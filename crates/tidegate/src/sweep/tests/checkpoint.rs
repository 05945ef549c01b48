//! Checkpoints over crashes and hand-overs.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::lease::{Nonce, Opened, Token};
use tidegate_core::store::{BoxFuture, LeaseStore};
use tidegate_core::{Code, Result};
use tidegate_stores::sqlite::sweep::{Checkpoints, checkpoint, save_checkpoint};
use tidegate_stores::sqlite::{Database, Sql, lease};
use tokio::sync::Notify;

use super::{EVERY, File, LONG, PATIENCE, soon, until};
use crate::sweep::{Context, Step, Sweeper, scope};
use crate::worker::Worker;

/// Adds the numbers 1 to 10, one a step, where its checkpoint says; each step passes the gate first.
fn adding(
    file: &File,
    db: &Database,
    ttl: Duration,
    gate: impl Fn(u8) -> BoxFuture<'static, ()> + Send + Sync + 'static,
) -> Worker {
    let own = db.clone();
    let job = move |ctx: Context| {
        let db = own.clone();
        let next = ctx.checkpoint.as_ref().map_or(1, |bytes| bytes[0] + 1);
        let gate = gate(next);
        async move {
            gate.await;
            db.write(move |tx| add(tx, &ctx, next)).await
        }
    };
    Sweeper::new("nightly", file.leases(ttl), EVERY, job)
        .checkpoints(Arc::new(Checkpoints::new(db.clone())))
        .build()
        .unwrap()
}

fn add(tx: &Sql<'_>, ctx: &Context, n: u8) -> Result<Step> {
    tx.execute("adding", "insert into numbers (n) values (?1)", [n])?;
    save_checkpoint(tx.connection(), &ctx.mark(), &[n])?;
    Ok(Step {
        done: 1,
        more: n < 10,
    })
}

async fn numbers(db: &Database) -> Vec<u8> {
    db.read(|sql| {
        sql.query("test", "select n from numbers order by rowid", [], |row| {
            row.get(0)
        })
    })
    .await
    .unwrap()
}

async fn with_numbers(file: &File) -> Database {
    let db = file.open();
    db.write(|sql| sql.execute("test", "create table numbers (n integer)", []))
        .await
        .unwrap();
    db
}

fn open_gate(_: u8) -> BoxFuture<'static, ()> {
    Box::pin(async {})
}

fn whole() -> Vec<u8> {
    (1..=10).collect()
}

#[tokio::test]
async fn a_run_resumes_where_a_crash_left_it() {
    let file = File::new();
    let db = with_numbers(&file).await;
    let ttl = Duration::from_millis(600);
    let crashing = adding(&file, &db, ttl, |n| {
        Box::pin(async move {
            if n == 5 {
                std::future::pending::<()>().await;
            }
        })
    });
    crashing.start();
    until(|| crashing.position() == 4).await;
    drop(crashing);
    let second = adding(&file, &db, ttl, open_gate);
    second.start();
    until(|| second.position() >= 6).await;
    assert!(second.stop(PATIENCE).await.cleanly);
    let all = numbers(&db).await;
    assert_eq!(all[..10], whole());
}

#[tokio::test]
async fn seed_a_sweeper_that_was_taken_over_moved_the_cursor_back() {
    let file = File::new();
    let db = with_numbers(&file).await;
    let (go, at_gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (opened, reached) = (Arc::clone(&go), Arc::clone(&at_gate));
    // Step 3 of the first process waits with its checkpoint in hand.
    let slow = adding(&file, &db, LONG, move |n| {
        let (opened, reached) = (Arc::clone(&opened), Arc::clone(&reached));
        Box::pin(async move {
            if n == 3 {
                reached.notify_one();
                opened.notified().await;
            }
        })
    });
    let running = tokio::spawn(async move { slow.run_once().await });
    soon(at_gate.notified()).await;
    // An operator gives its lease to another one, which sweeps to the end.
    let store = lease::Leases::new(file.open());
    store.break_lease(scope("nightly").unwrap()).await.unwrap();
    let other = adding(&file, &db, LONG, open_gate);
    assert_eq!(soon(other.run_once()).await.unwrap(), 8);
    go.notify_one();
    let refused = soon(running).await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::LeaseLost);
    assert_eq!(numbers(&db).await, whole());
    let place = db.read(|sql| checkpoint(sql.connection(), "nightly"));
    assert_eq!(place.await.unwrap().bytes, Some(vec![10]));
}

#[tokio::test]
async fn a_fence_that_is_ahead_raises_the_token_and_the_step_saves() {
    let file = File::new();
    let db = with_numbers(&file).await;
    let ahead = Token(Token::MAX / 2);
    let fences = lease::Leases::new(db.clone());
    let opened = fences.open_fence(scope("nightly").unwrap(), ahead, Nonce(9));
    assert_eq!(opened.await.unwrap(), Opened::Open);
    let worker = adding(&file, &db, LONG, open_gate);
    assert_eq!(soon(worker.run_once()).await.unwrap(), 10);
    assert_eq!(numbers(&db).await, whole());
    assert!(file.record().await.token > ahead);
}

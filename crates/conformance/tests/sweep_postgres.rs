//! Checkpoints of sweeps in Postgres: saved with the step's effect, or not at all.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests.

mod postgres_server;

use postgres_server::Server;
use tidegate_core::Code;
use tidegate_core::lease::{Nonce, Opened, Scope, Token};
use tidegate_core::store::SweepStore as _;
use tidegate_core::sweep::{Mark, Place};
use tidegate_stores::postgres::sweep::{Checkpoints, save_checkpoint};

fn mark(token: u64, nonce: u128, version: u64) -> Mark {
    Mark {
        name: "visits".into(),
        scope: Scope::new("visits").unwrap(),
        token: Token(token),
        nonce: Nonce(nonce),
        version,
    }
}

async fn save(server: &Server, mark: &Mark, bytes: &[u8], commit: bool) -> tidegate_core::Result<u64> {
    let mut own = server.own().await;
    let tx = own.transaction().await.unwrap();
    let saved = save_checkpoint(&tx, &server.database, mark, bytes).await?;
    if commit {
        tx.commit().await.unwrap();
    }
    Ok(saved)
}

async fn place(store: &Checkpoints) -> Place {
    store.place("visits".into()).await.unwrap()
}

#[tokio::test]
async fn a_checkpoint_moves_with_its_step_and_never_back() {
    let server = Server::start().await;
    let store = Checkpoints::new(server.database.clone());
    let scope = Scope::new("visits").unwrap();
    assert_eq!(place(&store).await, Place::default());
    let opened = store.fences().open_fence(scope.clone(), Token(5), Nonce(1)).await;
    assert_eq!(opened.unwrap(), Opened::Open);
    assert_eq!(save(&server, &mark(5, 1, 0), b"10", true).await.unwrap(), 1);
    // A step that is rolled back leaves no checkpoint.
    assert_eq!(save(&server, &mark(5, 1, 1), b"20", false).await.unwrap(), 2);
    assert_eq!(place(&store).await.bytes.as_deref(), Some(&b"10"[..]));
    // A step that was cut and commits late is refused, and so is an earlier term.
    assert_eq!(save(&server, &mark(5, 1, 1), b"30", true).await.unwrap(), 2);
    let late = save(&server, &mark(5, 1, 1), b"20", true).await.unwrap_err();
    assert_eq!(late.code(), Code::LeaseLost);
    store
        .fences()
        .open_fence(scope, Token(6), Nonce(2))
        .await
        .unwrap();
    let stale = save(&server, &mark(5, 1, 2), b"40", true).await.unwrap_err();
    assert_eq!(stale.code(), Code::LeaseLost);
    assert_eq!(place(&store).await.bytes.as_deref(), Some(&b"30"[..]));
}

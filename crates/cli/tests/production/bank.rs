//! Producers: transactions of a service that change rows and write their events, some rolled back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate_conformance::testbed::Postgres;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

/// A change of one order and its event, in one statement: the row lock is held up to the commit.
const CHANGE: &str = "
    with changed as (
      insert into orders as o (id, total, version) values ($1, $2, 1)
      on conflict (id) do update set total = o.total + excluded.total, version = o.version + 1
      returning o.id, o.total, o.version)
    select tidegate.enqueue('orders', 'orders', c.id,
      convert_to(json_build_object('id', c.id, 'total', c.total)::text, 'UTF8'), version => c.version)
    from changed c";

/// Producers that run until they are told to end.
pub(crate) struct Producers {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
    committed: Arc<AtomicU64>,
}

impl Producers {
    /// Starts so many, over so many keys. One in ten transactions is rolled back.
    pub(crate) fn start(server: &Postgres, count: u64, keys: u64) -> Self {
        let (stop, committed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        for seed in 0..count {
            tasks.spawn(produce(
                server.url(),
                seed,
                keys,
                Arc::clone(&stop),
                Arc::clone(&committed),
            ));
        }
        Self {
            stop,
            tasks,
            committed,
        }
    }

    /// Transactions that were committed so far.
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// Waits until so many more were committed.
    pub(crate) async fn more(&self, count: u64) {
        let goal = self.committed() + count;
        while self.committed() < goal {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends them; returns how many transactions were committed.
    pub(crate) async fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        self.committed.load(Ordering::Relaxed)
    }
}

/// Goes on through restarts of the server: an attempt whose outcome is unknown is simply another transaction.
async fn produce(url: String, seed: u64, keys: u64, stop: Arc<AtomicBool>, committed: Arc<AtomicU64>) {
    let mut random = fastrand::Rng::with_seed(seed);
    while !stop.load(Ordering::Relaxed) {
        let Ok((mut client, connection)) = tokio_postgres::connect(&url, NoTls).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        tokio::spawn(connection);
        while !stop.load(Ordering::Relaxed) {
            let Ok(tx) = client.transaction().await else { break };
            let key = format!("order-{}", random.u64(0..keys));
            if let Err(error) = tx.query(CHANGE, &[&key, &random.i64(1..100)]).await {
                assert!(
                    error.is_closed() || error.code().is_none_or(|code| code.code().starts_with("57")),
                    "{error:?}"
                );
                break;
            }
            let ended = if random.u8(0..10) == 0 {
                tx.rollback().await
            } else {
                let done = tx.commit().await;
                if done.is_ok() {
                    committed.fetch_add(1, Ordering::Relaxed);
                }
                done
            };
            if ended.is_err() {
                break;
            }
        }
    }
}

//! Wakes readers at an append of any process: one blocking read on a connection of its own, for all waiters of a handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Client;
use tidegate_core::store::BoxFuture;
use tokio::sync::{oneshot, watch};

use crate::redis::db::blocking;

/// Longest wait for a ring that does not come; also how long one read blocks.
const AT_LEAST: Duration = Duration::from_secs(1);
/// Pause before another try to connect.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Bell {
    rings: Arc<watch::Sender<u64>>,
    started: AtomicBool,
    /// Dropped with the bell: the listener ends then.
    end: std::sync::Mutex<Option<oneshot::Sender<()>>>,
}

impl Bell {
    pub(super) fn new() -> Self {
        Self {
            rings: Arc::new(watch::Sender::new(0)),
            started: AtomicBool::new(false),
            end: std::sync::Mutex::new(None),
        }
    }

    /// Resolves at the next ring from the call on.
    pub(super) fn rung(&self, client: Client, entries: &str) -> BoxFuture<'static, ()> {
        self.listen(client, entries.to_owned());
        let mut rings = self.rings.subscribe();
        Box::pin(async move {
            let _ = tokio::time::timeout(AT_LEAST, rings.changed()).await;
        })
    }

    fn listen(&self, client: Client, entries: String) {
        if self.started.swap(true, Ordering::AcqRel) {
            return;
        }
        let (end, ended) = oneshot::channel();
        if let Ok(mut slot) = self.end.lock() {
            *slot = Some(end);
        }
        let rings = Arc::clone(&self.rings);
        let listening = async move {
            loop {
                let _ = hear(&client, &entries, &rings).await;
                tokio::time::sleep(AGAIN).await;
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                () = listening => {}
                _ = ended => {}
            }
        });
    }
}

/// Rings for each append, until the connection is lost.
async fn hear(client: &Client, entries: &str, rings: &watch::Sender<u64>) -> redis::RedisResult<()> {
    let mut connection = blocking(client).await?;
    loop {
        let last = last(&mut connection, entries).await?;
        // Everything up to `last` was there before this ring.
        rings.send_modify(|rings| *rings = rings.wrapping_add(1));
        loop {
            let read: redis::Value = redis::cmd("XREAD")
                .arg("COUNT")
                .arg(1)
                .arg("BLOCK")
                .arg(u64::try_from(AT_LEAST.as_millis()).unwrap_or(1000))
                .arg("STREAMS")
                .arg(entries)
                .arg(&last)
                .query_async(&mut connection)
                .await?;
            if read != redis::Value::Nil {
                break;
            }
        }
    }
}

async fn last(
    connection: &mut redis::aio::MultiplexedConnection,
    entries: &str,
) -> redis::RedisResult<String> {
    let newest: Vec<(String, redis::Value)> = redis::cmd("XREVRANGE")
        .arg(entries)
        .arg("+")
        .arg("-")
        .arg("COUNT")
        .arg(1)
        .query_async(connection)
        .await?;
    Ok(newest
        .into_iter()
        .next()
        .map_or_else(|| "0-0".into(), |(id, _)| id))
}

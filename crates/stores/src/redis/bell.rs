//! Wakes waiters of a handle at a change by any process: one connection that only listens, for all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use redis::Client;
use tidegate_core::store::BoxFuture;
use tokio::sync::{oneshot, watch};

use super::db::blocking;

/// Longest wait for a ring that does not come; also how long one read blocks.
const AT_LEAST: Duration = Duration::from_secs(1);
/// Pause before another try to connect.
const AGAIN: Duration = Duration::from_secs(1);

/// What a bell listens to.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// Entries of the stream with this key.
    Appends(String),
    /// Messages of this channel.
    Channel(String),
}

#[derive(Debug)]
pub(super) struct Bell {
    source: Source,
    rings: Arc<watch::Sender<u64>>,
    started: AtomicBool,
    /// Dropped with the bell: the listener ends then.
    end: std::sync::Mutex<Option<oneshot::Sender<()>>>,
}

impl Bell {
    pub(super) fn new(source: Source) -> Self {
        Self {
            source,
            rings: Arc::new(watch::Sender::new(0)),
            started: AtomicBool::new(false),
            end: std::sync::Mutex::new(None),
        }
    }

    /// Resolves at the next ring from the call on.
    pub(super) fn rung(&self, client: Client) -> BoxFuture<'static, ()> {
        self.listen(client);
        let mut rings = self.rings.subscribe();
        Box::pin(async move {
            let _ = tokio::time::timeout(AT_LEAST, rings.changed()).await;
        })
    }

    fn listen(&self, client: Client) {
        if self.started.swap(true, Ordering::AcqRel) {
            return;
        }
        let (end, ended) = oneshot::channel();
        if let Ok(mut slot) = self.end.lock() {
            *slot = Some(end);
        }
        let (rings, source) = (Arc::clone(&self.rings), self.source.clone());
        let listening = async move {
            loop {
                let _ = match &source {
                    Source::Appends(key) => hear_appends(&client, key, &rings).await,
                    Source::Channel(name) => hear_channel(&client, name, &rings).await,
                };
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
async fn hear_appends(client: &Client, entries: &str, rings: &watch::Sender<u64>) -> redis::RedisResult<()> {
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

/// Rings for each message, until the connection is lost.
async fn hear_channel(client: &Client, name: &str, rings: &watch::Sender<u64>) -> redis::RedisResult<()> {
    let mut channel = client.get_async_pubsub().await?;
    channel.subscribe(name).await?;
    let mut messages = channel.into_on_message();
    // Whatever was said before is not repeated.
    rings.send_modify(|rings| *rings = rings.wrapping_add(1));
    while messages.next().await.is_some() {
        rings.send_modify(|rings| *rings = rings.wrapping_add(1));
    }
    Ok(())
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

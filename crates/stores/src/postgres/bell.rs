//! Wakes those who wait for a change: one connection that listens, for all of them.
//!
//! The connection only reads and is never in a transaction. It is made when somebody first waits, and again when it is
//! lost. A bell is a hint: who waits is woken once a second at the latest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tidegate_core::store::BoxFuture;
use tokio::sync::{oneshot, watch};
use tokio_postgres::AsyncMessage;

use super::Database;

/// Longest wait for a ring that does not come.
const AT_LEAST: Duration = Duration::from_secs(1);
/// Where nobody can listen: behind a pooler.
const POLL: Duration = Duration::from_millis(50);
/// Pause before another try to connect.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Bell {
    rings: Arc<watch::Sender<u64>>,
    started: AtomicBool,
    /// Dropped with the bell: the listener ends then.
    end: std::sync::Mutex<Option<oneshot::Sender<()>>>,
}

impl Default for Bell {
    fn default() -> Self {
        Self {
            rings: Arc::new(watch::Sender::new(0)),
            started: AtomicBool::new(false),
            end: std::sync::Mutex::new(None),
        }
    }
}

impl Bell {
    /// Wakes those who wait in this process.
    pub(super) fn ring(&self) {
        self.rings.send_modify(|rings| *rings = rings.wrapping_add(1));
    }

    /// Resolves at the next ring from the call on.
    pub(super) fn rung(&self, db: &Database) -> BoxFuture<'static, ()> {
        if db.options().pooler {
            return Box::pin(tokio::time::sleep(POLL));
        }
        self.listen(db);
        let mut rings = self.rings.subscribe();
        Box::pin(async move {
            let _ = tokio::time::timeout(AT_LEAST, rings.changed()).await;
        })
    }

    fn listen(&self, db: &Database) {
        if self.started.swap(true, Ordering::AcqRel) {
            return;
        }
        let (end, ended) = oneshot::channel();
        if let Ok(mut slot) = self.end.lock() {
            *slot = Some(end);
        }
        let (dial, rings) = (db.dial(), Arc::clone(&self.rings));
        let listening = async move {
            loop {
                let _ = hear(&dial, &rings).await;
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

/// Rings for each notification, until the connection is lost.
async fn hear(dial: &super::db::Dial, rings: &watch::Sender<u64>) -> tidegate_core::Result<()> {
    let (client, mut connection) = dial.connect().await?;
    let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
    let text = format!("listen {}", dial.channel());
    let mut listening = std::pin::pin!(client.batch_execute(&text));
    let mut heard = false;
    loop {
        tokio::select! {
            done = &mut listening, if !heard => {
                done.map_err(super::error::map("listening"))?;
                heard = true;
                // Whatever was said before is not repeated.
                rings.send_modify(|rings| *rings = rings.wrapping_add(1));
            }
            message = messages.next() => match message {
                Some(Ok(AsyncMessage::Notification(_))) => rings.send_modify(|rings| *rings = rings.wrapping_add(1)),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Ok(()),
            },
        }
    }
}

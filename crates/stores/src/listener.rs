//! Wakes those who wait for a change by any process: one connection that only listens, for all of them.
//!
//! It is made when somebody first waits, and again when it is lost. A ring is a hint: who waits is woken once a second
//! at the latest.

use std::future::Future;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use tidegate_core::store::BoxFuture;
use tokio::sync::{oneshot, watch};

/// Longest wait for a ring that does not come.
pub(crate) const AT_LEAST: Duration = Duration::from_secs(1);
/// Pause before another try to connect.
const AGAIN: Duration = Duration::from_secs(1);

/// Rings for every waiter; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Rings(Arc<watch::Sender<u64>>);

impl Rings {
    pub(crate) fn ring(&self) {
        self.0.send_modify(|rings| *rings = rings.wrapping_add(1));
    }
}

#[derive(Debug)]
pub(crate) struct Listener {
    rings: Rings,
    /// There once it listens. Dropped with the listener: the task ends then.
    end: Mutex<Option<oneshot::Sender<()>>>,
}

impl Default for Listener {
    fn default() -> Self {
        Self {
            rings: Rings(Arc::new(watch::Sender::new(0))),
            end: Mutex::new(None),
        }
    }
}

impl Listener {
    /// Wakes those who wait in this process.
    #[cfg(feature = "postgres")]
    pub(crate) fn ring(&self) {
        self.rings.ring();
    }

    /// Resolves at the next ring from the call on. `hear` connects and rings until the connection is lost; only the first
    /// call needs it.
    pub(crate) fn rung<F>(&self, hear: impl Fn(Rings) -> F + Send + Sync + 'static) -> BoxFuture<'static, ()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.listen(hear);
        let mut rings = self.rings.0.subscribe();
        Box::pin(async move {
            let _ = tokio::time::timeout(AT_LEAST, rings.changed()).await;
        })
    }

    fn listen<F>(&self, hear: impl Fn(Rings) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Ok(mut slot) = self.end.lock() else {
            return;
        };
        if slot.is_some() {
            return;
        }
        let (end, ended) = oneshot::channel();
        *slot = Some(end);
        let rings = self.rings.clone();
        let listening = async move {
            loop {
                hear(rings.clone()).await;
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

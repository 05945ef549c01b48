//! One renewal round trip for all leases of a process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::lease::{Renewed, Term};
use tidegate_core::store::LeaseStore;
use tidegate_core::{Error, Result};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

/// How long the first renewal of a round waits for the others: they only have to be woken.
const GATHER: Duration = Duration::from_millis(2);

pub(super) struct Renewals {
    store: Arc<dyn LeaseStore>,
    round: Mutex<Vec<Ask>>,
    begins: Notify,
}

struct Ask {
    term: Term,
    reply: oneshot::Sender<Option<Renewed>>,
}

impl Renewals {
    pub(super) fn new(store: Arc<dyn LeaseStore>) -> Self {
        Self {
            store,
            round: Mutex::default(),
            begins: Notify::new(),
        }
    }

    /// Resolves when a round begins: a lease that is about to be renewed should join it.
    pub(super) async fn begins(&self) {
        self.begins.notified().await;
    }

    /// Renews together with the others of this round.
    ///
    /// # Errors
    /// The store's, or an unknown outcome when the round was cut off.
    pub(super) async fn renew(self: Arc<Self>, term: Term) -> Result<Renewed> {
        let (reply, answer) = oneshot::channel();
        if self.enter(Ask { term, reply }) {
            self.begins.notify_waiters();
            tokio::spawn(self.send());
        }
        answer
            .await
            .ok()
            .flatten()
            .ok_or_else(|| Error::unknown("a renewal round had no reply"))
    }

    /// True for the first of a round.
    fn enter(&self, ask: Ask) -> bool {
        let mut round = lock(&self.round);
        round.push(ask);
        round.len() == 1
    }

    async fn send(self: Arc<Self>) {
        tokio::time::sleep(GATHER).await;
        let round = std::mem::take(&mut *lock(&self.round));
        // Each holder has a shorter time-out of its own; this one ends a call that hangs.
        let limit = round.iter().map(|ask| ask.term.ttl).max().unwrap_or_default();
        let terms = round.iter().map(|ask| ask.term.clone()).collect();
        let replies = match timeout(limit, self.store.renew(terms)).await {
            Ok(Ok(replies)) => replies,
            Ok(Err(error)) => {
                tracing::warn!(%error, "a renewal round failed");
                Vec::new()
            }
            Err(_) => Vec::new(),
        };
        let mut replies = replies.into_iter();
        for ask in round {
            // A holder that no longer waits has moved on.
            let _ = ask.reply.send(replies.next());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Is it alive, is it ready, and if not, why.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::{Drain, State, Worker};

use crate::places::Places;

/// A store that does not answer within this is not ready.
const STORE_PATIENCE: Duration = Duration::from_secs(2);

/// The workers, the stores, and whether the end has begun.
pub(super) struct Health {
    pub(super) workers: Vec<Arc<Worker>>,
    pub(super) places: Arc<Places>,
    draining: AtomicBool,
}

impl Health {
    pub(super) fn new(workers: Vec<Worker>, places: Arc<Places>) -> Self {
        Self {
            workers: workers.into_iter().map(Arc::new).collect(),
            places,
            draining: AtomicBool::new(false),
        }
    }

    pub(super) fn start(&self) {
        self.workers.iter().for_each(|worker| worker.start());
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.workers.iter().map(|worker| worker.name()).collect()
    }

    /// On a signal: first the answer to `/readyz` changes, then every worker stops.
    pub(super) fn register(self: &Arc<Self>, drain: &Drain) {
        let health = Arc::clone(self);
        let flag = drain.register("readiness", move |_| {
            health.draining.store(true, Ordering::Relaxed);
            std::future::ready(true)
        });
        flag.forever();
        for worker in &self.workers {
            drain.register_worker(worker).forever();
        }
    }

    /// Why the process should be replaced; empty when it is alive.
    pub(super) fn ailments(&self) -> Vec<String> {
        let draining = self.draining.load(Ordering::Relaxed);
        let ill = |worker: &Arc<Worker>| {
            let status = worker.status();
            let ended = !draining && matches!(status.state, State::Stopped);
            (ended || status.state == State::Failed).then(|| reason(worker, &status))
        };
        let replaced = self.places.replaced();
        let replaced = replaced.iter().map(ToString::to_string);
        self.workers.iter().filter_map(ill).chain(replaced).collect()
    }

    /// Why no work should be expected of it now; empty when it is ready.
    pub(super) async fn obstacles(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.draining.load(Ordering::Relaxed) {
            reasons.push("draining".to_owned());
        }
        let hindered = |worker: &Arc<Worker>| {
            let status = worker.status();
            (!matches!(status.state, State::Live | State::Careful)).then(|| reason(worker, &status))
        };
        reasons.extend(self.workers.iter().filter_map(hindered));
        reasons.extend(self.silent_stores().await);
        reasons
    }

    async fn silent_stores(&self) -> Vec<String> {
        let mut silent = Vec::new();
        for (name, place) in self.places.each() {
            match tokio::time::timeout(STORE_PATIENCE, place.ping()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => silent.push(format!("store {name}: {error}")),
                Err(_) => silent.push(format!("store {name}: no answer within {STORE_PATIENCE:?}")),
            }
        }
        silent
    }
}

fn reason(worker: &Worker, status: &tidegate::Status) -> String {
    let state = status.state.as_str();
    match &status.trouble {
        Some(trouble) => format!("{}: {state}: {trouble}", worker.name()),
        None => format!("{}: {state}", worker.name()),
    }
}

//! SIGINT and SIGTERM to the demo itself: its workers end, and its folder goes.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tidegate::Result;
use tidegate::drain::{EXIT_SECOND_SIGNAL, Signals};
use tokio::runtime::Runtime;

use super::{io, runtime};

/// Listens from [`Interrupt::install`] on.
pub struct Interrupt {
    received: Arc<OnceLock<&'static str>>,
    _runtime: Runtime,
}

impl Interrupt {
    /// Takes the two signals over. A second one ends the process at once; its workers see that and end by themselves.
    pub fn install() -> Result<Self> {
        let runtime = runtime()?;
        let guard = runtime.enter();
        let mut signals = Signals::install().map_err(|e| io("installing signal handlers", e))?;
        drop(guard);
        let received = Arc::new(OnceLock::new());
        let first = Arc::clone(&received);
        runtime.spawn(async move {
            let _ = first.set(signals.next().await);
            signals.again(Instant::now()).await;
            std::process::exit(EXIT_SECOND_SIGNAL);
        });
        Ok(Self {
            received,
            _runtime: runtime,
        })
    }

    /// The first signal, once there was one.
    pub fn received(&self) -> Option<&'static str> {
        self.received.get().copied()
    }
}

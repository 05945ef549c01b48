//! The doorbell of a file: one per path and process, rung by our own writers at once, and by other processes'
//! commits through `PRAGMA data_version`, read every few milliseconds while somebody waits.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use tidegate_core::store::BoxFuture;
use tokio::sync::watch;

use super::closing::Reading;

/// First pause between looks: below what a person or a p99 target notices.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// Later pause.
const PAUSE_MAX: Duration = Duration::from_millis(5);
/// Without a ring for this long, look less often.
const CALM: Duration = Duration::from_secs(1);

pub(super) struct Bell {
    path: PathBuf,
    rings: watch::Sender<u64>,
    watcher: OnceLock<Thread>,
}

impl Bell {
    /// The bell of this file, shared by every handle in the process. `path` is canonical.
    pub(super) fn of(path: &Path) -> Arc<Bell> {
        static BELLS: OnceLock<Mutex<HashMap<PathBuf, Weak<Bell>>>> = OnceLock::new();
        let bells = BELLS.get_or_init(Mutex::default);
        let mut bells = bells.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = bells.get(path).and_then(Weak::upgrade) {
            return bell;
        }
        bells.retain(|_, bell| bell.strong_count() > 0);
        let bell = Arc::new(Bell {
            path: path.to_owned(),
            rings: watch::Sender::new(0),
            watcher: OnceLock::new(),
        });
        bells.insert(path.to_owned(), Arc::downgrade(&bell));
        bell
    }

    /// Wakes everybody who waits.
    pub(super) fn ring(&self) {
        self.rings.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Listens from the call on, not from the first poll.
    pub(super) fn rung(self: &Arc<Self>) -> BoxFuture<'static, ()> {
        let mut rings = self.rings.subscribe();
        let bell = Arc::clone(self);
        Box::pin(async move {
            bell.watch();
            // The sender lives in `bell`, which this future holds.
            let _ = rings.changed().await;
        })
    }

    /// Starts the watcher, or wakes it from its sleep without listeners.
    fn watch(self: &Arc<Self>) {
        let watcher = self.watcher.get_or_init(|| {
            let (path, bell) = (self.path.clone(), Arc::downgrade(self));
            let spawned = thread::Builder::new()
                .name("tidegate-bell".into())
                .spawn(move || watch(&path, &bell));
            spawned.map_or_else(|_| thread::current(), |handle| handle.thread().clone())
        });
        watcher.unpark();
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher.get() {
            watcher.unpark();
        }
    }
}

/// Runs until the last handle of the file is gone. The version survives pauses, so that a commit made during one
/// rings at the next look.
fn watch(path: &Path, bell: &Weak<Bell>) {
    // Declared before the connection, and so dropped after it.
    let _reading = Reading::of(path);
    let Ok(connection) = open(path) else {
        return;
    };
    let mut seen = None;
    let mut rung_at = Instant::now();
    while let Some(bell) = bell.upgrade() {
        let version = data_version(&connection);
        if version != seen {
            seen = version;
            rung_at = Instant::now();
            bell.ring();
        }
        let idle = bell.rings.receiver_count() == 0;
        drop(bell);
        if idle {
            thread::park();
        } else if rung_at.elapsed() < CALM {
            thread::sleep(PAUSE_MIN);
        } else {
            thread::sleep(PAUSE_MAX);
        }
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
}

fn data_version(connection: &Connection) -> Option<i64> {
    connection
        .prepare_cached("pragma data_version")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .ok()
}

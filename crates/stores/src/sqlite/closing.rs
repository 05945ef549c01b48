//! The order in which connections close: those that only read first, then the writers, one after another.
//!
//! SQLite folds the WAL into the file when the last connection closes, if that one may write and is alone. Two that
//! close side by side each find the other there, and the WAL stays.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A writer waits this long for the readers of its file: another handle of this process may still use it.
const PATIENCE: Duration = Duration::from_millis(200);

/// Connections of this process that only read, by file.
static READERS: LazyLock<Mutex<HashMap<PathBuf, usize>>> = LazyLock::new(Mutex::default);
static GONE: Condvar = Condvar::new();
static ONE_WRITER: Mutex<()> = Mutex::new(());

/// Counts a connection that only reads; drop it after the connection.
pub(super) struct Reading(PathBuf);

impl Reading {
    pub(super) fn of(path: &Path) -> Self {
        *lock(&READERS).entry(path.to_owned()).or_default() += 1;
        Self(path.to_owned())
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut readers = lock(&READERS);
        if let Some(count) = readers.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                readers.remove(&self.0);
            }
        }
        GONE.notify_all();
    }
}

/// Closes a writer of `path` by dropping it.
pub(super) fn close_writer<T>(path: &Path, writer: T) {
    let waited = GONE.wait_timeout_while(lock(&READERS), PATIENCE, |readers| readers.contains_key(path));
    drop(waited.unwrap_or_else(PoisonError::into_inner));
    let alone = lock(&ONE_WRITER);
    drop(writer);
    drop(alone);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

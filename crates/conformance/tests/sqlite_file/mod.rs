//! A database file on a clock that the suite moves.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tidegate_core::memory::Clock;
use tidegate_core::{Ticks, Timestamp, Uuid};
use tidegate_stores::sqlite::{self, Database, OpenOptions};

pub(crate) struct File {
    _folder: TempDir,
    pub(crate) path: PathBuf,
    pub(crate) clock: FileClock,
}

/// The suite's clock in the terms of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileClock {
    pub(crate) clock: Clock,
}

impl sqlite::Clock for FileClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now().as_micros())
    }

    fn boot(&self) -> Ticks {
        self.clock.now()
    }

    fn boot_id(&self) -> Uuid {
        Uuid::nil()
    }
}

impl File {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            path: folder.path().join("app.db"),
            _folder: folder,
            clock: FileClock::default(),
        }
    }

    /// Another handle, as another process would open it.
    pub(crate) fn database(&self) -> Database {
        let options = OpenOptions {
            clock: Arc::new(self.clock.clone()),
            ..OpenOptions::default()
        };
        Database::open(&self.path, options).unwrap()
    }
}

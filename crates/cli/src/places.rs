//! Opens the stores of a configuration.

mod find;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate::stores::sqlite::{Database, OpenOptions};
use tidegate::{Code, Error, Result};

use crate::config::{Config, Secret};
use crate::error::Failure;

pub(crate) use find::{Found, pick};

/// How often a daemon looks whether its files are still the ones it opened.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a command may do to the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Look: nothing is created or upgraded, and no row changes.
    Look,
    /// Change rows of a file that exists and has Tidegate's tables.
    Change,
    /// As [`Access::Change`]; a missing file is made, with the tables. Another program's file is left alone.
    Make,
    /// Make what is missing, add or upgrade tables.
    Serve,
}

/// The open stores. Two names of one file share one [`Database`].
#[derive(Debug, Default)]
pub(crate) struct Places {
    by_store: BTreeMap<String, Database>,
    by_path: BTreeMap<PathBuf, Database>,
    /// Files that were made.
    pub(crate) made: Vec<PathBuf>,
}

impl Places {
    /// Opens every declared store.
    pub(crate) fn open(config: &Config, access: Access) -> Result<Self, Failure> {
        let mut places = Self::default();
        for (name, store) in &config.store {
            places.add(name, &store.url, access)?;
        }
        Ok(places)
    }

    /// Opens the store of the outbox that a producer means: the other stores may be down, or another service's.
    pub(crate) fn open_for_outbox(
        config: &Config,
        asked: Option<&str>,
        access: Access,
    ) -> Result<Self, Failure> {
        let declared: BTreeSet<&str> = config
            .outbox
            .iter()
            .filter(|(name, _)| asked.is_none_or(|asked| asked == name.as_str()))
            .map(|(_, outbox)| outbox.store.as_str())
            .collect();
        let mut places = Self::default();
        for (name, store) in &config.store {
            // An outbox that is not declared can be in any of them.
            if declared.is_empty() || declared.contains(name.as_str()) {
                places.add(name, &store.url, access)?;
            }
        }
        Ok(places)
    }

    /// The database of a declared store.
    pub(crate) fn database(&self, store: &str) -> Result<&Database> {
        self.by_store
            .get(store)
            .ok_or_else(|| Error::new(Code::Internal, format!("store {store} was not opened")))
    }

    /// Each file once, with the first name it has.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&str, &Database)> {
        let first = |database: &Database| {
            let same = self
                .by_store
                .iter()
                .find(|(_, other)| other.path() == database.path());
            same.map_or("", |(name, _)| name.as_str())
        };
        self.by_path
            .values()
            .map(move |database| (first(database), database))
    }

    /// Resolves when a file is not the one that is open any more: only a new start opens what is there now.
    pub(crate) async fn until_replaced(&self) -> Error {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        loop {
            tick.tick().await;
            if let Some(error) = self.replaced().into_iter().next() {
                return error;
            }
        }
    }

    /// One error for each file that is not the one that is open any more.
    pub(crate) fn replaced(&self) -> Vec<Error> {
        let of = |(name, database): (&str, &Database)| {
            let checked = database.check_file();
            checked.err().map(|error| located(name, database.path(), error))
        };
        self.each().filter_map(of).collect()
    }

    fn add(&mut self, name: &str, url: &Secret, access: Access) -> Result<()> {
        let path = path_of(url)?;
        let known = path.canonicalize().ok().and_then(|full| self.by_path.get(&full));
        let database = match known {
            Some(database) => database.clone(),
            None => self.open_file(name, &path, access)?,
        };
        self.by_path.insert(database.path().to_owned(), database.clone());
        self.by_store.insert(name.to_owned(), database);
        Ok(())
    }

    fn open_file(&mut self, name: &str, path: &Path, access: Access) -> Result<Database> {
        let missing = !path.exists();
        let opened = match Database::open(path, options(access, missing)) {
            Err(error) if access == Access::Look && error.code() == Code::StoreReadOnly => {
                let read_only = true;
                Database::open(
                    path,
                    OpenOptions {
                        read_only,
                        ..options(access, missing)
                    },
                )
            }
            opened => opened,
        };
        let database = opened.map_err(|error| located(name, path, error))?;
        if missing {
            self.made.push(database.path().to_owned());
        }
        Ok(database)
    }
}

fn options(access: Access, missing: bool) -> OpenOptions {
    OpenOptions {
        create: matches!(access, Access::Make | Access::Serve),
        migrate: access == Access::Serve || (access == Access::Make && missing),
        ..OpenOptions::default()
    }
}

/// Says which store and file: the error of the driver knows neither.
fn located(name: &str, path: &Path, error: Error) -> Error {
    Error::new(error.code(), format!("store {name}, {}", path.display()))
        .with_effect(error.effect())
        .with_source(error)
}

/// The file of a `sqlite:` URL; the configuration has refused every other.
fn path_of(url: &Secret) -> Result<PathBuf> {
    let path = url.expose().strip_prefix("sqlite:");
    path.map(PathBuf::from)
        .ok_or_else(|| Error::new(Code::ConfigInvalid, "only sqlite: stores can be opened"))
}

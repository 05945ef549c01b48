//! Opens the stores of a configuration.

mod find;
mod place;
mod sqlite;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Code, Error, Result};

use crate::config::{Config, Secret};
use crate::error::Failure;

pub(crate) use find::{Found, pick};
pub(crate) use place::{Inbox, Place, Stream};

/// How often a daemon looks whether its files are still the ones it opened.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a command may do to the stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Look: nothing is created or upgraded, and no row changes.
    Look,
    /// Change rows of a database that exists and has Tidegate's tables.
    Change,
    /// As [`Access::Change`]; a missing file is made, with the tables. Another program's file is left alone.
    Make,
    /// Make what is missing, add or upgrade tables.
    Serve,
}

/// The open stores. Two names of one place share it.
#[derive(Default)]
pub(crate) struct Places {
    by_store: BTreeMap<String, Arc<dyn Place>>,
    /// Files that were made.
    pub(crate) made: Vec<PathBuf>,
}

impl Places {
    /// Opens every declared store.
    pub(crate) async fn open(config: &Config, access: Access) -> Result<Self, Failure> {
        let mut places = Self::default();
        for (name, store) in &config.store {
            places.add(config, name, &store.url, access).await?;
        }
        Ok(places)
    }

    /// Opens the store of the outbox that a producer means: the other stores may be down, or another service's.
    pub(crate) async fn open_for_outbox(
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
                places.add(config, name, &store.url, access).await?;
            }
        }
        Ok(places)
    }

    /// A declared store.
    pub(crate) fn place(&self, store: &str) -> Result<&Arc<dyn Place>> {
        self.by_store
            .get(store)
            .ok_or_else(|| Error::new(Code::Internal, format!("store {store} was not opened")))
    }

    /// Each place once, with the first name it has.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&str, &Arc<dyn Place>)> {
        let mut seen = BTreeSet::new();
        self.by_store
            .iter()
            .filter(move |(_, place)| seen.insert(place.describe()))
            .map(|(name, place)| (name.as_str(), place))
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
        let of = |(name, place): (&str, &Arc<dyn Place>)| {
            place
                .replaced()
                .map(|error| located(name, &place.describe(), error))
        };
        self.each().filter_map(of).collect()
    }

    async fn add(&mut self, config: &Config, name: &str, url: &Secret, access: Access) -> Result<()> {
        let place = self.open_one(config, name, url.expose(), access).await?;
        self.by_store.insert(name.to_owned(), place);
        Ok(())
    }

    #[allow(clippy::unused_async)] // Servers are connected to.
    async fn open_one(
        &mut self,
        _config: &Config,
        name: &str,
        url: &str,
        access: Access,
    ) -> Result<Arc<dyn Place>> {
        if let Some(path) = sqlite::path_of(url) {
            let known = path.canonicalize().map(|full| full.display().to_string());
            if let Some(place) = known.ok().and_then(|full| self.known(&full)) {
                return Ok(place);
            }
            let opened = sqlite::open(&path, access);
            let (database, made) =
                opened.map_err(|error| located(name, &path.display().to_string(), error))?;
            if made {
                self.made.push(database.path().to_owned());
            }
            return Ok(Arc::new(database));
        }
        Err(Error::new(
            Code::ConfigInvalid,
            format!("store {name}: its kind is not built into this binary"),
        ))
    }

    fn known(&self, described: &str) -> Option<Arc<dyn Place>> {
        self.by_store
            .values()
            .find(|place| place.describe() == described)
            .cloned()
    }
}

/// Says which store and where: the error of the driver knows neither.
fn located(name: &str, place: &str, error: Error) -> Error {
    Error::new(error.code(), format!("store {name}, {place}"))
        .with_effect(error.effect())
        .with_source(error)
}

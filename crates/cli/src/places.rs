//! Opens the stores of a configuration.

mod find;
mod place;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod sqlite;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Code, Error, Result};

use crate::config::{Config, Store, StoreKind, mask};
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
    /// Declared streams and their stores: a server that forgot everything does not list them.
    declared: Vec<(String, String)>,
    /// First part of every key in Redis.
    #[cfg_attr(not(feature = "redis"), allow(dead_code))]
    namespace: String,
    /// Files that were made.
    pub(crate) made: Vec<PathBuf>,
}

impl Places {
    fn knowing(config: &Config) -> Self {
        let streams = config.stream.iter();
        Self {
            declared: streams
                .map(|(name, stream)| (stream.store.clone(), name.clone()))
                .collect(),
            namespace: config.namespace.clone(),
            ..Self::default()
        }
    }

    /// Opens every declared store.
    pub(crate) async fn open(config: &Config, access: Access) -> Result<Self, Failure> {
        let mut places = Self::knowing(config);
        for (name, store) in &config.store {
            places.add(name, store, access).await?;
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
        let mut places = Self::knowing(config);
        for (name, store) in &config.store {
            // An outbox that is not declared can be in any of them.
            if declared.is_empty() || declared.contains(name.as_str()) {
                places.add(name, store, access).await?;
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

    async fn add(&mut self, name: &str, store: &Store, access: Access) -> Result<()> {
        let place = self.open_one(name, store, access).await?;
        // Two names of one place share it.
        let place = self.known(&place.describe()).unwrap_or(place);
        self.by_store.insert(name.to_owned(), place);
        Ok(())
    }

    async fn open_one(&mut self, name: &str, store: &Store, access: Access) -> Result<Arc<dyn Place>> {
        let at = |error| located(name, &mask(store.url.expose()), error);
        match StoreKind::of(&store.url) {
            Some(StoreKind::Sqlite) => self.open_file(name, store, access),
            #[cfg(feature = "postgres")]
            Some(StoreKind::Postgres) => Ok(Arc::new(postgres::open(store, access).await.map_err(at)?)),
            #[cfg(feature = "redis")]
            Some(StoreKind::Redis) => Ok(Arc::new(redis::open(&self.namespace, store).await.map_err(at)?)),
            _ => Err(at(Error::new(
                Code::ConfigInvalid,
                "its kind is not built into this binary",
            ))),
        }
    }

    fn open_file(&mut self, name: &str, store: &Store, access: Access) -> Result<Arc<dyn Place>> {
        let path = sqlite::path_of(store.url.expose()).unwrap_or_default();
        let known = path.canonicalize().map(|full| full.display().to_string());
        if let Some(place) = known.ok().and_then(|full| self.known(&full)) {
            return Ok(place);
        }
        let opened = sqlite::open(&path, access);
        let (database, made) = opened.map_err(|error| located(name, &path.display().to_string(), error))?;
        if made {
            self.made.push(database.path().to_owned());
        }
        Ok(Arc::new(database))
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

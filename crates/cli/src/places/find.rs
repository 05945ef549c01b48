//! What the open stores hold, and the one thing that a command means.

use std::sync::Arc;

use tidegate::store::{LeaseStore, OutboxStore};

use super::Places;
use super::place::{Inbox, Place, Stream};
use crate::config::{self, Config, nearest};
use crate::error::Failure;

/// A thing and where it was found.
pub(crate) struct Found<T: ?Sized> {
    /// The store, by its declared name.
    pub(crate) store: String,
    /// Its own name.
    pub(crate) name: String,
    /// The thing.
    pub(crate) it: Arc<T>,
}

impl Places {
    /// Every outbox there is.
    pub(crate) async fn outboxes(&self) -> Result<Vec<Found<dyn OutboxStore>>, Failure> {
        let mut all = Vec::new();
        for (store, place) in self.each() {
            for settings in place.catalog().await?.outboxes {
                let it = place
                    .outbox(&settings.name, settings.lanes, settings.archive)
                    .await?;
                all.push(found(store, &settings.name, it));
            }
        }
        Ok(all)
    }

    /// Every stream there is.
    pub(crate) async fn streams(&self) -> Result<Vec<Found<dyn Stream>>, Failure> {
        let mut all = Vec::new();
        for (store, place) in self.each() {
            let mut names = place.catalog().await?.streams;
            names.extend(self.forgotten(place, &names));
            for name in names {
                let it = place.stream(&name).await?;
                all.push(found(store, &name, it));
            }
        }
        Ok(all)
    }

    /// Streams that are declared here, of a store that keeps nothing for certain.
    fn forgotten(&self, place: &Arc<dyn Place>, listed: &[String]) -> Vec<String> {
        let here = |store: &str| self.place(store).is_ok_and(|other| Arc::ptr_eq(other, place));
        let declared = self
            .declared
            .iter()
            .filter(|(store, name)| place.schema().is_none() && here(store) && !listed.contains(name));
        declared.map(|(_, name)| name.clone()).collect()
    }

    /// Every consumer there is.
    pub(crate) async fn consumers(&self) -> Result<Vec<Found<dyn Inbox>>, Failure> {
        let mut all = Vec::new();
        for (store, place) in self.each() {
            for name in place.catalog().await?.consumers {
                let it = place.inbox(&name).await?;
                all.push(found(store, &name, it));
            }
        }
        Ok(all)
    }

    /// The lease store of each place.
    pub(crate) fn leases(&self) -> Vec<Found<dyn LeaseStore>> {
        let of = |(store, place): (&str, &Arc<dyn Place>)| found(store, store, place.leases());
        self.each().map(of).collect()
    }

    /// The outbox that a producer means; one that is declared and new is made.
    pub(crate) async fn outbox_to_write(
        &self,
        config: &Config,
        asked: Option<&str>,
    ) -> Result<Found<dyn OutboxStore>, Failure> {
        let existing = self.outboxes().await?;
        let new = config.outbox.iter().find(|(name, _)| match asked {
            Some(asked) => name.as_str() == asked,
            None => existing.is_empty() && config.outbox.len() == 1,
        });
        match new {
            Some((name, declared)) if !existing.iter().any(|found| found.name == *name) => {
                self.make_outbox(name, declared).await
            }
            _ => pick(existing, asked, "outbox"),
        }
    }

    /// Opens a declared outbox, or makes it.
    pub(crate) async fn make_outbox(
        &self,
        name: &str,
        declared: &config::Outbox,
    ) -> Result<Found<dyn OutboxStore>, Failure> {
        let place = self.place(&declared.store)?;
        let it = place
            .outbox(name, declared.lanes, declared.archive.is_some())
            .await?;
        Ok(found(&declared.store, name, it))
    }

    /// Opens a declared stream, or makes it.
    pub(crate) async fn make_stream(&self, config: &Config, name: &str) -> Result<Arc<dyn Stream>, Failure> {
        let declared = config
            .stream
            .get(name)
            .ok_or_else(|| Failure::not_found(format!("no stream {name}")))?;
        Ok(self.place(&declared.store)?.stream(name).await?)
    }
}

fn found<T: ?Sized>(store: &str, name: &str, it: Arc<T>) -> Found<T> {
    Found {
        store: store.to_owned(),
        name: name.to_owned(),
        it,
    }
}

/// The one that was asked for, or the only one.
pub(crate) fn pick<T: ?Sized>(
    all: Vec<Found<T>>,
    asked: Option<&str>,
    noun: &str,
) -> Result<Found<T>, Failure> {
    let names: Vec<_> = all.iter().map(|found| found.name.clone()).collect();
    let position = match asked {
        Some(asked) => names.iter().position(|name| name == asked),
        None if all.len() == 1 => Some(0),
        None => None,
    };
    let chosen = position.and_then(|position| all.into_iter().nth(position));
    chosen.ok_or_else(|| no_one(&names, asked, noun))
}

fn no_one(names: &[String], asked: Option<&str>, noun: &str) -> Failure {
    let listed = names.join(", ");
    match asked {
        _ if names.is_empty() => Failure::not_found(format!("no {noun} is there yet")),
        None => Failure::argument(format!("there are several: {listed}; say which {noun} is meant")),
        Some(asked) => {
            let near = nearest(asked, names.iter().map(String::as_str));
            let hint = near.map_or_else(
                || format!("there are: {listed}"),
                |near| format!("did you mean {near}?"),
            );
            Failure::not_found(format!("no {noun} {asked}; {hint}"))
        }
    }
}

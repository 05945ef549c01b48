//! What the open stores hold, and the one thing that a command means.

use std::sync::Arc;

use tidegate::store::LeaseStore;
use tidegate::stores::sqlite::lease::Leases;
use tidegate::stores::sqlite::{
    Catalog, Database, InboxOptions, SqliteInbox, SqliteOutbox, SqliteStream, Wanted,
};

use super::Places;
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
    pub(crate) async fn outboxes(&self) -> Result<Vec<Found<SqliteOutbox>>, Failure> {
        let mut all = Vec::new();
        for (store, database) in self.each() {
            for settings in Catalog::read(database).await?.outboxes {
                let wanted = Wanted {
                    lanes: settings.lanes,
                    archive: settings.archive,
                };
                let it = SqliteOutbox::open(database, &settings.name, wanted).await?;
                all.push(found(store, &settings.name, it));
            }
        }
        Ok(all)
    }

    /// Every stream there is.
    pub(crate) async fn streams(&self) -> Result<Vec<Found<SqliteStream>>, Failure> {
        let mut all = Vec::new();
        for (store, database) in self.each() {
            for name in Catalog::read(database).await?.streams {
                let it = SqliteStream::open(database, &name).await?;
                all.push(found(store, &name, it));
            }
        }
        Ok(all)
    }

    /// Every consumer there is.
    pub(crate) async fn consumers(&self) -> Result<Vec<Found<SqliteInbox>>, Failure> {
        let mut all = Vec::new();
        for (store, database) in self.each() {
            for name in Catalog::read(database).await?.consumers {
                let it = SqliteInbox::open(database.clone(), &name, InboxOptions::default()).await?;
                all.push(found(store, &name, it));
            }
        }
        Ok(all)
    }

    /// The lease store of each file.
    pub(crate) fn leases(&self) -> Vec<Found<dyn LeaseStore>> {
        let of = |(store, database): (&str, &Database)| Found {
            store: store.to_owned(),
            name: store.to_owned(),
            it: Arc::new(Leases::new(database.clone())) as Arc<dyn LeaseStore>,
        };
        self.each().map(of).collect()
    }

    /// The outbox that a producer means; one that is declared and new is made.
    pub(crate) async fn outbox_to_write(
        &self,
        config: &Config,
        asked: Option<&str>,
    ) -> Result<Found<SqliteOutbox>, Failure> {
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
    ) -> Result<Found<SqliteOutbox>, Failure> {
        let wanted = Wanted {
            lanes: declared.lanes,
            archive: declared.archive.is_some(),
        };
        let database = self.database(&declared.store)?;
        let it = SqliteOutbox::open(database, name, wanted).await?;
        Ok(found(&declared.store, name, it))
    }
}

fn found<T>(store: &str, name: &str, it: T) -> Found<T> {
    Found {
        store: store.to_owned(),
        name: name.to_owned(),
        it: Arc::new(it),
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

//! A Redis server.

use std::sync::Arc;
use std::time::Duration;

use tidegate::Result;
use tidegate::store::{BoxFuture, LeaseStore};
use tidegate::stores::redis::lease::Leases;
use tidegate::stores::redis::{Database, OpenOptions, RedisStream};

use super::place::{Catalog, Place, Stream};
use crate::config::Store;

/// Connects. Keys carry the namespace.
pub(super) async fn open(namespace: &str, store: &Store) -> Result<Database> {
    let options = OpenOptions {
        prefix: namespace.to_owned(),
        ..OpenOptions::default()
    };
    Database::open(store.url.expose(), options).await
}

impl Place for Database {
    fn describe(&self) -> String {
        self.place().to_owned()
    }

    fn schema(&self) -> Option<i64> {
        None
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(Database::ping(self))
    }

    fn catalog(&self) -> BoxFuture<'_, Result<Catalog>> {
        Box::pin(async {
            Ok(Catalog {
                streams: self.streams().await?,
                ..Catalog::default()
            })
        })
    }

    fn leases(&self) -> Arc<dyn LeaseStore> {
        // Sweeps are fenced by what they trim against: nobody waits for a holder from before a flush.
        Arc::new(Leases::new(self.clone()).wait(Duration::ZERO))
    }

    fn stream(&self, name: &str) -> BoxFuture<'_, Result<Arc<dyn Stream>>> {
        let name = name.to_owned();
        Box::pin(async move { Ok(Arc::new(RedisStream::open(self, &name).await?) as Arc<dyn Stream>) })
    }
}

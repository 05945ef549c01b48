//! A Postgres database.

use std::sync::Arc;

use tidegate::Result;
use tidegate::inbox::Options;
use tidegate::store::{BoxFuture, LeaseStore, OutboxStore};
use tidegate::stores::postgres::inbox::{InboxOptions, PostgresInbox};
use tidegate::stores::postgres::lease::Leases;
use tidegate::stores::postgres::outbox::{PostgresOutbox, Wanted};
use tidegate::stores::postgres::projection::PostgresProjection;
use tidegate::stores::postgres::{self, Database, OpenOptions, SCHEMA_VERSION};

use super::Access;
use super::place::{Catalog, Consumer, Inbox, Place, projection, table_error};
use crate::config::{Pooler, Store, Table};

/// Connects; adds or upgrades the tables where the command may.
pub(super) async fn open(store: &Store, access: Access) -> Result<Database> {
    let options = OpenOptions {
        migrate: access == Access::Serve,
        schema: store.postgres.schema.clone(),
        connections: store.postgres.connections as usize,
        pooler: store.postgres.pooler == Pooler::Transaction,
        ..OpenOptions::default()
    };
    Database::open(store.url.expose(), options).await
}

impl Place for Database {
    fn describe(&self) -> String {
        match self.schema() {
            "tidegate" => self.place().to_owned(),
            schema => format!("{}, schema {schema}", self.place()),
        }
    }

    fn schema(&self) -> Option<i64> {
        Some(SCHEMA_VERSION)
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(Database::ping(self))
    }

    fn catalog(&self) -> BoxFuture<'_, Result<Catalog>> {
        Box::pin(async {
            let postgres::Catalog { outboxes, consumers } = postgres::Catalog::read(self).await?;
            Ok(Catalog {
                outboxes,
                streams: Vec::new(),
                consumers,
            })
        })
    }

    fn leases(&self) -> Arc<dyn LeaseStore> {
        Arc::new(Leases::new(self.clone()))
    }

    fn outbox(&self, name: &str, lanes: u16, archive: bool) -> BoxFuture<'_, Result<Arc<dyn OutboxStore>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let outbox = PostgresOutbox::open(self, &name, Wanted { lanes, archive }).await?;
            Ok(Arc::new(outbox) as Arc<dyn OutboxStore>)
        })
    }

    fn inbox(&self, name: &str) -> BoxFuture<'_, Result<Arc<dyn Inbox>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let inbox = PostgresInbox::open(self.clone(), &name, InboxOptions::default()).await?;
            Ok(Arc::new(inbox) as Arc<dyn Inbox>)
        })
    }

    fn consumer(&self, name: &str, rules: Options, table: &Table) -> BoxFuture<'_, Result<Consumer>> {
        let (name, mapping) = (name.to_owned(), projection(table));
        Box::pin(async move {
            let opened = PostgresProjection::open(self, mapping).await;
            let projection = opened.map_err(|error| table_error(&name, &self.describe(), error))?;
            let options = InboxOptions {
                rules,
                ..InboxOptions::default()
            };
            let inbox = PostgresInbox::open(self.clone(), &name, options).await?;
            let applier = Arc::new(inbox.applier(projection));
            Ok((Arc::new(inbox) as Arc<dyn Inbox>, applier as _))
        })
    }
}

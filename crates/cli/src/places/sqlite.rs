//! A SQLite file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate::inbox::Options;
use tidegate::store::{BoxFuture, LeaseStore, OutboxStore};
use tidegate::stores::sqlite::lease::Leases;
use tidegate::stores::sqlite::projection::SqliteProjection;
use tidegate::stores::sqlite::{
    self, Database, InboxOptions, OpenOptions, SCHEMA_VERSION, SqliteInbox, SqliteOutbox, SqliteStream,
    Wanted,
};
use tidegate::{Code, Error, Result};

use super::Access;
use super::place::{Catalog, Consumer, Inbox, Place, Stream, projection, table_error};
use crate::config::Table;

/// Opens the file; tells whether it was made.
pub(super) fn open(path: &Path, access: Access) -> Result<(Database, bool)> {
    let missing = !path.exists();
    let database = match Database::open(path, options(access, missing)) {
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
    }?;
    Ok((database, missing))
}

fn options(access: Access, missing: bool) -> OpenOptions {
    OpenOptions {
        create: matches!(access, Access::Make | Access::Serve),
        migrate: access == Access::Serve || (access == Access::Make && missing),
        ..OpenOptions::default()
    }
}

/// The file of a `sqlite:` URL.
pub(super) fn path_of(url: &str) -> Option<PathBuf> {
    url.strip_prefix("sqlite:").map(PathBuf::from)
}

impl Place for Database {
    fn describe(&self) -> String {
        self.path().display().to_string()
    }

    fn schema(&self) -> Option<i64> {
        Some(SCHEMA_VERSION)
    }

    fn replaced(&self) -> Option<Error> {
        self.check_file().err()
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let read = self.read(|sql| sql.one("readiness", "select 1", [], |row| row.get::<_, i64>(0)));
            read.await.map(|_| ())
        })
    }

    fn catalog(&self) -> BoxFuture<'_, Result<Catalog>> {
        Box::pin(async {
            let sqlite::Catalog {
                outboxes,
                streams,
                consumers,
            } = sqlite::Catalog::read(self).await?;
            Ok(Catalog {
                outboxes,
                streams,
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
            let outbox = SqliteOutbox::open(self, &name, Wanted { lanes, archive }).await?;
            Ok(Arc::new(outbox) as Arc<dyn OutboxStore>)
        })
    }

    fn stream(&self, name: &str) -> BoxFuture<'_, Result<Arc<dyn Stream>>> {
        let name = name.to_owned();
        Box::pin(async move { Ok(Arc::new(SqliteStream::open(self, &name).await?) as Arc<dyn Stream>) })
    }

    fn inbox(&self, name: &str) -> BoxFuture<'_, Result<Arc<dyn Inbox>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let inbox = SqliteInbox::open(self.clone(), &name, InboxOptions::default()).await?;
            Ok(Arc::new(inbox) as Arc<dyn Inbox>)
        })
    }

    fn consumer(&self, name: &str, rules: Options, table: &Table) -> BoxFuture<'_, Result<Consumer>> {
        let (name, mapping) = (name.to_owned(), projection(table));
        Box::pin(async move {
            let checked = checked(self, mapping).await;
            let projection = checked.map_err(|error| table_error(&name, &self.describe(), error))?;
            let options = InboxOptions {
                rules,
                ..InboxOptions::default()
            };
            let inbox = SqliteInbox::open(self.clone(), &name, options).await?;
            let applier = Arc::new(inbox.applier(projection));
            Ok((Arc::new(inbox) as Arc<dyn Inbox>, applier as _))
        })
    }
}

async fn checked(
    database: &Database,
    mapping: tidegate::inbox::projection::Projection,
) -> Result<SqliteProjection> {
    let projection = SqliteProjection::new(mapping)?;
    let checked = projection.clone();
    database.read(move |sql| checked.check(sql.connection())).await?;
    Ok(projection)
}

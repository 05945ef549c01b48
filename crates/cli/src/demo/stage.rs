//! The three files of the demo.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use tidegate::Result;
use tidegate::stores::sqlite::{
    Database, InboxOptions, OpenOptions, SqliteInbox, SqliteOutbox, SqliteStream, Wanted,
};

use super::{runtime, sql};

/// Lanes of the demo's outbox.
pub const LANES: u16 = 64;
/// Life of a lane's lease: a killed worker is replaced within this and a second.
pub const TTL: Duration = Duration::from_secs(2);
/// Name of the outbox, the stream and the consumer.
pub const NAME: &str = "flights";

/// A folder with the three files.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The folder.
    pub dir: PathBuf,
    /// The binary that runs the workers.
    pub binary: PathBuf,
}

impl Stage {
    /// Creates the files with the demo's own tables.
    pub fn create(dir: &Path, binary: PathBuf, seed: u64) -> Result<Self> {
        let stage = Self {
            dir: dir.to_owned(),
            binary,
        };
        runtime()?.block_on(async {
            stage.outbox().await?;
            stage.stream().await?;
            stage.inbox().await.map(drop)
        })?;
        let (service, stream) = (stage.connect_service()?, stage.connect_stream()?);
        service.execute_batch(include_str!("service.sql")).map_err(sql)?;
        stream.execute_batch(include_str!("stream.sql")).map_err(sql)?;
        let target = stage.connect_target()?;
        target.execute_batch(include_str!("target.sql")).map_err(sql)?;
        target
            .execute("insert into demo (seed) values (?1)", [seed.cast_signed()])
            .map_err(sql)?;
        Ok(stage)
    }

    /// An existing stage, as a worker process sees it.
    pub fn open(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            binary: PathBuf::new(),
        }
    }

    /// The service's outbox, with an archive.
    pub async fn outbox(&self) -> Result<SqliteOutbox> {
        let wanted = Wanted {
            lanes: LANES,
            archive: true,
        };
        SqliteOutbox::open(&self.database("service.db")?, NAME, wanted).await
    }

    /// The log.
    pub async fn stream(&self) -> Result<SqliteStream> {
        SqliteStream::open(&self.database("stream.db")?, NAME).await
    }

    /// The target's inbox.
    pub async fn inbox(&self) -> Result<SqliteInbox> {
        SqliteInbox::open(self.database("target.db")?, NAME, InboxOptions::default()).await
    }

    /// A connection of the service's own.
    pub fn connect_service(&self) -> Result<Connection> {
        self.connect("service.db")
    }

    /// A connection to the log, for the fault and the auditor.
    pub fn connect_stream(&self) -> Result<Connection> {
        self.connect("stream.db")
    }

    /// A connection of the target's own.
    pub fn connect_target(&self) -> Result<Connection> {
        self.connect("target.db")
    }

    fn database(&self, file: &str) -> Result<Database> {
        Database::open(self.dir.join(file), OpenOptions::default())
    }

    fn connect(&self, file: &str) -> Result<Connection> {
        let connection = Connection::open(self.dir.join(file)).map_err(sql)?;
        connection.busy_timeout(Duration::from_secs(10)).map_err(sql)?;
        connection
            .pragma_update(None, "synchronous", "full")
            .map_err(sql)?;
        Ok(connection)
    }
}

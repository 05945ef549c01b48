//! What a database file holds, by name: for tools that look before they open.

use tidegate_core::lane::Lineage;
use tidegate_core::outbox::Settings;
use tidegate_core::{Result, Uuid};

use super::Database;

/// Names in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    /// Outboxes, with the settings they are opened with.
    pub outboxes: Vec<Settings>,
    /// Streams.
    pub streams: Vec<String>,
    /// Consumers.
    pub consumers: Vec<String>,
}

impl Catalog {
    /// Reads the catalog on one snapshot.
    ///
    /// # Errors
    /// As [`Database::read`].
    pub async fn read(database: &Database) -> Result<Self> {
        let read = database.read(|sql| {
            let names = |table: &str| {
                let query = format!("select name from {table} order by name");
                sql.query("catalog", &query, [], |row| row.get::<_, String>(0))
            };
            let outboxes = sql.query(
                "catalog",
                "select lineage, name, lanes, archive from tidegate_outbox_settings order by name",
                [],
                |row| {
                    Ok(Settings {
                        lineage: Lineage(Uuid::from_bytes(row.get(0)?)),
                        name: row.get(1)?,
                        lanes: row.get(2)?,
                        archive: row.get(3)?,
                    })
                },
            )?;
            Ok(Self {
                outboxes,
                streams: names("tidegate_stream")?,
                consumers: names("tidegate_consumer")?,
            })
        });
        read.await
    }
}

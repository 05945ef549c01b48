//! What a database holds, by name: for tools that look before they open.

use tidegate_core::Result;
use tidegate_core::lane::Lineage;
use tidegate_core::outbox::Settings;

use super::Database;
use super::columns::get;

/// Names in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    /// Outboxes, with the settings they are opened with.
    pub outboxes: Vec<Settings>,
    /// Consumers.
    pub consumers: Vec<String>,
}

impl Catalog {
    /// Reads the catalog. Two statements.
    ///
    /// # Errors
    /// The database's.
    pub async fn read(db: &Database) -> Result<Self> {
        let outboxes =
            "select lineage, name, lanes, archive from tidegate.outbox_settings order by name collate \"C\"";
        let rows = db.query("catalog", outboxes, &[]).await?;
        let settings = |row| {
            Ok(Settings {
                lineage: Lineage(get(row, 0)?),
                name: get(row, 1)?,
                lanes: super::columns::slot(row, 2)?,
                archive: get(row, 3)?,
            })
        };
        let consumers = "select name from tidegate.consumer order by name collate \"C\"";
        let names = db.query("catalog", consumers, &[]).await?;
        Ok(Self {
            outboxes: rows.iter().map(settings).collect::<Result<_>>()?,
            consumers: names.iter().map(|row| get(row, 0)).collect::<Result<_>>()?,
        })
    }
}

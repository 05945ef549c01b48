//! Checkpoints for loops that users write themselves: where a subscription stands, kept beside its effects.
//!
//! Every method takes the caller's open transaction, so that effect and checkpoint commit together or not at all;
//! there is no connection here that could write one without the other.

use rusqlite::{Connection, Row, params};
use tidegate_core::inbox::projection::is_identifier;
use tidegate_core::{Code, Error, Result, Timestamp};

use super::Sql;

/// The table that `migrate` makes.
pub const CHECKPOINT_TABLE: &str = "tidegate_checkpoint";

const SCHEMA: &str = include_str!("schema/checkpoint.sql");

/// Where a subscription stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last stream id taken in.
    pub last_id: String,
    /// The highest entity version taken in; never decreases.
    pub high_water: Option<i64>,
    /// Events taken in.
    pub consumed: u64,
    /// When it moved last.
    pub updated_at: Timestamp,
}

/// A step forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// The stream id up to which everything is taken in.
    pub last_id: &'a str,
    /// The highest entity version among the step's events.
    pub version: Option<i64>,
    /// Events in the step.
    pub events: u32,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advanced {
    /// The subscription stands here now, once the transaction commits.
    To(Checkpoint),
    /// Somebody else moved it: roll back and read it again.
    Moved(Option<Checkpoint>),
}

/// Checkpoints in one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointStore {
    table: String,
}

impl Default for CheckpointStore {
    fn default() -> Self {
        Self {
            table: CHECKPOINT_TABLE.into(),
        }
    }
}

impl CheckpointStore {
    /// Checkpoints in a table of this name.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] unless it is letters, digits and `_`, at most 63.
    pub fn new(table: &str) -> Result<Self> {
        check_table(table)?;
        Ok(Self { table: table.into() })
    }

    /// Makes the table where it is missing.
    ///
    /// # Errors
    /// Of the database.
    pub fn create(&self, connection: &Connection) -> Result<()> {
        create(connection, SCHEMA, CHECKPOINT_TABLE, &self.table)
    }

    /// Where a subscription stands; `None` before its first step.
    ///
    /// # Errors
    /// Of the database.
    pub fn read(&self, transaction: &Connection, subscription: &str) -> Result<Option<Checkpoint>> {
        let text = format!(
            "select last_id, high_water, consumed, updated_at from \"{}\" where subscription = ?1",
            self.table
        );
        Sql::on(transaction).first("reading a checkpoint", &text, [subscription], checkpoint)
    }

    /// Moves a subscription from `from`, the last id as the caller read it, by compare-and-set. The high-water version
    /// takes the larger value, the count grows. `subscription` is any text; the order of ids is the caller's affair.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] when no transaction is open. Of the database.
    pub fn advance(
        &self,
        transaction: &Connection,
        subscription: &str,
        from: Option<&str>,
        step: Step<'_>,
        now: Timestamp,
    ) -> Result<Advanced> {
        needs_transaction(transaction)?;
        let text = match from {
            None => self.first_step(),
            Some(_) => self.next_step(),
        };
        let moved = Sql::on(transaction).first(
            "advancing a checkpoint",
            &text,
            params![
                subscription,
                step.last_id,
                step.version,
                step.events,
                now.as_micros(),
                from
            ],
            checkpoint,
        )?;
        match moved {
            Some(checkpoint) => Ok(Advanced::To(checkpoint)),
            None => Ok(Advanced::Moved(self.read(transaction, subscription)?)),
        }
    }

    /// `?6` is null and only named so that both statements take the same parameters.
    fn first_step(&self) -> String {
        format!(
            "insert into \"{}\" (subscription, last_id, high_water, consumed, updated_at) \
             select ?1, ?2, ?3, ?4, ?5 where ?6 is null on conflict do nothing \
             returning last_id, high_water, consumed, updated_at",
            self.table
        )
    }

    fn next_step(&self) -> String {
        format!(
            "update \"{}\" set last_id = ?2, consumed = consumed + ?4, updated_at = ?5, \
             high_water = max(coalesce(high_water, ?3), coalesce(?3, high_water)) \
             where subscription = ?1 and last_id = ?6 \
             returning last_id, high_water, consumed, updated_at",
            self.table
        )
    }
}

fn checkpoint(row: &Row<'_>) -> rusqlite::Result<Checkpoint> {
    Ok(Checkpoint {
        last_id: row.get(0)?,
        high_water: row.get(1)?,
        consumed: row.get::<_, i64>(2)?.cast_unsigned(),
        updated_at: Timestamp::from_micros(row.get(3)?),
    })
}

pub(super) fn check_table(table: &str) -> Result<()> {
    let lower = table.to_ascii_lowercase();
    if is_identifier(table) && !lower.starts_with("sqlite_") {
        return Ok(());
    }
    Err(Error::new(
        Code::OptionsInvalid,
        "a table's name is letters, digits and _, at most 63, and does not begin with sqlite_",
    ))
}

/// A write outside a transaction would stand alone, whatever becomes of the effect.
pub(super) fn needs_transaction(connection: &Connection) -> Result<()> {
    if connection.is_autocommit() {
        return Err(Error::new(
            Code::OptionsInvalid,
            "no transaction is open on this connection; begin one, and commit it with your change",
        ));
    }
    Ok(())
}

/// Runs a schema text under another table name.
pub(super) fn create(connection: &Connection, schema: &str, default: &str, table: &str) -> Result<()> {
    let text = schema
        .replace(default, table)
        .replace("create table", "create table if not exists")
        .replace("create index", "create index if not exists");
    connection
        .execute_batch(&text)
        .map_err(super::error::map("creating a table"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(5);

    fn open(store: &CheckpointStore) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        store.create(&connection).unwrap();
        store.create(&connection).unwrap();
        connection
    }

    fn step(last_id: &str, version: i64) -> Step<'_> {
        Step {
            last_id,
            version: Some(version),
            events: 2,
        }
    }

    #[test]
    fn a_checkpoint_moves_by_compare_and_set_and_commits_with_its_effect() {
        let store = CheckpointStore::new("my_positions").unwrap();
        let mut connection = open(&store);
        let tx = connection.transaction().unwrap();
        assert!(matches!(
            store.advance(&tx, "s", None, step("1-0", 7), NOW),
            Ok(Advanced::To(_))
        ));
        tx.commit().unwrap();
        let tx = connection.transaction().unwrap();
        store.advance(&tx, "s", Some("1-0"), step("2-0", 9), NOW).unwrap();
        drop(tx);
        assert_eq!(store.read(&connection, "s").unwrap().unwrap().last_id, "1-0");
        assert_eq!(store.read(&connection, "other").unwrap(), None);
    }

    #[test]
    fn a_stale_step_is_told_where_the_checkpoint_is() {
        let store = CheckpointStore::default();
        let mut connection = open(&store);
        let tx = connection.transaction().unwrap();
        store.advance(&tx, "s", None, step("5-0", 7), NOW).unwrap();
        for from in [None, Some("4-0")] {
            let moved = store.advance(&tx, "s", from, step("4-1", 8), NOW).unwrap();
            assert!(matches!(moved, Advanced::Moved(Some(at)) if at.last_id == "5-0" && at.consumed == 2));
        }
        let gone = store.advance(&tx, "t", Some("4-0"), step("4-1", 8), NOW).unwrap();
        assert_eq!(gone, Advanced::Moved(None));
    }

    #[test]
    fn the_high_water_version_never_decreases() {
        let store = CheckpointStore::default();
        let mut connection = open(&store);
        let tx = connection.transaction().unwrap();
        let mut from: Option<String> = None;
        for (version, expected) in [
            (None, None),
            (Some(9_007_199_254_740_993), Some(9_007_199_254_740_993)),
            (Some(3), Some(9_007_199_254_740_993)),
            (None, Some(9_007_199_254_740_993)),
        ] {
            let id = format!("{}-x", from.as_deref().unwrap_or("0"));
            let step = Step {
                last_id: &id,
                version,
                events: 1,
            };
            let Advanced::To(at) = store.advance(&tx, "s", from.as_deref(), step, NOW).unwrap() else {
                panic!("moved");
            };
            assert_eq!(at.high_water, expected);
            from = Some(id);
        }
    }

    #[test]
    fn without_a_transaction_nothing_is_written() {
        let store = CheckpointStore::default();
        let connection = open(&store);
        let refused = store.advance(&connection, "s", None, step("1", 1), NOW);
        assert_eq!(refused.unwrap_err().code(), Code::OptionsInvalid);
    }

    #[test]
    fn table_names_are_checked() {
        for bad in [
            "",
            "a b",
            "x\"; drop table y; --",
            "sqlite_x",
            "a.b",
            &"x".repeat(64),
        ] {
            assert!(CheckpointStore::new(bad).is_err(), "{bad}");
        }
        let connection = open(&CheckpointStore::new("order").unwrap());
        assert!(connection.prepare("select * from \"order\"").is_ok());
    }
}

//! Seen events for loops that users write themselves: an event is recorded in the transaction that applies it.
//!
//! A delivery that repeats within the retention is recognised; after it, it is not. Every method takes the caller's
//! open transaction.

use std::time::Duration;

use rusqlite::{Connection, params};
use tidegate_core::{Code, Error, Result, Timestamp};

use super::Sql;
use super::checkpoint::{check_table, create, needs_transaction};

/// The table that `migrate` makes.
pub const DEDUPE_TABLE: &str = "tidegate_seen";
/// How long an event is remembered: 30 days, longer than brokers keep entries by default.
pub const RETENTION: Duration = Duration::from_secs(30 * DAY);

const DAY: u64 = 24 * 60 * 60;
/// A shorter one would forget before an ordinary outage is over.
const RETENTION_MIN: Duration = Duration::from_secs(60 * 60);
/// A longer one is a mistake of units.
const RETENTION_MAX: Duration = Duration::from_secs(3660 * DAY);
const SCHEMA: &str = include_str!("schema/dedupe.sql");

/// Whether an event was met before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Now, for the first time: apply it.
    First,
    /// Before: do not apply it.
    Again,
}

/// The events one loop has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DedupeStore {
    table: String,
    scope: String,
    retention: Duration,
}

impl DedupeStore {
    /// The events seen by `scope`, a name of the loop: two loops in one database do not see each other's.
    pub fn new(scope: impl Into<String>) -> Self {
        Self {
            table: DEDUPE_TABLE.into(),
            scope: scope.into(),
            retention: RETENTION,
        }
    }

    /// In a table of this name.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] unless it is letters, digits and `_`, at most 63.
    pub fn table(mut self, table: &str) -> Result<Self> {
        check_table(table)?;
        self.table = table.into();
        Ok(self)
    }

    /// Remembers events for this long.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] below an hour or above ten years.
    pub fn retention(mut self, retention: Duration) -> Result<Self> {
        if !(RETENTION_MIN..=RETENTION_MAX).contains(&retention) {
            let seconds = retention.as_secs();
            return Err(Error::new(
                Code::OptionsInvalid,
                format!("the retention is {seconds} s; it must be from an hour to ten years"),
            ));
        }
        self.retention = retention;
        Ok(self)
    }

    /// Makes the table where it is missing.
    ///
    /// # Errors
    /// Of the database.
    pub fn create(&self, connection: &Connection) -> Result<()> {
        create(connection, SCHEMA, DEDUPE_TABLE, &self.table)
    }

    /// Records an event, and says whether it was there already. Use the answer: an event that was seen is not to be
    /// applied.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] when no transaction is open. Of the database.
    #[must_use = "an event that was seen before is not to be applied"]
    pub fn see(&self, transaction: &Connection, event_id: &str, topic: &str, now: Timestamp) -> Result<Seen> {
        needs_transaction(transaction)?;
        let text = format!(
            "insert into \"{}\" (scope, event_id, topic, seen_at) values (?1, ?2, ?3, ?4) on conflict do nothing",
            self.table
        );
        let added = Sql::on(transaction).execute(
            "recording an event",
            &text,
            params![self.scope, event_id, topic, now.as_micros()],
        )?;
        Ok(if added == 1 { Seen::First } else { Seen::Again })
    }

    /// Forgets events seen longer ago than the retention, at most `limit`, oldest first. Returns how many: as many as
    /// `limit` means that there are more.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] when no transaction is open. Of the database.
    pub fn sweep(&self, transaction: &Connection, now: Timestamp, limit: u32) -> Result<usize> {
        needs_transaction(transaction)?;
        let text = format!(
            "delete from \"{0}\" where (scope, event_id, topic) in ( \
             select scope, event_id, topic from \"{0}\" where scope = ?1 and seen_at < ?2 order by seen_at limit ?3)",
            self.table
        );
        let before = now.before(self.retention).as_micros();
        Sql::on(transaction).execute("forgetting events", &text, params![self.scope, before, limit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(store: &DedupeStore) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        store.create(&connection).unwrap();
        store.create(&connection).unwrap();
        connection
    }

    fn at(days: u64) -> Timestamp {
        Timestamp::from_micros(0).after(Duration::from_secs(days * DAY))
    }

    #[test]
    fn an_event_is_seen_once_per_scope_and_topic() {
        let store = DedupeStore::new("billing");
        let mut connection = open(&store);
        let tx = connection.transaction().unwrap();
        let other = DedupeStore::new("search");
        assert_eq!(store.see(&tx, "e1", "orders", at(1)).unwrap(), Seen::First);
        assert_eq!(store.see(&tx, "e1", "orders", at(2)).unwrap(), Seen::Again);
        assert_eq!(store.see(&tx, "e1", "returns", at(2)).unwrap(), Seen::First);
        assert_eq!(other.see(&tx, "e1", "orders", at(2)).unwrap(), Seen::First);
    }

    #[test]
    fn what_is_rolled_back_was_not_seen() {
        let store = DedupeStore::new("billing");
        let mut connection = open(&store);
        let tx = connection.transaction().unwrap();
        assert_eq!(store.see(&tx, "e1", "orders", at(1)).unwrap(), Seen::First);
        drop(tx);
        let tx = connection.transaction().unwrap();
        assert_eq!(store.see(&tx, "e1", "orders", at(1)).unwrap(), Seen::First);
    }

    #[test]
    fn a_sweep_is_bounded_and_keeps_what_is_young() {
        let store = DedupeStore::new("billing").table("seen_here").unwrap();
        let mut connection = open(&store);
        let tx = connection.transaction().unwrap();
        for day in 0..40u64 {
            assert_eq!(
                store.see(&tx, &day.to_string(), "t", at(day)).unwrap(),
                Seen::First
            );
        }
        assert_eq!(store.sweep(&tx, at(40), 6).unwrap(), 6);
        assert_eq!(store.sweep(&tx, at(40), 6).unwrap(), 4);
        assert_eq!(store.sweep(&tx, at(40), 6).unwrap(), 0);
        assert_eq!(store.see(&tx, "10", "t", at(40)).unwrap(), Seen::Again);
        assert_eq!(store.see(&tx, "9", "t", at(40)).unwrap(), Seen::First);
    }

    #[test]
    fn bad_retentions_tables_and_missing_transactions_are_refused() {
        let store = DedupeStore::new("billing");
        for bad in [Duration::ZERO, Duration::from_secs(3599), Duration::MAX] {
            assert!(store.clone().retention(bad).is_err());
        }
        assert!(store.clone().retention(Duration::from_secs(3600)).is_ok());
        assert!(store.clone().table("a;b").is_err());
        let connection = open(&store);
        assert!(store.see(&connection, "e", "t", at(1)).is_err());
        assert!(store.sweep(&connection, at(1), 1).is_err());
    }
}

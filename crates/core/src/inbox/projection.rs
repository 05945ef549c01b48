//! Declared projections: events as rows, without code.
//!
//! Each event is the full state of its key as a JSON object; the header `op` with the value `delete` says that the key
//! is gone. The events of a batch are folded to the last state of each key, so that a store needs one upsert and one
//! delete, whatever their number. With a version column, a row is only replaced by a higher version.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value};

use crate::error::{Code, Error, Result};
use crate::event::Event;
use crate::inbox::{Class, Delivered, Failure};
use crate::limits;

/// What to write where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// The table, `name` or `schema.name`; it belongs to the user, and its key column is unique.
    pub table: String,
    /// The column that receives the event's key.
    pub key: String,
    /// The other columns.
    pub columns: Vec<Column>,
    /// The column that receives the event's version. `None`: stream order decides alone, which is enough within one
    /// stream.
    pub version: Option<String>,
}

/// A column and where its value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The field of the payload; a dot steps into an object.
    pub field: String,
    /// An absent field is null; otherwise it parks the event. A null that is there is null either way.
    pub optional: bool,
}

impl Column {
    /// A required column.
    pub fn new(name: impl Into<String>, field: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            field: field.into(),
            optional: false,
        }
    }
}

/// A batch, folded: a key is in one of the two lists, once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folded {
    /// Rows to write: the key, the columns in order, and the version where there is a column for it. Objects and lists
    /// are JSON text in the end.
    pub upserts: Vec<Vec<Value>>,
    /// Keys to delete, with the version of the deletion.
    pub deletes: Vec<(String, Option<i64>)>,
}

impl Projection {
    /// Checks every name.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] listing all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = self.bad_names();
        let mut seen = std::collections::HashSet::new();
        for name in self.names() {
            if !seen.insert(name.to_ascii_lowercase()) {
                problems.push(format!("column {name:?} is named twice"));
            }
        }
        for column in &self.columns {
            if column.field.split('.').any(str::is_empty) {
                problems.push(format!("field {:?} has an empty step", column.field));
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        let text = format!("projection into {:?}: {}", self.table, problems.join("; "));
        Err(Error::new(Code::OptionsInvalid, text))
    }

    /// The columns in the order of [`Folded::upserts`].
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let columns = self.columns.iter().map(|column| column.name.as_str());
        std::iter::once(self.key.as_str())
            .chain(columns)
            .chain(self.version.as_deref())
    }

    fn bad_names(&self) -> Vec<String> {
        let mut problems: Vec<String> = self
            .names()
            .filter(|name| !is_identifier(name))
            .map(|name| format!("column {name:?} is not a name of letters, digits and _, at most 63"))
            .collect();
        let parts: Vec<&str> = self.table.split('.').collect();
        if parts.len() > 2 || !parts.iter().all(|part| is_identifier(part)) {
            problems.push("the table is not `name` or `schema.name`".into());
        }
        let own = |part: &&str| {
            let lower = part.to_ascii_lowercase();
            lower.starts_with("tidegate_") || lower.starts_with("sqlite_")
        };
        if parts.last().is_some_and(own) {
            problems.push("tables of Tidegate and SQLite cannot be written".into());
        }
        problems
    }

    /// Folds events to the last state of each key, in order of first appearance.
    ///
    /// # Errors
    /// The index of the first event that cannot be a row, and why; no value is in it.
    pub fn fold(&self, events: &[Delivered]) -> Result<Folded, (usize, Failure)> {
        let mut rows: Vec<Row> = Vec::with_capacity(events.len());
        let mut places = HashMap::with_capacity(events.len());
        for (index, delivered) in events.iter().enumerate() {
            let row = self.row(&delivered.event).map_err(|failure| (index, failure))?;
            match places.entry(row.key.clone()) {
                Entry::Vacant(place) => {
                    place.insert(rows.len());
                    rows.push(row);
                }
                Entry::Occupied(place) => rows[*place.get()].replace_with(row),
            }
        }
        Ok(folded(rows))
    }

    fn row(&self, event: &Event) -> Result<Row, Failure> {
        let Some(key) = event.key.clone() else {
            return Err(decode("no key", "the event has no key"));
        };
        if self.version.is_some() && event.version.is_none() {
            return Err(decode("no version", "the event has no version"));
        }
        let values = match event.header("op") {
            Some("delete") => None,
            _ => Some(self.values(event)?),
        };
        Ok(Row {
            key,
            version: event.version.filter(|_| self.version.is_some()),
            values,
        })
    }

    fn values(&self, event: &Event) -> Result<Vec<Value>, Failure> {
        let object: Map<String, Value> = serde_json::from_slice(&event.payload).map_err(|e| {
            let text = format!(
                "the payload is not a JSON object: line {}, column {}",
                e.line(),
                e.column()
            );
            decode("not a JSON object", text)
        })?;
        self.columns.iter().map(|column| column.value(&object)).collect()
    }
}

impl Column {
    fn value(&self, object: &Map<String, Value>) -> Result<Value, Failure> {
        let (first, rest) = self.field.split_once('.').unwrap_or((&self.field, ""));
        let mut steps = rest.split('.').filter(|step| !step.is_empty());
        let found = object
            .get(first)
            .and_then(|value| steps.try_fold(value, |value, step| value.get(step)));
        match found {
            Some(value) => self.storable(value),
            None if self.optional => Ok(Value::Null),
            None => Err(decode(
                format!("missing {}", self.field),
                format!("the field {} is missing", self.field),
            )),
        }
    }

    /// Databases hold 64-bit integers and texts without NUL: a larger integer goes as text, a NUL is refused.
    fn storable(&self, value: &Value) -> Result<Value, Failure> {
        match value {
            Value::Number(number) if number.is_u64() && number.as_i64().is_none() => {
                Ok(Value::from(number.to_string()))
            }
            Value::String(text) if text.contains('\0') => Err(decode(
                format!("NUL in {}", self.field),
                format!("the field {} has a NUL character", self.field),
            )),
            other => Ok(other.clone()),
        }
    }
}

#[derive(Debug)]
struct Row {
    key: String,
    version: Option<i64>,
    /// `None`: delete.
    values: Option<Vec<Value>>,
}

impl Row {
    /// A later event wins, unless its version is lower.
    fn replace_with(&mut self, later: Row) {
        if later.version >= self.version {
            *self = later;
        }
    }
}

fn folded(rows: Vec<Row>) -> Folded {
    let mut folded = Folded::default();
    for row in rows {
        match row.values {
            None => folded.deletes.push((row.key, row.version)),
            Some(values) => {
                let mut all = Vec::with_capacity(values.len() + 2);
                all.push(Value::from(row.key));
                all.extend(values);
                all.extend(row.version.map(Value::from));
                folded.upserts.push(all);
            }
        }
    }
    folded
}

/// Letters, digits and `_`, not first a digit, at most 63 bytes: a name that every database takes, quoted or not.
pub fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    starts && name.len() <= limits::NAME_BYTES_MAX && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn decode(fingerprint: impl Into<String>, message: impl Into<String>) -> Failure {
    Failure {
        class: Class::Decode,
        fingerprint: fingerprint.into(),
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::{LaneId, Lineage};
    use crate::time::Timestamp;
    use bytes::Bytes;
    use serde_json::json;
    use uuid::Uuid;

    fn projection() -> Projection {
        Projection {
            table: "account".into(),
            key: "id".into(),
            columns: vec![
                Column::new("owner", "owner.name"),
                Column::new("balance", "balance"),
            ],
            version: None,
        }
    }

    fn event(key: &str, payload: &str) -> Delivered {
        let lane = LaneId {
            lineage: Lineage(Uuid::nil()),
            slot: 0,
        };
        let event = Event {
            id: Uuid::nil(),
            topic: "t".into(),
            key: Some(key.into()),
            version: None,
            content_type: "application/json".into(),
            headers: vec![],
            payload: Bytes::copy_from_slice(payload.as_bytes()),
            occurred_at: Timestamp::default(),
        };
        Delivered { lane, n: 1, event }
    }

    fn deletion(key: &str) -> Delivered {
        let mut gone = event(key, "");
        gone.event.headers.push(("op".into(), "delete".into()));
        gone
    }

    fn full(owner: &str, balance: i64) -> String {
        json!({"owner": {"name": owner}, "balance": balance}).to_string()
    }

    fn failure(events: &[Delivered]) -> (usize, String) {
        let (index, failure) = projection().fold(events).unwrap_err();
        (index, failure.fingerprint)
    }

    #[test]
    fn the_last_state_of_each_key_wins() {
        let events = [
            event("a", &full("x", 1)),
            event("b", &full("y", 2)),
            event("a", &full("x", 3)),
        ];
        let folded = projection().fold(&events).unwrap();
        assert_eq!(
            folded.upserts,
            vec![
                vec![json!("a"), json!("x"), json!(3)],
                vec![json!("b"), json!("y"), json!(2)],
            ]
        );
    }

    #[test]
    fn a_key_is_deleted_or_written_but_not_both() {
        let events = [
            event("a", &full("x", 1)),
            deletion("a"),
            deletion("b"),
            event("b", &full("y", 2)),
        ];
        let folded = projection().fold(&events).unwrap();
        assert_eq!(folded.deletes, vec![("a".into(), None)]);
        assert_eq!(folded.upserts.len(), 1);
    }

    #[test]
    fn a_missing_field_blames_its_event_and_a_null_does_not() {
        let missing = event("b", r#"{"owner": {}, "balance": 1}"#);
        assert_eq!(
            failure(&[event("a", &full("x", 1)), missing]),
            (1, "missing owner.name".into())
        );
        let null = event("b", r#"{"owner": {"name": null}, "balance": 1}"#);
        assert_eq!(projection().fold(&[null]).unwrap().upserts[0][1], Value::Null);
        let mut optional = projection();
        optional.columns[0].optional = true;
        assert!(optional.fold(&[event("b", r#"{"balance": 1}"#)]).is_ok());
    }

    #[test]
    fn what_is_not_an_object_or_has_no_key_is_to_blame() {
        for payload in ["", "7", "[1]", "{\"owner\"", "\u{0}"] {
            assert_eq!(failure(&[event("a", payload)]), (0, "not a JSON object".into()));
        }
        let mut keyless = event("a", &full("x", 1));
        keyless.event.key = None;
        assert_eq!(failure(&[keyless]), (0, "no key".into()));
    }

    #[test]
    fn numbers_beyond_64_bits_and_nul_characters_are_not_bent() {
        let big = event(
            "a",
            r#"{"owner": {"name": "x"}, "balance": 18446744073709551615}"#,
        );
        let folded = projection().fold(&[big]).unwrap();
        assert_eq!(folded.upserts[0][2], json!("18446744073709551615"));
        let nul = event("a", r#"{"owner": {"name": "x\u0000y"}, "balance": 1}"#);
        assert_eq!(failure(&[nul]), (0, "NUL in owner.name".into()));
    }

    #[test]
    fn with_a_version_column_the_highest_version_wins() {
        let mut versioned = projection();
        versioned.version = Some("version".into());
        let at = |version: i64, balance| {
            let mut event = event("a", &full("x", balance));
            event.event.version = Some(version);
            event
        };
        let max = i64::MAX;
        let folded = versioned.fold(&[at(max, 1), at(max - 1, 2)]).unwrap();
        assert_eq!(
            folded.upserts,
            vec![vec![json!("a"), json!("x"), json!(1), json!(max)]]
        );
        assert_eq!(
            versioned
                .fold(&[event("a", &full("x", 1))])
                .unwrap_err()
                .1
                .fingerprint,
            "no version"
        );
    }

    #[test]
    fn every_bad_name_is_reported_at_once() {
        let mut bad = projection();
        assert!(bad.validate().is_ok());
        bad.table = "main.tidegate_lane".into();
        bad.key = "i d".into();
        bad.columns[0].name = "BALANCE".into();
        bad.columns[1].field = "a..b".into();
        let text = bad.validate().unwrap_err().to_string();
        for problem in ["Tidegate", "\"i d\"", "named twice", "empty step"] {
            assert!(text.contains(problem), "{problem} in {text}");
        }
    }
}

//! Declared projections: events as rows, without code.
//!
//! Each event is the full state of its key as a JSON object; the header `op` with the value `delete` says that the key
//! is gone. With a version column, a row is only replaced by a higher version.
//!
//! A batch is cut into runs in which each key occurs once; a store needs one upsert and one delete for a run. Events of
//! one key that follow each other fold into the last of them, so that a hot key costs one row a batch: only where the
//! table tells values apart by their type alone, and only values of the same types. Otherwise a later event could hide
//! one that the table refuses, and which one parks would depend on how the events fell into batches.

mod payload;

use std::collections::{HashMap, HashSet};

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

/// What a column is to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number of 64 bits with a sign.
    Integer(i64),
    /// Any other number, as it was written.
    Number(String),
    /// A text without NUL.
    Text(String),
    /// An object or a list, as JSON without white space between tokens.
    Json(String),
}

/// Which numbers a database takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Integers and floats of 64 bits: others are their event's fault.
    Bits64,
    /// Whatever fits the column, which the database decides.
    Any,
}

/// Events that follow each other: a key is in one of the two lists, once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Run {
    /// Rows to write: the key, the columns in order, and the version where there is a column for it.
    pub upserts: Vec<Vec<Cell>>,
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
        let mut seen = HashSet::new();
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

    /// The columns in the order of [`Run::upserts`].
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

    /// What each event writes, in order.
    ///
    /// # Errors
    /// The index of the first event that cannot be a row, and why; no value is in it.
    pub fn rows(&self, events: &[Delivered], numbers: Numbers) -> Result<Rows, (usize, Failure)> {
        let roots: Vec<&str> = self.columns.iter().map(Column::root).collect();
        let row = |(index, delivered): (usize, &Delivered)| {
            let row = self.row(&delivered.event, &roots, numbers);
            row.map_err(|failure| (index, failure))
        };
        events
            .iter()
            .enumerate()
            .map(row)
            .collect::<Result<_, _>>()
            .map(Rows)
    }

    fn row(&self, event: &Event, roots: &[&str], numbers: Numbers) -> Result<Row, Failure> {
        let Some(key) = event.key.clone() else {
            return Err(decode("no key", "the event has no key"));
        };
        if self.version.is_some() && event.version.is_none() {
            return Err(decode("no version", "the event has no version"));
        }
        let values = match event.header("op") {
            Some("delete") => None,
            _ => Some(self.values(event, roots, numbers)?),
        };
        Ok(Row {
            key,
            version: event.version.filter(|_| self.version.is_some()),
            values,
        })
    }

    fn values(&self, event: &Event, roots: &[&str], numbers: Numbers) -> Result<Vec<Cell>, Failure> {
        let found = payload::fields(&event.payload, roots).map_err(|e| {
            let text = format!(
                "the payload is not a JSON object: line {}, column {}",
                e.line(),
                e.column()
            );
            decode("not a JSON object", text)
        })?;
        let root = |column: &Column| roots.iter().position(|root| *root == column.root());
        let value = |column: &Column| column.value(root(column).and_then(|place| found[place]), numbers);
        self.columns.iter().map(value).collect()
    }
}

/// What events write, in order.
#[derive(Debug)]
pub struct Rows(Vec<Row>);

impl Rows {
    /// Some key occurs more than once: whether it folds matters.
    pub fn repeat_a_key(&self) -> bool {
        let mut keys = HashSet::new();
        !self.0.iter().all(|row| keys.insert(&row.key))
    }

    /// Runs to be written one after another. With `fold`, of rows with one key and values of the same types only the
    /// last is written, or the one with the highest version.
    pub fn runs(self, fold: bool) -> Vec<Run> {
        let (mut runs, mut run) = (Vec::new(), Vec::<Row>::new());
        let mut places = HashMap::new();
        for row in self.0 {
            let earlier = places.get(&row.key).and_then(|place: &usize| run.get_mut(*place));
            match earlier {
                Some(earlier) if fold && earlier.is_like(&row) => {
                    if row.replaces(earlier) {
                        *earlier = row;
                    }
                    continue;
                }
                Some(_) => {
                    runs.push(Run::of(std::mem::take(&mut run)));
                    places.clear();
                }
                None => {}
            }
            places.insert(row.key.clone(), run.len());
            run.push(row);
        }
        runs.push(Run::of(run));
        runs
    }
}

#[derive(Debug)]
struct Row {
    key: String,
    version: Option<i64>,
    /// `None`: delete.
    values: Option<Vec<Cell>>,
}

impl Row {
    /// Both delete, or both write values of the same types.
    fn is_like(&self, other: &Row) -> bool {
        match (&self.values, &other.values) {
            (None, None) => true,
            (Some(mine), Some(others)) => {
                let kind = std::mem::discriminant::<Cell>;
                mine.iter().zip(others).all(|(a, b)| kind(a) == kind(b))
            }
            _ => false,
        }
    }

    /// A row is only replaced by a higher version.
    fn replaces(&self, earlier: &Row) -> bool {
        self.version.is_none() || self.version > earlier.version
    }
}

impl Run {
    fn of(rows: Vec<Row>) -> Self {
        let mut run = Self::default();
        for row in rows {
            run.push(row);
        }
        run
    }

    fn push(&mut self, row: Row) {
        let Some(values) = row.values else {
            return self.deletes.push((row.key, row.version));
        };
        let mut all = Vec::with_capacity(values.len() + 2);
        all.push(Cell::Text(row.key));
        all.extend(values);
        all.extend(row.version.map(Cell::Integer));
        self.upserts.push(all);
    }
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
        let (index, failure) = projection().rows(events, Numbers::Bits64).unwrap_err();
        (index, failure.fingerprint)
    }

    fn text(text: &str) -> Cell {
        Cell::Text(text.into())
    }

    fn shown(cell: &Cell) -> String {
        match cell {
            Cell::Integer(whole) => whole.to_string(),
            Cell::Number(text) | Cell::Text(text) | Cell::Json(text) => text.clone(),
            Cell::Null | Cell::Bool(_) => format!("{cell:?}"),
        }
    }

    /// The second column of a run of one event.
    fn balance(json: &str) -> Result<Cell, (usize, Failure)> {
        let payload = format!(r#"{{"owner": {{"name": "x"}}, "balance": {json}}}"#);
        let mut runs = projection()
            .rows(&[event("a", &payload)], Numbers::Bits64)?
            .runs(false);
        Ok(runs[0].upserts[0].remove(2))
    }

    #[test]
    fn a_key_occurs_once_in_a_run_and_no_event_is_left_out() {
        let events = [
            event("a", &full("x", 1)),
            event("b", &full("y", 2)),
            event("a", &full("x", 3)),
            event("c", &full("z", 4)),
        ];
        let row = |key, owner, balance| vec![text(key), text(owner), Cell::Integer(balance)];
        let runs = projection().rows(&events, Numbers::Bits64).unwrap().runs(false);
        let rows: Vec<_> = runs.into_iter().map(|run| run.upserts).collect();
        assert_eq!(
            rows,
            vec![
                vec![row("a", "x", 1), row("b", "y", 2)],
                vec![row("a", "x", 3), row("c", "z", 4)],
            ]
        );
    }

    /// Each run as `key=balance`, deletions as `-key`.
    fn folded(events: &[Delivered], version: bool) -> Vec<Vec<String>> {
        let mut projection = projection();
        projection.version = version.then(|| "version".into());
        let rows = projection.rows(events, Numbers::Bits64).unwrap();
        let show = |run: &Run| {
            let written = run
                .upserts
                .iter()
                .map(|row| format!("{}={}", shown(&row[0]), shown(&row[2])));
            let deleted = run.deletes.iter().map(|(key, _)| format!("-{key}"));
            written.chain(deleted).collect()
        };
        rows.runs(true).iter().map(show).collect()
    }

    #[test]
    fn values_of_the_same_types_fold_into_the_last_of_their_key() {
        let events = [
            event("a", &full("x", 1)),
            event("b", &full("y", 2)),
            event("a", &full("x", 3)),
            event("a", &full("x", 4)),
        ];
        assert_eq!(folded(&events, false), [["a=4", "b=2"]]);
        let other_types = [
            event("a", &full("x", 1)),
            event("a", r#"{"owner": {"name": "x"}, "balance": 2.5}"#),
            event("a", r#"{"owner": {"name": null}, "balance": 3.5}"#),
            deletion("a"),
            deletion("a"),
        ];
        assert_eq!(
            folded(&other_types, false),
            [["a=1"], ["a=2.5"], ["a=3.5"], ["-a"]]
        );
    }

    #[test]
    fn of_folded_values_the_highest_version_stays() {
        let versioned = |version, balance| {
            let mut event = event("a", &full("x", balance));
            event.event.version = Some(version);
            event
        };
        let events = [
            versioned(2, 20),
            versioned(3, 30),
            versioned(3, 31),
            versioned(1, 10),
        ];
        assert_eq!(folded(&events, true), [["a=30"]]);
    }

    #[test]
    fn a_key_is_deleted_or_written_but_not_both() {
        let events = [
            event("a", &full("x", 1)),
            deletion("b"),
            deletion("a"),
            event("b", &full("y", 2)),
        ];
        let runs = projection().rows(&events, Numbers::Bits64).unwrap().runs(false);
        let keys = |run: &Run| {
            let written = run.upserts.iter().map(|row| shown(&row[0]));
            let deleted = run.deletes.iter().map(|(key, _)| format!("-{key}"));
            written.chain(deleted).collect::<Vec<_>>()
        };
        let keys: Vec<_> = runs.iter().map(keys).collect();
        assert_eq!(keys, [["a", "-b"], ["b", "-a"]]);
    }

    #[test]
    fn a_missing_field_blames_its_event_and_a_null_does_not() {
        let missing = event("b", r#"{"owner": {}, "balance": 1}"#);
        assert_eq!(
            failure(&[event("a", &full("x", 1)), missing]),
            (1, "missing owner.name".into())
        );
        let null = event("b", r#"{"owner": {"name": null}, "balance": 1}"#);
        assert_eq!(
            projection().rows(&[null], Numbers::Bits64).unwrap().runs(true)[0].upserts[0][1],
            Cell::Null
        );
        let mut optional = projection();
        optional.columns[0].optional = true;
        assert!(
            optional
                .rows(&[event("b", r#"{"balance": 1}"#)], Numbers::Bits64)
                .is_ok()
        );
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
    fn integers_beyond_64_bits_and_nul_characters_are_refused() {
        for whole in [i64::MIN, -1, 0, i64::MAX] {
            assert_eq!(balance(&whole.to_string()), Ok(Cell::Integer(whole)));
        }
        let beyond = [
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
        ];
        for json in beyond.into_iter().chain(["1e400"]) {
            let (_, failure) = balance(json).unwrap_err();
            assert_eq!(failure.fingerprint, "too large in balance", "{json}");
            assert!(!failure.message.contains(json), "{failure:?}");
        }
        for real in ["9223372036854775808.0", "1e30", "0.1"] {
            assert_eq!(balance(real), Ok(Cell::Number(real.into())));
        }
        let nul = event("a", r#"{"owner": {"name": "x\u0000y"}, "balance": 1}"#);
        assert_eq!(failure(&[nul]), (0, "NUL in owner.name".into()));
    }

    #[test]
    fn where_any_number_is_taken_it_is_kept_as_it_was_written() {
        for number in ["9223372036854775808", "12345678901234567890.123456789", "1e400"] {
            let payload = format!(r#"{{"owner": {{"name": "x"}}, "balance": {number}}}"#);
            let rows = projection().rows(&[event("a", &payload)], Numbers::Any).unwrap();
            assert_eq!(rows.runs(false)[0].upserts[0][2], Cell::Number(number.into()));
        }
    }

    #[test]
    fn lists_and_objects_are_their_text_and_numbers_inside_are_kept() {
        let json = r#"{ "b" : [1, 99999999999999999999, " \" ] "], "a": {} }"#;
        let text = r#"{"b":[1,99999999999999999999," \" ] "],"a":{}}"#;
        assert_eq!(balance(json), Ok(Cell::Json(text.into())));
    }

    #[test]
    fn what_is_not_declared_may_be_nested_as_deep_as_it_likes() {
        let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let other = format!(
            r#"{{"other": {}, "owner": {{"x": {}, "name": "n"}}, "balance": 1}}"#,
            nested(100_000),
            nested(100_000)
        );
        assert!(projection().rows(&[event("a", &other)], Numbers::Bits64).is_ok());
        assert_eq!(balance(&nested(127)), Ok(Cell::Json(nested(127))));
        for levels in [128, 100_000] {
            let (_, failure) = balance(&nested(levels)).unwrap_err();
            assert_eq!(
                failure.message,
                "the field balance is nested deeper than 127 levels"
            );
        }
        let open = format!(r#"{{"other": {}"#, "[".repeat(100_000));
        assert_eq!(failure(&[event("a", &open)]), (0, "not a JSON object".into()));
    }

    #[test]
    fn a_version_is_needed_where_there_is_a_column_for_it() {
        let mut versioned = projection();
        versioned.version = Some("version".into());
        let mut known = event("a", &full("x", 1));
        known.event.version = Some(i64::MAX);
        let runs = versioned.rows(&[known], Numbers::Bits64).unwrap().runs(true);
        let row = vec![text("a"), text("x"), Cell::Integer(1), Cell::Integer(i64::MAX)];
        assert_eq!(runs[0].upserts, vec![row]);
        let (_, failure) = versioned
            .rows(&[event("a", &full("x", 1))], Numbers::Bits64)
            .unwrap_err();
        assert_eq!(failure.fingerprint, "no version");
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

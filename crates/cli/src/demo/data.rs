//! The records to play.

use std::collections::BTreeSet;
use std::path::Path;

use tidegate::{Code, Error, Result};

/// The shipped records: see `examples/data/README.md` for where they come from.
const FLIGHTS: &str = include_str!("../../../../examples/data/flights.ndjson");

/// One record, in the file's order.
#[derive(Debug, Clone)]
pub struct Record {
    /// The line's number, from 1; per key it only rises.
    pub line: u64,
    /// The value of the key field.
    pub key: String,
    /// The line itself.
    pub json: String,
}

/// Reads every line; the first that cannot be used is an error with its number.
pub fn load(file: Option<&Path>, key: &str) -> Result<Vec<Record>> {
    let Some(path) = file else {
        return parse(FLIGHTS, key);
    };
    let text = std::fs::read_to_string(path)
        .map_err(|e| Error::new(Code::InputInvalid, format!("reading {}", path.display())).with_source(e))?;
    parse(&text, key)
}

/// How many keys there are.
pub fn keys(records: &[Record]) -> usize {
    records.iter().map(|r| &r.key).collect::<BTreeSet<_>>().len()
}

fn parse(text: &str, key: &str) -> Result<Vec<Record>> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let records = lines
        .map(|(at, line)| record(at as u64 + 1, line, key))
        .collect::<Result<Vec<_>>>()?;
    if records.is_empty() {
        return Err(Error::new(Code::InputInvalid, "the file holds no records"));
    }
    Ok(records)
}

fn record(line: u64, json: &str, field: &str) -> Result<Record> {
    let bad = |why: String| Error::new(Code::InputInvalid, format!("line {line}: {why}"));
    let value: serde_json::Value = serde_json::from_str(json).map_err(|e| {
        bad(format!(
            "not a JSON object: {:?} at column {}",
            e.classify(),
            e.column()
        ))
    })?;
    let key = match value.get(field) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(serde_json::Value::Number(number)) => number.to_string(),
        Some(_) => {
            return Err(bad(format!(
                "the key field `{field}` is neither text nor a number"
            )));
        }
        None => return Err(bad(format!("the key field `{field}` is missing"))),
    };
    Ok(Record {
        line,
        key,
        json: json.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_records_are_thousands_with_several_a_key() {
        let records = load(None, "origin").unwrap();
        assert!(records.len() >= 3000);
        assert!(records.len() > 10 * keys(&records));
    }

    #[test]
    fn a_bad_line_is_named_by_number_and_reason_without_its_text() {
        let error = parse("{\"k\":1}\n{\"k\":secret\n", "k").unwrap_err().to_string();
        assert!(
            error.contains("line 2: not a JSON object") && !error.contains("secret"),
            "{error}"
        );
        let error = parse("{\"k\":1}\n\n{\"j\":2}\n", "k").unwrap_err().to_string();
        assert!(error.contains("line 3: the key field `k` is missing"), "{error}");
    }
}

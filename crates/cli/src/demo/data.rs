//! The records to play.

use std::collections::BTreeSet;
use std::path::Path;

use tidegate::Draft;

use crate::commands::emit::line::Shape;
use crate::commands::emit::lines::Input;
use crate::commands::emit::unreadable;
use crate::error::Failure;

/// The shipped records: see `examples/data/README.md` for where they come from.
const FLIGHTS: &str = include_str!("../../../../examples/data/flights.ndjson");
/// Fewer records leave no time for the faults.
pub const RECORDS_MIN: usize = 200;
/// More records would play for minutes.
const RECORDS_MAX: usize = 100_000;
/// Records are held in memory.
const BYTES_MAX: usize = 64 * 1024 * 1024;

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

/// What a file holds.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Lines that can be played.
    pub records: Vec<Record>,
    /// Lines that cannot.
    pub refused: u64,
    /// The file goes on after what is played.
    pub cut: bool,
}

/// Reads the lines as `emit --key-field` does. `refuse` is told the number of each bad line and the reason.
///
/// # Errors
/// When the file cannot be opened, or has fewer good lines than the story needs.
pub fn load(file: Option<&Path>, key: &str, mut refuse: impl FnMut(String)) -> Result<Loaded, Failure> {
    let input = match file {
        None => Input::shipped(FLIGHTS),
        Some(path) => Input::open(path).map_err(|e| unreadable(path, &e))?,
    };
    let loaded = read(input, key, &mut refuse)?;
    if loaded.records.len() >= RECORDS_MIN {
        return Ok(loaded);
    }
    Err(Failure::argument(format!(
        "--data has {} good lines and {} refused; the demo needs at least {RECORDS_MIN} good ones",
        loaded.records.len(),
        loaded.refused
    )))
}

/// How many keys there are.
pub fn keys(records: &[Record]) -> usize {
    records.iter().map(|r| &r.key).collect::<BTreeSet<_>>().len()
}

fn read(input: Input, key: &str, refuse: &mut impl FnMut(String)) -> Result<Loaded, Failure> {
    let shape = Shape::Payload {
        topic: "flights".to_owned(),
        key_field: key.to_owned(),
        flag: "--key",
    };
    let mut lines = input.lines()?;
    let mut loaded = Loaded::default();
    let mut bytes = 0;
    while let Some(line) = lines.blocking_recv() {
        if loaded.records.len() >= RECORDS_MAX || bytes >= BYTES_MAX {
            loaded.cut = true;
            break;
        }
        match line.read(&shape) {
            Ok(draft) => {
                bytes += draft.payload.len();
                loaded.records.push(record(line.number, draft));
            }
            Err(reason) => {
                loaded.refused += 1;
                refuse(format!("line {}: {reason}", line.number));
            }
        }
    }
    Ok(loaded)
}

fn record(line: u64, draft: Draft) -> Record {
    Record {
        line,
        key: draft.key.unwrap_or_default(),
        json: String::from_utf8_lossy(&draft.payload).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_records_are_thousands_with_several_a_key() {
        let loaded = load(None, "origin", |reason| panic!("{reason}")).unwrap();
        assert!(loaded.records.len() >= 3000 && !loaded.cut);
        assert!(loaded.records.len() > 10 * keys(&loaded.records));
    }

    fn reasons(text: &'static str) -> (Vec<u64>, Vec<String>) {
        let mut reasons = Vec::new();
        let loaded = read(Input::shipped(text), "k", &mut |reason| reasons.push(reason)).unwrap();
        assert_eq!(loaded.refused, reasons.len() as u64);
        (loaded.records.iter().map(|r| r.line).collect(), reasons)
    }

    #[test]
    fn a_bad_line_is_named_by_number_and_reason_without_its_text_and_the_others_go_on() {
        let (good, bad) =
            reasons("{\"k\":1}\n{\"k\":secret\n\n{\"j\":2}\n{\"k\":[\"secret\"]}\n{\"k\":\"a\"}\n");
        assert_eq!(good, [1, 6]);
        assert_eq!(
            bad,
            [
                "line 2: is not JSON: unexpected character at column 6",
                "line 4: has no field \"k\", which --key names",
                "line 5: field \"k\" is an array; a key is text or a number",
            ]
        );
    }

    #[test]
    fn what_an_outbox_would_refuse_is_refused_here() {
        let long = format!(
            "{{\"k\":\"{}\"}}\n{{\"k\":\"a\\u0000b\"}}\n{{\"k\":1,\"v\":\"{}\"}}\n",
            "x".repeat(513),
            "x".repeat(1024 * 1024)
        );
        let (good, bad) = reasons(long.leak());
        assert_eq!(good, [0; 0]);
        assert_eq!(
            bad,
            [
                "line 1: key is 513 bytes; the limit is 512",
                "line 2: key has the control character U+0000 at byte 1; none is allowed",
                "line 3: payload is 1048590 bytes; the limit is 1048576",
            ]
        );
    }
}

//! The poison: one record that the target refuses.

use std::collections::HashMap;

use rusqlite::Connection;
use tidegate::Result;

use super::super::data::Record;
use super::super::sql;

/// A constraint in the target database refuses one event of the first quarter, of a key with followers if there is
/// one. Returns the name of its parked key.
pub(super) fn arm(target: &Connection, records: &[Record], seed: u64) -> Result<String> {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x706f_6973_6f6e);
    let first_quarter = &records[..records.len().div_ceil(4)];
    let chosen = random
        .choice(with_followers(first_quarter, records))
        .or_else(|| random.choice(first_quarter));
    let (key, line) = chosen.map_or(("", 1), |r| (&*r.key, r.line));
    let trigger = format!(
        "create trigger refuse before insert on applied when new.line = {line}
         begin select raise(abort, 'the demo refuses this record'); end"
    );
    target.execute_batch(&trigger).map_err(sql)?;
    Ok(format!("k:{key}"))
}

/// Those whose key has at least two later records.
fn with_followers<'a>(some: &'a [Record], all: &[Record]) -> Vec<&'a Record> {
    let mut later = HashMap::<&str, usize>::new();
    for record in all {
        *later.entry(&record.key).or_default() += 1;
    }
    some.iter()
        .filter(|record| {
            let count = later.entry(&record.key).or_default();
            *count = count.saturating_sub(1);
            *count >= 2
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(keys: &[&str]) -> Vec<Record> {
        let record = |(at, key): (usize, &&str)| Record {
            line: at as u64 + 1,
            key: (*key).to_owned(),
            json: String::new(),
        };
        keys.iter().enumerate().map(record).collect()
    }

    #[test]
    fn those_with_two_later_records_have_followers() {
        let all = records(&["a", "b", "a", "a", "a", "b"]);
        let lines: Vec<_> = with_followers(&all, &all).iter().map(|r| r.line).collect();
        assert_eq!(lines, [1, 3]);
        assert!(with_followers(&all[..0], &all).is_empty());
    }
}

//! Keys that the table does not know, and values where it expects tables.

use std::collections::BTreeSet;

use super::keys::{self, Place};
use super::problem::Problem;
use super::suggest;
use super::tree::{Entry, Tree, Value, dotted};

/// One problem for each unknown key; what is below it is not listed again.
pub(super) fn problems(tree: &Tree) -> Vec<Problem> {
    let mut reported = BTreeSet::new();
    let mut problems = Vec::new();
    for (path, entry) in tree.iter() {
        let Some(length) = first_odd(path) else {
            problems.extend(not_a_table(path, entry));
            continue;
        };
        let odd = &path[..length];
        let below_a_value = length > 1 && keys::place(&odd[..length - 1]) == Place::Value;
        if !below_a_value && reported.insert(odd.to_vec()) {
            problems.push(unknown_key(tree, odd));
        }
    }
    problems
}

/// Length of the shortest unknown prefix.
fn first_odd(path: &[String]) -> Option<usize> {
    (1..=path.len()).find(|length| keys::place(&path[..*length]) == Place::Unknown)
}

fn not_a_table(path: &[String], entry: &Entry) -> Option<Problem> {
    let misplaced = keys::place(path) == Place::Table && entry.value != Value::Table;
    misplaced.then(|| Problem {
        path: dotted(path),
        given: Some(entry.value.shown()),
        rule: format!("must be a table, not {}", entry.value.type_name()),
        origin: entry.origin.clone(),
        suggestion: None,
    })
}

fn unknown_key(tree: &Tree, path: &[String]) -> Problem {
    let (name, table) = path
        .split_last()
        .map_or(("", path), |(name, table)| (name.as_str(), table));
    let planned = table.is_empty() && keys::PLANNED_SECTIONS.contains(&name);
    let known = keys::known_below(table);
    Problem {
        path: dotted(path),
        given: None,
        rule: if planned {
            "is not built into this binary yet".to_owned()
        } else {
            format!("is not a known key; known here: {}", known.join(", "))
        },
        origin: tree.origin_near(path),
        suggestion: if planned { None } else { suggestion(name, known) },
    }
}

fn suggestion(name: &str, known: Vec<&'static str>) -> Option<String> {
    let elsewhere = || keys::elsewhere(name).map(str::to_owned);
    suggest::nearest(name, known).or_else(elsewhere)
}

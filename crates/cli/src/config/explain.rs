//! Effective values for people and machines.

use std::fmt;

use serde::Serialize;

use super::problem::Origin;

/// One effective value. Secrets are masked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Effective {
    /// The key, as `outbox.orders.lanes`.
    pub path: String,
    /// The value as it was written; `None` when it is unset.
    pub value: Option<String>,
    /// Where it came from.
    pub origin: Origin,
    /// What it does, in one line.
    pub doc: &'static str,
}

/// All effective values. `Display` is aligned text, one line each: path, value, origin, documentation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Explanation(Vec<Effective>);

impl Explanation {
    pub(super) fn new(values: Vec<Effective>) -> Self {
        Self(values)
    }

    /// The values, section by section.
    pub fn iter(&self) -> std::slice::Iter<'_, Effective> {
        self.0.iter()
    }

    /// The value at `path`.
    pub fn get(&self, path: &str) -> Option<&Effective> {
        self.iter().find(|value| value.path == path)
    }

    /// An array of objects with `path`, `value`, `origin` and `doc`.
    ///
    /// # Errors
    /// None in practice: every member is a string, a number or null.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

impl<'a> IntoIterator for &'a Explanation {
    type Item = &'a Effective;
    type IntoIter = std::slice::Iter<'a, Effective>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> = self.iter().map(columns).collect();
        let width = |column: usize| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let [path, value, origin] = [width(0), width(1), width(2)];
        for (row, effective) in rows.iter().zip(self) {
            writeln!(
                f,
                "{:path$}  {:value$}  {:origin$}  {}",
                row[0], row[1], row[2], effective.doc
            )?;
        }
        Ok(())
    }
}

fn columns(effective: &Effective) -> [String; 3] {
    let value = effective.value.clone().unwrap_or_else(|| "(unset)".to_owned());
    [effective.path.clone(), value, effective.origin.to_string()]
}

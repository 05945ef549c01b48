//! What is wrong with a configuration, and where.

use std::fmt;

use serde::Serialize;

/// Where a value came from. Ordered as problems are listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub enum Origin {
    /// The configuration file; lines count from 1.
    File {
        /// The file, as the user named it.
        file: String,
        /// The line of the key.
        line: usize,
    },
    /// An environment variable.
    Environment {
        /// The variable's whole name.
        variable: String,
    },
    /// A `--set` flag.
    Set,
    /// Nobody gave a value.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line } => write!(f, "{file}:{line}"),
            Self::Environment { variable } => write!(f, "environment {variable}"),
            Self::Set => f.write_str("--set"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One thing to correct. `Display` is one line: `origin: path = given: rule; did you mean suggestion?`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The key, as `outbox.orders.lanes`; empty when the text could not be read at all.
    pub path: String,
    /// The value given, masked; `None` when it is missing, or of an unknown key (it might be a secret).
    pub given: Option<String>,
    /// What is allowed, or why this is refused.
    pub rule: String,
    /// Where to correct it.
    pub origin: Origin,
    /// The nearest accepted spelling.
    pub suggestion: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        match &self.given {
            Some(given) => write!(f, "{} = {given}: ", self.path)?,
            None if self.path.is_empty() => {}
            None => write!(f, "{}: ", self.path)?,
        }
        f.write_str(&self.rule)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "; did you mean {suggestion}?"),
            None => Ok(()),
        }
    }
}

/// All problems of one configuration; `Display` is one line each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort_by(|a, b| a.origin.cmp(&b.origin));
        Self(problems)
    }

    /// The problems, in the order of the file, then environment, flags and defaults.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// How many there are; at least one.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

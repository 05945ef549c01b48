//! Statements with a list of rows: few shapes, each prepared once.

use std::sync::OnceLock;

use rusqlite::params_from_iter;
use tidegate_core::Result;

use super::columns::{NULL, Param};
use super::sql::Sql;

/// Shapes hold 1, 2, 4 … 256 rows: a thousand rows are six statements, and no list of parameters nears SQLite's limit.
const SHAPES: usize = 9;

/// `head (?, …), (?, …) tail`, for any number of rows of `width` parameters.
pub(super) struct Values {
    at: &'static str,
    head: &'static str,
    tail: &'static str,
    width: usize,
    texts: [OnceLock<String>; SHAPES],
}

impl Values {
    pub(super) const fn new(at: &'static str, head: &'static str, width: usize, tail: &'static str) -> Self {
        Self {
            at,
            head,
            tail,
            width,
            texts: [const { OnceLock::new() }; SHAPES],
        }
    }

    /// Runs the rows in order, in as few statements as the shapes allow.
    pub(super) fn run(&self, sql: &Sql<'_>, params: &[Param<'_>]) -> Result<usize> {
        let mut changed = 0;
        for (text, chunk) in self.chunks(params) {
            changed += sql.execute(self.at, text, params_from_iter(chunk))?;
        }
        Ok(changed)
    }

    /// Runs the rows in one statement where they fit the largest shape, the rest filled with nulls, which match
    /// nothing.
    pub(super) fn run_padded(&self, sql: &Sql<'_>, params: &[Param<'_>]) -> Result<usize> {
        let mut changed = 0;
        for chunk in params.chunks(self.width << (SHAPES - 1)) {
            let shape = shape_above(chunk.len() / self.width);
            let missing = (self.width << shape) - chunk.len();
            let padded = chunk.iter().chain(std::iter::repeat_n(&NULL, missing));
            changed += sql.execute(self.at, self.text(shape), params_from_iter(padded))?;
        }
        Ok(changed)
    }

    /// Pieces of the parameters, each with its statement.
    pub(super) fn chunks<'a, 'p>(
        &'a self,
        mut params: &'a [Param<'p>],
    ) -> impl Iterator<Item = (&'a str, &'a [Param<'p>])> {
        std::iter::from_fn(move || {
            let rows = params.len() / self.width;
            let shape = (SHAPES - 1).min(rows.checked_ilog2()? as usize);
            let (chunk, rest) = params.split_at(self.width << shape);
            params = rest;
            Some((self.text(shape), chunk))
        })
    }

    fn text(&self, shape: usize) -> &str {
        self.texts[shape].get_or_init(|| {
            let row = format!("({})", vec!["?"; self.width].join(", "));
            let rows = vec![row; 1 << shape].join(", ");
            format!("{}{rows}{}", self.head, self.tail)
        })
    }
}

fn shape_above(rows: usize) -> usize {
    rows.max(1).next_power_of_two().trailing_zeros() as usize
}

//! Statements with a list of rows: few shapes, each prepared once.
//!
//! Bound rows cost a fraction of a JSON list with `json_each`, which is parsed again for each field of each row.

use std::borrow::Cow;
use std::iter::repeat_n;
use std::sync::OnceLock;

use rusqlite::{Row, params_from_iter};
use tidegate_core::Result;

use super::columns::{NULL, Param};
use super::sql::Sql;

/// Shapes hold 1, 2, 4 … 1,024 rows.
const SHAPES: usize = 11;
/// SQLite's limit for one statement: rows wider than 31 go fewer at a time.
const PARAMS_MAX: usize = 32_766;

/// `head (?, …), (?, …) tail`, for any number of rows of `width` parameters. The list is filled up with rows of nulls,
/// which the tail leaves out.
#[derive(Debug)]
pub(super) struct Values {
    at: &'static str,
    head: Cow<'static, str>,
    tail: Cow<'static, str>,
    width: usize,
    texts: [OnceLock<String>; SHAPES],
}

impl Values {
    /// `into` names the table and columns; rows are inserted in their order.
    pub(super) const fn insert(at: &'static str, into: &'static str, width: usize) -> Self {
        Self::new(at, into, width, ") v where v.column1 is not null")
    }

    pub(super) const fn new(at: &'static str, head: &'static str, width: usize, tail: &'static str) -> Self {
        Self::of(at, Cow::Borrowed(head), width, Cow::Borrowed(tail))
    }

    /// As [`Values::new`], for a text made while running.
    pub(super) const fn of(
        at: &'static str,
        head: Cow<'static, str>,
        width: usize,
        tail: Cow<'static, str>,
    ) -> Self {
        Self {
            at,
            head,
            tail,
            width,
            texts: [const { OnceLock::new() }; SHAPES],
        }
    }

    /// Runs the rows: one statement for each 1,024.
    pub(super) fn run(&self, sql: &Sql<'_>, params: &[Param<'_>]) -> Result<usize> {
        let mut changed = 0;
        for (text, chunk, missing) in self.chunks(params) {
            changed += sql.execute(self.at, text, params_from_iter(padded(chunk, missing)))?;
        }
        Ok(changed)
    }

    /// Runs the rows and hands what they find to `row`. `after` is what the tail's own parameters are bound to.
    pub(super) fn each(
        &self,
        sql: &Sql<'_>,
        params: &[Param<'_>],
        after: &[Param<'_>],
        mut row: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<()> {
        for (text, chunk, missing) in self.chunks(params) {
            let all = padded(chunk, missing).chain(after);
            sql.each(self.at, text, params_from_iter(all), &mut row)?;
        }
        Ok(())
    }

    /// Each statement with its parameters, and how many nulls follow them.
    pub(super) fn chunks<'a, 'p>(
        &'a self,
        params: &'a [Param<'p>],
    ) -> impl Iterator<Item = (&'a str, &'a [Param<'p>], usize)> {
        params.chunks(self.width * self.rows_max()).map(|chunk| {
            let rows = chunk.len() / self.width;
            let shape = rows.next_power_of_two().trailing_zeros() as usize;
            (self.text(shape), chunk, (self.width << shape) - chunk.len())
        })
    }

    /// A power of two.
    fn rows_max(&self) -> usize {
        let fit = (PARAMS_MAX / self.width).max(1);
        (1 << fit.ilog2()).min(1 << (SHAPES - 1))
    }

    /// The statement for `1 << shape` rows.
    pub(super) fn text(&self, shape: usize) -> &str {
        self.texts[shape].get_or_init(|| {
            let row = format!("({})", vec!["?"; self.width].join(", "));
            let rows = vec![row; 1 << shape].join(", ");
            format!("{}{rows}{}", self.head, self.tail)
        })
    }
}

/// A chunk with its nulls.
pub(super) fn padded<'a, 'p>(chunk: &'a [Param<'p>], missing: usize) -> impl Iterator<Item = &'a Param<'p>> {
    chunk.iter().chain(repeat_n(&NULL, missing))
}

//! Statements with a list of rows: few shapes, each prepared once.

use std::iter::repeat_n;
use std::sync::OnceLock;

use rusqlite::params_from_iter;
use tidegate_core::Result;

use super::columns::{NULL, Param};
use super::sql::Sql;

/// Shapes hold 1, 2, 4 … 1,024 rows: a batch is one statement, below SQLite's 32,766 parameters up to a width of 31.
const SHAPES: usize = 11;

/// `head (?, …), (?, …) tail`, for any number of rows of `width` parameters. The list is filled up with rows of nulls,
/// which the tail leaves out.
pub(super) struct Values {
    at: &'static str,
    head: &'static str,
    tail: &'static str,
    width: usize,
    texts: [OnceLock<String>; SHAPES],
}

impl Values {
    /// `into` names the table and columns; rows are inserted in their order.
    pub(super) const fn insert(at: &'static str, into: &'static str, width: usize) -> Self {
        Self::new(at, into, width, ") v where v.column1 is not null")
    }

    pub(super) const fn new(at: &'static str, head: &'static str, width: usize, tail: &'static str) -> Self {
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
            let padded = chunk.iter().chain(repeat_n(&NULL, missing));
            changed += sql.execute(self.at, text, params_from_iter(padded))?;
        }
        Ok(changed)
    }

    /// Each statement with its parameters, and how many nulls follow them.
    pub(super) fn chunks<'a, 'p>(
        &'a self,
        params: &'a [Param<'p>],
    ) -> impl Iterator<Item = (&'a str, &'a [Param<'p>], usize)> {
        params.chunks(self.width << (SHAPES - 1)).map(|chunk| {
            let rows = chunk.len() / self.width;
            let shape = rows.next_power_of_two().trailing_zeros() as usize;
            (self.text(shape), chunk, (self.width << shape) - chunk.len())
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

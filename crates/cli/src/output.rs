//! Data on standard output, words for people on standard error.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::error::Failure;
use crate::global::Global;
use crate::table::Table;

/// Where a command writes. A reader that goes away ends the command quietly: see [`Failure::Pipe`].
#[derive(Debug, Clone, Copy)]
pub struct Output {
    json: bool,
}

impl Output {
    /// As the flags ask.
    pub fn new(global: &Global) -> Self {
        Self { json: global.json }
    }

    /// Whether a program reads: objects instead of tables.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// One line of data.
    pub fn line(self, text: impl AsRef<str>) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_ref().as_bytes())?;
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    }

    /// One object on one line.
    pub fn object(self, value: &impl Serialize) -> Result<(), Failure> {
        self.line(encode(value)?)
    }

    /// Each row as an object on a line of its own, or all of them as a table.
    pub fn rows<T: Serialize>(
        self,
        rows: &[T],
        headers: &[&'static str],
        cells: impl Fn(&T) -> Vec<String>,
    ) -> Result<(), Failure> {
        if self.json {
            return rows.iter().try_for_each(|row| self.object(row));
        }
        self.table(rows, headers, cells)
    }

    /// A table, whatever the flags.
    pub fn table<T>(
        self,
        rows: &[T],
        headers: &[&'static str],
        cells: impl Fn(&T) -> Vec<String>,
    ) -> Result<(), Failure> {
        let mut table = Table::new(headers);
        for row in rows {
            table.row(cells(row));
        }
        self.text(&table.to_string())
    }

    /// Text that ends with a line end of its own.
    pub fn text(self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// A sentence for people; silent with `--json`.
    pub fn say(self, text: impl AsRef<str>) {
        if !self.json {
            warn(text);
        }
    }
}

fn encode(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|e| Failure::Output(io::Error::other(e)))
}

/// A sentence for people, also with `--json`.
pub fn warn(text: impl AsRef<str>) {
    // A closed standard error is the person's choice.
    let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
}

/// Whether standard error is a terminal: progress bars only then.
pub fn person_watches() -> bool {
    io::stderr().is_terminal()
}

//! Aligned columns; numbers to the right.

use std::fmt;

/// Rows under headers.
#[derive(Debug)]
pub(crate) struct Table {
    headers: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headers: &[&'static str]) -> Self {
        Self {
            headers: headers.iter().map(|h| (*h).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn column(&self, index: usize) -> impl Iterator<Item = &str> {
        self.rows
            .iter()
            .filter_map(move |row| row.get(index))
            .map(String::as_str)
    }

    fn width(&self, index: usize) -> usize {
        let header = self.headers.get(index).map(String::as_str);
        self.column(index)
            .chain(header)
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    }

    fn is_number(&self, index: usize) -> bool {
        let mut some = false;
        let all = self.column(index).filter(|cell| *cell != "-").all(|cell| {
            some = true;
            cell.starts_with(|c: char| c.is_ascii_digit())
                && cell.bytes().all(|b| b.is_ascii_digit() || b",.".contains(&b))
        });
        some && all
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<_> = (0..self.headers.len())
            .map(|i| (self.width(i), self.is_number(i)))
            .collect();
        for row in std::iter::once(&self.headers).chain(&self.rows) {
            let line: Vec<_> = row
                .iter()
                .zip(&shape)
                .map(|(cell, (width, number))| {
                    if *number {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                })
                .collect();
            writeln!(f, "{}", line.join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_lines_end_without_spaces() {
        let mut table = Table::new(&["name", "depth", "owner"]);
        table.row(vec!["orders".into(), "7".into(), "-".into()]);
        table.row(vec!["x".into(), "1,234".into(), "relay".into()]);
        let expected = "name    depth  owner\norders      7  -\nx       1,234  relay\n";
        assert_eq!(table.to_string(), expected);
    }
}

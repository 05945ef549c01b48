//! The plan of a lane as an array: a seq for each number after the last settled one. Zero is a void marker: `seq` starts
//! at one.

use std::fmt::Write as _;

/// Seqs in order of n.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan(pub(super) Vec<i64>);

impl Plan {
    pub(super) const VOID: i64 = 0;

    /// As a literal, because arrays of arrays cannot differ in length.
    pub(super) fn text(&self) -> String {
        let mut out = String::with_capacity(2 + self.0.len() * 8);
        out.push('{');
        for (at, seq) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(out, "{comma}{seq}");
        }
        out.push('}');
        out
    }

    /// Rows of the plan, without its void markers.
    pub(super) fn rows(seqs: &[i64]) -> impl Iterator<Item = i64> + '_ {
        seqs.iter().copied().filter(|seq| *seq != Self::VOID)
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn a_plan_is_an_array_literal() {
        assert_eq!(
            Plan(vec![1, Plan::VOID, i64::MAX]).text(),
            "{1,0,9223372036854775807}"
        );
        assert_eq!(Plan::default().text(), "{}");
        assert_eq!(Plan::rows(&[0, 4, 0, 5]).collect::<Vec<_>>(), [4, 5]);
    }
}

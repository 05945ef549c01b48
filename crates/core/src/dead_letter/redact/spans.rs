//! Ranges of a text that are to be masked, and masking them.

use std::ops::Range;

/// One range to mask, and the mask to put in its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Span {
    pub(super) at: Range<usize>,
    pub(super) mask: &'static str,
}

impl Span {
    pub(super) fn new(at: Range<usize>, mask: &'static str) -> Self {
        Self { at, mask }
    }

    pub(super) fn overlaps(&self, other: &Range<usize>) -> bool {
        self.at.start < other.end && other.start < self.at.end
    }
}

/// `text` with every span masked. Overlapping spans become one, under the mask of the first.
///
/// `None` when a span does not lie on char boundaries: slicing with `get` keeps the text out of a panic message.
pub(super) fn apply(text: &str, mut spans: Vec<Span>) -> Option<String> {
    spans.sort_by_key(|span| (span.at.start, span.at.end));
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for span in spans {
        if span.at.start >= done {
            out.push_str(text.get(done..span.at.start)?);
            out.push_str(span.mask);
        }
        done = done.max(span.at.end);
    }
    out.push_str(text.get(done..)?);
    Some(out)
}

/// The nearest char boundary at or below `at`.
pub(super) fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

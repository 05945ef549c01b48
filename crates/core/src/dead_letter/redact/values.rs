//! Values that are masked wherever they stand, by their shape.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};

use super::luhn;
use super::spans::{Span, apply};

/// What may not touch a match. The regex crate has no look-around, so neighbours are checked afterwards.
#[derive(Clone, Copy)]
enum Edge {
    Any,
    Digit,
    Alphanumeric,
}

/// Pattern, mask, edge. A group named `secret` is what gets masked; without one, the whole match. Applied in order.
const SHAPES: &[(&str, &str, Edge)] = &[
    (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        "[redacted:key]",
        Edge::Any,
    ),
    (
        r#"://(?<secret>[^\s"'<>]+)@"#,
        "[redacted:credentials]",
        Edge::Any,
    ),
    (
        r"(?i)\bbearer\s+(?<secret>[a-z0-9._~+/=-]{8,})",
        "[redacted:token]",
        Edge::Any,
    ),
    (
        r"eyJ[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*){1,4}",
        "[redacted:jwt]",
        Edge::Any,
    ),
    (
        concat!(
            r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|",
            r"glpat-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{20,}|",
            r"(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}"
        ),
        "[redacted:token]",
        Edge::Alphanumeric,
    ),
    (
        r#"(?i)(?:[\p{L}\p{N}._%+'!\#$*^`|~=-]+|"[^"\s][^"]{0,63}")(?:@|%40|\\u0040|＠)(?:[\p{L}\p{N}_-]+\.)+\p{L}[\p{L}\p{N}-]*"#,
        "[redacted:email]",
        Edge::Any,
    ),
    (
        r"(?i)[0-9]{2}[A-Z]{5}[0-9]{4}[A-Z][0-9A-Z]Z[0-9A-Z]",
        "[redacted:gstin]",
        Edge::Any,
    ),
    (
        r"[A-Z]{3}[ABCFGHJLPT][A-Z][0-9]{4}[A-Z]",
        "[redacted:pan]",
        Edge::Alphanumeric,
    ),
    (r"[A-Z]{4}0[A-Z0-9]{6}", "[redacted:ifsc]", Edge::Alphanumeric),
    (r"[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}", "[redacted:ssn]", Edge::Digit),
    (
        r"\+[0-9](?:[ ().\-\u{a0}]{0,2}[0-9]){7,14}",
        "[redacted:phone]",
        Edge::Digit,
    ),
    (
        concat!(
            r"\([0-9]{3}\) ?[0-9]{3}[-. ]?[0-9]{4}|[0-9]{3}[-. ][0-9]{3}[-. ][0-9]{4}|",
            r"0[0-9]{2,4}[- ][0-9]{3,4}[- ][0-9]{3,4}|[6-9][0-9]{4}[- ][0-9]{5}"
        ),
        "[redacted:phone]",
        Edge::Digit,
    ),
];

const UUID: &str = r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b";

/// The compiled shapes; `None` fails closed, as nothing can then be shown.
static VALUES: LazyLock<Option<Values>> = LazyLock::new(|| Values::compile().ok());

struct Shape {
    regex: Regex,
    mask: &'static str,
    edge: Edge,
}

/// All shapes, and one set that tells in a single scan which of them can match.
pub(super) struct Values {
    set: RegexSet,
    shapes: Vec<Shape>,
    uuid: Regex,
}

impl Values {
    /// The shapes, compiled once per process.
    pub(super) fn get() -> Option<&'static Self> {
        VALUES.as_ref()
    }

    fn compile() -> Result<Self, regex::Error> {
        Ok(Self {
            set: RegexSet::new(SHAPES.iter().map(|(pattern, _, _)| pattern))?,
            shapes: SHAPES.iter().map(Shape::compile).collect::<Result<_, _>>()?,
            uuid: Regex::new(UUID)?,
        })
    }

    /// `text` with every sensitive value masked; `None` if that cannot be done.
    pub(super) fn mask(&self, text: &str) -> Option<String> {
        let mut text = self.mask_cards(text)?;
        for i in &self.set.matches(&text) {
            let shape = self.shapes.get(i)?;
            let spans = self.outside_uuids(&text, shape.spans(&text));
            text = apply(&text, spans)?;
        }
        Some(text)
    }

    fn mask_cards(&self, text: &str) -> Option<String> {
        let cards = luhn::cards(text)
            .into_iter()
            .map(|at| Span::new(at, luhn::MASK))
            .collect();
        apply(text, self.outside_uuids(text, cards))
    }

    /// The digit groups of a UUID resemble cards and phone numbers, and are not.
    fn outside_uuids(&self, text: &str, mut spans: Vec<Span>) -> Vec<Span> {
        if !spans.is_empty() {
            let uuids: Vec<Range<usize>> = self.uuid.find_iter(text).map(|found| found.range()).collect();
            spans.retain(|span| !within_any(&uuids, span));
        }
        spans
    }
}

/// Whether the span touches one of the ordered ranges and does not reach beyond it on both sides.
fn within_any(ranges: &[Range<usize>], span: &Span) -> bool {
    let first = ranges.partition_point(|range| range.end <= span.at.start);
    ranges.get(first).is_some_and(|range| {
        span.overlaps(range) && !(span.at.start < range.start && range.end < span.at.end)
    })
}

impl Shape {
    fn compile((pattern, mask, edge): &(&str, &'static str, Edge)) -> Result<Self, regex::Error> {
        Ok(Self {
            regex: Regex::new(pattern)?,
            mask,
            edge: *edge,
        })
    }

    /// Every match. After a match that touches what it may not, the search goes on one character later.
    fn spans(&self, text: &str) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut from = 0;
        while let Some(found) = self.regex.captures_at(text, from) {
            let whole = found.get_match().range();
            if self.edge.clear(text, &whole) {
                spans.push(Span::new(secret(&found), self.mask));
                from = whole.end;
            } else {
                from = whole.start
                    + text
                        .get(whole.start..)
                        .and_then(|t| t.chars().next())
                        .map_or(1, char::len_utf8);
            }
        }
        spans
    }
}

fn secret(found: &Captures<'_>) -> Range<usize> {
    found.name("secret").unwrap_or(found.get_match()).range()
}

impl Edge {
    fn clear(self, text: &str, at: &Range<usize>) -> bool {
        let before = text.get(..at.start).and_then(|t| t.chars().next_back());
        let after = text.get(at.end..).and_then(|t| t.chars().next());
        !before.into_iter().chain(after).any(|c| self.bars(c))
    }

    fn bars(self, c: char) -> bool {
        match self {
            Self::Any => false,
            Self::Digit => c.is_ascii_digit(),
            Self::Alphanumeric => c.is_alphanumeric(),
        }
    }
}

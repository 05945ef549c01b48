//! Error messages and other prose.
//!
//! One pass masks, in this order: row values that SQL drivers print, values of sensitive `name=value` pairs, values in
//! quotes, and sensitive shapes. Passes repeat until nothing changes, which makes the result idempotent; a text that
//! does not settle is not shown.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::names::{self, Class};
use super::spans::{Span, apply, floor};
use super::values::Values;
use super::{MASK, Redactor, TEXT_BYTES_MAX};

/// Two passes are usual: one that masks, one that finds nothing left.
const PASSES_MAX: usize = 8;

/// Longer texts are not shown: redacting before cutting is what keeps a cut from splitting a secret.
const INPUT_BYTES_MAX: usize = 256 * 1024;

/// How far before a pair's name the words that belong to it are looked for, in bytes.
const PHRASE_BYTES_MAX: usize = 96;

/// Words before a pair's name that may belong to it: "date of birth: ...".
const PHRASE_WORDS_MAX: usize = 3;

/// A row value: `Key (a, b)=(1, 2)`, `Failing row contains (...)`, `VALUES (...)`.
const DETAIL: &str = r"(?i)\)\s*=\s*\(|\brow contains \(|\bvalues\s*\(";

/// A name and the sign that a value follows.
const PAIR: &str = r#"\\*["'`]?(?<name>[\p{L}_][\p{L}\p{N}_.-]*)\\*["'`]?[\])]*[ \t]*(?<sign>=>|:=|=+|:)\s*"#;

/// Where the next pair starts, and with it a value without quotes ends.
const NEXT: &str = r#"[\s,;&|})\]]+\\*["'`]?[\p{L}_][\p{L}\p{N}_.-]*\\*["'`]?[\])]*\s?(?:=|:(?:[\s"'\\]|$))"#;

/// A name followed by a quoted value: `email "x" is invalid`.
const NAMED_QUOTE: &str =
    r#"(?<name>[\p{L}_][\p{L}\p{N}_.-]*)\s+(?:(?:is|was|of|value|with value|address)\s+)?(?<quote>\\*["'`])"#;

/// Words after which drivers and decoders quote data: `Duplicate entry 'x'`, `invalid type: string "x"`.
const DATA_QUOTE: &str = r#"(?ix)
    (?: \b(?:value|entry|string|str|literal|near|variant|character|found|got|input|range|syntax)
      | \b(?:type|enum|domain)\s+[\w.]+(?:\s[\w.]+){0,3}\s?:
      | \$[0-9]+\s?= )
    \s*:?\s*(?<quote>\\*["'`])"#;

/// The compiled patterns; `None` fails closed, as nothing can then be shown.
static RULES: LazyLock<Option<Rules>> = LazyLock::new(|| Rules::compile().ok());

struct Rules {
    detail: Regex,
    pair: Regex,
    next: Regex,
    named_quote: Regex,
    data_quote: Regex,
}

impl Rules {
    fn compile() -> Result<Self, regex::Error> {
        Ok(Self {
            detail: Regex::new(DETAIL)?,
            pair: Regex::new(PAIR)?,
            next: Regex::new(NEXT)?,
            named_quote: Regex::new(NAMED_QUOTE)?,
            data_quote: Regex::new(DATA_QUOTE)?,
        })
    }
}

/// `text` redacted and cut to [`TEXT_BYTES_MAX`].
pub(super) fn redact(redactor: &Redactor, text: &str) -> String {
    settle(text, |text| pass(redactor, text).map(cut))
}

/// `text` redacted, of any length.
pub(super) fn scrub(redactor: &Redactor, text: &str) -> String {
    settle(text, |text| pass(redactor, text))
}

fn settle(text: &str, pass: impl Fn(&str) -> Option<String>) -> String {
    if text.len() > INPUT_BYTES_MAX {
        return MASK.to_owned();
    }
    let mut now = text.to_owned();
    for _ in 0..PASSES_MAX {
        match pass(&now) {
            Some(next) if next == now => return next,
            Some(next) => now = next,
            None => break,
        }
    }
    MASK.to_owned()
}

fn cut(text: String) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    let end = floor(&text, TEXT_BYTES_MAX - ELLIPSIS.len());
    text.get(..end)
        .map_or_else(|| MASK.to_owned(), |kept| format!("{kept}{ELLIPSIS}"))
}

fn pass(redactor: &Redactor, text: &str) -> Option<String> {
    let (rules, values) = (RULES.as_ref()?, Values::get()?);
    let text = apply(text, details(rules, text))?;
    let text = apply(&text, pairs(redactor, rules, &text))?;
    let text = apply(&text, quotes(redactor, rules, &text))?;
    values.mask(&text)
}

/// From the first row value to the last closing bracket: what is between may contain brackets of its own.
fn details(rules: &Rules, text: &str) -> Vec<Span> {
    let Some(found) = rules.detail.find(text) else {
        return Vec::new();
    };
    let rest = text.get(found.end()..).unwrap_or_default();
    let end = rest.rfind(')').unwrap_or(rest.len());
    mask(found.end()..found.end() + end).into_iter().collect()
}

fn pairs(redactor: &Redactor, rules: &Rules, text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut from = 0;
    while let Some(found) = rules.pair.captures_at(text, from) {
        let whole = found.get_match().range();
        let name = found.name("name").map_or("", |name| name.as_str());
        let sign = found.name("sign").map_or("", |sign| sign.as_str());
        from = whole.end;
        // `token::Kind` is a path in code, and its second colon is no value.
        if sign == ":" && text.get(whole.end..).is_some_and(|rest| rest.starts_with(':')) {
            continue;
        }
        if !announces(redactor, text, whole.start, name, whole.end) {
            continue;
        }
        let value = value(rules, text, whole.end);
        from = value.end.max(from);
        spans.extend(mask(value));
    }
    spans
}

/// Whether a name at `start` makes the value at `value` sensitive.
fn announces(redactor: &Redactor, text: &str, start: usize, name: &str, value: usize) -> bool {
    match class(redactor, text, start, name) {
        Some(Class::Person) => true,
        Some(Class::Network) => !own_host(redactor, text, value),
        None => false,
    }
}

/// The class of a pair's name: of the name itself, with the word before it, or at the end of a phrase of four.
fn class(redactor: &Redactor, text: &str, start: usize, name: &str) -> Option<Class> {
    let name = names::words(name);
    let before = words_before(text, start);
    let near = [before.last().cloned().unwrap_or_default(), name.clone()].concat();
    let phrase = [before.concat(), name.clone()].concat();
    if redactor.names.person(&near) || redactor.names.person_ending(&phrase) {
        return Some(Class::Person);
    }
    names::network(&name).then_some(Class::Network)
}

/// Up to three identifiers that stand directly before `start`, in order, as words.
fn words_before(text: &str, start: usize) -> Vec<Vec<String>> {
    let from = floor(text, start.saturating_sub(PHRASE_BYTES_MAX));
    let before = text.get(from..start).unwrap_or_default();
    if !before.ends_with([' ', '\t']) {
        return Vec::new();
    }
    let identifier = |word: &&str| {
        word.chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
    };
    let near = before
        .split_whitespace()
        .rev()
        .take(PHRASE_WORDS_MAX)
        .take_while(identifier);
    let mut words: Vec<_> = near.map(names::words).collect();
    words.reverse();
    words
}

fn own_host(redactor: &Redactor, text: &str, start: usize) -> bool {
    let rest = text
        .get(start..)
        .unwrap_or_default()
        .trim_start_matches(['"', '\'', '`', '\\']);
    let ends =
        |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '\\' | ',' | ';' | '&' | ')' | '}');
    redactor.hosts.own(rest.split(ends).next().unwrap_or_default())
}

/// The value that starts at `start`: quoted, bracketed, or up to the next pair.
fn value(rules: &Rules, text: &str, start: usize) -> Range<usize> {
    let rest = text.get(start..).unwrap_or_default();
    let unescaped = rest.trim_start_matches('\\');
    if unescaped.starts_with(['"', '\'', '`']) {
        let open = rest.len() - unescaped.len() + 1;
        return quoted(text, start + open, rest.get(..open).unwrap_or_default());
    }
    let nested = if rest.starts_with(['{', '[']) {
        nested_end(rest)
    } else {
        0
    };
    let end = rules
        .next
        .find_at(rest, nested)
        .map_or(rest.len(), |next| next.start());
    let plain = rest.get(..end).unwrap_or_default().trim_end();
    match (plain.strip_prefix('('), plain.rfind(')')) {
        (Some(_), Some(close)) => start + 1..start + close,
        _ => start..start + plain.len(),
    }
}

/// The length of the bracketed value that `rest` starts with; all of it if the brackets do not balance.
fn nested_end(rest: &str) -> usize {
    let mut depth = 0_usize;
    for (i, c) in rest.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    rest.len()
}

/// What stands between the quote that ends at `start` and its partner, or the end of the text.
///
/// A partner that is escaped, doubled or followed by a letter is part of the value, as in `'O'Brien'`.
fn quoted(text: &str, start: usize, quote: &str) -> Range<usize> {
    let rest = text.get(start..).unwrap_or_default();
    let mark = quote.chars().next_back();
    let closes = |at: &usize| {
        let before = rest.get(..*at).and_then(|t| t.chars().next_back());
        let after = rest.get(at + quote.len()..).and_then(|t| t.chars().next());
        before != Some('\\') && after != mark && !after.is_some_and(char::is_alphanumeric)
    };
    let end = rest.match_indices(quote).map(|(at, _)| at).find(closes);
    start..start + end.unwrap_or(rest.len())
}

fn quotes(redactor: &Redactor, rules: &Rules, text: &str) -> Vec<Span> {
    let mut spans = quotes_after(text, &rules.data_quote, |_, _| true);
    spans.extend(quotes_after(text, &rules.named_quote, |name, at| {
        announces(redactor, text, at.start, name, at.end)
    }));
    spans
}

fn quotes_after(text: &str, rule: &Regex, sensitive: impl Fn(&str, &Range<usize>) -> bool) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut from = 0;
    while let Some(found) = rule.captures_at(text, from) {
        let whole = found.get_match().range();
        from = whole.end;
        if sensitive(found.name("name").map_or("", |name| name.as_str()), &whole) {
            let value = quoted(
                text,
                whole.end,
                found.name("quote").map_or("\"", |quote| quote.as_str()),
            );
            from = value.end.max(from);
            spans.extend(mask(value));
        }
    }
    spans
}

fn mask(value: Range<usize>) -> Option<Span> {
    (!value.is_empty()).then(|| Span::new(value, MASK))
}

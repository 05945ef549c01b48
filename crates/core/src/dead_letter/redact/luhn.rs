//! Card numbers: 13 to 19 digits, in one piece or in groups, that pass the Luhn check (ISO/IEC 7812-1).

use std::ops::Range;

/// The mask of a card number.
pub(super) const MASK: &str = "[redacted:card]";

const DIGITS_MIN: usize = 13;
const DIGITS_MAX: usize = 19;

/// What may stand between two groups of digits.
const SEPARATORS: &[char] = &[' ', '-', '+', '\t', '\u{a0}', '\u{2010}', '\u{2011}', '\u{2013}'];

/// Two separators still join groups ("4111  1111"); three are a table column.
const SEPARATORS_MAX: usize = 2;

/// Whether the ASCII digits could be a card number.
///
/// No issuer's numbers start with 1, except 15-digit ones, nor with 2 at 13 digits. Leaving those out keeps times in
/// milli-, micro- and nanoseconds readable, one in ten of which would pass the check by chance.
pub(super) fn is_card(digits: &[u8]) -> bool {
    let zeros = digits.iter().take_while(|&&d| d == b'0').count();
    let digits = digits.get(zeros..).unwrap_or_default();
    let issued = match digits.first() {
        Some(b'1') => digits.len() == 15,
        Some(b'2') => digits.len() != DIGITS_MIN,
        _ => true,
    };
    issued && (DIGITS_MIN..=DIGITS_MAX).contains(&digits.len()) && checks(digits)
}

/// Where `text` holds card numbers. Every window of whole groups is tried, so neighbouring numbers hide nothing.
pub(super) fn cards(text: &str) -> Vec<Range<usize>> {
    let groups = groups(text);
    let mut found = Vec::new();
    for (i, first) in groups.iter().enumerate() {
        let mut digits = Vec::with_capacity(DIGITS_MAX);
        let mut end = first.start;
        for group in groups.get(i..).unwrap_or_default() {
            let joined = end == first.start || joins(text, end..group.start);
            if !joined || digits.len() + group.len() > ROOM {
                break;
            }
            digits.extend_from_slice(text.as_bytes().get(group.clone()).unwrap_or_default());
            end = group.end;
            if is_card(&digits) {
                found.push(first.start..end);
            }
        }
    }
    found
}

/// Digits a window may hold: the longest number, with as much zero padding again.
const ROOM: usize = 2 * DIGITS_MAX;

fn groups(text: &str) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (i, byte) in text.bytes().enumerate() {
        match groups.last_mut() {
            _ if !byte.is_ascii_digit() => {}
            Some(last) if last.end == i => last.end = i + 1,
            _ => groups.push(i..i + 1),
        }
    }
    groups
}

fn joins(text: &str, gap: Range<usize>) -> bool {
    text.get(gap).is_some_and(|gap| {
        gap.chars().all(|c| SEPARATORS.contains(&c)) && gap.chars().count() <= SEPARATORS_MAX
    })
}

fn checks(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, &d)| weight(u32::from(d - b'0'), i))
        .sum();
    sum.is_multiple_of(10)
}

fn weight(digit: u32, from_right: usize) -> u32 {
    match (digit, from_right % 2) {
        (digit, 0) => digit,
        (digit, _) if digit > 4 => digit * 2 - 9,
        (digit, _) => digit * 2,
    }
}

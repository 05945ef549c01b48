//! Numbers and times for people.

pub(crate) mod base64;

use std::time::Duration;

use tidegate::Timestamp;

/// `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 line`, `2 lines`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(n))
}

/// The two largest units: `3d 4h`, `2m 5s`, `1.5s`, `20ms`.
pub(crate) fn span(duration: Duration) -> String {
    let s = duration.as_secs();
    match s {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{}.{}s", s, duration.subsec_millis() / 100),
        60..3600 => format!("{}m {}s", s / 60, s % 60),
        3600..86_400 => format!("{}h {}m", s / 3600, s % 3600 / 60),
        _ => format!("{}d {}h", s / 86_400, s % 86_400 / 3600),
    }
}

/// RFC 3339, in UTC, to the microsecond where there are any.
pub(crate) fn time(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.as_micros())
        .map_or_else(|_| at.as_micros().to_string(), |t| t.to_string())
}

/// `NotApplied` as `not_applied`.
pub(crate) fn snake(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for (index, c) in name.chars().enumerate() {
        if index > 0 && c.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// At most `max` characters of one line, with an ellipsis when something was cut.
pub(crate) fn short(text: &str, max: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    if text.chars().count() <= max {
        return text.chars().map(clean).collect();
    }
    let kept: String = text.chars().take(max.saturating_sub(1)).map(clean).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(counted(1, "line"), "1 line");
        assert_eq!(counted(2000, "line"), "2,000 lines");
    }

    #[test]
    fn spans_show_two_units() {
        let spans = [20, 1500, 125_000, 7_500_000, 273_600_000].map(|ms| span(Duration::from_millis(ms)));
        assert_eq!(spans, ["20ms", "1.5s", "2m 5s", "2h 5m", "3d 4h"]);
    }

    #[test]
    fn a_cut_text_shows_that_it_was_cut() {
        assert_eq!(short("abcdef", 4), "abc…");
        assert_eq!(short("a\nb", 4), "a b");
    }
}

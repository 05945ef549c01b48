//! Durations as people write them: `500ms`, `10s`, `1m 30s`, `24h`, `7d`.

use std::time::Duration;

use super::validate::Refusal;

/// Units from large to small, in milliseconds. No weeks or months: their lengths are disputed.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Reads whole numbers with units, large units first. Numbers without a unit are refused: nobody can tell their size.
pub(super) fn parse(text: &str) -> Result<Duration, Refusal> {
    let text = text.trim();
    if is_number(text) {
        return Err(bare_number(text));
    }
    let mut rest = text;
    let mut total = 0_u64;
    let mut previous = u64::MAX;
    while !rest.is_empty() {
        let part = take_part(rest).ok_or_else(malformed)?;
        let size = unit_size(part.unit).ok_or_else(|| unknown_unit(text, part.unit))?;
        if size >= previous {
            return Err(Refusal::new(
                "must name each unit once, from large to small, such as 1m 30s",
            ));
        }
        let value = part
            .number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(size));
        total = value
            .and_then(|value| total.checked_add(value))
            .ok_or_else(too_long)?;
        previous = size;
        rest = part.rest;
    }
    if previous == u64::MAX {
        Err(malformed())
    } else {
        Ok(Duration::from_millis(total))
    }
}

/// The shortest form that [`parse`] reads back, to the millisecond.
pub(super) fn format(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut parts = Vec::new();
    for (unit, size) in UNITS {
        if left >= size {
            parts.push(format!("{}{unit}", left / size));
            left %= size;
        }
    }
    if parts.is_empty() {
        "0s".to_owned()
    } else {
        parts.join(" ")
    }
}

struct Part<'a> {
    number: &'a str,
    unit: &'a str,
    rest: &'a str,
}

fn take_part(text: &str) -> Option<Part<'_>> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let after = text[digits..].trim_start();
    let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
    let complete = digits > 0 && letters > 0;
    complete.then(|| Part {
        number: &text[..digits],
        unit: &after[..letters],
        rest: after[letters..].trim_start(),
    })
}

fn unit_size(unit: &str) -> Option<u64> {
    UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, size)| *size)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b"+-._".contains(&b))
}

fn bare_number(text: &str) -> Refusal {
    Refusal::new(format!(
        "needs a unit: write {text}ms, {text}s, {text}m, {text}h or {text}d"
    ))
}

fn malformed() -> Refusal {
    Refusal::new("must be a duration in whole numbers, such as 500ms, 10s, 1m 30s, 24h or 7d")
}

fn too_long() -> Refusal {
    Refusal::new("is longer than any duration that can be counted")
}

fn unknown_unit(text: &str, unit: &str) -> Refusal {
    let refusal = Refusal::new(format!(
        "has an unknown unit {unit:?}; units are ms, s, m, h and d"
    ));
    match intended_unit(unit) {
        Some(intended) => refusal.suggest(text.replace(unit, intended)),
        None => refusal,
    }
}

/// Spellings that have one obvious meaning. `M` is left out: minutes, months and millions all claim it.
fn intended_unit(unit: &str) -> Option<&'static str> {
    match unit.to_ascii_lowercase().as_str() {
        "day" | "days" | "d" => Some("d"),
        "hour" | "hours" | "hr" | "hrs" | "h" => Some("h"),
        "minute" | "minutes" | "min" | "mins" => Some("m"),
        "second" | "seconds" | "sec" | "secs" | "s" => Some("s"),
        "millisecond" | "milliseconds" | "millis" | "msec" => Some("ms"),
        _ => None,
    }
}

//! JSON payloads: every member judged by its path, then its name, then its value.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use super::names::{self, Class};
use super::paths::Cursor;
use super::{MASK, Redactor, luhn, text};

/// Deepest nesting shown, including JSON inside strings. Bounds the stack; real events nest a handful of levels.
const DEPTH_MAX: usize = 64;

/// Numbers below this cannot be a phone, card or account number.
const MEASURE_MAX: u64 = 1_000_000;

/// The payload redacted, or the mask that tells only its size.
pub(super) fn redact(redactor: &Redactor, content_type: &str, bytes: &[u8]) -> String {
    if let Some(mask) = own_mask(bytes) {
        return mask;
    }
    decode(content_type, bytes)
        .and_then(|value| Walk { redactor }.node(value, &Place::root(redactor)))
        .map_or_else(
            || format!("[redacted: {} bytes, not JSON]", bytes.len()),
            |value| value.to_string(),
        )
}

/// `bytes` as they are, if they are the mask of a payload that was redacted before.
fn own_mask(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let size = text
        .strip_prefix("[redacted: ")?
        .strip_suffix(" bytes, not JSON]")?;
    (size.len() <= 20 && size.bytes().all(|b| b.is_ascii_digit())).then(|| text.to_owned())
}

fn decode(content_type: &str, bytes: &[u8]) -> Option<Value> {
    if is_json(content_type) {
        serde_json::from_slice(bytes).ok()
    } else {
        None
    }
}

fn is_json(content_type: &str) -> bool {
    let media = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    media.is_empty() || media.ends_with("/json") || media.ends_with("+json")
}

/// Where the walk is: path cursors and depth.
struct Place {
    masked: Cursor,
    allowed: Cursor,
    depth: usize,
}

impl Place {
    fn root(redactor: &Redactor) -> Self {
        Self {
            masked: redactor.masked.root(),
            allowed: redactor.allowed.root(),
            depth: 0,
        }
    }
}

struct Walk<'a> {
    redactor: &'a Redactor,
}

impl Walk<'_> {
    /// The value redacted, or `None` if it nests too deep.
    fn node(&self, value: Value, at: &Place) -> Option<Value> {
        if at.depth > DEPTH_MAX {
            return None;
        }
        if self.redactor.masked.hit(&at.masked) {
            return Some(mask(&value));
        }
        match value {
            Value::Object(members) => self.object(members, at),
            Value::Array(elements) => self.array(elements, at),
            Value::String(text) => Some(Value::String(self.string(&text, at))),
            Value::Number(number) if is_card(&number) => Some(luhn::MASK.into()),
            plain => Some(plain),
        }
    }

    fn object(&self, members: Map<String, Value>, at: &Place) -> Option<Value> {
        let mut out = Map::new();
        let mut taken = HashMap::new();
        for (name, value) in members {
            let place = self.member(at, &name);
            let name = text::scrub(self.redactor, &name);
            let value = self.named(&name, value, &place)?;
            out.insert(free(name, &out, &mut taken), value);
        }
        Some(Value::Object(out))
    }

    fn array(&self, elements: Vec<Value>, at: &Place) -> Option<Value> {
        let elements = elements.into_iter().enumerate();
        elements
            .map(|(i, element)| self.node(element, &self.element(at, i)))
            .collect()
    }

    fn named(&self, name: &str, value: Value, at: &Place) -> Option<Value> {
        let allowed = self.redactor.allowed.hit(&at.allowed);
        match self.redactor.names.class(name).filter(|_| !allowed) {
            Some(Class::Person) if !is_measure(name, &value) => Some(mask(&value)),
            Some(Class::Network) if !self.redactor.masked.hit(&at.masked) => Some(self.network(value)),
            _ => self.node(value, at),
        }
    }

    /// Hosts and addresses, alone or in a list: ours are shown.
    fn network(&self, value: Value) -> Value {
        match value {
            Value::String(host) if self.redactor.hosts.own(&host) => Value::String(host),
            Value::Array(hosts) if hosts.iter().all(Value::is_string) => {
                hosts.into_iter().map(|host| self.network(host)).collect()
            }
            other => mask(&other),
        }
    }

    fn string(&self, text: &str, at: &Place) -> String {
        let nested = text.trim_start().starts_with(['{', '[']);
        match serde_json::from_str(text).ok().filter(|_| nested) {
            Some(value) => {
                let inner = Place {
                    depth: at.depth + 1,
                    masked: at.masked.clone(),
                    allowed: at.allowed.clone(),
                };
                self.node(value, &inner)
                    .map_or_else(|| MASK.to_owned(), |value| value.to_string())
            }
            None => text::scrub(self.redactor, text),
        }
    }

    fn member(&self, at: &Place, name: &str) -> Place {
        Place {
            masked: self.redactor.masked.member(&at.masked, name),
            allowed: self.redactor.allowed.member(&at.allowed, name),
            depth: at.depth + 1,
        }
    }

    fn element(&self, at: &Place, index: usize) -> Place {
        Place {
            masked: self.redactor.masked.element(&at.masked, index),
            allowed: self.redactor.allowed.element(&at.allowed, index),
            depth: at.depth + 1,
        }
    }
}

/// The mask, except that an absent value may be seen to be absent: it is what a dead letter is often about.
fn mask(value: &Value) -> Value {
    if value.is_null() { Value::Null } else { MASK.into() }
}

/// A name for a member, numbered if masking made it equal to an earlier one.
fn free(name: String, out: &Map<String, Value>, taken: &mut HashMap<String, usize>) -> String {
    if !out.contains_key(&name) {
        return name;
    }
    let count = taken.entry(name.clone()).or_insert(1);
    loop {
        *count += 1;
        let numbered = format!("{name}#{count}");
        if !out.contains_key(&numbered) {
            return numbered;
        }
    }
}

/// `email_count: 3` and `phone_verified: true` say nothing about anyone.
fn is_measure(name: &str, value: &Value) -> bool {
    names::measures(name) && (value.is_boolean() || value.as_u64().is_some_and(|n| n < MEASURE_MAX))
}

/// Whether the whole part of a number could be a card number; clients send cards as floats, too.
fn is_card(number: &Number) -> bool {
    let whole = match number.as_f64() {
        Some(float) if number.is_f64() => format!("{:.0}", float.trunc()),
        _ => number.to_string(),
    };
    luhn::is_card(whole.trim_start_matches('-').as_bytes())
}

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod payloads;
mod properties;
mod texts;

use serde_json::Value;

use super::{Options, Redactor};

const JSON: &str = "application/json";

/// Visa's published test number.
const CARD: &str = "4111111111111111";

fn text(text: &str) -> String {
    Redactor::default().redact_text(text)
}

fn payload(value: &Value) -> Value {
    with(Options::default(), value)
}

fn with(options: Options, value: &Value) -> Value {
    let out = Redactor::new(options)
        .unwrap()
        .redact_payload(JSON, value.to_string().as_bytes());
    serde_json::from_str(&out).unwrap()
}

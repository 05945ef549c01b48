//! One line of input as an event. Reasons name fields, sizes and places; never what the line holds.

use serde_json::Value;
use serde_json::value::RawValue;
use tidegate::{Draft, Uuid};

use crate::config::nearest;
use crate::text::base64;

/// Fields of an event in NDJSON.
const FIELDS: [&str; 9] = [
    "topic",
    "key",
    "payload",
    "payload_text",
    "payload_base64",
    "headers",
    "version",
    "id",
    "content_type",
];
/// Fields that `tail --json` adds; accepted, so that its output can be emitted elsewhere.
const IGNORED: [&str; 5] = ["entry", "lane", "n", "void", "occurred_at"];

/// How lines are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Each line is an event with named fields; the topic is for those that name none.
    Event { topic: Option<String> },
    /// Each line is a payload; the key is the value of one of its fields, which a flag names.
    Payload {
        topic: String,
        key_field: String,
        flag: &'static str,
    },
}

impl Shape {
    /// Reads a line and checks every limit.
    pub(crate) fn read(&self, line: &[u8]) -> Result<Draft, String> {
        let text =
            std::str::from_utf8(line).map_err(|e| format!("is not UTF-8 at byte {}", e.valid_up_to() + 1))?;
        let draft = match self {
            Shape::Event { topic } => event(text, topic.as_deref())?,
            Shape::Payload {
                topic,
                key_field,
                flag,
            } => payload(text, topic, key_field, flag)?,
        };
        draft.validate().map_err(|e| e.context().to_owned())?;
        Ok(draft)
    }
}

type Fields<'a> = std::collections::BTreeMap<String, &'a RawValue>;

fn fields(text: &str) -> Result<Fields<'_>, String> {
    serde_json::from_str::<Fields<'_>>(text).map_err(|e| not_an_object(text, &e))
}

/// The place and the kind: the parser's own words may quote the line.
fn not_an_object(text: &str, error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let starts = text.trim_start().chars().next();
    match error.classify() {
        Category::Data if starts != Some('{') => "is not a JSON object".to_owned(),
        Category::Eof => "is not JSON: it ends too early".to_owned(),
        _ => format!(
            "is not JSON: unexpected character at column {}",
            error.column().max(1)
        ),
    }
}

fn payload(text: &str, topic: &str, key_field: &str, flag: &str) -> Result<Draft, String> {
    let fields = fields(text)?;
    if !fields.contains_key(key_field) {
        return Err(format!("has no field {key_field:?}, which {flag} names"));
    }
    let key = key(&fields, key_field)?.ok_or_else(|| not_a_key(key_field, &Value::Null))?;
    Ok(Draft::new(topic, key).payload("application/json", text.trim().to_owned().into_bytes()))
}

fn event(text: &str, topic: Option<&str>) -> Result<Draft, String> {
    let fields = fields(text)?;
    if let Some(unknown) = fields.keys().find(|name| !is_known(name)) {
        return Err(unknown_field(unknown));
    }
    let topic = optional_text(&fields, "topic")?.or_else(|| topic.map(str::to_owned));
    let topic = topic.ok_or("has no field \"topic\", and there is no --topic")?;
    let mut draft = Draft::keyless(topic);
    draft.key = key(&fields, "key")?;
    draft.id = optional_text(&fields, "id")?.map(|id| uuid(&id)).transpose()?;
    draft.version = version(&fields)?;
    draft.headers = headers(&fields)?;
    with_payload(draft, &fields)
}

fn is_known(name: &str) -> bool {
    FIELDS.contains(&name) || IGNORED.contains(&name)
}

fn unknown_field(name: &str) -> String {
    match nearest(name, FIELDS) {
        Some(near) => format!("has an unknown field; did you mean {near:?}?"),
        None => format!("has an unknown field; known are {}", FIELDS.join(", ")),
    }
}

/// The value of a field; missing is null.
fn value(fields: &Fields<'_>, name: &str) -> Result<Value, String> {
    match fields.get(name) {
        None => Ok(Value::Null),
        Some(raw) => serde_json::from_str(raw.get())
            .map_err(|_| format!("field {name:?} holds a number out of range or a broken escape")),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The text of a field; null counts as missing.
fn optional_text(fields: &Fields<'_>, name: &str) -> Result<Option<String>, String> {
    match value(fields, name)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        other => Err(format!("field {name:?} is {}; it must be text", kind(&other))),
    }
}

/// Text, or a number as it is written; null counts as missing.
fn key(fields: &Fields<'_>, name: &str) -> Result<Option<String>, String> {
    let written = fields.get(name).map_or("null", |raw| raw.get());
    if written.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return Ok(Some(written.to_owned()));
    }
    match value(fields, name)? {
        Value::Null => Ok(None),
        Value::String(key) => Ok(Some(key)),
        other => Err(not_a_key(name, &other)),
    }
}

fn not_a_key(name: &str, value: &Value) -> String {
    format!("field {name:?} is {}; a key is text or a number", kind(value))
}

pub(super) fn uuid(text: &str) -> Result<Uuid, String> {
    Uuid::parse_str(text).map_err(|_| "field \"id\" is not a UUID".to_owned())
}

fn version(fields: &Fields<'_>) -> Result<Option<i64>, String> {
    match value(fields, "version")? {
        Value::Null => Ok(None),
        Value::Number(number) if number.is_i64() => Ok(number.as_i64()),
        _ => Err("field \"version\" is not a whole number of 64 bits".to_owned()),
    }
}

fn headers(fields: &Fields<'_>) -> Result<Vec<(String, String)>, String> {
    let wrong = || "field \"headers\" is not an object of texts".to_owned();
    let headers = match value(fields, "headers")? {
        Value::Null => return Ok(Vec::new()),
        Value::Object(headers) => headers,
        _ => return Err(wrong()),
    };
    let text = |(name, value)| match value {
        Value::String(value) => Ok((name, value)),
        _ => Err(wrong()),
    };
    headers.into_iter().map(text).collect()
}

fn with_payload(draft: Draft, fields: &Fields<'_>) -> Result<Draft, String> {
    let content_type = optional_text(fields, "content_type")?;
    let of = |given: &str| content_type.clone().unwrap_or_else(|| given.to_owned());
    let given = FIELDS[2..5]
        .iter()
        .filter(|name| fields.contains_key(**name))
        .count();
    if given > 1 {
        return Err("has more than one of payload, payload_text and payload_base64".to_owned());
    }
    if let Some(raw) = fields.get("payload") {
        return Ok(draft.payload(of("application/json"), raw.get().to_owned().into_bytes()));
    }
    if let Some(text) = optional_text(fields, "payload_text")? {
        return Ok(draft.payload(of("text/plain"), text.into_bytes()));
    }
    if let Some(text) = optional_text(fields, "payload_base64")? {
        let bytes = base64::decode(&text).ok_or("field \"payload_base64\" is not base64")?;
        return Ok(draft.payload(of("application/octet-stream"), bytes));
    }
    Err("has no field \"payload\"".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Shape {
        Shape::Event { topic: None }
    }

    fn refuse(line: &str) -> String {
        events().read(line.as_bytes()).expect_err("accepted")
    }

    #[test]
    fn every_field_is_read() {
        let line = br#"{"topic":"orders","key":42,"version":3,"id":"018f2b0e-0000-7000-8000-000000000001","headers":{"a":"b"},"payload":{"total": 7}}"#;
        let draft = events().read(line).expect("accepted");
        assert_eq!(draft.topic, "orders");
        assert_eq!(draft.key.as_deref(), Some("42"));
        assert_eq!(draft.version, Some(3));
        assert_eq!(draft.headers, [("a".to_owned(), "b".to_owned())]);
        assert_eq!(&draft.payload[..], br#"{"total": 7}"#, "as written");
        assert_eq!(draft.content_type, "application/json");
    }

    #[test]
    fn text_and_bytes_are_payloads_too() {
        let text = events()
            .read(br#"{"topic":"t","payload_text":"hi"}"#)
            .expect("accepted");
        assert_eq!(
            (&text.payload[..], text.content_type.as_str()),
            (&b"hi"[..], "text/plain")
        );
        let bytes = events()
            .read(br#"{"topic":"t","payload_base64":"AP8="}"#)
            .expect("accepted");
        assert_eq!(&bytes.payload[..], [0, 255]);
    }

    #[test]
    fn a_payload_line_takes_its_key_from_a_field() {
        let shape = Shape::Payload {
            topic: "flights".into(),
            key_field: "origin".into(),
            flag: "--key-field",
        };
        let draft = shape.read(br#" {"origin":"HNL","delay":95} "#).expect("accepted");
        assert_eq!(draft.key.as_deref(), Some("HNL"));
        assert_eq!(&draft.payload[..], br#"{"origin":"HNL","delay":95}"#);
        let reason = shape.read(br#"{"from":"HNL"}"#).expect_err("accepted");
        assert_eq!(reason, "has no field \"origin\", which --key-field names");
        let reason = shape.read(br#"{"origin":{"code":"HNL"}}"#).expect_err("accepted");
        assert_eq!(reason, "field \"origin\" is an object; a key is text or a number");
    }

    #[test]
    fn reasons_say_what_is_wrong_and_never_what_was_written() {
        let cases = [
            ("secret", "is not JSON: unexpected character at column 1"),
            ("[\"secret\"]", "is not a JSON object"),
            ("{\"topic\":\"secret\"", "is not JSON: it ends too early"),
            (
                "{\"topic\":\"t\",,}",
                "is not JSON: unexpected character at column 14",
            ),
            (
                r#"{"secret":1}"#,
                "has an unknown field; known are topic, key, payload, payload_text, payload_base64, headers, version, id, content_type",
            ),
            (
                r#"{"topic":"t","paylod":"secret"}"#,
                "has an unknown field; did you mean \"payload\"?",
            ),
            (
                r#"{"payload":"secret"}"#,
                "has no field \"topic\", and there is no --topic",
            ),
            (r#"{"topic":"t"}"#, "has no field \"payload\""),
            (
                r#"{"topic":7,"payload":"secret"}"#,
                "field \"topic\" is a number; it must be text",
            ),
            (
                r#"{"topic":"t","key":["secret"],"payload":1}"#,
                "field \"key\" is an array; a key is text or a number",
            ),
            (
                r#"{"topic":"t","id":"secret","payload":1}"#,
                "field \"id\" is not a UUID",
            ),
            (
                r#"{"topic":"t","version":"secret","payload":1}"#,
                "field \"version\" is not a whole number of 64 bits",
            ),
            (
                r#"{"topic":"t","version":1.5,"payload":1}"#,
                "field \"version\" is not a whole number of 64 bits",
            ),
            (
                r#"{"topic":"t","headers":["secret"],"payload":1}"#,
                "field \"headers\" is not an object of texts",
            ),
            (
                r#"{"topic":"t","payload":1,"payload_text":"secret"}"#,
                "has more than one of payload, payload_text and payload_base64",
            ),
            (
                r#"{"topic":"t","payload_base64":"secret!"}"#,
                "field \"payload_base64\" is not base64",
            ),
            (
                r#"{"topic":"","payload":1}"#,
                "topic is empty; it needs at least 1 byte",
            ),
            (
                r#"{"topic":"t\u0000secret","payload":1}"#,
                "topic has the control character U+0000 at byte 1; none is allowed",
            ),
        ];
        for (line, reason) in cases {
            assert_eq!(refuse(line), reason, "{line}");
        }
        let reason = events().read(b"{\"topic\":\"\xff\"}").expect_err("accepted");
        assert_eq!(reason, "is not UTF-8 at byte 11");
    }
}

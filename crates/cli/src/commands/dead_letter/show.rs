//! Letters, details and decisions as tables and objects. Everything that may hold data arrives redacted.

use serde_json::{Value, json};
use tidegate::dead_letter::{Audit, Detail, Letter};

use crate::context::Context;
use crate::error::Failure;
use crate::text::{count, short, time};

/// Characters of a message in a table.
const MESSAGE_CHARS: usize = 60;

pub(super) fn letters(context: &Context, letters: &[(String, Letter)]) -> Result<(), Failure> {
    if context.out.is_json() {
        return letters.iter().try_for_each(|(consumer, letter)| {
            let mut object = letter_object(letter);
            object["consumer"] = json!(consumer);
            context.out.object(&object)
        });
    }
    let headers = [
        "id", "consumer", "state", "topic", "cause", "attempts", "waiting", "since", "message",
    ];
    context.out.table(letters, &headers, |(consumer, letter)| {
        vec![
            letter.id.to_string(),
            consumer.clone(),
            letter.state.as_str().to_owned(),
            letter.topic.clone(),
            letter.fingerprint.clone(),
            count(letter.attempts.into()),
            count(letter.waiting),
            time(letter.since),
            short(letter.message.as_str(), MESSAGE_CHARS),
        ]
    })
}

fn letter_object(letter: &Letter) -> Value {
    json!({
        "id": letter.id.to_string(), "state": letter.state.as_str(), "key": letter.key,
        "event_id": letter.event_id.to_string(), "topic": letter.topic, "class": letter.class,
        "fingerprint": letter.fingerprint, "message": letter.message, "attempts": letter.attempts,
        "waiting": letter.waiting, "since": time(letter.since), "failed_at": time(letter.failed_at),
        "next_at": letter.next_at.map(time),
    })
}

pub(super) fn detail(context: &Context, detail: &Detail) -> Result<(), Failure> {
    if context.out.is_json() {
        return context.out.object(&detail_object(detail));
    }
    let letter = &detail.letter;
    let lines = [
        ("id", letter.id.to_string()),
        ("state", letter.state.as_str().to_owned()),
        ("event", letter.event_id.to_string()),
        ("topic", letter.topic.clone()),
        ("key", letter.key.to_string()),
        (
            "version",
            detail.version.map_or_else(|| "-".to_owned(), |v| v.to_string()),
        ),
        ("occurred", time(detail.occurred_at)),
        ("since", time(letter.since)),
        ("failed", time(letter.failed_at)),
        ("next try", letter.next_at.map_or_else(|| "-".to_owned(), time)),
        ("attempts", count(letter.attempts.into())),
        ("waiting", count(letter.waiting)),
        ("class", letter.class.clone()),
        ("cause", letter.fingerprint.clone()),
        ("message", letter.message.to_string()),
        ("headers", detail.headers.to_string()),
        (
            "payload",
            format!(
                "{} bytes of {}",
                count(detail.payload_bytes as u64),
                detail.content_type
            ),
        ),
    ];
    for (name, value) in lines {
        context.out.line(format!("{name:<9} {value}"))?;
    }
    context.out.line(detail.payload.as_str())
}

fn detail_object(detail: &Detail) -> Value {
    let mut object = letter_object(&detail.letter);
    object["version"] = json!(detail.version);
    object["occurred_at"] = json!(time(detail.occurred_at));
    // Redacted, it is JSON still; when it is not, the text says why.
    let headers = detail.headers.as_str();
    object["headers"] = serde_json::from_str(headers).unwrap_or_else(|_| json!(headers));
    object["content_type"] = json!(detail.content_type);
    object["payload_bytes"] = json!(detail.payload_bytes);
    object["payload"] = json!(detail.payload);
    object
}

pub(super) fn audit(context: &Context, decisions: &[Audit]) -> Result<(), Failure> {
    if context.out.is_json() {
        return decisions
            .iter()
            .try_for_each(|decision| context.out.object(&audit_object(decision)));
    }
    context.out.table(
        decisions,
        &["at", "action", "id", "cause", "reason"],
        |decision| {
            vec![
                time(decision.at),
                decision.action.clone(),
                decision.id.to_string(),
                decision.fingerprint.clone(),
                decision.reason.clone(),
            ]
        },
    )
}

fn audit_object(decision: &Audit) -> Value {
    json!({
        "at": time(decision.at), "action": decision.action, "id": decision.id.to_string(),
        "event_id": decision.event_id.to_string(), "fingerprint": decision.fingerprint, "reason": decision.reason,
    })
}

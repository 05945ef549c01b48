//! One event from arguments.

use std::path::Path;

use serde_json::json;
use serde_json::value::RawValue;
use tidegate::limits::PAYLOAD_BYTES_MAX;
use tidegate::store::OutboxStore;
use tidegate::{Code, Draft, Error};

use super::{Args, seal, unreadable};
use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;

/// The event that the arguments describe, checked.
pub(super) fn draft(args: &Args) -> Result<Draft, Failure> {
    let (payload, guessed) = payload(args)?;
    let mut draft = Draft::keyless(args.topic.clone().unwrap_or_default());
    draft.key.clone_from(&args.key);
    draft.version = args.version;
    draft.id = args.id;
    for header in &args.headers {
        let (name, value) = header
            .split_once('=')
            .ok_or_else(|| Failure::argument("--header must be NAME=VALUE"))?;
        draft = draft.header(name, value);
    }
    let content_type = args.content_type.clone().unwrap_or_else(|| guessed.to_owned());
    let draft = draft.payload(content_type, payload);
    draft.validate()?;
    Ok(draft)
}

fn payload(args: &Args) -> Result<(Vec<u8>, &'static str), Failure> {
    let bytes = match (&args.payload, &args.payload_file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) => read(path)?,
        (None, None) => Vec::new(),
    };
    let guessed = guess(&bytes);
    Ok((bytes, guessed))
}

/// Reads one byte beyond the limit at most: the check of the limit then refuses it.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    use std::io::Read as _;
    let source: std::io::Result<Box<dyn std::io::Read>> = if path.as_os_str() == "-" {
        Ok(Box::new(std::io::stdin()))
    } else {
        std::fs::File::open(path).map(|file| Box::new(file) as Box<dyn std::io::Read>)
    };
    let mut bytes = Vec::new();
    source
        .and_then(|source| source.take(PAYLOAD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|e| unreadable(path, &e))?;
    if bytes.len() > PAYLOAD_BYTES_MAX {
        let context = format!("payload is over {PAYLOAD_BYTES_MAX} bytes, the limit");
        return Err(Error::new(Code::EventInvalid, context).into());
    }
    Ok(bytes)
}

fn guess(bytes: &[u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(text) if serde_json::from_str::<&RawValue>(text).is_ok() => "application/json",
        Ok(_) => "text/plain",
        Err(_) => "application/octet-stream",
    }
}

/// Writes it; its id is the answer.
pub(super) async fn emit(context: &Context, outbox: &dyn OutboxStore, draft: Draft) -> Ended {
    let event = seal(draft)?;
    let id = event.id;
    outbox.enqueue(vec![event]).await?;
    if context.out.is_json() {
        context
            .out
            .object(&json!({ "committed": 1, "refused": 0, "id": id.to_string() }))?;
    } else {
        context.out.line(id.to_string())?;
    }
    Ok(Exit::Ok)
}

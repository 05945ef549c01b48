//! `check`: is the configuration valid?

use serde_json::json;

use crate::config::Config;
use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::{settings, text};

/// Says yes, or every problem.
pub(crate) fn run(context: &Context) -> Ended {
    match settings::load(&context.global) {
        Ok(loaded) => valid(context, &loaded.config),
        Err(Failure::Config(problems)) if context.out.is_json() => {
            context
                .out
                .object(&json!({ "valid": false, "problems": problems }))?;
            Ok(Exit::Config)
        }
        Err(failure) => Err(failure),
    }
}

fn valid(context: &Context, config: &Config) -> Ended {
    let counts = [
        ("store", "stores", config.store.len()),
        ("outbox", "outboxes", config.outbox.len()),
        ("stream", "streams", config.stream.len()),
        ("consumer", "consumers", config.consumer.len()),
        ("sweep", "sweeps", config.sweep.len()),
    ];
    if context.out.is_json() {
        let declared: serde_json::Map<_, _> = counts
            .iter()
            .map(|(noun, _, n)| ((*noun).to_owned(), json!(n)))
            .collect();
        context
            .out
            .object(&json!({ "valid": true, "declared": declared, "problems": [] }))?;
    } else {
        let words: Vec<_> = counts
            .iter()
            .map(|(one, many, n)| format!("{} {}", text::count(*n as u64), if *n == 1 { one } else { many }))
            .collect();
        context.out.line(format!("valid: {}", words.join(", ")))?;
    }
    Ok(Exit::Ok)
}

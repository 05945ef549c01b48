//! `explain CODE`: the page of an error code.

use serde_json::{Value, json};
use tidegate::Code;

use crate::config::nearest;
use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::text;

/// Which code.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tidegate explain TG0012\n  tidegate explain        every code with its title"
)]
pub struct Args {
    /// A code such as TG0012; without one, all are listed
    pub code: Option<String>,
}

/// Prints one page, or the list.
pub(crate) fn run(context: &Context, args: &Args) -> Ended {
    match &args.code {
        Some(asked) => page(context, find(asked)?)?,
        None => list(context)?,
    }
    Ok(Exit::Ok)
}

fn page(context: &Context, code: Code) -> Result<(), Failure> {
    if context.out.is_json() {
        let mut object = summary(code);
        object["page"] = json!(code.page());
        return context.out.object(&object);
    }
    context.out.text(code.page())
}

fn list(context: &Context) -> Result<(), Failure> {
    if context.out.is_json() {
        return Code::ALL
            .iter()
            .try_for_each(|code| context.out.object(&summary(*code)));
    }
    context.out.table(Code::ALL, &["code", "title"], |code| {
        vec![code.id().to_owned(), code.title().to_owned()]
    })
}

fn summary(code: Code) -> Value {
    json!({
        "code": code.id(), "title": code.title(),
        "kind": text::snake(&format!("{:?}", code.kind())), "retry": text::snake(&format!("{:?}", code.retry())),
    })
}

/// Accepts `TG0012`, `tg12` and `12`.
fn find(asked: &str) -> Result<Code, Failure> {
    let upper = asked.trim().to_ascii_uppercase();
    let digits = upper.strip_prefix("TG").unwrap_or(&upper);
    let id = format!("TG{digits:0>4}");
    let found = Code::ALL.iter().find(|code| code.id() == id);
    found.copied().ok_or_else(|| unknown(asked, &id))
}

fn unknown(asked: &str, id: &str) -> Failure {
    let lower: Vec<_> = Code::ALL
        .iter()
        .map(|code| code.id().to_ascii_lowercase())
        .collect();
    let hint = nearest(id, lower.iter().map(String::as_str)).map(|near| near.to_ascii_uppercase());
    let hint = hint.map_or_else(
        || "`tidegate explain` lists all".to_owned(),
        |near| format!("did you mean {near}?"),
    );
    Failure::not_found(format!("no code {}; {hint}", text::short(asked, 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_found_in_any_spelling() {
        for asked in ["TG0012", "tg0012", "tg12", "12", " TG0012 "] {
            assert_eq!(find(asked).ok(), Some(Code::StoreFull), "{asked}");
        }
    }
}

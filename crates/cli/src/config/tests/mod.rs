#![allow(clippy::expect_used, clippy::panic)]

mod duration;
mod explain;
mod keys;
mod layers;
mod problems;
mod secrets;
mod valid;

use std::collections::BTreeMap;

use super::{File, Loaded, Sources, load};

/// A small file without faults, which tests change in one place.
const SHOP: &str = r#"namespace = "shop"

[store]
db = { url = "sqlite:shop.db" }

[outbox.orders]
store = "db"
stream = "orders"

[stream.orders]
store = "db"

[consumer.billing]
stream = "orders"
store = "db"
start = "earliest"
table = { name = "orders_copy", key = "id", version = "version", columns = { id = "id", total = "total" } }
"#;

fn file(text: &str) -> Sources {
    Sources {
        file: Some(File {
            name: "tidegate.toml".to_owned(),
            text: text.to_owned(),
        }),
        ..Sources::default()
    }
}

fn with_environment(mut sources: Sources, variables: &[(&str, &str)]) -> Sources {
    let owned = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    sources.environment = owned.collect::<BTreeMap<_, _>>();
    sources
}

fn with_set(mut sources: Sources, arguments: &[&str]) -> Sources {
    sources.set = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    sources
}

/// `SHOP` with one piece of text replaced.
fn shop(from: &str, to: &str) -> Sources {
    assert!(SHOP.contains(from), "{from:?} is not in the sample");
    file(&SHOP.replacen(from, to, 1))
}

#[track_caller]
fn accept(sources: &Sources) -> Loaded {
    load(sources).unwrap_or_else(|problems| panic!("refused:\n{problems}"))
}

/// The problems, one line each.
#[track_caller]
fn refuse(sources: &Sources) -> Vec<String> {
    let problems = load(sources).expect_err("accepted");
    problems.iter().map(ToString::to_string).collect()
}

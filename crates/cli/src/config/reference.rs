//! The reference page, rendered from the table of keys.

use std::fmt::Write as _;

use super::keys::{ALL, Fallback, Key};

const INTRODUCTION: &str = "\
# Configuration

Rendered from the table of keys in `crates/cli/src/config/keys.rs`; a test compares the two.

Values come from four layers, and a later one replaces single values of an earlier one:

1. defaults, as listed below;
2. the file: `tidegate run -c tidegate.toml`. Without a file there is one SQLite store, outbox and stream, each named `main`;
3. the environment: `TIDEGATE__OUTBOX__ORDERS__LANES=128` sets `outbox.orders.lanes`. Two underscores separate levels;
   a dash in a declared name may be written as an underscore;
4. flags: `--set outbox.orders.lanes=128`.

`tidegate check` reports all problems at once. `tidegate config explain` prints each effective value with its origin.

Durations are whole numbers with units, large units first: `500ms`, `10s`, `1m 30s`, `24h`, `7d`. A number without a unit is
refused. `*` in a key stands for a name of your choice: `a-z`, `0-9`, `_` and `-`, starting with a letter, at most 63 characters.

A store URL is a secret: it is never logged, and `config explain` masks its password. Keep it out of the file with
`url = { file = \"/run/secrets/db-url\" }` or `url = { env = \"DB_URL\" }`.
";

/// The text of `docs/configuration.md`.
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut section = "";
    for key in ALL {
        let next = section_of(key);
        if next != section {
            page.push_str(&heading(next));
            section = next;
        }
        page.push_str(&row(key));
    }
    page
}

/// The first component; keys at the top level share one heading.
fn section_of(key: &Key) -> &'static str {
    key.path
        .split_once('.')
        .map_or("top level", |(section, _)| section)
}

fn heading(section: &str) -> String {
    let title = if section == "top level" {
        "Top level".to_owned()
    } else {
        format!("`[{section}]`")
    };
    format!("\n## {title}\n\n| key | default | allowed | what it does |\n|---|---|---|---|\n")
}

fn row(key: &Key) -> String {
    let default = match key.fallback {
        Fallback::Required => "required".to_owned(),
        Fallback::Unset => "unset".to_owned(),
        Fallback::Text(text) => format!("`{text}`"),
    };
    let mut row = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        row,
        "| `{}` | {default} | {} | {} |",
        key.path,
        key.kind.allowed(),
        key.doc
    );
    row
}

//! The merged layers before they have types: every key with its value and its origin.

use std::collections::BTreeMap;
use std::mem::discriminant;

use super::problem::Origin;
use super::secret;

/// The components of a key; a component may hold dots when it was quoted in the file.
pub(super) type Path = Vec<String>;

/// A value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A TOML string.
    Text(String),
    /// A TOML integer.
    Integer(i128),
    /// Text of a variable or a flag, which takes the type that its key asks for.
    Untyped(String),
    /// A table; its keys are entries of their own.
    Table,
    /// Any other TOML value, by the name of its type.
    Other(&'static str),
}

impl Value {
    /// The value for a problem: quoted, masked and of bounded length.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Text(text) => format!("{:?}", shorten(&secret::mask(text))),
            Self::Untyped(text) => printable(&shorten(&secret::mask(text))),
            Self::Integer(number) => number.to_string(),
            Self::Table => "{...}".to_owned(),
            Self::Other(kind) => format!("({kind})"),
        }
    }

    /// The type, with its article.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Untyped(_) => "a string",
            Self::Integer(_) => "a number",
            Self::Table => "a table",
            Self::Other(kind) => kind,
        }
    }
}

/// Long values make problems unreadable; 80 characters tell which value it is.
fn shorten(text: &str) -> String {
    const SHOWN_MAX: usize = 80;
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Control characters would move the reader's terminal.
pub(super) fn printable(text: &str) -> String {
    if text.chars().any(char::is_control) {
        format!("{text:?}")
    } else {
        text.to_owned()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Entries by path; the entries of a table follow it.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree(BTreeMap<Path, Entry>);

impl Tree {
    /// Adds a value over what earlier layers said.
    pub(super) fn put(&mut self, path: Path, value: Value, origin: Origin) {
        self.open_parents(&path, &origin);
        if value == Value::Table && self.is_table(&path) {
            return;
        }
        self.0.retain(|other, _| !is_below(other, &path));
        self.drop_rival_secret(&path, &origin);
        self.0.insert(path, Entry { value, origin });
    }

    pub(super) fn get(&self, path: &[String]) -> Option<&Entry> {
        self.0.get(path)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, &Entry)> {
        self.0.iter()
    }

    /// Names of the entries directly below `path`, in order.
    pub(super) fn children<'a>(&'a self, path: &'a [String]) -> impl Iterator<Item = &'a str> {
        self.0
            .keys()
            .filter(|other| other.len() == path.len() + 1 && is_below(other, path))
            .filter_map(|p| p.last())
            .map(String::as_str)
    }

    /// Names of the tables directly below `path`, in order.
    pub(super) fn tables(&self, path: &[String]) -> Vec<String> {
        let is_table = |name: &&str| {
            let mut child = path.to_vec();
            child.push((*name).to_owned());
            self.is_table(&child)
        };
        self.children(path).filter(is_table).map(str::to_owned).collect()
    }

    /// Origin of the entry at `path`, or of the nearest table around it.
    pub(super) fn origin_near(&self, path: &[String]) -> Origin {
        let around = (1..=path.len())
            .rev()
            .find_map(|length| self.0.get(&path[..length]));
        around.map_or(Origin::Default, |entry| entry.origin.clone())
    }

    fn is_table(&self, path: &[String]) -> bool {
        self.0.get(path).is_some_and(|entry| entry.value == Value::Table)
    }

    fn open_parents(&mut self, path: &[String], origin: &Origin) {
        for length in 1..path.len() {
            if !self.is_table(&path[..length]) {
                let table = Entry {
                    value: Value::Table,
                    origin: origin.clone(),
                };
                self.0.insert(path[..length].to_vec(), table);
            }
        }
    }

    /// `file` from a later layer replaces `env` of an earlier one, and the reverse.
    fn drop_rival_secret(&mut self, path: &[String], origin: &Origin) {
        let Some(rival) = secret::rival(path) else { return };
        let earlier = |entry: &Entry| discriminant(&entry.origin) != discriminant(origin);
        if self.0.get(&rival).is_some_and(earlier) {
            self.0.remove(&rival);
        }
    }
}

fn is_below(path: &[String], table: &[String]) -> bool {
    path.len() > table.len() && path.starts_with(table)
}

/// `outbox.orders.lanes`, with components quoted where TOML would need it.
pub(super) fn dotted(path: &[String]) -> String {
    let bare = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let component = |part: &String| {
        if bare(part) {
            part.clone()
        } else {
            format!("{part:?}")
        }
    };
    path.iter().map(component).collect::<Vec<_>>().join(".")
}

//! Takes typed values out of the tree, noting every problem and every effective value on the way.
//!
//! [`Noted`] from a method means that its problem is on the list; callers read on, so that one run finds all problems.

use std::collections::BTreeMap;

use super::explain::{Effective, Explanation};
use super::keys::{Fallback, Key, Kind, STORE_URL, STORE_URL_ENV, STORE_URL_FILE};
use super::problem::{Origin, Problem};
use super::secret::{self, Secret};
use super::tree::{Entry, Path, Tree, Value, dotted, printable};
use super::validate::{self, Refusal};

pub(super) struct Reader<'a> {
    tree: &'a Tree,
    environment: &'a BTreeMap<String, String>,
    effective: Vec<Effective>,
    problems: Vec<Problem>,
}

/// The value could not be had, and the reader knows why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Noted;

pub(super) type Read<T> = Result<T, Noted>;

/// A value before its rule.
struct Found {
    path: Path,
    text: String,
    given: String,
    origin: Origin,
}

enum Lookup {
    Found(Found),
    Unset,
    Refused,
}

impl<'a> Reader<'a> {
    pub(super) fn new(tree: &'a Tree, environment: &'a BTreeMap<String, String>) -> Self {
        Self {
            tree,
            environment,
            effective: Vec::new(),
            problems: Vec::new(),
        }
    }

    pub(super) fn finish(self) -> (Explanation, Vec<Problem>) {
        (Explanation::new(self.effective), self.problems)
    }

    pub(super) fn report(&mut self, problems: Vec<Problem>) {
        self.problems.extend(problems);
    }

    /// Names of the tables declared in `section`.
    pub(super) fn declared(&self, section: &str) -> Vec<String> {
        self.tree.tables(&[section.to_owned()])
    }

    /// Names below a table, whatever they hold.
    pub(super) fn names_below(&self, table: &[String]) -> Vec<String> {
        self.tree.children(table).map(str::to_owned).collect()
    }

    /// Whether anything was written at `path`.
    pub(super) fn is_given(&self, path: &[String]) -> bool {
        self.tree.get(path).is_some()
    }

    /// Notes a problem about the path itself, where it or the table around it was written.
    pub(super) fn refuse(&mut self, path: &[String], refusal: Refusal) {
        self.push(path, None, self.tree.origin_near(path), refusal);
    }

    /// Notes a problem about the value of `key`, which was read before.
    pub(super) fn refuse_value(&mut self, key: &'static Key, names: &[&str], refusal: Refusal) {
        if let Lookup::Found(found) = self.lookup(key, names) {
            self.push(&found.path, Some(found.given), found.origin, refusal);
        }
    }

    pub(super) fn origin_of(&self, path: &[String]) -> Origin {
        self.tree.origin_near(path)
    }

    /// A value that is given or has a default; a problem when it has neither.
    pub(super) fn required<T>(
        &mut self,
        key: &'static Key,
        names: &[&str],
        rule: impl FnOnce(&str) -> Result<T, Refusal>,
    ) -> Read<T> {
        match self.lookup(key, names) {
            Lookup::Found(found) => self.apply(key, found, rule),
            Lookup::Unset => {
                self.refuse(&key.path_for(names), missing(key.kind));
                Err(Noted)
            }
            Lookup::Refused => Err(Noted),
        }
    }

    /// A value that may be absent.
    pub(super) fn optional<T>(
        &mut self,
        key: &'static Key,
        names: &[&str],
        rule: impl FnOnce(&str) -> Result<T, Refusal>,
    ) -> Read<Option<T>> {
        match self.lookup(key, names) {
            Lookup::Found(found) => self.apply(key, found, rule).map(Some),
            Lookup::Unset => {
                self.note(key, &key.path_for(names), None, Origin::Default);
                Ok(None)
            }
            Lookup::Refused => Err(Noted),
        }
    }

    /// The URL of a store, written out or kept elsewhere.
    pub(super) fn url(&mut self, store: &str) -> Read<Secret> {
        let path = STORE_URL.path_for(&[store]);
        let kept_elsewhere = self
            .tree
            .get(&path)
            .is_some_and(|entry| entry.value == Value::Table);
        if kept_elsewhere {
            self.kept_url(&path, store)
        } else {
            self.written_url(store)
        }
    }

    fn written_url(&mut self, store: &str) -> Read<Secret> {
        self.required(&STORE_URL, &[store], validate::store_url)
            .map(Secret::new)
    }

    fn kept_url(&mut self, path: &Path, store: &str) -> Read<Secret> {
        let file = self.kept_in(&STORE_URL_FILE, store, secret::from_file);
        let environment = self.environment;
        let variable = self.kept_in(&STORE_URL_ENV, store, |name| {
            secret::from_environment(name, environment)
        });
        match (file, variable) {
            (Kept::Absent, Kept::Absent) => {
                self.refuse(path, Refusal::new("must have either file or env"));
                Err(Noted)
            }
            (Kept::Absent, Kept::Read(text, from)) | (Kept::Read(text, from), Kept::Absent) => {
                self.accept_kept(path, text, from)
            }
            (Kept::Refused, _) | (_, Kept::Refused) => Err(Noted),
            (Kept::Read(..), Kept::Read(..)) => {
                self.refuse(path, Refusal::new("must have either file or env, not both"));
                Err(Noted)
            }
        }
    }

    fn kept_in(
        &mut self,
        key: &'static Key,
        store: &str,
        read: impl FnOnce(&str) -> Result<String, String>,
    ) -> Kept {
        let found = match self.lookup(key, &[store]) {
            Lookup::Found(found) => found,
            Lookup::Unset => return Kept::Absent,
            Lookup::Refused => return Kept::Refused,
        };
        match read(&found.text) {
            Ok(text) => Kept::Read(text, found),
            Err(rule) => {
                self.push(&found.path, Some(found.given), found.origin, Refusal::new(rule));
                Kept::Refused
            }
        }
    }

    /// Shows where the URL is kept, and nothing of what it says.
    fn accept_kept(&mut self, path: &Path, text: String, from: Found) -> Read<Secret> {
        let part = from.path.last().map_or("", String::as_str);
        let shown = format!("{{ {part} = {:?} }}", from.text);
        match validate::store_url(&text) {
            Ok(_) => {
                self.note(&STORE_URL, path, Some(shown), from.origin);
                Ok(Secret::new(text))
            }
            Err(refusal) => {
                self.push(path, Some(shown), from.origin, refusal);
                Err(Noted)
            }
        }
    }

    fn lookup(&mut self, key: &'static Key, names: &[&str]) -> Lookup {
        let path = key.path_for(names);
        let Some(entry) = self.tree.get(&path).cloned() else {
            return fall_back(key, path);
        };
        let given = entry.value.shown();
        match as_text(key.kind, &entry) {
            Ok(text) => Lookup::Found(Found {
                path,
                text,
                given,
                origin: entry.origin,
            }),
            Err(refusal) => {
                self.push(&path, Some(given), entry.origin, refusal);
                Lookup::Refused
            }
        }
    }

    fn apply<T>(
        &mut self,
        key: &'static Key,
        found: Found,
        rule: impl FnOnce(&str) -> Result<T, Refusal>,
    ) -> Read<T> {
        match rule(&found.text) {
            Ok(value) => {
                self.note(
                    key,
                    &found.path,
                    Some(printable(&secret::mask(&found.text))),
                    found.origin,
                );
                Ok(value)
            }
            Err(refusal) => {
                self.push(&found.path, Some(found.given), found.origin, refusal);
                Err(Noted)
            }
        }
    }

    fn note(&mut self, key: &'static Key, path: &[String], value: Option<String>, origin: Origin) {
        self.effective.push(Effective {
            path: dotted(path),
            value,
            origin,
            doc: key.doc,
        });
    }

    fn push(&mut self, path: &[String], given: Option<String>, origin: Origin, refusal: Refusal) {
        let Refusal { rule, suggestion } = refusal;
        self.problems.push(Problem {
            path: dotted(path),
            given,
            rule,
            origin,
            suggestion,
        });
    }
}

enum Kept {
    Absent,
    Refused,
    Read(String, Found),
}

fn fall_back(key: &'static Key, path: Path) -> Lookup {
    match key.fallback {
        Fallback::Text(text) => Lookup::Found(Found {
            path,
            text: text.to_owned(),
            given: text.to_owned(),
            origin: Origin::Default,
        }),
        Fallback::Required | Fallback::Unset => Lookup::Unset,
    }
}

fn missing(kind: Kind) -> Refusal {
    Refusal::new(format!("is missing; must be {}", kind.allowed()))
}

/// Numbers are accepted where numbers are due, and where a duration can say what it misses.
fn as_text(kind: Kind, entry: &Entry) -> Result<String, Refusal> {
    let takes_number = kind.is_number() || matches!(kind, Kind::Duration { .. } | Kind::Ttl);
    match &entry.value {
        Value::Untyped(text) => Ok(text.clone()),
        Value::Text(text) if !kind.is_number() => Ok(text.clone()),
        Value::Integer(number) if takes_number => Ok(number.to_string()),
        other => Err(Refusal::new(format!(
            "must be {}, not {}",
            kind.allowed(),
            other.type_name()
        ))),
    }
}

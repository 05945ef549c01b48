//! The four layers, and how they become one tree.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::Path as FilePath;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Origin, Problem, Problems};
use super::tree::{Path, Tree, Value, dotted};

const PREFIX: &str = "TIDEGATE__";

/// What applies when there is no file.
const EMBEDDED: [(&str, &str); 4] = [
    ("store.main.url", "sqlite:tidegate.db"),
    ("outbox.main.store", "main"),
    ("outbox.main.stream", "main"),
    ("stream.main.store", "main"),
];

/// Everything that configuration is read from.
#[derive(Clone, Default)]
pub struct Sources {
    /// The file; `None` means the embedded declaration.
    pub file: Option<File>,
    /// Environment variables, all of them: secrets may name any.
    pub environment: BTreeMap<String, String>,
    /// Arguments of `--set`, as `section.key=value`, in order.
    pub set: Vec<String>,
}

/// A configuration file.
#[derive(Clone, Default)]
pub struct File {
    /// Its name, as the user gave it.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl Sources {
    /// Reads the file at `path`, if any, and the environment of this process.
    ///
    /// Variables that are not Unicode are read with replacement characters, so that they are refused and not ignored.
    ///
    /// # Errors
    /// When the file cannot be read or is not UTF-8.
    pub fn read(path: Option<&FilePath>, set: Vec<String>) -> io::Result<Self> {
        let file = match path {
            Some(path) => Some(File {
                name: path.display().to_string(),
                text: fs::read_to_string(path)?,
            }),
            None => None,
        };
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let environment = env::vars_os()
            .map(|(name, value)| (lossy(name), lossy(value)))
            .collect();
        Ok(Self {
            file,
            environment,
            set,
        })
    }
}

/// Merges the layers, with the problems of single variables and flags.
///
/// Fails when the file is not TOML: nothing can be said about its values then.
pub(super) fn merge(sources: &Sources) -> Result<(Tree, Vec<Problem>), Problems> {
    let mut tree = Tree::default();
    let mut syntax = Vec::new();
    match &sources.file {
        Some(file) => syntax = add_file(&mut tree, file),
        None => add_embedded(&mut tree),
    }
    let mut problems = Vec::new();
    for (variable, value) in &sources.environment {
        problems.extend(add_variable(&mut tree, variable, value));
    }
    for argument in &sources.set {
        problems.extend(add_argument(&mut tree, argument));
    }
    if syntax.is_empty() {
        Ok((tree, problems))
    } else {
        Err(Problems::new(syntax))
    }
}

fn add_embedded(tree: &mut Tree) {
    for (path, value) in EMBEDDED {
        tree.put(split(path), Value::Text(value.to_owned()), Origin::Default);
    }
}

fn split(path: &str) -> Path {
    path.split('.').map(str::to_owned).collect()
}

fn add_file(tree: &mut Tree, file: &File) -> Vec<Problem> {
    let (table, errors) = DeTable::parse_recoverable(&file.text);
    if errors.is_empty() {
        add_table(tree, file, &[], table.get_ref());
    }
    errors.iter().map(|error| not_toml(file, error)).collect()
}

/// Only the parser's sentence: its full report quotes the line, which may hold a secret.
fn not_toml(file: &File, error: &toml::de::Error) -> Problem {
    let offset = error.span().map_or(0, |span| span.start);
    Problem {
        path: String::new(),
        given: None,
        rule: format!("is not TOML: {}", error.message()),
        origin: file.origin(offset),
        suggestion: None,
    }
}

impl File {
    fn origin(&self, offset: usize) -> Origin {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line = 1 + before.matches('\n').count();
        Origin::File {
            file: self.name.clone(),
            line,
        }
    }
}

fn add_table(tree: &mut Tree, file: &File, parent: &[String], table: &DeTable<'_>) {
    for (name, value) in table {
        let mut path = parent.to_vec();
        path.push(name.get_ref().to_string());
        tree.put(path.clone(), as_written(value), file.origin(name.span().start));
        if let DeValue::Table(below) = value.get_ref() {
            add_table(tree, file, &path, below);
        }
    }
}

fn as_written(value: &Spanned<DeValue<'_>>) -> Value {
    match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => integer(number.as_str(), number.radix()),
        DeValue::Float(_) => Value::Other("a fraction"),
        DeValue::Boolean(_) => Value::Other("true or false"),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(_) => Value::Other("an array"),
        DeValue::Table(_) => Value::Table,
    }
}

fn integer(digits: &str, radix: u32) -> Value {
    i128::from_str_radix(digits, radix).map_or(Value::Other("a number out of range"), Value::Integer)
}

fn add_variable(tree: &mut Tree, variable: &str, value: &str) -> Option<Problem> {
    let levels = variable.strip_prefix(PREFIX)?;
    let origin = Origin::Environment {
        variable: variable.to_owned(),
    };
    let given: Path = levels.split("__").map(str::to_ascii_lowercase).collect();
    match resolve(tree, &given) {
        Ok(path) => {
            tree.put(path, Value::Untyped(value.to_owned()), origin);
            None
        }
        Err(rule) => Some(Problem {
            path: dotted(&given),
            given: None,
            rule,
            origin,
            suggestion: None,
        }),
    }
}

/// Finds the declared spelling of each component: variables can write neither upper case nor, in most shells, dashes.
fn resolve(tree: &Tree, given: &[String]) -> Result<Path, String> {
    let mut path = Path::new();
    for component in given {
        if component.is_empty() {
            return Err("has an empty level; write TIDEGATE__SECTION__KEY".to_owned());
        }
        let component = declared_spelling(tree, &path, component)?;
        path.push(component);
    }
    Ok(path)
}

fn declared_spelling(tree: &Tree, table: &[String], given: &str) -> Result<String, String> {
    let alike: Vec<_> = tree
        .children(table)
        .filter(|name| fold(name) == fold(given))
        .collect();
    match alike.as_slice() {
        [] => Ok(given.to_owned()),
        [only] => Ok((*only).to_owned()),
        several if several.contains(&given) => Ok(given.to_owned()),
        several => Err(format!("may mean {}; use --set instead", several.join(" or "))),
    }
}

fn fold(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

fn add_argument(tree: &mut Tree, argument: &str) -> Option<Problem> {
    let refuse = |path: &str, rule: &str| {
        Some(Problem {
            path: path.to_owned(),
            given: None,
            rule: rule.to_owned(),
            origin: Origin::Set,
            suggestion: None,
        })
    };
    match argument.split_once('=') {
        None => refuse("", "must be section.key=value"),
        Some((path, _)) if path.split('.').any(|part| part.trim().is_empty()) => {
            refuse(path, "has an empty level")
        }
        Some((path, value)) => {
            tree.put(split(path.trim()), Value::Untyped(value.to_owned()), Origin::Set);
            None
        }
    }
}

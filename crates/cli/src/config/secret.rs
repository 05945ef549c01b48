//! Values that people must not read: store URLs, their passwords, and where they are kept.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Read;

use super::tree::Path;

/// A secret file holds one line; this bounds a path that names something else by mistake.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Text that only [`Secret::expose`] shows. `Debug` prints `Secret(***)`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself: for the driver that needs it, never for a message.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Reads the secret kept in a file, without the line end that editors add.
///
/// The error never quotes the content.
pub(super) fn from_file(path: &str) -> Result<String, String> {
    let file = fs::File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    match read {
        Err(error) => Err(format!("cannot be read: {error}")),
        Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => {
            Err("names a file above 64 KiB, which is no secret".to_owned())
        }
        Ok(_) => non_empty(text.trim_end_matches(['\r', '\n']), "names an empty file"),
    }
}

/// Reads the secret kept in an environment variable.
pub(super) fn from_environment(
    variable: &str,
    environment: &BTreeMap<String, String>,
) -> Result<String, String> {
    match environment.get(variable) {
        Some(text) => non_empty(text, "names an empty environment variable"),
        None => Err("names an environment variable that is not set".to_owned()),
    }
}

fn non_empty(text: &str, otherwise: &str) -> Result<String, String> {
    if text.is_empty() {
        Err(otherwise.to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// The other way to name the same secret: `store.db.url.env` for `store.db.url.file`.
pub(super) fn rival(path: &[String]) -> Option<Path> {
    let (last, parent) = path.split_last()?;
    let other = match (parent, last.as_str()) {
        ([section, _, key], "file") if section == "store" && key == "url" => "env",
        ([section, _, key], "env") if section == "store" && key == "url" => "file",
        _ => return None,
    };
    Some(parent.iter().cloned().chain([other.to_owned()]).collect())
}

/// `text` without the credentials of a URL; text that is no URL stays as it is.
///
/// Masks too much rather than too little: everything from the first `:` of the authority to the last `@` goes, as a
/// password may hold any character that its owner forgot to encode.
pub(crate) fn mask(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return mask_query(text);
    };
    let masked = match rest.rsplit_once('@') {
        Some((user, host)) => format!("{}@{}", mask_user(scheme, user), mask_query(host)),
        None => mask_query(rest),
    };
    format!("{scheme}://{masked}")
}

/// A lone user name is kept for Postgres; elsewhere (NATS) it is a token.
fn mask_user(scheme: &str, user: &str) -> String {
    match user.split_once(':') {
        Some((name, _)) => format!("{name}:***"),
        None if scheme.starts_with("postgres") => user.to_owned(),
        None => "***".to_owned(),
    }
}

fn mask_query(text: &str) -> String {
    let Some((before, query)) = text.split_once('?') else {
        return text.to_owned();
    };
    let pairs: Vec<_> = query.split('&').map(mask_pair).collect();
    format!("{before}?{}", pairs.join("&"))
}

fn mask_pair(pair: &str) -> String {
    const SECRET_WORDS: [&str; 5] = ["pass", "secret", "token", "key", "cred"];
    match pair.split_once('=') {
        Some((name, _))
            if SECRET_WORDS
                .iter()
                .any(|word| name.to_ascii_lowercase().contains(word)) =>
        {
            format!("{name}=***")
        }
        _ => pair.to_owned(),
    }
}

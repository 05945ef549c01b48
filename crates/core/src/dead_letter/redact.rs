//! The redactor: what a person may see of a payload or an error message.
//!
//! **Promises.** Pure and total: no input makes it panic or return an error. Fail-closed: what it cannot decode, or
//! cannot settle, becomes a fixed mask. Idempotent: redacting its own output changes nothing.
//!
//! A value is masked when
//!
//! 1. its path is listed in [`Options::extra_paths`];
//! 2. its field name contains a sensitive word (`customerEmail`, `card_number`, `X-Api-Key`), read word by word, so
//!    that `tokenizer` is not `token`. Network names (`host`, `ip`, `addr`) are masked unless the value is one of
//!    [`Options::exempt_hosts`];
//! 3. it looks sensitive wherever it stands: JWT, bearer token, a token with a vendor's prefix (`sk_live_`, `ghp_`, `AKIA`), private key, URL credentials, e-mail address, phone
//!    number, SSN, GSTIN, PAN, IFSC, or a card number that passes the Luhn check.
//!
//! Text is also searched for `name=value` and `name: value` pairs, for values that SQL drivers and decoders quote, and for
//! row values in details such as `Key (email)=(x) already exists`.
//!
//! Masks are `[redacted]`, or typed as in `[redacted:email]`.
//!
//! **Not promised.** Names of people in prose, encoded data (base64, compressed), and digits spelled as words.

mod luhn;
mod names;
mod options;
mod paths;
mod payload;
mod spans;
mod text;
mod values;

#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

pub use options::{InvalidOption, Options};

use names::Names;
use paths::Paths;

/// The mask of a value whose kind is not told.
pub const MASK: &str = "[redacted]";

/// The longest redacted error text, in bytes. Long enough for a driver's message, short enough for a log line.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Masks personal data and secrets. Cheap to share by reference; building one compiles no pattern.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    names: Names,
    hosts: options::Hosts,
    masked: Paths,
    allowed: Paths,
}

impl Redactor {
    /// Builds a redactor from `options`. `Redactor::default()` is the one without any, and cannot fail.
    ///
    /// # Errors
    /// [`InvalidOption`] lists every option that could never match anything.
    pub fn new(options: Options) -> Result<Self, InvalidOption> {
        options.build()
    }

    /// The JSON payload with sensitive values masked, as compact JSON.
    ///
    /// `content_type`: empty, `application/json`, `text/json` or any `+json` type; parameters and case are ignored.
    /// Anything else, and anything that does not parse or nests deeper than 64 levels, is not shown: the result
    /// is `[redacted: N bytes, not JSON]`.
    pub fn redact_payload(&self, content_type: &str, bytes: &[u8]) -> String {
        payload::redact(self, content_type, bytes)
    }

    /// The error message with sensitive values masked, at most [`TEXT_BYTES_MAX`] bytes, cut on a char boundary.
    pub fn redact_text(&self, text: &str) -> String {
        text::redact(self, text)
    }
}

/// Text that a [`Redactor`] has made fit to show.
///
/// Only a redactor's output can be one, so a sink that takes `Redacted` cannot be handed raw data, and has nothing
/// left to redact.
#[derive(Clone, Debug, Eq, PartialEq, Hash, Serialize)]
#[serde(transparent)]
pub struct Redacted(String);

impl Redacted {
    /// Redacts a payload. See [`Redactor::redact_payload`].
    pub fn payload(redactor: &Redactor, content_type: &str, bytes: &[u8]) -> Self {
        Self(redactor.redact_payload(content_type, bytes))
    }

    /// Redacts an error message. See [`Redactor::redact_text`].
    pub fn text(redactor: &Redactor, text: &str) -> Self {
        Self(redactor.redact_text(text))
    }

    /// The redacted text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The redacted text, owned.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl AsRef<str> for Redacted {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

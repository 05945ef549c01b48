//! What a redactor masks beyond, and shows despite, its built-in rules.

use std::collections::HashSet;

use super::Redactor;

/// What to mask beyond the built-in rules, and what to show despite them. The default adds and exempts nothing.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Further sensitive field names, such as `loyaltyId`. Matched word by word in any case style, also inside longer
    /// names: `member_loyalty_id` matches.
    pub extra_fields: Vec<String>,
    /// Paths that are always masked, whole subtrees included: `order.notes`, `items.*.gift`, `/order/notes`. `*` is
    /// one segment, array positions may be left out, case is ignored.
    pub extra_paths: Vec<String>,
    /// Paths whose field name does not count, such as `product.name`. Value patterns still apply below them, and
    /// `extra_paths` wins.
    pub allow_paths: Vec<String>,
    /// Names and addresses of the service's own hosts. A network field (`host`, `ip`, `addr`) that holds exactly one
    /// of them, with or without a port, is shown.
    pub exempt_hosts: Vec<String>,
}

/// Options that could never match anything; each is named.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("invalid redaction options: {}", .0.join("; "))]
pub struct InvalidOption(Vec<String>);

impl InvalidOption {
    /// One sentence per invalid option.
    pub fn problems(&self) -> &[String] {
        &self.0
    }
}

impl Options {
    pub(super) fn build(self) -> Result<Redactor, InvalidOption> {
        let mut redactor = Redactor::default();
        let mut problems = Vec::new();
        for field in &self.extra_fields {
            let added = redactor.names.add(field);
            problems.extend(
                added
                    .is_none()
                    .then(|| format!("extra_fields: {field:?} has no letter or digit")),
            );
        }
        for path in &self.extra_paths {
            let added = redactor.masked.add(path);
            problems.extend(
                added
                    .is_none()
                    .then(|| format!("extra_paths: {path:?} has an empty segment")),
            );
        }
        for path in &self.allow_paths {
            let added = redactor.allowed.add(path);
            problems.extend(
                added
                    .is_none()
                    .then(|| format!("allow_paths: {path:?} has an empty segment")),
            );
        }
        for host in &self.exempt_hosts {
            let added = redactor.hosts.add(host);
            problems.extend(
                added
                    .is_none()
                    .then(|| format!("exempt_hosts: {host:?} is not a host")),
            );
        }
        if problems.is_empty() {
            Ok(redactor)
        } else {
            Err(InvalidOption(problems))
        }
    }
}

/// The service's own hosts, in lower case and without ports.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts(HashSet<String>);

impl Hosts {
    fn add(&mut self, host: &str) -> Option<()> {
        let host = bare(host);
        if host.is_empty() || host.contains(char::is_whitespace) {
            return None;
        }
        self.0.insert(host);
        Some(())
    }

    /// Whether `value` is one of the hosts, with or without a port.
    pub(super) fn own(&self, value: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&bare(value))
    }
}

/// The host of `host`, `host:port`, `[v6]` or `[v6]:port`, in lower case.
fn bare(value: &str) -> String {
    let value = value.trim().to_lowercase();
    let bracketed = value.strip_prefix('[').and_then(|v| v.split_once(']'));
    let (host, port) = match (bracketed, value.split_once(':')) {
        (Some((host, rest)), _) => (host, rest.strip_prefix(':').unwrap_or(rest)),
        (None, Some((host, port))) if !port.contains(':') => (host, port),
        _ => (value.as_str(), ""),
    };
    let numeric = port.bytes().all(|b| b.is_ascii_digit());
    if numeric {
        host.trim_end_matches('.').to_owned()
    } else {
        value
    }
}

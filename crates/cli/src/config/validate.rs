//! The rule of each kind of value. Pure: text in, value or refusal out.

use std::net::SocketAddr;
use std::time::Duration;

use super::duration;
use super::keys::{self, FIELD_BYTES_MAX, Kind, LANES_MAX, NAME_BYTES_MAX, TTL_MAX, TTL_MIN};
use super::model::{Choice, Start};
use super::suggest;

/// Why a value is refused; becomes a problem where the value stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) rule: String,
    pub(super) suggestion: Option<String>,
}

impl Refusal {
    pub(super) fn new(rule: impl Into<String>) -> Self {
        Self {
            rule: rule.into(),
            suggestion: None,
        }
    }

    pub(super) fn suggest(self, suggestion: impl Into<Option<String>>) -> Self {
        Self {
            suggestion: suggestion.into(),
            ..self
        }
    }

    /// "must be" what the kind allows.
    pub(super) fn unless(kind: Kind) -> Self {
        Self::new(format!("must be {}", kind.allowed()))
    }
}

/// `[a-z][a-z0-9_-]{0,62}`.
pub(super) fn name(text: &str) -> Result<String, Refusal> {
    let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
    if matches_grammar(text, |b| b.is_ascii_lowercase(), rest) {
        return Ok(text.to_owned());
    }
    let corrected: String = text.to_lowercase().replace([' ', '.', '/'], "-");
    let corrected = matches_grammar(&corrected, |b| b.is_ascii_lowercase(), rest).then_some(corrected);
    Err(Refusal::unless(Kind::Name).suggest(corrected))
}

/// `[A-Za-z_][A-Za-z0-9_]{0,62}`.
pub(super) fn sql_name(text: &str) -> Result<String, Refusal> {
    let first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let rest = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if matches_grammar(text, first, rest) {
        return Ok(text.to_owned());
    }
    let corrected = text.replace(['-', ' '], "_");
    let corrected = matches_grammar(&corrected, first, rest).then_some(corrected);
    Err(Refusal::unless(Kind::Sql).suggest(corrected))
}

/// `[a-z_][a-z0-9_]{0,62}`, and not one of Postgres's own.
pub(super) fn schema(text: &str) -> Result<String, Refusal> {
    let first = |b: u8| b.is_ascii_lowercase() || b == b'_';
    let rest = |b: u8| first(b) || b.is_ascii_digit();
    if matches_grammar(text, first, rest) && !text.starts_with("pg_") {
        return Ok(text.to_owned());
    }
    Err(Refusal::new(format!(
        "must be a schema name of a-z, 0-9 and _, not starting with a digit or pg_, of at most {NAME_BYTES_MAX} characters"
    )))
}

fn matches_grammar(text: &str, first: impl Fn(u8) -> bool, rest: impl Fn(u8) -> bool) -> bool {
    let mut bytes = text.bytes();
    text.len() <= NAME_BYTES_MAX && bytes.next().is_some_and(first) && bytes.all(rest)
}

pub(super) fn field(text: &str) -> Result<String, Refusal> {
    let fits = !text.is_empty() && text.len() <= FIELD_BYTES_MAX;
    if fits {
        Ok(text.to_owned())
    } else {
        Err(Refusal::unless(Kind::Field))
    }
}

/// A name among those declared in `section`.
pub(super) fn declared(text: &str, section: &str, names: &[String]) -> Result<String, Refusal> {
    if names.iter().any(|name| name == text) {
        return Ok(text.to_owned());
    }
    let rule = match names {
        [] => format!("is not a declared {section}; none is declared"),
        _ => format!("is not a declared {section}; declared: {}", names.join(", ")),
    };
    Err(Refusal::new(rule).suggest(suggest::nearest(text, names.iter().map(String::as_str))))
}

pub(super) fn choice<T: Choice>(text: &str) -> Result<T, Refusal> {
    let position = T::NAMES.iter().position(|name| *name == text);
    let refusal =
        || Refusal::unless(Kind::Choice(T::NAMES)).suggest(suggest::nearest(text, T::NAMES.iter().copied()));
    position
        .and_then(|position| T::ALL.get(position).copied())
        .ok_or_else(refusal)
}

pub(super) fn start(text: &str) -> Result<Start, Refusal> {
    match text {
        "earliest" => Ok(Start::Earliest),
        "now" => Ok(Start::Now),
        "snapshot" => Err(Refusal::new(format!(
            "is not built into this binary yet; use {}",
            Kind::Start.allowed()
        ))),
        _ => match text.strip_prefix("at:").map(str::parse) {
            Some(Ok(time)) => Ok(Start::At(time)),
            Some(Err(_)) => Err(Refusal::unless(Kind::Start)),
            None => Err(Refusal::unless(Kind::Start).suggest(suggest::nearest(text, ["earliest", "now"]))),
        },
    }
}

pub(super) fn duration_within(text: &str, kind: Kind) -> Result<Duration, Refusal> {
    let value = duration::parse(text)?;
    match kind {
        Kind::Duration { min, max } if value < min || value > max => Err(Refusal::unless(kind)),
        _ => Ok(value),
    }
}

pub(super) fn count(text: &str, kind: Kind) -> Result<u32, Refusal> {
    let value = text.parse::<u32>().map_err(|_| Refusal::unless(kind))?;
    match kind {
        Kind::Count { min, max } if value < min || value > max => Err(Refusal::unless(kind)),
        _ => Ok(value),
    }
}

pub(super) fn lanes(text: &str) -> Result<u16, Refusal> {
    let refusal = || Refusal::unless(Kind::Lanes);
    let value = text.parse::<u32>().map_err(|_| refusal())?;
    match u16::try_from(value) {
        Ok(lanes) if lanes.is_power_of_two() && value <= LANES_MAX => Ok(lanes),
        _ => Err(refusal().suggest(nearest_power_of_two(value).to_string())),
    }
}

fn nearest_power_of_two(value: u32) -> u32 {
    let value = value.clamp(1, LANES_MAX);
    let above = value.next_power_of_two();
    let below = (above / 2).max(1);
    if value - below <= above.saturating_sub(value) {
        below
    } else {
        above
    }
}

pub(super) fn listen(text: &str) -> Result<SocketAddr, Refusal> {
    let suggestion = text
        .strip_prefix("localhost:")
        .map(|port| format!("127.0.0.1:{port}"));
    text.parse()
        .map_err(|_| Refusal::unless(Kind::Listen).suggest(suggestion))
}

/// Schemes that this binary opens.
const SCHEMES: &[&str] = &[
    "sqlite",
    #[cfg(feature = "postgres")]
    "postgres",
    #[cfg(feature = "postgres")]
    "postgresql",
    #[cfg(feature = "redis")]
    "redis",
    #[cfg(feature = "redis")]
    "rediss",
];
/// Schemes of the design; those that are not above are not built in.
const PLANNED_SCHEMES: [&str; 5] = ["postgres", "postgresql", "redis", "rediss", "nats"];

/// The URL of a store that this binary can open. Refusals never quote it.
pub(super) fn store_url(text: &str) -> Result<String, Refusal> {
    let Some((scheme, rest)) = text.split_once(':') else {
        return Err(Refusal::unless(Kind::Url));
    };
    match scheme {
        "sqlite" => sqlite_path(rest).map(|()| text.to_owned()),
        _ if SCHEMES.contains(&scheme) => server_url(rest).map(|()| text.to_owned()),
        _ if PLANNED_SCHEMES.contains(&scheme) => Err(Refusal::new(format!(
            "{scheme}: is not built into this binary; {} are",
            SCHEMES.join(", ")
        ))),
        _ => {
            let known = PLANNED_SCHEMES.iter().copied().chain(["sqlite"]);
            let nearest = suggest::nearest(scheme, known).map(|scheme| format!("{scheme}:"));
            Err(Refusal::unless(Kind::Url).suggest(nearest))
        }
    }
}

fn server_url(rest: &str) -> Result<(), Refusal> {
    match rest.strip_prefix("//") {
        Some(place) if !place.is_empty() => Ok(()),
        _ => Err(Refusal::new("must go on with // and a host")),
    }
}

/// An in-memory database is private to a connection, and workers have several; `//` is read differently by each driver.
fn sqlite_path(path: &str) -> Result<(), Refusal> {
    match path {
        "" => Err(Refusal::new("must name a file after sqlite:")),
        _ if path.starts_with(":memory:") => {
            Err(Refusal::new("must name a file: workers cannot share :memory:"))
        }
        _ if path.starts_with("//") => Err(Refusal::new("must be sqlite: and a path, without //")),
        _ => Ok(()),
    }
}

pub(super) fn ttl(text: &str) -> Result<Duration, Refusal> {
    let value = duration::parse(text)?;
    let in_range = (TTL_MIN..=TTL_MAX).contains(&value);
    let renewal = Renewal::of(value);
    match (in_range, renewal.fits()) {
        (true, true) => Ok(value),
        (false, true) => Err(Refusal::unless(Kind::Ttl)),
        (_, false) => Err(Refusal::new(format!(
            "must be {}; {renewal}",
            Kind::Ttl.allowed()
        ))),
    }
}

/// The time table of a lease: renewed each ttl/3 with 10 % jitter, an attempt given up after ttl/5, and believed until
/// the margin before its end.
pub(super) struct Renewal {
    /// Latest start of the first attempt, from the grant.
    first_attempt: Duration,
    /// Longest that an attempt takes.
    attempt: Duration,
    /// End of belief, from the grant.
    trust: Duration,
}

impl Renewal {
    pub(super) fn of(ttl: Duration) -> Self {
        let drift = (ttl / 10).max(Duration::from_millis(100));
        let stop_budget = (ttl / 10).min(Duration::from_secs(1));
        let trust = ttl.saturating_sub(drift + stop_budget);
        Self {
            first_attempt: ttl * 11 / 30,
            attempt: ttl / 5,
            trust,
        }
    }

    /// Whether a second attempt can end in time after the first one timed out: one lost packet must not lose a lease.
    pub(super) fn fits(&self) -> bool {
        self.first_attempt + self.attempt * 2 <= self.trust
    }
}

impl std::fmt::Display for Renewal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [attempt, first, trust] = [self.attempt, self.first_attempt, self.trust].map(duration::format);
        write!(
            f,
            "two renewals of {attempt} after {first} do not fit into the {trust} that the holder trusts it"
        )
    }
}

/// Refuses the namespace that every deployment starts with.
pub(super) fn production_namespace(namespace: &str) -> Result<(), Refusal> {
    match namespace {
        keys::DEFAULT_NAMESPACE => Err(Refusal::new(
            "must not be the default in production: two deployments would share tables, keys and subjects",
        )),
        _ => Ok(()),
    }
}

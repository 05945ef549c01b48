//! Errors of the driver as ours. A server's text may quote what was sent: only its first word is kept.

use std::fmt;

use redis::{ErrorKind, RedisError};
use tidegate_core::{Code, Error};

/// What may be said of a driver's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// The first word of the server's answer, such as `OOM`; `None` when there was none.
    pub code: Option<String>,
    what: &'static str,
    /// What the system said of a connection.
    cause: Option<String>,
}

impl Driver {
    fn of(error: &RedisError) -> Self {
        let what = match error.kind() {
            ErrorKind::Io if error.is_timeout() => "no answer in time",
            ErrorKind::Io => "the connection failed",
            ErrorKind::AuthenticationFailed => "the login was refused",
            _ => "the server refused the command",
        };
        Self {
            code: error.code().map(str::to_owned),
            what,
            cause: (error.kind() == ErrorKind::Io).then(|| error.to_string()),
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if let Some(cause) = &self.cause {
            write!(f, ": {cause}")?;
        }
        self.code.as_ref().map_or(Ok(()), |code| write!(f, " ({code})"))
    }
}

impl std::error::Error for Driver {}

/// The error of one command: refused by the server, nothing was applied; without an answer, it may have been.
pub fn map(at: &'static str) -> impl Fn(RedisError) -> Error {
    move |error| {
        let sent = matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse) && !error.is_connection_refusal();
        if sent {
            return Error::unknown(at).with_source(Driver::of(&error));
        }
        Error::new(code_of(&error), at).with_source(Driver::of(&error))
    }
}

/// The error of a connection that was not made: nothing was sent that could have changed anything.
pub(super) fn connecting(error: &RedisError) -> Error {
    Error::new(code_of(error), "connecting").with_source(Driver::of(error))
}

/// The error of several commands in one round trip: some may have been applied.
pub(super) fn map_many(at: &'static str) -> impl Fn(RedisError) -> Error {
    move |error| match code_of(&error) {
        Code::StoreDenied => map(at)(error),
        _ if error.is_connection_refusal() => map(at)(error),
        _ => Error::unknown(at).with_source(Driver::of(&error)),
    }
}

fn code_of(error: &RedisError) -> Code {
    if error.kind() == ErrorKind::AuthenticationFailed {
        return Code::StoreDenied;
    }
    match error.code() {
        Some("NOAUTH" | "WRONGPASS" | "NOPERM") => Code::StoreDenied,
        Some("READONLY") => Code::StoreReadOnly,
        Some("OOM" | "MISCONF") => Code::StoreFull,
        Some("WRONGTYPE") => Code::NotADatabase,
        _ => Code::StoreUnavailable,
    }
}

//! Errors of the driver as ours. A driver's text carries values of rows (DETAIL, and often the message itself), so
//! nothing of it is kept but codes and names.

use std::fmt;

use tidegate_core::{Code, Effect, Error};
use tokio_postgres::error::SqlState;

/// What may be said of a driver's error: its SQLSTATE, and which table, column or constraint it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// Five characters; `None` when the server did not answer.
    pub sqlstate: Option<String>,
    /// The constraint that was violated.
    pub constraint: Option<String>,
    what: &'static str,
    /// What the system said of a connection.
    cause: Option<String>,
}

impl Driver {
    /// Keeps what may be said.
    pub fn of(error: &tokio_postgres::Error) -> Self {
        let db = error.as_db_error();
        Self {
            sqlstate: error.code().map(|code| code.code().to_owned()),
            constraint: db.and_then(|db| db.constraint()).map(ToOwned::to_owned),
            what: if db.is_some() {
                "the server refused the statement"
            } else if error.is_closed() {
                "the connection is closed"
            } else {
                "the connection or its protocol failed"
            },
            cause: cause_of(error),
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if let Some(cause) = &self.cause {
            write!(f, ": {cause}")?;
        }
        if let Some(state) = &self.sqlstate {
            write!(f, " (SQLSTATE {state})")?;
        }
        if let Some(constraint) = &self.constraint {
            write!(f, ", constraint {constraint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Driver {}

/// The words of the system or of TLS, which know no rows.
fn cause_of(error: &tokio_postgres::Error) -> Option<String> {
    if error.as_db_error().is_some() {
        return None;
    }
    let source = std::error::Error::source(error)?;
    let tls = error.to_string().starts_with("error performing TLS handshake");
    (tls || source.is::<std::io::Error>()).then(|| source.to_string())
}

/// The error of a statement inside a transaction that was not committed: nothing was applied.
pub fn map(at: &'static str) -> impl Fn(tokio_postgres::Error) -> Error {
    move |error| Error::new(code_of(&error), at).with_source(Driver::of(&error))
}

/// The error of a statement that commits by itself, or of a commit: when the server did not answer, the change may
/// stand.
pub(super) fn map_committing(at: &'static str) -> impl Fn(tokio_postgres::Error) -> Error {
    move |error| {
        let lost = error.as_db_error().is_none();
        // The server ended the session on its own: it may have committed before.
        let ended = error.code().is_some_and(|code| code.code().starts_with("57P"));
        if lost || ended {
            return Error::unknown(at).with_source(Driver::of(&error));
        }
        map(at)(error)
    }
}

/// A statement that took longer than it may.
pub(super) fn timed_out(at: &'static str, effect: Effect) -> Error {
    match effect {
        Effect::Unknown => Error::unknown(at),
        _ => Error::new(Code::StoreUnavailable, at),
    }
}

fn code_of(error: &tokio_postgres::Error) -> Code {
    error
        .code()
        .map_or(Code::StoreUnavailable, |state| code_of_state(state.code()))
}

/// By the five characters of SQLSTATE.
pub(super) fn code_of_state(state: &str) -> Code {
    match &SqlState::from_code(state) {
        s if *s == SqlState::DISK_FULL => Code::StoreFull,
        s if *s == SqlState::READ_ONLY_SQL_TRANSACTION => Code::StoreReadOnly,
        s if *s == SqlState::LOCK_NOT_AVAILABLE
            || *s == SqlState::QUERY_CANCELED
            || *s == SqlState::T_R_SERIALIZATION_FAILURE
            || *s == SqlState::T_R_DEADLOCK_DETECTED =>
        {
            Code::StoreBusy
        }
        s if *s == SqlState::INSUFFICIENT_PRIVILEGE
            || *s == SqlState::INVALID_AUTHORIZATION_SPECIFICATION
            || *s == SqlState::INVALID_PASSWORD =>
        {
            Code::StoreDenied
        }
        s if *s == SqlState::UNDEFINED_TABLE
            || *s == SqlState::UNDEFINED_FUNCTION
            || *s == SqlState::INVALID_SCHEMA_NAME =>
        {
            Code::NotADatabase
        }
        s if *s == SqlState::INVALID_CATALOG_NAME => Code::NotFound,
        s if *s == SqlState::DATA_CORRUPTED || *s == SqlState::INDEX_CORRUPTED => Code::StoreCorrupt,
        s => match s.code().get(..2) {
            Some("08" | "53" | "57" | "58") => Code::StoreUnavailable,
            _ => Code::Internal,
        },
    }
}

/// The database is to blame for the error of a handler's statement, not the data. A value that the driver could not
/// convert is the handler's.
pub(super) fn is_infrastructure(error: &tokio_postgres::Error) -> bool {
    let Some(state) = error.code().map(SqlState::code) else {
        let source = std::error::Error::source(error);
        return error.is_closed() || source.is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
    };
    matches!(state.get(..2), Some("08" | "53" | "57" | "58"))
        || matches!(
            state,
            "25006" | "40001" | "40003" | "40P01" | "55P03" | "XX001" | "XX002"
        )
}

/// A constraint that is checked at commit refused the transaction.
pub(super) fn is_constraint(error: &Error) -> bool {
    state_of(error).is_some_and(|state| state.starts_with("23"))
}

/// An earlier statement of the transaction failed.
pub(super) fn is_aborted(error: &Error) -> bool {
    state_of(error) == Some("25P02")
}

fn state_of(error: &Error) -> Option<&str> {
    let driver = std::error::Error::source(error)?.downcast_ref::<Driver>()?;
    driver.sqlstate.as_deref()
}

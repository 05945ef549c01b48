//! Driver errors in Tidegate's terms. No parameter, value or driver message enters a context or a source: a
//! constraint or trigger message can hold personal data.

use rusqlite::ErrorCode;
use rusqlite::ffi;
use tidegate_core::{Code, Effect, Error};

/// What failed, cheap to copy to everybody who waits for the same commit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    code: Code,
    effect: Effect,
    at: &'static str,
    sqlite: Option<i32>,
}

impl Failure {
    /// A failed statement: nothing is applied, since its transaction is rolled back.
    pub(super) fn of(at: &'static str, error: &rusqlite::Error) -> Self {
        let sqlite = error.sqlite_error().map(|e| e.extended_code);
        Self {
            code: code(error),
            effect: Effect::NotApplied,
            at,
            sqlite,
        }
    }

    /// A failed COMMIT: an I/O error leaves it open whether the commit frame reached the disk.
    pub(super) fn of_commit(error: &rusqlite::Error) -> Self {
        let failure = Self::of("commit", error);
        match error.sqlite_error_code() {
            Some(ErrorCode::SystemIoFailure) => Self {
                code: Code::OutcomeUnknown,
                effect: Effect::Unknown,
                ..failure
            },
            _ => failure,
        }
    }

    /// SQLite rolled the whole transaction back, for a reason that another job of the group was told.
    pub(super) fn ended() -> Self {
        Self {
            code: Code::StoreUnavailable,
            effect: Effect::NotApplied,
            at: "the shared transaction was rolled back",
            sqlite: None,
        }
    }

    /// The path names another file than the open one, or none.
    pub(super) fn replaced() -> Self {
        Self {
            code: Code::StoreReplaced,
            effect: Effect::NotApplied,
            at: "stop this process and start it again",
            sqlite: None,
        }
    }

    pub(super) fn error(self) -> Error {
        let context = match self.sqlite {
            Some(extended) => format!("{}: {}", self.at, name(extended)),
            None => self.at.to_owned(),
        };
        let error = Error::new(self.code, context).with_effect(self.effect);
        match self.sqlite {
            // This one displays a fixed text for its code, never the message of the connection.
            Some(extended) => error.with_source(ffi::Error::new(extended)),
            None => error,
        }
    }
}

/// Maps a driver error met at `at`, a fixed name such as `outbox turn`.
pub fn map(at: &'static str) -> impl Fn(rusqlite::Error) -> Error {
    move |error| Failure::of(at, &error).error()
}

/// The same for another driver, which tells the extended result code.
#[cfg(feature = "sqlx-sqlite")]
pub(super) fn of_extended(at: &'static str, extended: i32) -> Error {
    let failure = Failure {
        code: of_sqlite(ffi::Error::new(extended).code),
        effect: Effect::NotApplied,
        at,
        sqlite: Some(extended),
    };
    failure.error()
}

fn code(error: &rusqlite::Error) -> Code {
    match error {
        rusqlite::Error::SqliteFailure(e, _) => of_sqlite(e.code),
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => Code::StoreCorrupt,
        _ => Code::Internal,
    }
}

fn of_sqlite(code: ErrorCode) -> Code {
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Code::StoreBusy,
        ErrorCode::DiskFull | ErrorCode::TooBig => Code::StoreFull,
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => Code::StoreReadOnly,
        ErrorCode::DatabaseCorrupt => Code::StoreCorrupt,
        ErrorCode::NotADatabase => Code::NotADatabase,
        ErrorCode::SystemIoFailure
        | ErrorCode::CannotOpen
        | ErrorCode::OutOfMemory
        | ErrorCode::OperationInterrupted
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::NoLargeFileSupport
        | ErrorCode::SchemaChanged => Code::StoreUnavailable,
        _ => Code::Internal,
    }
}

/// The name of an extended result code, as SQLite's documentation has it.
pub(super) fn name(extended: i32) -> String {
    let known = match extended {
        ffi::SQLITE_BUSY => "SQLITE_BUSY",
        ffi::SQLITE_BUSY_SNAPSHOT => "SQLITE_BUSY_SNAPSHOT",
        ffi::SQLITE_BUSY_RECOVERY => "SQLITE_BUSY_RECOVERY",
        ffi::SQLITE_LOCKED => "SQLITE_LOCKED",
        ffi::SQLITE_FULL => "SQLITE_FULL",
        ffi::SQLITE_READONLY => "SQLITE_READONLY",
        ffi::SQLITE_CANTOPEN => "SQLITE_CANTOPEN",
        ffi::SQLITE_CORRUPT => "SQLITE_CORRUPT",
        ffi::SQLITE_NOTADB => "SQLITE_NOTADB",
        ffi::SQLITE_IOERR => "SQLITE_IOERR",
        ffi::SQLITE_IOERR_READ => "SQLITE_IOERR_READ",
        ffi::SQLITE_IOERR_SHORT_READ => "SQLITE_IOERR_SHORT_READ",
        ffi::SQLITE_IOERR_WRITE => "SQLITE_IOERR_WRITE",
        ffi::SQLITE_IOERR_FSYNC => "SQLITE_IOERR_FSYNC",
        ffi::SQLITE_IOERR_SHMMAP => "SQLITE_IOERR_SHMMAP",
        ffi::SQLITE_CONSTRAINT => "SQLITE_CONSTRAINT",
        ffi::SQLITE_CONSTRAINT_UNIQUE => "SQLITE_CONSTRAINT_UNIQUE",
        ffi::SQLITE_CONSTRAINT_PRIMARYKEY => "SQLITE_CONSTRAINT_PRIMARYKEY",
        ffi::SQLITE_CONSTRAINT_NOTNULL => "SQLITE_CONSTRAINT_NOTNULL",
        ffi::SQLITE_CONSTRAINT_CHECK => "SQLITE_CONSTRAINT_CHECK",
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => "SQLITE_CONSTRAINT_FOREIGNKEY",
        ffi::SQLITE_CONSTRAINT_TRIGGER => "SQLITE_CONSTRAINT_TRIGGER",
        ffi::SQLITE_CONSTRAINT_DATATYPE => "SQLITE_CONSTRAINT_DATATYPE",
        ffi::SQLITE_MISMATCH => "SQLITE_MISMATCH",
        ffi::SQLITE_TOOBIG => "SQLITE_TOOBIG",
        ffi::SQLITE_ERROR => "SQLITE_ERROR",
        _ => return format!("SQLite code {extended}"),
    };
    known.to_owned()
}

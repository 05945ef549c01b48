//! Closures over the connection as handlers, and what their errors mean.

use rusqlite::{Connection, ErrorCode, ffi};
use tidegate_core::inbox::handler::{Fault, Handler, LocalBoxFuture, Mode};
use tidegate_core::inbox::{Class, Delivered, Failure, Verdict};

use super::tx::SqliteTx;
use crate::handler_error::HandlerError;
use crate::sqlite::error;

impl From<rusqlite::Error> for HandlerError {
    fn from(error: rusqlite::Error) -> Self {
        Self(blame(error))
    }
}

/// Who is to blame for a driver error: the database, or the event whose data it refused.
fn blame(error: rusqlite::Error) -> Fault {
    let (code, text) = match &error {
        rusqlite::Error::SqliteFailure(e, text) => (*e, text.clone()),
        rusqlite::Error::SqlInputError { error, msg, .. } => (*error, Some(msg.clone())),
        other => return Fault::Event(conversion(other)),
    };
    if is_infrastructure(code.code) {
        return Fault::Infrastructure(error::map("a handler's statement")(error));
    }
    let class = match code.code {
        ErrorCode::Unknown => Class::Handler,
        _ => Class::Data,
    };
    Fault::Event(Failure {
        class,
        fingerprint: fingerprint(code.extended_code, text.as_deref()),
        message: text.unwrap_or_else(|| code.to_string()),
    })
}

fn is_infrastructure(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::SchemaChanged
    )
}

/// The code and what it names: a table, a column or a constraint, never a value.
fn fingerprint(extended: i32, text: Option<&str>) -> String {
    let target = text.and_then(|text| target(extended, text));
    match target {
        Some(target) => format!("{} {target}", error::name(extended)),
        None => error::name(extended),
    }
}

fn target(extended: i32, text: &str) -> Option<&str> {
    match extended {
        ffi::SQLITE_CONSTRAINT_UNIQUE
        | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
        | ffi::SQLITE_CONSTRAINT_NOTNULL
        | ffi::SQLITE_CONSTRAINT_CHECK => text.split_once("failed: ").map(|(_, target)| target),
        ffi::SQLITE_CONSTRAINT_DATATYPE => text.split_once("column ").map(|(_, target)| target),
        // A syntax error or a missing table: the text quotes the statement. A trigger's text is the user's.
        _ => None,
    }
}

/// The driver could not convert a value, or a row that the handler relies on is missing.
fn conversion(error: &rusqlite::Error) -> Failure {
    let kind = match error {
        rusqlite::Error::QueryReturnedNoRows => "no row",
        rusqlite::Error::QueryReturnedMoreThanOneRow => "more than one row",
        rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::InvalidColumnType(..) => {
            "column type"
        }
        rusqlite::Error::IntegralValueOutOfRange(..) => "out of range",
        rusqlite::Error::ToSqlConversionFailure(_) => "parameter type",
        _ => "statement",
    };
    Failure {
        class: Class::Data,
        fingerprint: format!("driver {kind}"),
        message: error.to_string(),
    }
}

/// A closure over one event: `each(|db, event| { db.execute(...)?; Ok(()) })`.
pub fn each<F>(apply: F) -> Each<F>
where
    F: Fn(&Connection, &Delivered) -> Result<(), HandlerError>,
{
    Each(apply)
}

/// A closure over a batch: `batch(|db, events| { ...; Ok(()) })`. Fewer statements; a failing event is searched for
/// by halving.
pub fn batch<F>(apply: F) -> Batch<F>
where
    F: Fn(&Connection, &[Delivered]) -> Result<(), HandlerError>,
{
    Batch(apply)
}

/// See [`each`].
#[derive(Debug, Clone, Copy)]
pub struct Each<F>(F);

/// See [`batch`].
#[derive(Debug, Clone, Copy)]
pub struct Batch<F>(F);

impl<F> Handler<SqliteTx<'_>> for Each<F>
where
    F: Fn(&Connection, &Delivered) -> Result<(), HandlerError>,
{
    fn mode(&self) -> Mode {
        Mode::Each
    }

    fn apply<'a>(&'a self, tx: &'a mut SqliteTx<'_>, events: &'a [Delivered]) -> LocalBoxFuture<'a, Verdict> {
        let failed = events
            .iter()
            .enumerate()
            .find_map(|(index, event)| (self.0)(tx, event).err().map(|e| (index, e)));
        ready(failed.map(|(index, error)| error.verdict(Some(index))))
    }
}

impl<F> Handler<SqliteTx<'_>> for Batch<F>
where
    F: Fn(&Connection, &[Delivered]) -> Result<(), HandlerError>,
{
    fn mode(&self) -> Mode {
        Mode::Batch
    }

    fn apply<'a>(&'a self, tx: &'a mut SqliteTx<'_>, events: &'a [Delivered]) -> LocalBoxFuture<'a, Verdict> {
        ready((self.0)(tx, events).err().map(|error| error.verdict(None)))
    }
}

fn ready<'a>(failed: Option<Verdict>) -> LocalBoxFuture<'a, Verdict> {
    Box::pin(std::future::ready(failed.unwrap_or(Verdict::Applied)))
}

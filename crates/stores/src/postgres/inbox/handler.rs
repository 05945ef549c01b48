//! Closures over the transaction as handlers, and what their errors mean.

use tidegate_core::inbox::handler::{Fault, Handler, LocalBoxFuture, Mode};
use tidegate_core::inbox::{Class, Delivered, Failure, Verdict};

use super::tx::PostgresTx;
use crate::handler_error::HandlerError;
use crate::postgres::error::{Driver, is_infrastructure, map};

impl From<tokio_postgres::Error> for HandlerError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self(blame(error))
    }
}

/// Who is to blame for a driver error: the database, or the event whose data it refused. The server's message may quote
/// values: only code and names are kept.
fn blame(error: tokio_postgres::Error) -> Fault {
    if is_infrastructure(&error) {
        return Fault::Infrastructure(map("a handler's statement")(error));
    }
    let driver = Driver::of(&error);
    let state = driver.sqlstate.clone().unwrap_or_else(|| "driver".into());
    let class = match state.get(..2) {
        Some("22" | "23" | "40" | "dr") => Class::Data,
        _ => Class::Handler,
    };
    let fingerprint = match &driver.constraint {
        Some(constraint) => format!("{state} {constraint}"),
        None => state,
    };
    Fault::Event(Failure {
        class,
        fingerprint,
        message: driver.to_string(),
    })
}

/// An asynchronous closure over one event: `each(async |tx, event| { tx.execute(...).await?; Ok(()) })`.
pub fn each<F>(apply: F) -> Each<F>
where
    F: AsyncFn(&PostgresTx, &Delivered) -> Result<(), HandlerError>,
{
    Each(apply)
}

/// An asynchronous closure over a batch. Fewer statements; a failing event is searched for by halving.
pub fn batch<F>(apply: F) -> Batch<F>
where
    F: AsyncFn(&PostgresTx, &[Delivered]) -> Result<(), HandlerError>,
{
    Batch(apply)
}

/// See [`each`].
#[derive(Debug, Clone, Copy)]
pub struct Each<F>(F);

/// See [`batch`].
#[derive(Debug, Clone, Copy)]
pub struct Batch<F>(F);

impl<F> Handler<PostgresTx> for Each<F>
where
    F: AsyncFn(&PostgresTx, &Delivered) -> Result<(), HandlerError>,
{
    fn mode(&self) -> Mode {
        Mode::Each
    }

    fn apply<'a>(&'a self, tx: &'a mut PostgresTx, events: &'a [Delivered]) -> LocalBoxFuture<'a, Verdict> {
        Box::pin(async move {
            for (index, event) in events.iter().enumerate() {
                if let Err(error) = (self.0)(tx, event).await {
                    return error.verdict(Some(index));
                }
            }
            Verdict::Applied
        })
    }
}

impl<F> Handler<PostgresTx> for Batch<F>
where
    F: AsyncFn(&PostgresTx, &[Delivered]) -> Result<(), HandlerError>,
{
    fn mode(&self) -> Mode {
        Mode::Batch
    }

    fn apply<'a>(&'a self, tx: &'a mut PostgresTx, events: &'a [Delivered]) -> LocalBoxFuture<'a, Verdict> {
        Box::pin(async move {
            match (self.0)(tx, events).await {
                Ok(()) => Verdict::Applied,
                Err(error) => error.verdict(None),
            }
        })
    }
}

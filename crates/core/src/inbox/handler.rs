//! The user's code: what it is given, what it may answer, and closures as handlers.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::{Error, Kind};
use crate::inbox::transaction::InboxTx;
use crate::inbox::{Class, Delivered, Failure, Verdict};

/// A boxed future that stays on its thread.
pub type LocalBoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// How many events a handler takes at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One: failures are attributed by themselves.
    Each,
    /// All that are new, over all lanes, in order per key. A failure without an index is searched for by halving.
    Batch,
}

/// Applies events inside the transaction that moves the position. It must not begin, commit or roll back.
///
/// Effects outside the transaction may repeat; `(consumer, lane, n)` is their idempotency key. A panic is caught,
/// rolls the transaction back and counts as [`Class::Panic`] of the event.
pub trait Handler<Tx> {
    /// How many events it takes at a time.
    fn mode(&self) -> Mode;

    /// Applies `events`: one in [`Mode::Each`].
    fn apply<'a>(&'a self, tx: &'a mut Tx, events: &'a [Delivered]) -> LocalBoxFuture<'a, Verdict>;
}

/// Why a closure could not apply an event.
#[derive(Debug)]
pub enum Fault {
    /// The event is to blame: it is parked.
    Event(Failure),
    /// Something below is down: nothing is blamed, the consumer pauses.
    Infrastructure(Error),
}

impl Fault {
    /// The event is to blame. `fingerprint` is equal for equal causes and holds no data; `message` is redacted.
    pub fn poison(fingerprint: impl Into<String>, message: impl Into<String>) -> Self {
        Fault::Event(Failure {
            class: Class::Handler,
            fingerprint: fingerprint.into(),
            message: message.into(),
        })
    }

    /// The payload cannot be read.
    pub fn decode(fingerprint: impl Into<String>, message: impl Into<String>) -> Self {
        Fault::Event(Failure {
            class: Class::Decode,
            fingerprint: fingerprint.into(),
            message: message.into(),
        })
    }

    /// As a verdict on the event at `index`.
    pub fn verdict(self, index: Option<usize>) -> Verdict {
        match self {
            Fault::Event(failure) => Verdict::Failed { index, failure },
            Fault::Infrastructure(error) => Verdict::Infrastructure(error),
        }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Fault::Event(failure)
    }
}

/// Unavailable is infrastructure; every other kind is the event's.
impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error.kind() {
            Kind::Unavailable => Fault::Infrastructure(error),
            _ => Fault::poison(error.code().id(), error.to_string()),
        }
    }
}

/// The position of a JSON error, never its text, which may quote the payload.
impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        let (category, at) = (error.classify(), (error.line(), error.column()));
        Fault::decode(
            format!("json {category:?}"),
            format!("JSON error at line {}, column {}", at.0, at.1),
        )
    }
}

/// A closure over one event: `each(|tx, event| { ...; Ok(()) })`.
pub fn each<Tx, E, F>(apply: F) -> Each<F>
where
    F: Fn(&mut Tx, &Delivered) -> Result<(), E>,
    E: Into<Fault>,
{
    Each(apply)
}

/// A closure over a batch: `batch(|tx, events| { ...; Ok(()) })`.
pub fn batch<Tx, E, F>(apply: F) -> Batch<F>
where
    F: Fn(&mut Tx, &[Delivered]) -> Result<(), E>,
    E: Into<Fault>,
{
    Batch(apply)
}

/// See [`each`].
#[derive(Debug, Clone, Copy)]
pub struct Each<F>(pub F);

/// See [`batch`].
#[derive(Debug, Clone, Copy)]
pub struct Batch<F>(pub F);

impl<Tx, E, F> Handler<Tx> for Each<F>
where
    F: Fn(&mut Tx, &Delivered) -> Result<(), E>,
    E: Into<Fault>,
{
    fn mode(&self) -> Mode {
        Mode::Each
    }

    fn apply<'a>(&'a self, tx: &'a mut Tx, events: &'a [Delivered]) -> LocalBoxFuture<'a, Verdict> {
        let failed = events
            .iter()
            .enumerate()
            .find_map(|(index, event)| (self.0)(tx, event).err().map(|e| (index, e)));
        let verdict = match failed {
            None => Verdict::Applied,
            Some((index, error)) => error.into().verdict(Some(index)),
        };
        Box::pin(std::future::ready(verdict))
    }
}

impl<Tx, E, F> Handler<Tx> for Batch<F>
where
    F: Fn(&mut Tx, &[Delivered]) -> Result<(), E>,
    E: Into<Fault>,
{
    fn mode(&self) -> Mode {
        Mode::Batch
    }

    fn apply<'a>(&'a self, tx: &'a mut Tx, events: &'a [Delivered]) -> LocalBoxFuture<'a, Verdict> {
        let verdict = match (self.0)(tx, events) {
            Ok(()) => Verdict::Applied,
            Err(error) => error.into().verdict(None),
        };
        Box::pin(std::future::ready(verdict))
    }
}

/// Runs a handler over `events` in its mode; a panic becomes a verdict.
pub(super) async fn run<Tx: InboxTx, H: Handler<Tx> + ?Sized>(
    handler: &H,
    tx: &mut Tx,
    events: &[Delivered],
) -> Verdict {
    if events.is_empty() {
        return Verdict::Applied;
    }
    if handler.mode() == Mode::Batch {
        return attributed(guarded(handler, tx, events).await, events.len());
    }
    for (index, event) in events.iter().enumerate() {
        let verdict = guarded(handler, tx, std::slice::from_ref(event)).await;
        if let Verdict::Failed { failure, .. } = verdict {
            return Verdict::Failed {
                index: Some(index),
                failure,
            };
        }
        if !matches!(verdict, Verdict::Applied) {
            return verdict;
        }
    }
    Verdict::Applied
}

/// With one event there is no doubt whose failure it is; an index beyond the events is none.
fn attributed(verdict: Verdict, events: usize) -> Verdict {
    match verdict {
        Verdict::Failed { index, failure } => {
            let index = if events == 1 {
                Some(0)
            } else {
                index.filter(|i| *i < events)
            };
            Verdict::Failed { index, failure }
        }
        other => other,
    }
}

/// One call. Nothing more may run when the handler ended the transaction: it would stand by itself.
async fn guarded<Tx: InboxTx, H: Handler<Tx> + ?Sized>(
    handler: &H,
    tx: &mut Tx,
    events: &[Delivered],
) -> Verdict {
    let verdict = caught(handler, tx, events).await;
    if !matches!(verdict, Verdict::Applied) {
        return verdict;
    }
    match tx.is_open().await {
        Ok(true) => Verdict::Applied,
        Ok(false) => Verdict::Failed {
            index: None,
            failure: ended_early(),
        },
        Err(error) => Verdict::Infrastructure(error),
    }
}

async fn caught<Tx, H: Handler<Tx> + ?Sized>(handler: &H, tx: &mut Tx, events: &[Delivered]) -> Verdict {
    // The call is inside the future, so that a panic before the first await is caught as well.
    let outcome = Unwinding(Box::pin(async move { handler.apply(tx, events).await })).await;
    outcome.unwrap_or_else(|panic| Verdict::Failed {
        index: None,
        failure: panicked(panic.as_ref()),
    })
}

/// Polls a future and catches its panics.
struct Unwinding<'a, T>(LocalBoxFuture<'a, T>);

impl<T> Future for Unwinding<'_, T> {
    type Output = std::thread::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

fn ended_early() -> Failure {
    Failure {
        class: Class::Handler,
        fingerprint: "transaction ended".into(),
        message: "the handler ended the transaction it was given, or left it failed".into(),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    Failure {
        class: Class::Panic,
        fingerprint: "panic".into(),
        message: text.unwrap_or_else(|| "the handler panicked".into()),
    }
}

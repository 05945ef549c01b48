//! Why a handler could not apply an event: one type, made by `?` from the errors of every driver that is built in.

use std::fmt;

use tidegate_core::inbox::handler::Fault;
use tidegate_core::inbox::{Failure, Verdict};

/// Why a closure could not apply an event: made by `?` from the driver's, JSON's and Tidegate's errors, or by
/// [`HandlerError::poison`].
pub struct HandlerError(pub(crate) Fault);

impl HandlerError {
    /// The event is to blame. `fingerprint` is equal for equal causes and holds no data; `message` is redacted.
    pub fn poison(fingerprint: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Fault::poison(fingerprint, message))
    }

    /// As a verdict on the event at `index`.
    pub fn verdict(self, index: Option<usize>) -> Verdict {
        self.0.verdict(index)
    }

    /// Something below is down: nothing is blamed, the consumer pauses.
    pub fn infrastructure(error: tidegate_core::Error) -> Self {
        Self(Fault::Infrastructure(error))
    }
}

/// The kind of failure, never its message.
impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Fault::Event(failure) => write!(f, "{:?} {}", failure.class, failure.fingerprint),
            Fault::Infrastructure(error) => write!(f, "{error}"),
        }
    }
}

impl From<Failure> for HandlerError {
    fn from(failure: Failure) -> Self {
        Self(failure.into())
    }
}

impl From<tidegate_core::Error> for HandlerError {
    fn from(error: tidegate_core::Error) -> Self {
        Self(error.into())
    }
}

impl From<serde_json::Error> for HandlerError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.into())
    }
}

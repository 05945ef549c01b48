//! Errors answer five questions: what kind, may I retry, did it happen, where, and what to read next.
//!
//! Expected results are not errors: a lost lease, a busy scope, a moved register or a parked key are values of the
//! call that met them. `Display` says this layer only; the edge prints the chain of sources. No payload, key value
//! or credential ever enters a context.

use std::borrow::Cow;
use std::fmt;

/// What went wrong, in the coarsest terms a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The caller's input is wrong; the message names the field, the value's size or shape, and the limit.
    Invalid,
    /// A store or stream cannot be reached or cannot work now.
    Unavailable,
    /// What is stored is damaged, foreign, or of another version.
    Unusable,
    /// A stored position contradicts another: a database or stream went back in time, or entries are missing.
    Inconsistent,
    /// The user's own code failed.
    Handler,
    /// A promise inside Tidegate is broken: please report it.
    Internal,
}

/// Whether the same call may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Not before a person changed something.
    Never,
    /// Yes, with back-off.
    Backoff,
}

/// Whether the call took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing was changed.
    NotApplied,
    /// The change stands.
    Applied,
    /// The change may stand: read back before acting on either belief.
    Unknown,
}

macro_rules! codes {
    ($($variant:ident = $id:literal, $kind:ident, $retry:ident, $title:literal;)+) => {
        /// A stable code with a page: `tidegate explain TG0012` prints it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $(#[doc = $title] $variant,)+ }

        impl Code {
            /// Every code, in order.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)+];

            /// The code as printed, such as `TG0012`.
            pub const fn id(self) -> &'static str {
                match self { $(Code::$variant => $id,)+ }
            }

            /// One line that says what happened.
            pub const fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)+ }
            }

            /// The kind every error of this code has.
            pub const fn kind(self) -> Kind {
                match self { $(Code::$variant => Kind::$kind,)+ }
            }

            /// Whether a caller may retry.
            pub const fn retry(self) -> Retry {
                match self { $(Code::$variant => Retry::$retry,)+ }
            }

            /// The page for people: what it means, what to do.
            pub const fn page(self) -> &'static str {
                match self { $(Code::$variant => include_str!(concat!("error/", $id, ".md")),)+ }
            }
        }
    };
}

codes! {
    EventInvalid = "TG0001", Invalid, Never, "an event is outside its limits";
    ConfigInvalid = "TG0002", Invalid, Never, "the configuration has problems";
    OptionsInvalid = "TG0003", Invalid, Never, "an option is outside its limits";
    InputInvalid = "TG0004", Invalid, Never, "an input line cannot be read as an event";
    NotFound = "TG0005", Invalid, Never, "the named thing does not exist";
    ArgumentInvalid = "TG0006", Invalid, Never, "an argument is wrong or missing";
    StoreUnavailable = "TG0010", Unavailable, Backoff, "a store cannot be reached";
    StoreBusy = "TG0011", Unavailable, Backoff, "a store stayed locked for longer than the time-out";
    StoreFull = "TG0012", Unavailable, Backoff, "there is no room left";
    StoreReadOnly = "TG0013", Unavailable, Backoff, "the store cannot be written";
    StoreCorrupt = "TG0014", Unusable, Never, "what is stored is damaged";
    NotADatabase = "TG0015", Unusable, Never, "this is not a Tidegate database";
    SchemaNewer = "TG0016", Unusable, Never, "the database was written by a newer Tidegate";
    EngineTooOld = "TG0017", Unusable, Never, "the database engine is too old";
    SettingsDiffer = "TG0018", Unusable, Never, "stored settings differ from the ones asked for";
    StoreReplaced = "TG0019", Unusable, Never, "the database file was replaced or removed while it was open";
    OutcomeUnknown = "TG0020", Unavailable, Backoff, "the reply was lost: the change may stand";
    StoreDenied = "TG0021", Unavailable, Backoff, "the store refused the login, or the role lacks a privilege";
    Fork = "TG0030", Inconsistent, Never, "a database went back in time: two histories share a number";
    Gap = "TG0031", Inconsistent, Never, "events between the position and the stream are missing";
    HandlerFailed = "TG0040", Handler, Never, "a handler failed";
    WorkerStopped = "TG0041", Internal, Backoff, "a worker stopped unexpectedly";
    TimedOut = "TG0042", Unavailable, Backoff, "what was waited for did not come in time";
    LeaseLost = "TG0050", Unavailable, Backoff, "the lease was lost while the work ran";
    LeaseBusy = "TG0051", Unavailable, Backoff, "another process holds the lease";
    PortInUse = "TG0060", Unavailable, Never, "the address is already in use";
    Internal = "TG0099", Internal, Never, "an internal promise is broken";
}

/// The error of every fallible call.
#[derive(Debug)]
pub struct Error {
    code: Code,
    effect: Effect,
    context: Cow<'static, str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with nothing applied. `context` says where and on what, without payloads or secrets.
    pub fn new(code: Code, context: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            effect: Effect::NotApplied,
            context: context.into(),
            source: None,
        }
    }

    /// An error whose effect is unknown.
    pub fn unknown(context: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::OutcomeUnknown, context).with_effect(Effect::Unknown)
    }

    /// Replaces the effect.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Attaches the error below this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.code.kind()
    }

    /// Whether to retry.
    pub fn retry(&self) -> Retry {
        self.code.retry()
    }

    /// Whether it happened.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Where, and on what.
    pub fn context(&self) -> &str {
        &self.context
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code.id(), self.code.title(), self.context)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

/// What came back from a store, as a machine sees it: an unknown outcome is a value with its own path.
#[derive(Debug)]
pub enum Reply<T> {
    /// It happened, and this is the answer.
    Done(T),
    /// It did not happen.
    Refused(Error),
    /// It may have happened.
    Unknown(Error),
}

impl<T> From<Result<T>> for Reply<T> {
    fn from(result: Result<T>) -> Self {
        match result {
            Ok(value) => Reply::Done(value),
            Err(error) if error.effect() == Effect::NotApplied => Reply::Refused(error),
            Err(error) => Reply::Unknown(error),
        }
    }
}

//! Exit statuses: stable, documented in `--help` and `docs/commands.md`.

use std::process::ExitCode;

use tidegate::Kind;

/// What the process says with its last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was done.
    Ok,
    /// A promise is broken, or the answer is no.
    Broken,
    /// The arguments or the input are wrong; what was right is done.
    Input,
    /// The configuration has problems.
    Config,
    /// A store or an address cannot be used.
    Store,
    /// The named thing does not exist.
    NotFound,
    /// The drain's deadline cut something: nothing is lost, lanes wait for their leases to end.
    DrainCut,
    /// Ended by a signal.
    Signal,
}

impl Exit {
    /// Every status, in order.
    pub const ALL: [Exit; 8] = [
        Exit::Ok,
        Exit::Broken,
        Exit::Input,
        Exit::Config,
        Exit::Store,
        Exit::NotFound,
        Exit::DrainCut,
        Exit::Signal,
    ];

    /// The number.
    pub const fn status(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Broken => 1,
            Exit::Input => 2,
            Exit::Config => 3,
            Exit::Store => 4,
            Exit::NotFound => 5,
            Exit::DrainCut => 75,
            Exit::Signal => 130,
        }
    }

    /// One line for `--help`.
    pub const fn meaning(self) -> &'static str {
        match self {
            Exit::Ok => "done",
            Exit::Broken => "a promise is broken, or the answer is no",
            Exit::Input => "wrong arguments or input; what was right is done",
            Exit::Config => "the configuration has problems",
            Exit::Store => "a store or an address cannot be used, or nothing came in time",
            Exit::NotFound => "the named thing does not exist",
            Exit::DrainCut => "the drain was cut by its deadline; nothing is lost",
            Exit::Signal => "ended by a signal (for `run`: by the second)",
        }
    }

    /// The status of an error of this kind, unless its code has one of its own.
    pub const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Invalid => Exit::Input,
            Kind::Unavailable | Kind::Unusable => Exit::Store,
            Kind::Inconsistent | Kind::Handler | Kind::Internal => Exit::Broken,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.status())
    }
}

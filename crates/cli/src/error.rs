//! Errors at the edge: the chain of sources, the code, and where to read on. Never a payload, a secret or a backtrace.

use std::io::{self, Write as _};

use serde_json::{Value, json};
use tidegate::{Code, Effect, Error};

use crate::config::Problems;
use crate::exit::Exit;
use crate::global::Global;

/// Why a command ended early.
#[derive(Debug)]
pub enum Failure {
    /// An error with a code.
    Error(Error),
    /// The configuration has problems.
    Config(Problems),
    /// Whoever read the output went away: nobody is left to tell.
    Pipe,
    /// Standard output cannot be written.
    Output(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Failure::Config(problems)
    }
}

/// Only writing to standard output fails with a bare `io::Error`.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Pipe,
            _ => Failure::Output(error),
        }
    }
}

impl Failure {
    /// Wrong input: `context` names the argument and the rule.
    pub fn input(context: impl Into<String>) -> Self {
        Failure::Error(Error::new(Code::InputInvalid, context.into()))
    }

    /// A wrong argument: `context` names it and the rule.
    pub fn argument(context: impl Into<String>) -> Self {
        Failure::Error(Error::new(Code::ArgumentInvalid, context.into()))
    }

    /// The named thing does not exist.
    pub fn not_found(context: impl Into<String>) -> Self {
        Failure::Error(Error::new(Code::NotFound, context.into()))
    }

    /// The exit status that says this.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Error(error) => exit_of(error),
            Failure::Config(_) => Exit::Config,
            Failure::Pipe => Exit::Ok,
            Failure::Output(_) => Exit::Store,
        }
    }

    fn code(&self) -> Option<Code> {
        match self {
            Failure::Error(error) => Some(error.code()),
            Failure::Config(_) => Some(Code::ConfigInvalid),
            Failure::Pipe | Failure::Output(_) => None,
        }
    }
}

/// The exit status of an error.
pub fn exit_of(error: &Error) -> Exit {
    match error.code() {
        Code::ConfigInvalid => Exit::Config,
        Code::NotFound => Exit::NotFound,
        Code::LeaseBusy => Exit::Broken,
        code => Exit::of(code.kind()),
    }
}

/// Tells the person, or with `--json` the program, on standard error; returns the exit status.
pub fn report(failure: &Failure, global: &Global) -> Exit {
    let text = match failure {
        Failure::Pipe => return Exit::Ok,
        failure if global.json => machine(failure).to_string(),
        failure => human(failure),
    };
    // Nothing is left to tell when standard error is gone, too.
    let _ = writeln!(io::stderr().lock(), "{text}");
    failure.exit()
}

fn human(failure: &Failure) -> String {
    let mut lines = match failure {
        Failure::Error(error) => chain(error),
        Failure::Config(problems) => problem_lines(problems),
        Failure::Output(error) => vec![format!("error: standard output cannot be written: {error}")],
        Failure::Pipe => Vec::new(),
    };
    if let Failure::Error(error) = failure {
        lines.extend(effect(error.effect()).map(str::to_owned));
    }
    lines.extend(
        failure
            .code()
            .map(|code| format!("  read on: tidegate explain {}", code.id())),
    );
    lines.join("\n")
}

/// The error and what is below it, outermost first.
pub fn chain(error: &Error) -> Vec<String> {
    let mut lines = vec![format!("error: {error}")];
    lines.extend(
        causes(error)
            .into_iter()
            .map(|cause| format!("  because: {cause}")),
    );
    lines
}

fn causes(error: &Error) -> Vec<String> {
    let first = std::error::Error::source(error);
    std::iter::successors(first, |cause| cause.source())
        .map(|cause| match cause.downcast_ref::<Error>() {
            // The code and its title were said already.
            Some(below) if below.code() == error.code() => below.context().to_owned(),
            _ => cause.to_string(),
        })
        .collect()
}

fn effect(effect: Effect) -> Option<&'static str> {
    match effect {
        Effect::NotApplied => None,
        Effect::Applied => Some("  the change stands"),
        Effect::Unknown => Some("  the change may stand: look before you repeat it"),
    }
}

fn problem_lines(problems: &Problems) -> Vec<String> {
    let count = problems.count();
    let plural = if count == 1 { "" } else { "s" };
    let mut lines = vec![format!(
        "error: {} {}: {count} problem{plural}",
        Code::ConfigInvalid.id(),
        Code::ConfigInvalid.title()
    )];
    lines.extend(problems.iter().map(|problem| format!("  {problem}")));
    lines
}

fn machine(failure: &Failure) -> Value {
    let exit = failure.exit().status();
    let code = failure.code();
    let (message, causes, effect, problems) = match failure {
        Failure::Error(error) => (
            error.context().to_owned(),
            causes(error),
            format!("{:?}", error.effect()),
            Value::Null,
        ),
        Failure::Config(problems) => (
            format!("{} problems", problems.count()),
            Vec::new(),
            format!("{:?}", Effect::NotApplied),
            json!(problems),
        ),
        Failure::Pipe | Failure::Output(_) => (
            "standard output cannot be written".to_owned(),
            Vec::new(),
            format!("{:?}", Effect::Unknown),
            Value::Null,
        ),
    };
    let mut body = json!({
        "code": code.map(Code::id), "title": code.map(Code::title), "message": message,
        "causes": causes, "effect": crate::text::snake(&effect), "exit": exit,
    });
    if !problems.is_null() {
        body["problems"] = problems;
    }
    json!({ "error": body })
}

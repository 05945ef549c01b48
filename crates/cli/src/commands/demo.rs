//! `demo` and its worker processes.

use super::{Context, Ended};
use crate::demo::{self, worker};
use crate::error::Failure;
use crate::exit::Exit;

/// Plays the demo; the exit status says whether every promise was kept.
pub(super) fn run(context: &Context, args: &demo::Args) -> Ended {
    let report = demo::run(args, context.out.is_json())?;
    if context.out.is_json() {
        context.out.object(&report)?;
    } else {
        context.out.line(report.to_string())?;
    }
    Ok(if report.promises_kept {
        Exit::Ok
    } else {
        Exit::Broken
    })
}

/// A worker process of the demo.
pub(super) fn run_worker(args: &worker::Args) -> Ended {
    let status = worker::run(args)?;
    let known = Exit::ALL
        .into_iter()
        .find(|exit| i32::from(exit.status()) == status);
    known.ok_or_else(|| Failure::input(format!("a worker ended with {status}")))
}

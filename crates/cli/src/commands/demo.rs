//! `demo` and its worker processes.

use crate::context::{Context, Ended};
use crate::demo::report::Report;
use crate::demo::{self, Ending, worker};
use crate::error::{self, Failure};
use crate::exit::Exit;

/// Plays the demo; the exit status says whether a promise is broken.
pub(crate) fn run(context: &Context, args: &demo::Args) -> Ended {
    match demo::run(args, context.out.is_json())? {
        Ending::Signal(signal, kept) => {
            let kept = kept.map_or(String::new(), |dir| {
                format!("; files and logs: {}", dir.display())
            });
            context
                .out
                .say(format!("ended by {signal}: every worker has ended{kept}"));
            Ok(Exit::Signal)
        }
        Ending::Told(report, failed) => {
            tell(context, &report)?;
            let early = failed.map(|error| error::report(&Failure::Error(error), &context.global));
            Ok(status(&report, early))
        }
    }
}

fn tell(context: &Context, report: &Report) -> Result<(), Failure> {
    if context.out.is_json() {
        return context.out.object(report);
    }
    context.out.line(report.to_string())
}

/// A broken promise weighs most, then a story that ended early, then lines that were passed over.
fn status(report: &Report, early: Option<Exit>) -> Exit {
    match early {
        _ if !report.promises_kept => Exit::Broken,
        Some(early) => early,
        None if report.lines_refused > 0 => Exit::Input,
        None => Exit::Ok,
    }
}

/// A worker process of the demo.
pub(crate) fn run_worker(args: &worker::Args) -> Ended {
    let status = worker::run(args)?;
    let known = Exit::ALL
        .into_iter()
        .find(|exit| i32::from(exit.status()) == status);
    known.ok_or_else(|| Failure::input(format!("a worker ended with {status}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_promise_weighs_most_and_a_refused_line_least() {
        let exit = |promises_kept, early, lines_refused| {
            let report = Report {
                promises_kept,
                lines_refused,
                ..Report::default()
            };
            status(&report, early)
        };
        assert_eq!(exit(true, None, 0), Exit::Ok);
        assert_eq!(exit(true, None, 1), Exit::Input);
        assert_eq!(exit(true, Some(Exit::Store), 1), Exit::Store);
        assert_eq!(exit(false, Some(Exit::Store), 1), Exit::Broken);
    }
}

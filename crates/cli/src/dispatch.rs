//! From what was typed to the command that does it.

use std::future::Future;
use std::time::Duration;

use tidegate::stores::sqlite::wait_until_closed;
use tidegate::{Code, Error};

use crate::args::{self, Args, Command};
use crate::commands::{
    check, completions, config, consumer, dead_letter, demo, emit, explain, lease, migrate, outbox, run,
    status, sweep, tail,
};
use crate::context::{Context, Ended};
use crate::exit::Exit;
use crate::output::Output;

/// Tasks end at once, unless one is in the middle of a blocking call.
const TASKS_PATIENCE: Duration = Duration::from_millis(100);
/// Closing folds the WAL back, which takes as long as writing it did.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// Runs the command that was typed.
///
/// # Errors
/// Whatever ended it early; see [`crate::Failure::exit`].
pub fn dispatch(args: Args) -> Ended {
    let out = Output::new(&args.global);
    let context = Context {
        global: args.global,
        out,
    };
    if !matches!(args.command, Command::Run(_)) {
        crate::logging::command(&context.global);
    }
    match args.command {
        Command::Run(args) => block_on(run::run(&context, &args)),
        Command::Demo(args) => demo::run(&context, &args),
        Command::DemoWorker(args) => demo::run_worker(&args),
        Command::Check => check::run(&context),
        Command::Config(command) => config::run(&context, &command),
        Command::Migrate(args) => block_on(migrate::run(&context, &args)),
        Command::Status => block_on(status::run(&context)),
        Command::Emit(args) => block_on(emit::run(&context, args)),
        Command::Tail(args) => block_on(tail::run(&context, &args)),
        Command::Outbox(command) => block_on(outbox::run(&context, &command)),
        Command::Consumer(command) => block_on(consumer::run(&context, &command)),
        Command::DeadLetter(command) => block_on(dead_letter::run(&context, &command)),
        Command::Lease(command) => block_on(lease::run(&context, &command)),
        Command::Sweep(command) => block_on(sweep::run(&context, &command)),
        Command::Explain(args) => explain::run(&context, &args),
        Command::Completions(args) => completions::run(&context, &args, &mut args::command()),
    }
}

fn block_on(work: impl Future<Output = Ended>) -> Ended {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::new(Code::Internal, "the runtime cannot be started").with_source(e))?;
    let ended = runtime.block_on(work);
    // A read of standard input that still waits must not hold the process.
    runtime.shutdown_timeout(TASKS_PATIENCE);
    if !matches!(ended, Ok(Exit::DrainCut)) {
        // Then the files are whole: no WAL stays beside them.
        wait_until_closed(CLOSE_PATIENCE);
    }
    ended
}

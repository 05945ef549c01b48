//! `sweep run`: an interval job, now.

use clap::Subcommand;
use serde_json::json;

use crate::config::nearest;
use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::places::{Access, Places};
use crate::text::{count, counted};
use crate::{settings, sweeps};

/// What to do with sweeps.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List sweeps
    Ls,
    /// Run a sweep to its end, now, unless another process runs it
    Run(Run),
}

/// Which sweep.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tidegate sweep run main\n\n\
    A sweep deletes what is older than it is kept (`stream.*.retain`, below every reader; `outbox.*.archive`) and raises the \
    alarm for events that nobody publishes. Its name is the declared one, or the store's.")]
pub struct Run {
    /// Name of the sweep, or of the store
    name: String,
}

/// Runs a sweep command.
pub(crate) async fn run(context: &Context, command: &Command) -> Ended {
    let config = settings::load(&context.global)?.config;
    let all = sweeps::declared(&config);
    let args = match command {
        Command::Ls => return ls(context, &all),
        Command::Run(args) => args,
    };
    let Some((store, every)) = all.get(&args.name) else {
        return Err(unknown(&args.name, all.keys().map(String::as_str)));
    };
    let places = Places::open(&config, Access::Change).await?;
    let worker = sweeps::worker(&config, &places, &args.name, store, *every, "sweep run").await?;
    let swept = worker.run_once().await?;
    if context.out.is_json() {
        context
            .out
            .object(&json!({ "sweep": args.name, "store": store, "swept": swept }))?;
    }
    context.out.say(format!("{} swept", counted(swept, "row")));
    Ok(Exit::Ok)
}

type All = std::collections::BTreeMap<String, (String, std::time::Duration)>;

fn ls(context: &Context, all: &All) -> Ended {
    if context.out.is_json() {
        for (name, (store, every)) in all {
            context
                .out
                .object(&json!({ "sweep": name, "store": store, "every_seconds": every.as_secs_f64() }))?;
        }
        return Ok(Exit::Ok);
    }
    let rows: Vec<_> = all.iter().collect();
    context.out.table(
        &rows,
        &["sweep", "store", "every (s)"],
        |(name, (store, every))| vec![(*name).clone(), store.clone(), count(every.as_secs())],
    )?;
    Ok(Exit::Ok)
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Failure {
    let hint = match nearest(name, known.clone()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are: {}", known.collect::<Vec<_>>().join(", ")),
    };
    Failure::not_found(format!("no sweep {name}; {hint}"))
}

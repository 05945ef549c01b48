//! `dead-letter`: events that could not be applied, for a person to decide. What is shown is redacted.

mod show;

use std::sync::Arc;

use clap::{Subcommand, ValueEnum};
use serde_json::json;
use tidegate::clock;
use tidegate::dead_letter::{Decided, Filter, Id, State, Which, not_here};
use tidegate::store::DeadLetters;

use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::places::{Access, Found, Inbox, Places, pick};
use crate::settings;
use crate::text::{count, counted};

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the heads of parked keys and skipped events, oldest first, redacted
    Ls(Ls),
    /// Show one event, redacted
    Show(One),
    /// Try keys again, in order, with all their attempts
    Redrive(Redrive),
    /// Give an event up for good; its key goes on
    Discard(Discard),
    /// List what people decided, newest first
    Audit(Audit),
}

/// Whose dead letters.
#[derive(Debug, clap::Args)]
pub struct Whose {
    /// Consumer; needed when there are several
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
}

/// Which to list.
#[derive(Debug, clap::Args)]
pub struct Ls {
    #[command(flatten)]
    whose: Whose,
    /// Only these
    #[arg(long)]
    state: Option<Only>,
    /// Only with this cause
    #[arg(long, value_name = "TEXT")]
    fingerprint: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

/// A state.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Only {
    /// Tried again by itself
    Retrying,
    /// Waits for a person
    Dead,
    /// Dead-lettered by the policy skip
    Skipped,
}

impl From<Only> for State {
    fn from(only: Only) -> Self {
        match only {
            Only::Retrying => State::Retrying,
            Only::Dead => State::Dead,
            Only::Skipped => State::Skipped,
        }
    }
}

/// Which event.
#[derive(Debug, clap::Args)]
pub struct One {
    #[command(flatten)]
    whose: Whose,
    /// The id, as `dead-letter ls` shows it
    id: Id,
}

/// Which keys.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A key that is still retried by itself is tried at once when it is named by its id; --all and --fingerprint mean dead keys.\n\nExamples:\n  tidegate dead-letter redrive 5f6c.../17/4\n  tidegate dead-letter redrive --all --reason 'mapping fixed'"
)]
pub struct Redrive {
    #[command(flatten)]
    whose: Whose,
    /// The key of this event
    #[arg(required_unless_present_any = ["fingerprint", "all"], conflicts_with_all = ["fingerprint", "all"])]
    id: Option<Id>,
    /// Every dead key with this cause
    #[arg(long, value_name = "TEXT", conflicts_with = "all")]
    fingerprint: Option<String>,
    /// Every dead key
    #[arg(long)]
    all: bool,
    /// Why; kept in the audit
    #[arg(long, value_name = "TEXT", default_value = "redriven by hand")]
    reason: String,
}

/// Which event, and why.
#[derive(Debug, clap::Args)]
pub struct Discard {
    #[command(flatten)]
    one: One,
    /// Why; kept in the audit
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// How much of the audit.
#[derive(Debug, clap::Args)]
pub struct Audit {
    #[command(flatten)]
    whose: Whose,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

/// Runs a dead-letter command.
pub(crate) async fn run(context: &Context, command: &Command) -> Ended {
    let config = settings::load(&context.global)?.config;
    let changes = matches!(command, Command::Redrive(_) | Command::Discard(_));
    let places = Places::open(&config, if changes { Access::Change } else { Access::Look }).await?;
    match command {
        Command::Ls(args) => ls(context, &places, args).await?,
        Command::Show(args) => {
            let inbox = one(&places, &args.whose).await?;
            let detail = inbox.show(args.id).await?.ok_or_else(|| not_here(args.id))?;
            show::detail(context, &detail)?;
        }
        Command::Redrive(args) => redrive(context, &*one(&places, &args.whose).await?, args).await?,
        Command::Discard(args) => discard(context, &*one(&places, &args.one.whose).await?, args).await?,
        Command::Audit(args) => {
            let decisions = one(&places, &args.whose).await?.audit(args.limit).await?;
            show::audit(context, &decisions)?;
        }
    }
    Ok(Exit::Ok)
}

async fn one(places: &Places, whose: &Whose) -> Result<Arc<dyn Inbox>, Failure> {
    Ok(pick(places.consumers().await?, whose.consumer.as_deref(), "consumer")?.it)
}

/// Of one consumer when it is named, of all otherwise.
async fn ls(context: &Context, places: &Places, args: &Ls) -> Result<(), Failure> {
    let all = places.consumers().await?;
    let asked: Vec<Found<dyn Inbox>> = match &args.whose.consumer {
        Some(name) => vec![pick(all, Some(name), "consumer")?],
        None => all,
    };
    let mut letters = Vec::new();
    for found in asked {
        let filter = Filter {
            state: args.state.map(State::from),
            fingerprint: args.fingerprint.clone(),
            limit: args.limit,
        };
        let some = found.it.ls(filter).await?;
        letters.extend(some.into_iter().map(|letter| (found.name.clone(), letter)));
    }
    show::letters(context, &letters)
}

async fn redrive(context: &Context, inbox: &dyn DeadLetters, args: &Redrive) -> Result<(), Failure> {
    let which = match (args.id, &args.fingerprint) {
        (Some(id), _) => Which::Event(id),
        (None, Some(cause)) => Which::Fingerprint(cause.clone()),
        (None, None) => Which::All,
    };
    let which_many = !matches!(which, Which::Event(_));
    let keys = inbox.redrive(which, args.reason.clone(), clock::wall()).await?;
    if context.out.is_json() {
        context.out.object(&json!({ "redriven_keys": keys }))?;
    }
    context
        .out
        .say(format!("{} will be tried again, in order", counted(keys, "key")));
    if keys == 0 && which_many {
        let retrying = inbox.parked_keys().await?.retrying;
        context.out.say(format!(
            "only dead keys are meant; keys still retried by themselves: {}; name one by its id to try it at once",
            count(retrying)
        ));
    }
    Ok(())
}

async fn discard(context: &Context, inbox: &dyn DeadLetters, args: &Discard) -> Result<(), Failure> {
    let decided = inbox
        .discard(args.one.id, args.reason.clone(), clock::wall())
        .await?;
    let already = decided == Decided::Already;
    if context.out.is_json() {
        context
            .out
            .object(&json!({ "discarded": args.one.id.to_string(), "already": already }))?;
    }
    let word = if already {
        "was discarded before"
    } else {
        "is discarded"
    };
    context.out.say(format!("{} {word}", args.one.id));
    Ok(())
}

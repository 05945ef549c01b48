//! `consumer rm`: let go of what a consumer that is gone holds back.

use serde_json::json;
use tidegate::{Code, Error};

use super::streams;
use crate::config::Config;
use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::places::{Found, Inbox, Places, Stream, pick};
use crate::text::counted;

/// Which, and how far.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tidegate consumer rm copy --yes\n\n\
    A consumer keeps entries that it has not read from being trimmed, also when it is gone. This lets go of them. It is \
    refused while the consumer runs. One that comes back afterwards holds again what is there; what was trimmed meanwhile \
    is a gap. With --positions it begins anew, where its start says; that is refused while dead letters wait.")]
pub struct Args {
    /// Consumer
    name: String,
    /// Forget its positions too
    #[arg(long)]
    positions: bool,
    /// Do it; without, nothing is changed
    #[arg(long)]
    yes: bool,
}

/// Removes the holds and, when asked, the positions.
pub(super) async fn run(context: &Context, config: &Config, places: &Places, args: &Args) -> Ended {
    let streams = held(config, places, &args.name).await?;
    let inbox = inbox(places, &args.name, streams.is_empty()).await?;
    if let Some(inbox) = &inbox {
        inbox.must_be_idle().await?;
    }
    let names: Vec<_> = streams.iter().map(|stream| stream.name.as_str()).collect();
    if !args.yes {
        return Err(unconfirmed(args, &names));
    }
    let forgotten = match &inbox {
        Some(inbox) if args.positions => inbox.forget_positions().await?,
        _ => 0,
    };
    for stream in &streams {
        stream.it.drop_hold(args.name.clone()).await?;
    }
    if context.out.is_json() {
        let said = json!({ "consumer": args.name, "holds": names, "positions": forgotten });
        context.out.object(&said)?;
    }
    context.out.say(format!(
        "{}: {} let go, {} forgotten",
        args.name,
        counted(names.len() as u64, "hold"),
        counted(forgotten, "position")
    ));
    Ok(Exit::Ok)
}

fn unconfirmed(args: &Args, streams: &[&str]) -> Failure {
    let held = match streams {
        [] => "it holds back no stream".to_owned(),
        streams => format!("its hold on {} would go", streams.join(", ")),
    };
    let positions = if args.positions { ", and its positions" } else { "" };
    let name = &args.name;
    Failure::from(Error::new(
        Code::OptionsInvalid,
        format!("consumer {name}: {held}{positions}; nothing is changed without --yes"),
    ))
}

/// The streams on which the consumer has a hold: those it declares, or all.
async fn held(config: &Config, places: &Places, name: &str) -> Result<Vec<Found<dyn Stream>>, Failure> {
    let mut held = Vec::new();
    for stream in streams(config, places, name).await? {
        let holds = stream.it.holds().await?;
        if holds.iter().any(|hold| hold.reader == name) {
            held.push(stream);
        }
    }
    Ok(held)
}

/// Its positions may be in a store that is not declared here any more: then only the hold is left of it.
async fn inbox(
    places: &Places,
    name: &str,
    must_be: bool,
) -> Result<Option<std::sync::Arc<dyn Inbox>>, Failure> {
    match pick(places.consumers().await?, Some(name), "consumer") {
        Ok(found) => Ok(Some(found.it)),
        Err(missing) if must_be => Err(missing),
        Err(_) => Ok(None),
    }
}

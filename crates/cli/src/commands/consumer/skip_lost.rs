//! `consumer skip-lost`: go past what the stream has declared lost.

use serde_json::json;
use tidegate::clock;
use tidegate::stream::Lost;

use super::streams;
use crate::config::Config;
use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::places::{Places, pick};
use crate::text::counted;

/// What to go past.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tidegate consumer skip-lost copy --reason 'lost with the disk of 3 May; rebuilt from the backup'\n\n\
    Only ranges that the stream has declared lost, and only where everything before them is taken in: `consumer lag` \
    shows both. The events of a range are not applied. The audit keeps the reason."
)]
pub struct Args {
    /// Consumer
    name: String,
    /// Only this lane, as `consumer lag` shows it; without it, every lane
    #[arg(long, value_name = "SLOT")]
    lane: Option<u16>,
    /// Why; kept in the audit
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Moves every lane that stands before a lost range past it.
pub(super) async fn run(context: &Context, config: &Config, places: &Places, args: &Args) -> Ended {
    let inbox = pick(places.consumers().await?, Some(&args.name), "consumer")?.it;
    let mut given_up = 0;
    let mut lanes = Vec::new();
    for lost in ranges(config, places, args).await? {
        let skipped = inbox.skip_lost(lost, args.reason.clone(), clock::wall()).await?;
        if skipped > 0 {
            given_up += skipped;
            lanes.push(json!({ "lane": lost.lane.slot, "through": lost.through, "events": skipped }));
        }
    }
    let count = lanes.len() as u64;
    if context.out.is_json() {
        context
            .out
            .object(&json!({ "consumer": args.name, "given_up": given_up, "lanes": lanes }))?;
    }
    context.out.say(format!(
        "{} given up in {}",
        counted(given_up, "event"),
        counted(count, "lane")
    ));
    Ok(Exit::Ok)
}

/// In order, so that two ranges of a lane are gone past one after the other.
async fn ranges(config: &Config, places: &Places, args: &Args) -> Result<Vec<Lost>, Failure> {
    let mut ranges = Vec::new();
    for stream in streams(config, places, &args.name).await? {
        ranges.extend(stream.it.lost().await?);
    }
    ranges.retain(|lost| args.lane.is_none_or(|slot| slot == lost.lane.slot));
    ranges.sort_by_key(|lost| (lost.lane, lost.from));
    Ok(ranges)
}

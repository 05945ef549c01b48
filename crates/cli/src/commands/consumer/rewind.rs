//! `consumer rewind`: apply events again, on purpose.

use serde_json::json;
use tidegate::clock;
use tidegate::inbox::Rewind;
use tidegate::lane::LaneId;
use tidegate::stream::{Chain, EntryId};

use super::streams;
use crate::config::Config;
use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::places::{Found, Places, Stream, pick};
use crate::text::{count, counted};

/// Entries in one read.
const PAGE: u32 = 1000;
/// Payload bytes in one read.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Where to.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tidegate consumer rewind copy --lane 17 --to 0 --reason 'rebuild after a bad mapping'\n\n\
    The events after the number are applied again, those that were discarded too: their effects repeat, so make sure that this does no harm. The \
    present owner is refused from then on and continues from the new position. The audit keeps the reason."
)]
pub struct Args {
    /// Consumer
    name: String,
    /// Last number that stays taken in; 0 applies all that the stream holds
    #[arg(long, value_name = "N")]
    to: u64,
    /// Lane, as `consumer lag` shows it
    #[arg(long, value_name = "SLOT")]
    lane: u16,
    /// Why; kept in the audit
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Moves one lane back.
pub(super) async fn run(context: &Context, config: &Config, places: &Places, args: &Args) -> Ended {
    let inbox = pick(places.consumers().await?, Some(&args.name), "consumer")?.it;
    let lane = lane(&inbox.positions().await?, args.lane)?;
    let chain = chain(&streams(config, places, &args.name).await?, lane, args.to).await?;
    let rewind = Rewind {
        lane,
        to: args.to,
        chain,
    };
    let again = inbox.rewind(rewind, args.reason.clone(), clock::wall()).await?;
    if context.out.is_json() {
        context
            .out
            .object(&json!({ "consumer": args.name, "lane": args.lane, "to": args.to, "again": again }))?;
    }
    context.out.say(format!(
        "lane {} is at {}; {} will be applied again",
        args.lane,
        count(args.to),
        counted(again, "event")
    ));
    Ok(Exit::Ok)
}

fn lane<P>(positions: &[(LaneId, P)], slot: u16) -> Result<LaneId, Failure> {
    let mut found = positions
        .iter()
        .map(|(lane, _)| *lane)
        .filter(|lane| lane.slot == slot);
    match (found.next(), found.next()) {
        (Some(lane), None) => Ok(lane),
        (Some(_), Some(_)) => Err(Failure::argument(format!(
            "lane {slot} exists for several outboxes"
        ))),
        (None, _) => Err(Failure::not_found(format!("no position in lane {slot}"))),
    }
}

/// The chain at a number, from the stream, which must hold everything after it.
async fn chain(streams: &[Found<dyn Stream>], lane: LaneId, to: u64) -> Result<Chain, Failure> {
    for stream in streams {
        let known = stream
            .it
            .registers()
            .await?
            .lanes
            .iter()
            .any(|(id, _)| *id == lane);
        if known {
            return find(&*stream.it, lane, to).await;
        }
    }
    Err(Failure::not_found(format!(
        "no stream here holds lane {}",
        lane.slot
    )))
}

async fn find(stream: &dyn Stream, lane: LaneId, to: u64) -> Result<Chain, Failure> {
    let mut cursor = EntryId::START;
    loop {
        let page = stream.read(cursor, Some(vec![lane]), PAGE, PAGE_BYTES).await?;
        for entry in &page.entries {
            match entry.n {
                1 if to == 0 => return Ok(Chain::START),
                n if n == to => return Ok(entry.chain),
                n if n > to => return Err(trimmed(lane, to, Some(n))),
                _ => {}
            }
        }
        if page.scanned >= page.last || page.scanned == cursor {
            return Err(trimmed(lane, to, None));
        }
        cursor = page.scanned;
    }
}

fn trimmed(lane: LaneId, to: u64, oldest: Option<u64>) -> Failure {
    let holds = match oldest {
        Some(oldest) => format!("it holds {oldest} and what follows"),
        None => "it holds nothing from there on".to_owned(),
    };
    Failure::not_found(format!(
        "the stream does not hold number {to} of lane {}; {holds}",
        lane.slot
    ))
}

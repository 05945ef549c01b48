//! `consumer`: positions, lag, and going back.

mod rewind;
mod rm;
mod skip_lost;

use std::collections::HashMap;
use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;
use serde_json::json;
use tidegate::clock;
use tidegate::inbox::Position;
use tidegate::lane::LaneId;
use tidegate::stream::{Lost, ReaderHold};

use crate::config::Config;
use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::places::{Access, Found, Inbox, Places, Stream, pick};
use crate::settings;
use crate::text::{count, counted, span};

/// What to do with consumers.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List consumers: how far each is, and how far behind
    Ls,
    /// Show a consumer's position in each lane
    Lag(Which),
    /// Go back in a lane, so that events are applied again
    Rewind(rewind::Args),
    /// Go past events that the stream has declared lost
    SkipLost(skip_lost::Args),
    /// Let go of the entries that a consumer which is gone keeps from being trimmed
    Rm(rm::Args),
}

/// Which consumer.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// Consumer; needed when there are several
    name: Option<String>,
}

/// Runs a consumer command.
pub(crate) async fn run(context: &Context, command: &Command) -> Ended {
    let config = settings::load(&context.global)?.config;
    let access = match command {
        Command::Ls | Command::Lag(_) => Access::Look,
        Command::Rewind(_) | Command::SkipLost(_) | Command::Rm(_) => Access::Change,
    };
    let places = Places::open(&config, access).await?;
    match command {
        Command::Ls => ls(context, &config, &places).await,
        Command::Rewind(args) => rewind::run(context, &config, &places, args).await,
        Command::SkipLost(args) => skip_lost::run(context, &config, &places, args).await,
        Command::Rm(args) => rm::run(context, &config, &places, args).await,
        Command::Lag(which) => lag(context, &config, &places, which).await,
    }
}

/// A consumer at a glance.
#[derive(Debug, Serialize)]
pub(super) struct Glance {
    consumer: String,
    store: String,
    stream: Option<String>,
    lanes: usize,
    taken: u64,
    behind: Option<u64>,
    retrying_keys: u64,
    dead_keys: u64,
    parked_events: u64,
    hold_age_ms: Option<u64>,
}

impl Glance {
    pub(super) const HEADERS: [&'static str; 9] = [
        "consumer",
        "store",
        "stream",
        "lanes",
        "taken in",
        "behind",
        "keys parked",
        "of them dead",
        "hold renewed",
    ];

    /// Of a reader whose inbox is not among the stores here: only its hold is known.
    fn of_hold(stream: &str, hold: &ReaderHold) -> Self {
        Self {
            consumer: hold.reader.clone(),
            store: "-".to_owned(),
            stream: Some(stream.to_owned()),
            lanes: 0,
            taken: 0,
            behind: None,
            retrying_keys: 0,
            dead_keys: 0,
            parked_events: 0,
            hold_age_ms: Some(age_ms(hold)),
        }
    }

    pub(super) fn cells(&self) -> Vec<String> {
        vec![
            self.consumer.clone(),
            self.store.clone(),
            self.stream.clone().unwrap_or_else(|| "-".to_owned()),
            count(self.lanes as u64),
            count(self.taken),
            self.behind.map_or_else(|| "-".to_owned(), count),
            count(self.retrying_keys + self.dead_keys),
            count(self.dead_keys),
            self.hold_age_ms.map_or_else(
                || "-".to_owned(),
                |ms| format!("{} ago", span(Duration::from_millis(ms))),
            ),
        ]
    }
}

fn age_ms(hold: &ReaderHold) -> u64 {
    let age = clock::wall().since(hold.renewed_at);
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

/// The streams that a consumer reads: the declared one, or, without a declaration, all.
async fn streams(
    config: &Config,
    places: &Places,
    consumer: &str,
) -> Result<Vec<Found<dyn Stream>>, Failure> {
    let mut streams = places.streams().await?;
    if let Some(declared) = config.consumer.get(consumer) {
        streams.retain(|stream| stream.name == declared.stream);
    }
    Ok(streams)
}

pub(super) async fn glances(config: &Config, places: &Places) -> Result<Vec<Glance>, Failure> {
    let mut published = published(places).await?;
    let (mut all, mut holds) = (Vec::new(), std::mem::take(&mut published.holds));
    for found in &places.consumers().await? {
        let lanes = lanes(config, &published, found).await?;
        let keys = found.it.parked_keys().await?;
        let behind: Option<Vec<_>> = lanes.iter().map(Lane::behind).collect();
        let stream = lanes.iter().find_map(|lane| lane.stream.clone());
        let mut mine = holds.extract_if(.., |(of, hold)| {
            hold.reader == found.name && stream.as_ref().is_none_or(|stream| stream == of)
        });
        let hold_age_ms = mine.by_ref().map(|(_, hold)| age_ms(&hold)).max();
        drop(mine);
        all.push(Glance {
            consumer: found.name.clone(),
            store: found.store.clone(),
            hold_age_ms,
            stream,
            lanes: lanes.len(),
            taken: lanes.iter().map(|lane| lane.position.hw).sum(),
            behind: behind.map(|lanes| lanes.into_iter().sum()),
            retrying_keys: keys.retrying,
            dead_keys: keys.dead,
            parked_events: keys.events,
        });
    }
    let strangers = holds.iter().map(|(stream, hold)| Glance::of_hold(stream, hold));
    all.extend(strangers);
    Ok(all)
}

/// What the streams know: the last number of each lane, the ranges declared lost, and the holds of readers.
#[derive(Default)]
struct Published {
    last: HashMap<(String, LaneId), u64>,
    lost: Vec<Lost>,
    holds: Vec<(String, ReaderHold)>,
}

async fn published(places: &Places) -> Result<Published, Failure> {
    let mut known = Published::default();
    for stream in places.streams().await? {
        for (lane, register) in stream.it.registers().await?.lanes {
            known.last.insert((stream.name.clone(), lane), register.n);
        }
        known.lost.extend(stream.it.lost().await?);
        let holds = stream.it.holds().await?;
        known
            .holds
            .extend(holds.into_iter().map(|hold| (stream.name.clone(), hold)));
    }
    known.lost.sort_by_key(|lost| (lost.lane, lost.from));
    Ok(known)
}

/// A consumer's lane, and what the stream holds of it.
struct Lane {
    id: LaneId,
    position: Position,
    stream: Option<String>,
    published: Option<u64>,
    /// The next range ahead that the stream has declared lost.
    lost: Option<Lost>,
}

impl Lane {
    fn is_used(&self) -> bool {
        self.position.hw > 0 || self.published.unwrap_or(0) > 0
    }

    fn behind(&self) -> Option<u64> {
        self.published.map(|n| n.saturating_sub(self.position.hw))
    }
}

/// The stream is the declared one, or, without a declaration, the one that knows the lane.
async fn lanes(
    config: &Config,
    published: &Published,
    found: &Found<dyn Inbox>,
) -> Result<Vec<Lane>, Failure> {
    let declared = config
        .consumer
        .get(&found.name)
        .map(|consumer| consumer.stream.clone());
    let of = |(lane, position): (LaneId, Position)| {
        let known = published.last.iter().find(|((stream, id), _)| {
            *id == lane && declared.as_ref().is_none_or(|declared| declared == stream)
        });
        Lane {
            id: lane,
            position,
            stream: known
                .map(|((stream, _), _)| stream.clone())
                .or_else(|| declared.clone()),
            published: known.map(|(_, n)| *n),
            lost: published
                .lost
                .iter()
                .copied()
                .find(|lost| lost.lane == lane && lost.through > position.hw),
        }
    };
    Ok(found.it.positions().await?.into_iter().map(of).collect())
}

async fn ls(context: &Context, config: &Config, places: &Places) -> Ended {
    context
        .out
        .rows(&glances(config, places).await?, &Glance::HEADERS, Glance::cells)?;
    Ok(Exit::Ok)
}

async fn lag(context: &Context, config: &Config, places: &Places, which: &Which) -> Ended {
    let found = pick(places.consumers().await?, which.name.as_deref(), "consumer")?;
    let lanes = lanes(config, &published(places).await?, &found).await?;
    if context.out.is_json() {
        lanes
            .iter()
            .try_for_each(|lane| context.out.object(&object(&found.name, lane)))?;
        return Ok(Exit::Ok);
    }
    let (busy, empty): (Vec<_>, Vec<_>) = lanes.into_iter().partition(Lane::is_used);
    context.out.table(
        &busy,
        &[
            "lane",
            "taken in",
            "published",
            "behind",
            "lost",
            "cursor",
            "left clean",
        ],
        |lane| {
            let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), count);
            vec![
                lane.id.slot.to_string(),
                count(lane.position.hw),
                number(lane.published),
                number(lane.behind()),
                lane.lost.map_or_else(|| "-".to_owned(), |lost| range(&lost)),
                lane.position.cursor.to_string(),
                if lane.position.clean { "yes" } else { "no" }.to_owned(),
            ]
        },
    )?;
    if !empty.is_empty() {
        context
            .out
            .say(format!("{} without events", counted(empty.len() as u64, "lane")));
    }
    Ok(Exit::Ok)
}

fn range(lost: &Lost) -> String {
    format!("{}-{}", count(lost.from), count(lost.through))
}

fn object(consumer: &str, lane: &Lane) -> serde_json::Value {
    json!({
        "consumer": consumer, "lineage": lane.id.lineage.0.to_string(), "lane": lane.id.slot,
        "hw": lane.position.hw, "published": lane.published, "behind": lane.behind(),
        "cursor": lane.position.cursor.to_string(), "clean": lane.position.clean,
        "lost": lane.lost.map(|lost| json!({ "from": lost.from, "through": lost.through })),
    })
}

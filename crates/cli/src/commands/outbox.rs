//! `outbox`: depth, lanes, parked keys.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;
use serde_json::json;
use tidegate::outbox::{LaneRow, ParkedKey};
use tidegate::store::OutboxStore;

use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::places::{Access, Found, Places, pick};
use crate::settings;
use crate::text::{count, counted, span};

/// What to do with outboxes.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List outboxes: what waits, since when, and who publishes
    Ls,
    /// List the lanes of an outbox
    Lanes(Which),
    /// List keys that were set aside because the stream can never take an event of theirs
    Parked(Parked),
    /// Put a parked key's events back, in order
    Release(Release),
}

/// Which outbox.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// Outbox; needed when there are several
    #[arg(long, value_name = "NAME")]
    outbox: Option<String>,
}

/// Which parked keys.
#[derive(Debug, clap::Args)]
pub struct Parked {
    #[command(flatten)]
    which: Which,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

/// Which key to release.
#[derive(Debug, clap::Args)]
pub struct Release {
    #[command(flatten)]
    which: Which,
    /// The key, as `outbox parked` shows it
    key: String,
}

/// Runs an outbox command.
pub(crate) async fn run(context: &Context, command: &Command) -> Ended {
    let config = settings::load(&context.global)?.config;
    let access = if matches!(command, Command::Release(_)) {
        Access::Change
    } else {
        Access::Look
    };
    let places = Places::open(&config, access).await?;
    match command {
        Command::Ls => ls(context, &places).await,
        Command::Lanes(which) => lanes(context, &*one(&places, which).await?.it).await,
        Command::Parked(args) => parked(context, &*one(&places, &args.which).await?.it, args.limit).await,
        Command::Release(args) => release(context, &*one(&places, &args.which).await?.it, &args.key).await,
    }
}

async fn one(places: &Places, which: &Which) -> Result<Found<dyn OutboxStore>, Failure> {
    pick(places.outboxes().await?, which.outbox.as_deref(), "outbox")
}

/// An outbox at a glance.
#[derive(Debug, Serialize)]
pub(super) struct Glance {
    outbox: String,
    store: String,
    lanes: u16,
    archive: bool,
    depth: u64,
    oldest_seconds: Option<f64>,
    settled: u64,
    parked_keys: u64,
    owners: BTreeMap<String, u64>,
}

impl Glance {
    pub(super) const HEADERS: [&'static str; 9] = [
        "outbox",
        "store",
        "lanes",
        "archive",
        "waiting",
        "oldest",
        "published",
        "parked keys",
        "owners",
    ];

    pub(super) fn cells(&self) -> Vec<String> {
        let owners: Vec<_> = self
            .owners
            .iter()
            .map(|(owner, lanes)| format!("{owner} ({lanes})"))
            .collect();
        vec![
            self.outbox.clone(),
            self.store.clone(),
            count(self.lanes.into()),
            if self.archive { "kept" } else { "-" }.to_owned(),
            count(self.depth),
            self.oldest_seconds
                .map_or_else(|| "-".to_owned(), |s| span(Duration::from_secs_f64(s.max(0.0)))),
            count(self.settled),
            count(self.parked_keys),
            if owners.is_empty() {
                "-".to_owned()
            } else {
                owners.join(", ")
            },
        ]
    }

    async fn of(found: &Found<dyn OutboxStore>) -> Result<Self, Failure> {
        let settings = found.it.settings().await?;
        let rows = found.it.lanes().await?;
        let mut owners = BTreeMap::new();
        for owner in rows.iter().filter_map(|row| row.owner.clone()) {
            *owners.entry(owner).or_default() += 1;
        }
        Ok(Self {
            outbox: found.name.clone(),
            store: found.store.clone(),
            lanes: settings.lanes,
            archive: settings.archive,
            depth: rows.iter().map(|row| row.depth).sum(),
            oldest_seconds: rows.iter().filter_map(|row| row.oldest_micros).max().map(seconds),
            settled: rows.iter().map(|row| row.settled).sum(),
            parked_keys: rows.iter().map(|row| row.parked_keys).sum(),
            owners,
        })
    }
}

#[allow(clippy::cast_precision_loss)] // For people: milliseconds are plenty.
fn seconds(micros: i64) -> f64 {
    (micros / 1000) as f64 / 1000.0
}

pub(super) async fn glances(places: &Places) -> Result<Vec<Glance>, Failure> {
    let mut all = Vec::new();
    for found in &places.outboxes().await? {
        all.push(Glance::of(found).await?);
    }
    Ok(all)
}

async fn ls(context: &Context, places: &Places) -> Ended {
    context
        .out
        .rows(&glances(places).await?, &Glance::HEADERS, Glance::cells)?;
    Ok(Exit::Ok)
}

async fn lanes(context: &Context, outbox: &dyn OutboxStore) -> Ended {
    let rows = outbox.lanes().await?;
    if context.out.is_json() {
        rows.iter()
            .try_for_each(|row| context.out.object(&lane_object(row)))?;
        return Ok(Exit::Ok);
    }
    let headers = [
        "lane",
        "waiting",
        "oldest",
        "planned",
        "settled",
        "parked keys",
        "token",
        "owner",
    ];
    context.out.table(&rows, &headers, lane_cells)?;
    Ok(Exit::Ok)
}

fn lane_object(row: &LaneRow) -> serde_json::Value {
    json!({
        "lane": row.lane.slot, "depth": row.depth, "oldest_seconds": row.oldest_micros.map(seconds),
        "planned": row.planned, "settled": row.settled, "parked_keys": row.parked_keys,
        "token": row.token.0, "owner": row.owner,
    })
}

fn lane_cells(row: &LaneRow) -> Vec<String> {
    let oldest = row.oldest_micros.and_then(|m| u64::try_from(m).ok());
    vec![
        row.lane.slot.to_string(),
        count(row.depth),
        oldest.map_or_else(|| "-".to_owned(), |m| span(Duration::from_micros(m))),
        count(row.planned),
        count(row.settled),
        count(row.parked_keys),
        row.token.to_string(),
        row.owner.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

async fn parked(context: &Context, outbox: &dyn OutboxStore, limit: u32) -> Ended {
    let keys = outbox.parked(limit).await?;
    if context.out.is_json() {
        keys.iter()
            .try_for_each(|key| context.out.object(&parked_object(key)))?;
        return Ok(Exit::Ok);
    }
    context
        .out
        .table(&keys, &["key", "lane", "events", "refusals", "reason"], |key| {
            let (events, attempts) = (count(key.events), count(key.attempts.into()));
            vec![
                key.key.clone(),
                key.lane.slot.to_string(),
                events,
                attempts,
                key.reason.clone(),
            ]
        })?;
    Ok(Exit::Ok)
}

fn parked_object(key: &ParkedKey) -> serde_json::Value {
    json!({
        "key": key.key, "lane": key.lane.slot, "events": key.events, "attempts": key.attempts, "reason": key.reason,
    })
}

async fn release(context: &Context, outbox: &dyn OutboxStore, key: &str) -> Ended {
    let events = outbox.release(key.to_owned()).await?;
    if events == 0 {
        return Err(Failure::not_found(
            "this key is not parked; `tidegate outbox parked` lists those that are",
        ));
    }
    if context.out.is_json() {
        context.out.object(&json!({ "released": events }))?;
    }
    context.out.say(format!("{} put back", counted(events, "event")));
    Ok(Exit::Ok)
}

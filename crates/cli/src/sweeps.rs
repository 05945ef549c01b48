//! The sweeps of a configuration: retention of archives and streams, and the alarm for what is not published.
//!
//! A declared sweep does everything there is to do in its store. A store without one is swept each minute, under its
//! own name.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::lease::Leases;
use tidegate::store::BoxFuture;
use tidegate::sweep::jobs::{Retention, Unpublished};
use tidegate::sweep::{Context, Job, Step, Sweeper};
use tidegate::{Result, Worker};

use crate::config::Config;
use crate::error::Failure;
use crate::places::Places;

/// Where no sweep is declared: often enough that each run is small.
const EVERY: Duration = Duration::from_secs(60);

/// When each store is swept, by the name of the sweep.
pub(crate) fn declared(config: &Config) -> BTreeMap<String, (String, Duration)> {
    let declared = config
        .sweep
        .iter()
        .map(|(name, sweep)| (name.clone(), (sweep.store.clone(), sweep.every)));
    let mut all: BTreeMap<_, _> = declared.collect();
    for store in config.store.keys() {
        let swept = config.sweep.values().any(|sweep| sweep.store == *store);
        if !swept && !all.contains_key(store) {
            all.insert(store.clone(), (store.clone(), EVERY));
        }
    }
    all
}

/// The worker of one sweep, not yet started.
pub(crate) async fn worker(
    config: &Config,
    places: &Places,
    name: &str,
    store: &str,
    every: Duration,
    label: &str,
) -> Result<Worker, Failure> {
    let leases = Leases::new(places.place(store)?.leases()).holder(label);
    let job = Everything(jobs(config, places, store).await?);
    Ok(Sweeper::new(name, leases, every, job).build()?)
}

async fn jobs(config: &Config, places: &Places, store: &str) -> Result<Vec<Box<dyn Job>>, Failure> {
    let mut jobs: Vec<Box<dyn Job>> = Vec::new();
    for (name, outbox) in config.outbox.iter().filter(|(_, outbox)| outbox.store == store) {
        let found = places.make_outbox(name, outbox).await?;
        jobs.push(Box::new(Unpublished::new(name, found.it.clone(), outbox.alarm)));
        if let Some(keep) = outbox.archive {
            jobs.push(Box::new(Retention::archive(found.it, keep)));
        }
    }
    for (name, stream) in config.stream.iter().filter(|(_, stream)| stream.store == store) {
        let it = places.make_stream(config, name).await?;
        jobs.push(Box::new(Retention::stream(it, stream.retain)));
    }
    Ok(jobs)
}

/// One step of each; there is more while any has more.
struct Everything(Vec<Box<dyn Job>>);

impl Job for Everything {
    fn step<'a>(&'a self, ctx: &'a Context) -> BoxFuture<'a, Result<Step>> {
        Box::pin(async move {
            let mut all = Step::default();
            for job in &self.0 {
                let step = job.step(ctx).await?;
                all.done += step.done;
                all.more |= step.more;
            }
            Ok(all)
        })
    }
}

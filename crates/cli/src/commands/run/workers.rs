//! From declarations to workers, not yet started.

use tidegate::inbox::{self, Start};
use tidegate::outbox::relay;
use tidegate::{Consumer, Relay, Timestamp, Worker};

use crate::config::{self, Config, Policy};
use crate::error::Failure;
use crate::places::Places;
use crate::sweeps;

/// One relay for each outbox, one consumer for each consumer, one sweeper for each sweep.
pub(super) async fn build(config: &Config, places: &Places) -> Result<Vec<Worker>, Failure> {
    let mut workers = Vec::new();
    for name in config.stream.keys() {
        places.make_stream(config, name).await?;
    }
    for (name, declared) in &config.outbox {
        workers.push(relay(config, places, name, declared).await?);
    }
    for (name, declared) in &config.consumer {
        workers.push(consumer(config, places, name, declared).await?);
    }
    for (name, (store, every)) in sweeps::declared(config) {
        workers.push(sweeps::worker(config, places, &name, &store, every, &label()).await?);
    }
    Ok(workers)
}

/// For people: `outbox lanes` shows it.
fn label() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

async fn relay(
    config: &Config,
    places: &Places,
    name: &str,
    declared: &config::Outbox,
) -> Result<Worker, Failure> {
    let outbox = places.make_outbox(name, declared).await?.it;
    let mut options = relay::Options::default();
    options.hold.ttl = declared.ttl;
    options.hold.label = label();
    let sink = places.make_stream(config, &declared.stream).await?;
    Ok(Relay::new(name, outbox, sink).options(options).build()?)
}

async fn consumer(
    config: &Config,
    places: &Places,
    name: &str,
    declared: &config::Consumer,
) -> Result<Worker, Failure> {
    let place = places.place(&declared.store)?;
    let (inbox, applier) = place.consumer(name, rules(declared), &declared.table).await?;
    let stream = places.make_stream(config, &declared.stream).await?;
    let consumer = Consumer::new(name, stream, inbox, applier, start(declared.start));
    let consumer = consumer.options(|options| {
        options.hold.ttl = declared.ttl;
        options.hold.label = label();
        options.batch_max = declared.batch_max;
        options.breaker_keys = declared.breaker as usize;
        options.backoff_max = declared.backoff_max;
    });
    Ok(consumer.build()?)
}

fn start(declared: config::Start) -> Start {
    match declared {
        config::Start::Earliest => Start::Earliest,
        config::Start::Now => Start::Now,
        config::Start::At(time) => Start::At(Timestamp::from_micros(time.as_microsecond())),
    }
}

fn rules(declared: &config::Consumer) -> inbox::Options {
    inbox::Options {
        policy: match declared.policy {
            Policy::Park => inbox::Policy::Park,
            Policy::Skip => inbox::Policy::Skip,
            Policy::Halt => inbox::Policy::Halt,
        },
        attempts_max: declared.attempts_max,
        key_events_max: declared.parked_key_max.into(),
        parked_events_max: declared.parked_max.into(),
        ..inbox::Options::default()
    }
}

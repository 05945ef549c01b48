//! Metrics: the Prometheus recorder, and gauges that nobody else keeps.

use std::sync::Arc;
use std::time::Duration;

use metrics::gauge;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tidegate::{Code, Error, State, Worker};

use super::health::Health;
use crate::config::Config;
use crate::error::Failure;

/// Gauges of workers are in memory; those of outboxes cost a count of waiting rows.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Makes the `metrics` facade of this process answer `/metrics`.
pub(super) fn install() -> Result<PrometheusHandle, Failure> {
    PrometheusBuilder::new().install_recorder().map_err(|e| {
        Error::new(Code::Internal, "metrics cannot be recorded")
            .with_source(e)
            .into()
    })
}

/// Keeps the recorder's memory bounded and the gauges fresh.
pub(super) async fn upkeep(recorder: PrometheusHandle, health: Arc<Health>, config: Config) {
    let mut tick = tokio::time::interval(UPKEEP_EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        recorder.run_upkeep();
        health.workers.iter().for_each(|worker| of_worker(worker));
        if let Err(error) = of_outboxes(&health).await {
            tracing::warn!(?error, "outbox gauges are stale");
        }
        if let Err(error) = of_consumers(&health).await {
            tracing::warn!(?error, "gauges of parked keys are stale");
        }
        of_configuration(&config);
    }
}

#[allow(clippy::cast_precision_loss)] // A gauge is a float.
fn of_worker(worker: &Worker) {
    let status = worker.status();
    let name = || ("worker", worker.name().to_owned());
    let live = matches!(status.state, State::Live | State::Careful);
    gauge!("tidegate_worker_live", &[name()]).set(f64::from(u8::from(live)));
    gauge!("tidegate_worker_held", &[name()]).set(status.held as f64);
    gauge!("tidegate_worker_behind", &[name()]).set(status.behind as f64);
    let lag = worker.lag().unwrap_or_default();
    gauge!("tidegate_worker_lag_seconds", &[name()]).set(lag.as_secs_f64());
}

#[allow(clippy::cast_precision_loss)] // A gauge is a float.
async fn of_outboxes(health: &Health) -> Result<(), Failure> {
    for found in health.places.outboxes().await? {
        let lanes = found.it.lanes().await?;
        let name = || ("outbox", found.name.clone());
        let depth: u64 = lanes.iter().map(|lane| lane.depth).sum();
        let parked: u64 = lanes.iter().map(|lane| lane.parked_keys).sum();
        let oldest = lanes
            .iter()
            .filter_map(|lane| lane.oldest_micros)
            .max()
            .unwrap_or(0);
        gauge!("tidegate_outbox_depth", &[name()]).set(depth as f64);
        gauge!("tidegate_outbox_parked_keys", &[name()]).set(parked as f64);
        gauge!("tidegate_outbox_oldest_age_seconds", &[name()]).set(oldest as f64 / 1e6);
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)] // A gauge is a float.
async fn of_consumers(health: &Health) -> Result<(), Failure> {
    for found in health.places.consumers().await? {
        let keys = found.it.parked_keys().await?;
        for (state, count) in [("retrying", keys.retrying), ("dead", keys.dead)] {
            let labels = [("consumer", found.name.clone()), ("state", state.to_owned())];
            gauge!("tidegate_consumer_parked_keys", &labels).set(count as f64);
        }
    }
    Ok(())
}

/// What is declared, so that an alert can tell "no consumer" from "no data".
#[allow(clippy::cast_precision_loss)] // A gauge is a float.
fn of_configuration(config: &Config) {
    let declared = [
        ("outbox", config.outbox.len()),
        ("stream", config.stream.len()),
        ("consumer", config.consumer.len()),
        ("sweep", config.sweep.len()),
    ];
    for (noun, count) in declared {
        gauge!("tidegate_declared", "noun" => noun).set(count as f64);
    }
}

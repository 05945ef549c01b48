//! `run`: the daemon.

mod health;
mod http;
mod metrics;
mod workers;

use std::sync::Arc;

use serde_json::json;
use tidegate::drain::{Report, Signals};
use tidegate::{Code, Drain, Error};
use tokio::net::TcpListener;

use self::health::Health;
use crate::config::Config;
use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::places::{Access, Places};
use crate::{logging, output, settings};

const EXAMPLES: &str = "\
Examples:
  tidegate run                               serve ./tidegate.db
  tidegate run -c tidegate.toml
  tidegate run -c tidegate.toml --set http.listen=127.0.0.1:9090

While it runs, http.listen answers /metrics (Prometheus), /healthz (the loops live) and /readyz (work is being done).
SIGTERM or SIGINT drains within drain.timeout: work in flight ends, lanes are handed over. A second signal ends at once, \
like a crash, which loses nothing.";

/// No flags of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {}

/// Serves until a signal.
pub(crate) async fn run(context: &Context, _: &Args) -> Ended {
    let config = settings::load(&context.global)?.config;
    logging::daemon(&config.log, &context.global);
    if context.global.config.is_none() {
        let url = context.global.db.as_deref().unwrap_or("sqlite:tidegate.db");
        context.out.say(format!(
            "no configuration file: serving {url} with what is declared by default"
        ));
    }
    // From here on a signal is a request to drain, also while the stores are opened.
    let signals = Signals::install()?;
    let listener = bind(&config).await?;
    let recorder = metrics::install()?;
    let places = Arc::new(Places::open(&config, Access::Serve).await?);
    let workers = workers::build(&config, &places).await?;
    let health = Arc::new(Health::new(workers, Arc::clone(&places)));
    let upkeep = tokio::spawn(metrics::upkeep(
        recorder.clone(),
        Arc::clone(&health),
        config.clone(),
    ));
    let address = listener.local_addr()?;
    let server = tokio::spawn(http::serve(listener, Arc::clone(&health), recorder));
    let drain = Drain::new();
    health.register(&drain);
    health.start();
    announce(context, &health, address)?;
    let mut lost = None;
    let loss = async {
        lost = Some(places.until_replaced().await);
        "a database file was replaced"
    };
    let report = drain.on_signals_or(signals, loss, config.drain.timeout).await;
    upkeep.abort();
    server.abort();
    let exit = ended(context, &report)?;
    lost.map_or(Ok(exit), |error| Err(error.into()))
}

/// Before anything is opened: a second daemon by mistake changes nothing.
async fn bind(config: &Config) -> Result<TcpListener, Failure> {
    let address = config.http.listen;
    let bound = TcpListener::bind(address).await;
    bound.map_err(|e| {
        let code = match e.kind() {
            std::io::ErrorKind::AddrInUse => Code::PortInUse,
            _ => Code::OptionsInvalid,
        };
        Error::new(code, format!("http.listen {address}"))
            .with_source(e)
            .into()
    })
}

fn announce(context: &Context, health: &Health, address: std::net::SocketAddr) -> Result<(), Failure> {
    let names = health.names();
    if context.out.is_json() {
        let object = json!({ "started": { "listen": format!("http://{address}"), "workers": names } });
        return context.out.object(&object);
    }
    output::warn(format!(
        "listening on http://{address}; running {}",
        names.join(", ")
    ));
    Ok(())
}

fn ended(context: &Context, report: &Report) -> Ended {
    let cut: Vec<_> = report
        .handlers
        .iter()
        .filter(|h| !h.cleanly)
        .map(|h| h.name.as_str())
        .collect();
    if context.out.is_json() {
        let took = report.took.as_secs_f64();
        context
            .out
            .object(&json!({ "drained": { "cleanly": report.cleanly, "seconds": took, "cut": cut } }))?;
    } else if report.cleanly {
        output::warn(format!("drained cleanly in {}", crate::text::span(report.took)));
    } else {
        output::warn(format!(
            "cut by the deadline: {}; nothing is lost",
            cut.join(", ")
        ));
    }
    Ok(if report.cleanly { Exit::Ok } else { Exit::DrainCut })
}

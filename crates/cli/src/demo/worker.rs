//! The worker processes of the demo: what `tidegate run` does, with the demo's own handler.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, params};
use tidegate::dead_letter::Which;
use tidegate::inbox::{Delivered, KeyRef, Start};
use tidegate::outbox::relay;
use tidegate::store::DeadLetters;
use tidegate::stores::sqlite::{HandlerError, each};
use tidegate::{Consumer, Drain, Relay, Result, Worker, clock, drain};

use super::stage::{NAME, Stage, TTL};
use super::{count, io, runtime};

/// Arguments of the hidden `demo-worker`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// What to run
    pub role: Role,
    /// The demo's folder
    #[arg(long)]
    pub dir: PathBuf,
    /// Label of the process
    #[arg(long)]
    pub name: String,
}

/// What a worker process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Publishes the outbox to the stream.
    Relay,
    /// Applies the stream to the target.
    Consumer,
}

/// A drain in the demo may take this long, also on a machine under load.
const DRAIN: Duration = Duration::from_secs(10);

/// Runs until SIGTERM or the end of the demo. Returns the exit status.
///
/// # Errors
/// What a store or the signal handlers said at the start.
pub fn run(args: &Args) -> Result<i32> {
    end_with_the_demo().map_err(|e| io("watching the demo", e))?;
    tidegate::crash::arm();
    runtime()?.block_on(async {
        let signals = drain::Signals::install().map_err(|e| io("installing signal handlers", e))?;
        let stage = Stage::open(&args.dir);
        let worker = Arc::new(match args.role {
            Role::Relay => relay(&stage, &args.name).await?,
            Role::Consumer => consumer(&stage, &args.name).await?,
        });
        let drain = Drain::new();
        drain.register_worker(&worker).forever();
        worker.start();
        eprintln!("{} is ready", args.name);
        Ok(drain.on_signals(signals, DRAIN).await.exit_status())
    })
}

/// Standard input is a pipe that the demo holds: it ends with the demo, however that ends. A stopped process reads
/// nothing; where the kernel can, it kills it.
fn end_with_the_demo() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let wait = || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        eprintln!("the demo has ended");
        std::process::exit(drain::EXIT_SECOND_SIGNAL);
    };
    std::thread::Builder::new()
        .name("demo-parent".into())
        .spawn(wait)
        .map(drop)
}

/// Gives a parked key another try; what `tidegate dead-letter redrive` does. Returns how many events wait behind it.
pub fn redrive(stage: &Stage, key: &str) -> Result<u64> {
    runtime()?.block_on(async {
        let inbox = stage.inbox().await?;
        let lineage = stage.outbox().await?.lineage();
        let which = Which::Key(KeyRef {
            lineage,
            key: key.to_owned(),
        });
        inbox
            .redrive(which, "the demo fixed the cause".to_owned(), clock::wall())
            .await
    })?;
    let waiting = "select count(*) from tidegate_inbox_parked_event where key = ?1";
    count(&stage.connect_target()?, waiting, [key])
}

async fn relay(stage: &Stage, label: &str) -> Result<Worker> {
    let mut options = relay::Options {
        batch_max: 100,
        ..relay::Options::default()
    };
    options.hold.ttl = TTL;
    label.clone_into(&mut options.hold.label);
    let (outbox, stream) = (stage.outbox().await?, stage.stream().await?);
    Relay::new(NAME, Arc::new(outbox), Arc::new(stream))
        .options(options)
        .build()
}

async fn consumer(stage: &Stage, label: &str) -> Result<Worker> {
    let stream = Arc::new(stage.stream().await?);
    let inbox = Arc::new(stage.inbox().await?);
    let applier = Arc::new(inbox.applier(each(apply)));
    Consumer::new(NAME, stream, inbox, applier, Start::Earliest)
        .options(|o| {
            o.hold.ttl = TTL;
            label.clone_into(&mut o.hold.label);
            o.batch_max = 100;
        })
        .build()
}

/// The handler: a row for the auditor, and a projection that shows each lost, doubled or reordered event.
fn apply(tx: &Connection, delivered: &Delivered) -> Result<(), HandlerError> {
    let event = &delivered.event;
    let id = event.id.as_bytes();
    let now = clock::wall().as_micros();
    let find = "insert into applied (event_id, key, line, applied_at) values (?1, ?2, ?3, ?4)";
    let key = event.key.as_deref().unwrap_or_default();
    let line = event.version.unwrap_or_default();
    tx.prepare_cached(find)?.execute(params![id, key, line, now])?;
    let fold = "insert into board (key, events, last, checksum) values (?1, 1, ?2, ?3)
                on conflict (key) do update set events = events + 1, last = excluded.last,
                checksum = (checksum * 31 + ?2) % 1000003";
    tx.prepare_cached(fold)?
        .execute(params![key, line, checksum(0, line)])?;
    Ok(())
}

/// The projection's fold over line numbers; it depends on their order.
pub fn checksum(before: i64, line: i64) -> i64 {
    (before * 31 + line) % 1_000_003
}

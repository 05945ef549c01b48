//! `tidegate demo`: the main job on real data, with the faults that page people, and counted evidence.
//!
//! Three files in a folder: `service.db` (a service's own tables and its outbox), `stream.db` (the log) and
//! `target.db` (another service's tables and its inbox). The workers are real processes of this binary; what kills
//! them is a real SIGKILL. The numbers come from [`audit`], which reads the three files and asks no worker. Triggers in
//! these files note what would otherwise be gone by then: tenures of lanes, and parked keys.

pub mod audit;
pub mod data;
pub mod folder;
pub mod interrupt;
pub mod process;
pub mod producer;
pub mod progress;
pub mod report;
pub mod script;
pub mod stage;
pub mod worker;

use std::path::PathBuf;
use std::time::Duration;

use tidegate::stores::sqlite::wait_until_closed;
use tidegate::{Code, Error, Result};

use self::data::Loaded;
use self::folder::Folder;
use self::interrupt::Interrupt;
use self::progress::Progress;
use self::report::Report;
use self::script::{Cast, Played, Stop};
use self::stage::Stage;
use crate::error::Failure;
use crate::output;
use crate::text::counted;

/// The demo's own connections close within this; then its folder is whole, or can go.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// Arguments of `tidegate demo`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = ENDS)]
pub struct Args {
    /// Records to play, one JSON object a line; the shipped flights when not given
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Field that holds the key of a record
    #[arg(long, value_name = "FIELD", default_value = "origin")]
    pub key: String,
    /// Keep the three database files and the logs in this new folder
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Decides which transactions roll back and which event is poisoned
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Seconds to wait while nothing moves
    #[arg(long, value_name = "S", default_value_t = 60, hide = true)]
    pub patience: u64,
}

const ENDS: &str = "\
A promise that the databases deny is broken: exit status 1. A promise whose fault met no data, as may happen with few \
records, is not shown, which breaks nothing. A line that cannot be played is named and passed over, as by `emit`; the exit \
status is then 2. When nothing moves for 60 s the story ends early with 4: what it waited for is named, and the files \
and logs stay. SIGINT and SIGTERM end the workers, remove the folder unless it is kept, and exit with 130.";

/// How the demo ended.
#[derive(Debug)]
pub enum Ending {
    /// By a signal; the folder stays where it was to be kept.
    Signal(&'static str, Option<PathBuf>),
    /// With a report, and why it ended early if it did.
    Told(Box<Report>, Option<Error>),
}

/// Plays the demo.
///
/// # Errors
/// Data that cannot be used, or what the machine said before the first act. A story that ends early or breaks a promise
/// has a report: see [`Ending::Told`].
pub fn run(args: &Args, json: bool) -> Result<Ending, Failure> {
    let loaded = data::load(args.data.as_deref(), &args.key, output::warn)?;
    let interrupt = Interrupt::install()?;
    let mut folder = Folder::open(args.keep.as_deref())?;
    let ending = perform(args, json, loaded, &interrupt, &mut folder);
    wait_until_closed(CLOSE_PATIENCE);
    if let (Err(_), Some(dir)) = (&ending, folder.stays()) {
        output::warn(format!("files and logs: {}", dir.display()));
    }
    Ok(ending?)
}

fn perform(
    args: &Args,
    json: bool,
    loaded: Loaded,
    interrupt: &Interrupt,
    folder: &mut Folder,
) -> Result<Ending> {
    let binary = std::env::current_exe().map_err(|e| io("finding this binary", e))?;
    let stage = Stage::create(folder.path(), binary, args.seed)?;
    let mut progress = Progress::new(loaded.records.len() as u64, json);
    introduce(&loaded, folder, &mut progress);
    let cast = Cast {
        stage: &stage,
        interrupt,
        progress: &mut progress,
        seed: args.seed,
        patience: Duration::from_secs(args.patience),
    };
    let (played, ended) = script::play(cast, loaded.records);
    progress.finish();
    let failed = match ended {
        Ok(()) => None,
        Err(Stop::Signal(name)) => return Ok(Ending::Signal(name, folder.stays().map(Into::into))),
        Err(Stop::Failed(error)) => {
            folder.keep();
            Some(error)
        }
    };
    tell(args, folder, &played, loaded.refused, failed)
}

/// What the auditor counts, also after a story that ended early.
fn tell(
    args: &Args,
    folder: &Folder,
    played: &Played,
    lines_refused: u64,
    failed: Option<Error>,
) -> Result<Ending> {
    let report = match audit::audit(&Stage::open(folder.path()), played, failed.is_none()) {
        Ok(report) => report,
        // What ended the story may also keep the auditor from reading.
        Err(error) => return Err(failed.unwrap_or(error)),
    };
    let report = Report {
        seed: args.seed,
        lines_refused,
        unfinished: failed.as_ref().map(|error| error.context().to_owned()),
        kept_in: folder.stays().map(Into::into),
        ..report
    };
    Ok(Ending::Told(Box::new(report), failed))
}

fn introduce(loaded: &Loaded, folder: &Folder, progress: &mut Progress) {
    let records = &loaded.records;
    progress.say(&format!(
        "{} of {}, in {}",
        counted(records.len() as u64, "record"),
        counted(data::keys(records) as u64, "key"),
        folder.path().display()
    ));
    if loaded.cut {
        progress.say("the lines after them are not played");
    }
}

/// A runtime for the demo's own few calls.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| io("starting the runtime", e))
}

/// An error of the machine around the demo.
pub(crate) fn io(what: &str, error: std::io::Error) -> Error {
    Error::new(Code::StoreUnavailable, what.to_owned()).with_source(error)
}

/// An error of a query by the demo's own code.
pub(crate) fn sql(error: rusqlite::Error) -> Error {
    Error::new(Code::StoreUnavailable, "a query of the demo").with_source(error)
}

/// One count; a sum over nothing is zero.
pub(crate) fn count(
    connection: &rusqlite::Connection,
    query: &str,
    params: impl rusqlite::Params,
) -> Result<u64> {
    let mut statement = connection.prepare_cached(query).map_err(sql)?;
    let count: Option<i64> = statement.query_row(params, |row| row.get(0)).map_err(sql)?;
    Ok(count.unwrap_or_default().cast_unsigned())
}

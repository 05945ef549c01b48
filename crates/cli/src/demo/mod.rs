//! `tidegate demo`: the main job on real data, with the faults that page people, and counted evidence.
//!
//! Three files in a folder: `service.db` (a service's own tables and its outbox), `stream.db` (the log) and
//! `target.db` (another service's tables and its inbox). The workers are real processes of this binary; what kills
//! them is a real SIGKILL. The numbers come from [`audit`], which reads the three files and asks no worker.

pub mod audit;
pub mod data;
pub mod process;
pub mod producer;
pub mod progress;
pub mod report;
pub mod script;
pub mod stage;
pub mod worker;

use std::path::PathBuf;

use tidegate::{Code, Error, Result};

use self::progress::Progress;
use self::stage::Stage;

/// Fewer records leave no time for the faults.
const RECORDS_MIN: usize = 200;

/// Arguments of `tidegate demo`.
#[derive(Debug, Clone, clap::Args)]
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
}

/// Plays the demo and returns its report.
///
/// # Errors
/// [`Code::InputInvalid`] for data that cannot be read; otherwise what a store or process said. A broken promise is
/// not an error: see [`report::Report::promises_kept`].
pub fn run(args: &Args, quiet: bool) -> Result<report::Report> {
    let records = data::load(args.data.as_deref(), &args.key)?;
    if records.len() < RECORDS_MIN {
        let context = format!(
            "{} records; the story needs at least {RECORDS_MIN}",
            records.len()
        );
        return Err(Error::new(Code::InputInvalid, context));
    }
    let temporary;
    let dir = match &args.keep {
        Some(dir) => new_folder(dir)?,
        None => {
            temporary = tempfile::tempdir().map_err(|e| io("making a temporary folder", e))?;
            temporary.path().to_owned()
        }
    };
    let binary = std::env::current_exe().map_err(|e| io("finding this binary", e))?;
    let stage = Stage::create(&dir, binary, args.seed)?;
    let mut progress = Progress::new(records.len() as u64, quiet);
    progress.say(&format!(
        "{} records of {} keys, in {}",
        records.len(),
        data::keys(&records),
        dir.display()
    ));
    let played = script::play(&stage, records, args.seed, &mut progress);
    progress.finish();
    let mut report = audit::audit(&stage, &played?)?;
    report.seed = args.seed;
    report.kept_in = args.keep.as_ref().map(|_| dir);
    Ok(report)
}

fn new_folder(dir: &std::path::Path) -> Result<PathBuf> {
    let empty = std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
    if !empty {
        let context = format!(
            "--keep {} exists and is not empty; name a new folder",
            dir.display()
        );
        return Err(Error::new(Code::OptionsInvalid, context));
    }
    std::fs::create_dir_all(dir).map_err(|e| io("making the --keep folder", e))?;
    Ok(dir.to_owned())
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

//! `tail`: show published events.

mod show;

use std::sync::Arc;
use std::time::Duration;

use tidegate::stream::{Entry, EntryId, Page};

use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::places::{Access, Places, Stream, pick};
use crate::{output, settings};

const EXAMPLES: &str = "\
Examples:
  tidegate tail                              everything that the stream holds
  tidegate tail --follow --from end          what is published from now on
  tidegate tail --key 42 --json
  tidegate tail --from 0-1200 --limit 10

With --json each line can be emitted again: `tidegate tail --json | tidegate emit --db sqlite:other.db`.";

/// Entries asked for in one read.
const PAGE: u32 = 500;
/// Payload bytes in one read.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Without a ring, look this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Which entries.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Stream; needed when there are several
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,
    /// Where to begin: start, end, or after an entry such as 0-1200
    #[arg(long, value_name = "WHERE", default_value = "start", value_parser = from)]
    from: From,
    /// Wait for more
    #[arg(long, short)]
    follow: bool,
    /// Only this topic
    #[arg(long)]
    topic: Option<String>,
    /// Only this key
    #[arg(long)]
    key: Option<String>,
    /// Stop after this many entries
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Start,
    End,
    After(EntryId),
}

fn from(text: &str) -> Result<From, String> {
    match text {
        "start" => Ok(From::Start),
        "end" => Ok(From::End),
        id => id
            .parse()
            .map(From::After)
            .map_err(|_| "must be start, end, or an entry such as 0-1200".to_owned()),
    }
}

impl Args {
    fn wants(&self, entry: &Entry) -> bool {
        let Some(event) = &entry.event else {
            return self.topic.is_none() && self.key.is_none();
        };
        let topic = self.topic.as_ref().is_none_or(|topic| *topic == event.topic);
        let key = self.key.is_none() || self.key == event.key;
        topic && key
    }
}

/// Prints entries until there are no more, the limit is reached, or, when following, a signal comes.
pub(crate) async fn run(context: &Context, args: &Args) -> Ended {
    let config = settings::load(&context.global)?.config;
    let places = Places::open(&config, Access::Look).await?;
    let stream = pick(places.streams().await?, args.stream.as_deref(), "stream")?.it;
    let tail = Tail {
        context,
        args,
        stream,
        left: args.limit.unwrap_or(u64::MAX),
    };
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c(), if args.follow => Ok(Exit::Signal),
        ended = tail.all() => ended,
    }
}

fn beyond(id: EntryId, last: EntryId) -> Failure {
    Failure::argument(format!(
        "--from {id} is beyond the last entry of the stream, {last}"
    ))
}

struct Tail<'a> {
    context: &'a Context,
    args: &'a Args,
    stream: Arc<dyn Stream>,
    left: u64,
}

impl Tail<'_> {
    async fn all(mut self) -> Ended {
        let first = self.stream.read(EntryId::START, None, 1, 1).await?;
        let mut incarnation = first.incarnation;
        let mut cursor = match self.args.from {
            From::Start => EntryId::START,
            From::End => first.last,
            From::After(id) if id > first.last => return Err(beyond(id, first.last)),
            From::After(id) => id,
        };
        while self.left > 0 {
            // Listens before it looks, so that nothing falls between.
            let stream = Arc::clone(&self.stream);
            let rung = stream.rung();
            let page = stream.read(cursor, None, PAGE, PAGE_BYTES).await?;
            if page.incarnation != incarnation || page.last < cursor {
                output::warn("the stream lost entries; reading from its start");
                (incarnation, cursor) = (page.incarnation, EntryId::START);
                continue;
            }
            self.show(&page)?;
            let at_end = page.scanned >= page.last || page.scanned == cursor;
            cursor = cursor.max(page.scanned);
            if at_end && !self.args.follow {
                break;
            }
            if at_end {
                let _ = tokio::time::timeout(LOOK_EVERY, rung).await;
            }
        }
        Ok(Exit::Ok)
    }

    fn show(&mut self, page: &Page) -> Result<(), Failure> {
        for entry in page.entries.iter().filter(|entry| self.args.wants(entry)) {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            if self.context.out.is_json() {
                self.context.out.line(show::json(entry)?)?;
            } else {
                self.context.out.line(show::human(entry))?;
            }
        }
        Ok(())
    }
}

//! `emit`: write events to an outbox.

mod batch;
pub(crate) mod line;
pub(crate) mod lines;
mod progress;
mod single;

use std::path::PathBuf;

use tidegate::clock;
use tidegate::{Draft, Event, Uuid};

use self::line::Shape;
use self::lines::Input;
use crate::config::Config;
use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::places::{Access, Places};
use crate::settings;

const EXAMPLES: &str = "\
Examples:
  tidegate emit --topic orders --key 42 --payload '{\"total\":7}'
  tidegate emit --topic photos --key 7 --payload-file photo.jpg --content-type image/jpeg
  tidegate emit --file events.ndjson
  tidegate emit --topic flights --key-field origin --file flights.ndjson
  tail -f app.ndjson | tidegate emit --topic app --key-field user

A line of NDJSON is {\"topic\":..., \"key\":..., \"payload\":..., \"headers\":{...}, \"version\":..., \"id\":...}; \
only topic and payload are needed. `payload` is any JSON value, kept byte for byte; `payload_text` and \
`payload_base64` hold other bytes. With --key-field each whole line is the payload.

A line that cannot be read is named and passed over; the others go on, and the exit status is 2. When the outbox \
cannot take more, the last committed line is named: go on with --skip.";

/// What to write, and where.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Outbox; needed when there are several
    #[arg(long, value_name = "NAME")]
    outbox: Option<String>,
    /// Topic of the event, or of lines that name none
    #[arg(long)]
    topic: Option<String>,
    /// Key: events of one key stay in order
    #[arg(long, conflicts_with_all = ["file", "key_field"])]
    key: Option<String>,
    /// Payload of one event
    #[arg(long, value_name = "TEXT", requires = "topic", conflicts_with_all = ["file", "key_field"])]
    payload: Option<String>,
    /// File with the payload of one event; - is standard input
    #[arg(long, value_name = "FILE", requires = "topic", conflicts_with_all = ["payload", "file", "key_field"])]
    payload_file: Option<PathBuf>,
    /// Media type of the payload; guessed when not given: JSON, text or bytes
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Version of the entity after this event
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    version: Option<i64>,
    /// Id of the event, a UUID; made when not given
    #[arg(long, value_name = "UUID")]
    id: Option<Uuid>,
    /// Header; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// NDJSON file; - or nothing is standard input
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Each line is a payload, and this field of it is the key
    #[arg(long, value_name = "FIELD", requires = "topic")]
    key_field: Option<String>,
    /// Lines to pass over first, as a stopped run told
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    skip: u64,
}

impl Args {
    fn is_single(&self) -> bool {
        self.payload.is_some() || self.payload_file.is_some()
    }

    fn shape(&self) -> Shape {
        match (&self.topic, &self.key_field) {
            (Some(topic), Some(key_field)) => Shape::Payload {
                topic: topic.clone(),
                key_field: key_field.clone(),
                flag: "--key-field",
            },
            (topic, _) => Shape::Event { topic: topic.clone() },
        }
    }

    /// Flags of one event that lines would ignore.
    fn refuse_lone_flags(&self) -> Result<(), Failure> {
        let given = [
            ("--key", self.key.is_some()),
            ("--content-type", self.content_type.is_some()),
            ("--version", self.version.is_some()),
            ("--id", self.id.is_some()),
            ("--header", !self.headers.is_empty()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Failure::argument(format!(
                "{flag} needs --payload or --payload-file"
            ))),
            None => Ok(()),
        }
    }
}

/// Writes one event or many.
pub(crate) async fn run(context: &Context, args: Args) -> Ended {
    if args.is_single() {
        let draft = single::draft(&args)?;
        let outbox = open(context, &args).await?;
        return single::emit(context, &*outbox, draft).await;
    }
    args.refuse_lone_flags()?;
    let input = input(&args)?;
    let outbox = open(context, &args).await?;
    batch::emit(context, &*outbox, input, &args.shape(), args.skip).await
}

fn input(args: &Args) -> Result<Input, Failure> {
    let Some(path) = &args.file else {
        return Ok(Input::stdin());
    };
    Input::open(path).map_err(|e| unreadable(path, &e))
}

/// A missing file does not exist; any other trouble is wrong input.
pub(crate) fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Failure {
    let context = format!("{} cannot be read: {error}", path.display());
    match error.kind() {
        std::io::ErrorKind::NotFound => Failure::not_found(context),
        _ => Failure::argument(context),
    }
}

/// An event of now.
fn seal(draft: Draft) -> tidegate::Result<Event> {
    draft.seal(Uuid::now_v7(), clock::wall())
}

async fn open(
    context: &Context,
    args: &Args,
) -> Result<std::sync::Arc<dyn tidegate::store::OutboxStore>, Failure> {
    let config: Config = settings::load(&context.global)?.config;
    let places = Places::open_for_outbox(&config, args.outbox.as_deref(), Access::Make).await?;
    for path in &places.made {
        context.out.say(format!("made {}", path.display()));
    }
    Ok(places.outbox_to_write(&config, args.outbox.as_deref()).await?.it)
}

//! `status`: everything at a glance.

use serde::Serialize;
use serde_json::json;
use tidegate::stream::EntryId;

use super::{consumer, lease, outbox};
use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::places::{Access, Places};
use crate::settings;
use crate::text::count;

/// A stream at a glance.
#[derive(Debug, Serialize)]
struct Stream {
    #[serde(rename = "stream")]
    name: String,
    store: String,
    incarnation: String,
    lanes: usize,
    published: u64,
    last: String,
    lost_ranges: usize,
}

impl Stream {
    const HEADERS: [&'static str; 6] = ["stream", "store", "lanes", "published", "last", "lost ranges"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.store.clone(),
            count(self.lanes as u64),
            count(self.published),
            self.last.clone(),
            count(self.lost_ranges as u64),
        ]
    }
}

/// Prints outboxes, streams, consumers and leases.
pub(crate) async fn run(context: &Context) -> Ended {
    let config = settings::load(&context.global)?.config;
    let places = Places::open(&config, Access::Look).await?;
    let outboxes = outbox::glances(&places).await?;
    let streams = streams(&places).await?;
    let consumers = consumer::glances(&config, &places).await?;
    let leases = lease::rows(&places).await?;
    if context.out.is_json() {
        let all =
            json!({ "outboxes": outboxes, "streams": streams, "consumers": consumers, "leases": leases });
        context.out.object(&all)?;
        return Ok(Exit::Ok);
    }
    section(
        context,
        &outboxes,
        &outbox::Glance::HEADERS,
        outbox::Glance::cells,
    )?;
    section(context, &streams, &Stream::HEADERS, Stream::cells)?;
    section(
        context,
        &consumers,
        &consumer::Glance::HEADERS,
        consumer::Glance::cells,
    )?;
    section(context, &leases, &lease::Row::HEADERS, lease::Row::cells)?;
    Ok(Exit::Ok)
}

/// A table and an empty line; a noun that nothing has is left out.
fn section<T: Serialize>(
    context: &Context,
    rows: &[T],
    headers: &[&'static str],
    cells: impl Fn(&T) -> Vec<String>,
) -> Result<(), Failure> {
    if rows.is_empty() {
        return Ok(());
    }
    context.out.table(rows, headers, cells)?;
    context.out.line("")
}

async fn streams(places: &Places) -> Result<Vec<Stream>, Failure> {
    let mut all = Vec::new();
    for found in places.streams().await? {
        let registers = found.it.registers().await?;
        let page = found.it.read(EntryId::START, None, 1, 1).await?;
        all.push(Stream {
            name: found.name,
            store: found.store,
            incarnation: registers.incarnation.to_string(),
            lanes: registers.lanes.len(),
            published: registers.lanes.iter().map(|(_, register)| register.n).sum(),
            last: page.last.to_string(),
            lost_ranges: found.it.lost().await?.len(),
        });
    }
    Ok(all)
}

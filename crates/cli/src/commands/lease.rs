//! `lease`: who holds what; break one.

use clap::Subcommand;
use serde::Serialize;
use tidegate::leases::{Record, Scope};
use tidegate::store::LeaseStore;

use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::places::{Access, Found, Places};
use crate::settings;
use crate::text::span;

/// What to do with leases.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List leases: holder, token, time left
    Ls,
    /// Show one lease
    Show(Named),
    /// Make a lease vacant whoever holds it: the holder's next renewal is lost, and it stops
    Break(Named),
}

/// Which lease.
#[derive(Debug, clap::Args)]
pub struct Named {
    /// The lease's scope
    scope: String,
}

/// A lease for people and programs.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    scope: String,
    store: String,
    holder: Option<String>,
    token: u64,
    ttl_ms: u64,
    remaining_ms: u64,
}

impl Row {
    pub(super) const HEADERS: [&'static str; 6] = ["scope", "store", "holder", "token", "ttl", "left"];

    fn of(store: &str, record: Record) -> Self {
        let millis = |d: std::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        Self {
            scope: record.scope.to_string(),
            store: store.to_owned(),
            holder: record.holder,
            token: record.token.0,
            ttl_ms: millis(record.ttl),
            remaining_ms: millis(record.remaining),
        }
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let holder = self.holder.clone().unwrap_or_else(|| "(vacant)".to_owned());
        let left = match self.remaining_ms {
            0 => "-".to_owned(),
            left => span(std::time::Duration::from_millis(left)),
        };
        let ttl = span(std::time::Duration::from_millis(self.ttl_ms));
        vec![
            self.scope.clone(),
            self.store.clone(),
            holder,
            self.token.to_string(),
            ttl,
            left,
        ]
    }
}

/// Runs a lease command.
pub(crate) async fn run(context: &Context, command: &Command) -> Ended {
    let config = settings::load(&context.global)?.config;
    let access = if matches!(command, Command::Break(_)) {
        Access::Change
    } else {
        Access::Look
    };
    let places = Places::open(&config, access).await?;
    match command {
        Command::Ls => context
            .out
            .rows(&rows(&places).await?, &Row::HEADERS, Row::cells)?,
        Command::Show(named) => {
            let (found, record) = find(&places, named).await?;
            context
                .out
                .rows(&[Row::of(&found.store, record)], &Row::HEADERS, Row::cells)?;
        }
        Command::Break(named) => break_one(context, &places, named).await?,
    }
    Ok(Exit::Ok)
}

pub(super) async fn rows(places: &Places) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for found in places.leases() {
        let records = found.it.list().await?;
        rows.extend(records.into_iter().map(|record| Row::of(&found.store, record)));
    }
    Ok(rows)
}

async fn find(places: &Places, named: &Named) -> Result<(Found<dyn LeaseStore>, Record), Failure> {
    let scope = Scope::new(&named.scope)?;
    for found in places.leases() {
        let record = found
            .it
            .list()
            .await?
            .into_iter()
            .find(|record| record.scope == scope);
        if let Some(record) = record {
            return Ok((found, record));
        }
    }
    Err(Failure::not_found(format!(
        "no lease {scope}; `tidegate lease ls` lists them"
    )))
}

async fn break_one(context: &Context, places: &Places, named: &Named) -> Result<(), Failure> {
    let (found, before) = find(places, named).await?;
    let scope = before.scope.clone();
    if before.holder.is_none() {
        context.out.say(format!("{scope} is vacant already"));
        return Ok(());
    }
    let after = found.it.break_lease(scope.clone()).await?.unwrap_or(before);
    if context.out.is_json() {
        context.out.object(&Row::of(&found.store, after))?;
    }
    context.out.say(format!(
        "{scope} is vacant; its token stays, so the former holder's writes stay refused"
    ));
    Ok(())
}

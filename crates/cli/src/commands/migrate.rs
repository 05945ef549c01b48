//! `migrate`: add or upgrade Tidegate's tables, or print what would be run.

use serde_json::json;
use tidegate::stores::sqlite::{SCHEMA_VERSION, schema_sql};

use crate::context::{Context, Ended};
use crate::exit::Exit;
use crate::places::{Access, Places};
use crate::settings;

/// How.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tidegate migrate --db sqlite:shop.db\n  tidegate migrate --print > tidegate.sql"
)]
pub struct Args {
    /// Print the SQL for an empty database and change nothing
    #[arg(long)]
    pub print: bool,
}

/// Brings every declared store to this build's schema.
pub(crate) async fn run(context: &Context, args: &Args) -> Ended {
    if args.print {
        return print(context);
    }
    let config = settings::load(&context.global)?.config;
    let places = Places::open(&config, Access::Serve).await?;
    for (store, place) in places.each() {
        let path = place.describe();
        let Some(schema) = place.schema() else {
            continue;
        };
        if context.out.is_json() {
            let object = json!({ "store": store, "path": path, "schema": schema });
            context.out.object(&object)?;
        } else {
            context.out.line(format!("{store}: {path} has schema {schema}"))?;
        }
    }
    Ok(Exit::Ok)
}

fn print(context: &Context) -> Ended {
    if context.out.is_json() {
        context
            .out
            .object(&json!({ "schema": SCHEMA_VERSION, "sql": schema_sql() }))?;
    } else {
        context.out.text(&schema_sql())?;
    }
    Ok(Exit::Ok)
}

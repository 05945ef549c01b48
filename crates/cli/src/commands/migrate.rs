//! `migrate`: add or upgrade Tidegate's tables, or print what would be run.

use clap::ValueEnum;
use serde_json::json;
#[cfg(feature = "postgres")]
use tidegate::stores::postgres;
use tidegate::stores::sqlite;

use crate::context::{Context, Ended};
use crate::exit::Exit;
use crate::places::{Access, Places};
use crate::settings;

/// How.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tidegate migrate --db sqlite:shop.db\n  tidegate migrate --print > tidegate.sql\n  \
        tidegate migrate --print=postgres | psql shop"
)]
pub struct Args {
    /// Print the SQL for an empty database, of SQLite unless said otherwise, and change nothing
    #[arg(long, value_name = "KIND", num_args = 0..=1, require_equals = true, default_missing_value = "sqlite")]
    pub print: Option<Print>,
}

/// What to print.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Print {
    /// Tables of a SQLite file
    Sqlite,
    /// Tables and functions of a Postgres database, in the schema tidegate
    #[cfg(feature = "postgres")]
    Postgres,
    /// Roles of a Postgres database with the least privileges
    #[cfg(feature = "postgres")]
    PostgresRoles,
}

impl Print {
    fn schema(self) -> (i64, String) {
        match self {
            Self::Sqlite => (sqlite::SCHEMA_VERSION, sqlite::schema_sql()),
            #[cfg(feature = "postgres")]
            Self::Postgres => (postgres::SCHEMA_VERSION, postgres::schema_sql()),
            #[cfg(feature = "postgres")]
            Self::PostgresRoles => (postgres::SCHEMA_VERSION, postgres::roles_sql("tidegate")),
        }
    }
}

/// Brings every declared store to this build's schema.
pub(crate) async fn run(context: &Context, args: &Args) -> Ended {
    if let Some(kind) = args.print {
        return print(context, kind);
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

fn print(context: &Context, kind: Print) -> Ended {
    let (version, sql) = kind.schema();
    if context.out.is_json() {
        context.out.object(&json!({ "schema": version, "sql": sql }))?;
    } else {
        context.out.text(&sql)?;
    }
    Ok(Exit::Ok)
}

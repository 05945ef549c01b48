//! Configuration: one set of documented keys, read from four layers.
//!
//! ```text
//! defaults  <  file (TOML)  <  environment (TIDEGATE__SECTION__KEY)  <  flags (--set section.key=value)
//! ```
//!
//! - A later layer replaces single values of an earlier one, never whole sections.
//! - Without a file the embedded declaration applies: one `SQLite` file, one outbox, one stream, all named `main`.
//! - [`load`] reports every problem at once, each with its place, its rule and the nearest accepted spelling.
//! - Secrets (store URLs) never reach `Debug`, problems or [`Explanation`]: only their masked form does.
//! - The key table in `keys.rs` is the one source of rules, defaults, suggestions and `docs/configuration.md`.
//!
//! Nothing here opens a store or a socket. Files are read in [`Sources::read`] and for `{ file = "..." }` secrets only.

mod build;
mod duration;
mod explain;
mod keys;
mod layers;
mod model;
mod problem;
mod reader;
mod reference;
mod secret;
mod suggest;
#[cfg(test)]
mod tests;
mod tree;
mod unknown;
mod validate;

pub use explain::{Effective, Explanation};
pub use layers::{File, Sources};
pub use model::{
    Config, Consumer, Drain, Environment, Format, Http, Level, Log, Outbox, Policy, Pooler, Postgres, Start,
    Store, StoreKind, Stream, Sweep, Table,
};
pub use problem::{Origin, Problem, Problems};
pub use reference::reference;
pub use secret::Secret;
pub(crate) use secret::mask;
pub(crate) use suggest::nearest;

/// A valid configuration, with where each of its values came from.
#[derive(Debug)]
pub struct Loaded {
    /// The values to run with.
    pub config: Config,
    /// The same values for people: masked, with origin and documentation.
    pub explanation: Explanation,
}

/// Merges the layers of `sources`, and checks the result as a whole.
///
/// # Errors
/// Every problem found, in the order of the file. A file that is not TOML is reported alone, since its other values
/// cannot be trusted.
pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
    let (tree, problems) = layers::merge(sources)?;
    let mut reader = reader::Reader::new(&tree, &sources.environment);
    reader.report(problems);
    reader.report(unknown::problems(&tree));
    let config = build::config(&mut reader);
    let (explanation, problems) = reader.finish();
    match config {
        Ok(config) if problems.is_empty() => Ok(Loaded { config, explanation }),
        _ => Err(Problems::new(problems)),
    }
}

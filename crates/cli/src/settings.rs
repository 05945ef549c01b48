//! From flags to a valid configuration.

use tidegate::{Code, Error};

use crate::config::{self, Loaded, Sources};
use crate::error::Failure;
use crate::global::Global;

/// Reads and checks the configuration that the flags name.
pub(crate) fn load(global: &Global) -> Result<Loaded, Failure> {
    Ok(config::load(&sources(global)?)?)
}

/// The layers as the flags name them; `--db URL` is `--set store.main.url=URL` on the embedded declaration.
pub(crate) fn sources(global: &Global) -> Result<Sources, Failure> {
    if global.db.as_ref().is_some_and(|url| url.contains("://")) {
        return Err(Failure::argument(
            "--db takes a file, such as sqlite:shop.db; a server needs a configuration, where its URL does not show in the \
             list of processes",
        ));
    }
    let mut set = global.set.clone();
    set.extend(global.db.as_ref().map(|url| format!("store.main.url={url}")));
    Sources::read(global.config.as_deref(), set).map_err(|e| unreadable(global, e).into())
}

fn unreadable(global: &Global, source: std::io::Error) -> Error {
    let path = global
        .config
        .as_deref()
        .unwrap_or_else(|| std::path::Path::new("-"));
    Error::new(Code::ConfigInvalid, format!("{} cannot be read", path.display())).with_source(source)
}

//! Where the files and logs are.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidegate::{Code, Error, Result};

use super::io;

/// The folder of one run. A temporary one goes with this value.
pub struct Folder {
    path: PathBuf,
    temporary: Option<TempDir>,
}

impl Folder {
    /// The folder that `--keep` names, which must be new or empty, or a temporary one.
    pub fn open(keep: Option<&Path>) -> Result<Self> {
        if let Some(path) = keep {
            return Ok(Self {
                path: new(path)?,
                temporary: None,
            });
        }
        let temporary = tempfile::Builder::new()
            .prefix("tidegate-demo-")
            .tempdir()
            .map_err(|e| io("making a temporary folder", e))?;
        Ok(Self {
            path: temporary.path().to_owned(),
            temporary: Some(temporary),
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it stays, unless it is temporary.
    pub fn stays(&self) -> Option<&Path> {
        self.temporary.is_none().then_some(&*self.path)
    }

    /// From now on it stays.
    pub fn keep(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            self.path = temporary.keep();
        }
    }
}

fn new(dir: &Path) -> Result<PathBuf> {
    let empty = std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
    if !empty {
        let context = format!(
            "--keep {} exists and is not empty; name a new folder",
            dir.display()
        );
        return Err(Error::new(Code::ArgumentInvalid, context));
    }
    std::fs::create_dir_all(dir).map_err(|e| io("making the --keep folder", e))?;
    Ok(dir.to_owned())
}

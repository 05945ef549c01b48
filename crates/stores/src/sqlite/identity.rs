//! Which file is open. A path can come to name another file, or none, while connections go on with the old one:
//! what they commit there, nobody sees.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tidegate_core::Result;

use super::error::Failure;

/// The file that a path named when it was opened.
#[derive(Debug)]
pub(super) struct Identity {
    path: PathBuf,
    file: Option<(u64, u64)>,
}

impl Identity {
    /// `path` was opened just now.
    pub(super) fn of(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: look(path),
        }
    }

    /// Refuses when the path no longer names the file that is open. One system call, about a microsecond.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.file.is_some() && self.file == look(&self.path) {
            Ok(())
        } else {
            Err(Failure::replaced())
        }
    }
}

fn look(path: &Path) -> Option<(u64, u64)> {
    let of = |file: Metadata| (file.dev(), file.ino());
    std::fs::metadata(path).ok().map(of)
}

//! Which file is open. A path can come to name another file, or none, while connections go on with the old one:
//! what they commit there, nobody sees.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tidegate_core::Result;

use super::error::Failure;

/// The files that were open at first: the database and, unless it is only read, its WAL, which stays as long as
/// anybody has it open.
#[derive(Debug)]
pub(super) struct Identity {
    files: Vec<(PathBuf, Option<(u64, u64)>)>,
}

impl Identity {
    /// `path` was opened just now, and read.
    pub(super) fn of(path: &Path) -> Self {
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        let wal = PathBuf::from(wal);
        let mut files = vec![(path.to_owned(), look(path))];
        if let Some(there) = look(&wal) {
            files.push((wal, Some(there)));
        }
        Self { files }
    }

    /// Refuses when a path no longer names the file that is open. Two system calls, about a microsecond each.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let same = |(path, file): &(PathBuf, Option<_>)| file.is_some() && *file == look(path);
        if self.files.iter().all(same) {
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

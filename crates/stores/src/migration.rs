//! Steps of a schema: what every database that is migrated shares.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use tidegate_core::{Code, Error, Result};

/// One step from a version to the next.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// The version after it.
    pub version: i64,
    /// Its statements, one text per noun.
    pub parts: &'static [&'static str],
}

impl Migration {
    /// First 16 hex digits of the SHA-256 of its text.
    pub fn checksum(&self) -> String {
        let mut hash = Sha256::new();
        self.parts.iter().for_each(|part| hash.update(part));
        let mut hex = String::with_capacity(16);
        for byte in hash.finalize().iter().take(8) {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }
}

/// Refuses a version that is above what this build knows, or that another build made.
pub(crate) fn admit(known: &[Migration], version: i64, checksum: &str) -> Result<()> {
    let Some(migration) = known.iter().find(|m| m.version == version) else {
        let last = known.last().map_or(0, |m| m.version);
        return Err(Error::new(
            Code::SchemaNewer,
            format!("the database has schema {version}; this build knows up to {last}"),
        ));
    };
    if migration.checksum() != checksum {
        return Err(Error::new(
            Code::SchemaNewer,
            format!("schema {version} of the database was made by another build: the checksums differ"),
        ));
    }
    Ok(())
}

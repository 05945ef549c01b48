//! How things are opened, whichever database holds them.

use tidegate_core::dead_letter::redact::Redactor;
use tidegate_core::inbox::Options;
use tidegate_core::{Code, Error, Result, limits};

/// The settings an outbox is opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// A power of two, fixed when the outbox is made. Default 64.
    pub lanes: u16,
    /// Keep settled rows, so that a stream that lost entries can be refilled. May change. Default false.
    pub archive: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            lanes: limits::LANES_DEFAULT,
            archive: false,
        }
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl Wanted {
    pub(crate) fn check(self) -> Result<()> {
        let (lanes, max) = (self.lanes, limits::LANES_MAX);
        if lanes.is_power_of_two() && lanes <= max {
            return Ok(());
        }
        Err(Error::new(
            Code::OptionsInvalid,
            format!("lanes is {lanes}; it must be a power of two up to {max}"),
        ))
    }
}

/// How an inbox behaves.
#[derive(Debug, Clone, Default)]
pub struct InboxOptions {
    /// What failures do.
    pub rules: Options,
    /// Applied to every message before it is stored, and to every payload before it is shown.
    pub redactor: Redactor,
}

/// Names of outboxes, streams and consumers: short, printable, the same everywhere.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    let max = limits::NAME_BYTES_MAX;
    if !name.is_empty() && name.len() <= max && !name.contains(char::is_control) {
        return Ok(());
    }
    Err(Error::new(
        Code::OptionsInvalid,
        format!(
            "the {what}'s name has {} bytes; 1 to {max} without control characters are allowed",
            name.len()
        ),
    ))
}

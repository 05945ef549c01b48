//! Metrics that disturb nobody.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Records; an exporter that panics ends here, and the worker goes on.
pub(crate) fn quietly(record: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(record)).is_err() {
        tracing::error!("a metrics exporter panicked");
    }
}

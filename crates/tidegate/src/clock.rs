//! The clocks of this process.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tidegate_core::time::Now;
use tidegate_core::{Ticks, Timestamp};

/// Both clocks now. Ticks come from `CLOCK_BOOTTIME`, which counts through suspend: a laptop that slept has lost its
/// leases and knows it.
pub fn now() -> Now {
    Now {
        ticks: ticks(),
        wall: wall(),
    }
}

/// The monotonic clock.
pub fn ticks() -> Ticks {
    let t = clock_gettime(ClockId::Boottime);
    Ticks::from_micros(
        t.tv_sec
            .saturating_mul(1_000_000)
            .saturating_add(t.tv_nsec / 1000),
    )
}

/// The wall clock.
pub fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// How long until `at`; zero when it has passed.
pub fn until(at: Ticks) -> Duration {
    at.since(ticks())
}

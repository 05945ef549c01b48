//! The clocks of a database file.

use std::fmt;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_core::{Ticks, Timestamp, Uuid};

/// What a store reads instead of a clock, so that tests can set it.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Wall time, for records and token floors.
    fn now(&self) -> Timestamp;

    /// Time since this boot, counting through suspend: decides expiry.
    fn boot(&self) -> Ticks;

    /// Which boot [`Clock::boot`] counts from.
    fn boot_id(&self) -> Uuid;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(tidegate_core::time::micros(since))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn boot(&self) -> Ticks {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Ticks::from_micros(time.tv_sec.saturating_mul(1_000_000) + time.tv_nsec / 1_000)
    }

    /// Elsewhere the wall clock stands in: a jump of it can end a lease early or late, never its fence.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn boot(&self) -> Ticks {
        Ticks::from_micros(self.now().as_micros())
    }

    fn boot_id(&self) -> Uuid {
        static ID: OnceLock<Uuid> = OnceLock::new();
        *ID.get_or_init(read_boot_id)
    }
}

/// Nil where the system has no boot id: expiry then rests on the clock alone.
fn read_boot_id() -> Uuid {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .ok()
        .and_then(|text| Uuid::parse_str(text.trim()).ok())
        .unwrap_or_default()
}

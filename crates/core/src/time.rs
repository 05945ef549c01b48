//! Two kinds of time, kept apart by type. Nothing in this crate reads a clock: both arrive as values.

use std::time::Duration;

/// A reading of a monotonic clock that keeps counting through suspend, in microseconds from an arbitrary origin.
///
/// Trust (leases, lane ownership, time-outs) is counted in ticks only; they mean nothing on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks(i64);

/// A wall-clock time: microseconds since 1970-01-01 UTC. For people and for stored records, never for trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// Both clocks, read at one moment by the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// For trust and waiting.
    pub ticks: Ticks,
    /// For what is stored.
    pub wall: Timestamp,
}

macro_rules! microseconds {
    ($name:ident) => {
        impl $name {
            /// Wraps a count of microseconds.
            pub const fn from_micros(micros: i64) -> Self {
                Self(micros)
            }

            /// The count of microseconds.
            pub const fn as_micros(self) -> i64 {
                self.0
            }

            /// This much later; saturates.
            #[must_use]
            pub fn after(self, by: Duration) -> Self {
                Self(self.0.saturating_add(micros(by)))
            }

            /// This much earlier; saturates.
            #[must_use]
            pub fn before(self, by: Duration) -> Self {
                Self(self.0.saturating_sub(micros(by)))
            }

            /// Time passed since `earlier`; zero when `earlier` is in the future.
            pub fn since(self, earlier: Self) -> Duration {
                Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
            }
        }
    };
}
microseconds!(Ticks);
microseconds!(Timestamp);

/// A duration as whole microseconds; saturates.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

//! Named points at which a test ends or stops the process, behind the feature `crash-points`.
//!
//! `TIDEGATE_CRASH_AT=relay.after_append:3` sends SIGKILL to the process when it passes that point the third time, and
//! `relay.after_append@FILE` the first time after FILE was made; `TIDEGATE_STOP_AT` sends SIGSTOP. Without the feature the macro expands to nothing.

/// Ends or stops the process here when the environment names this point.
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {
        #[cfg(feature = "crash-points")]
        $crate::crash::at($name);
    };
}

/// Every point there is, for tests that visit them all.
pub const POINTS: &[&str] = &[
    "relay.before_hold",
    "relay.after_hold",
    "relay.before_turn",
    "relay.after_turn",
    "relay.before_append",
    "relay.after_append",
    "relay.before_register",
    "relay.after_register",
    "relay.before_refill",
    "relay.after_refill",
    "relay.before_park",
    "relay.after_park",
    "consumer.before_hold",
    "consumer.after_hold",
    "consumer.before_discover",
    "consumer.after_discover",
    "consumer.before_read",
    "consumer.after_read",
    "consumer.before_apply",
    "consumer.after_apply",
    "consumer.before_retry",
    "consumer.after_retry",
    "consumer.before_publish_hold",
];

#[cfg(feature = "crash-points")]
mod plan {
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI64, Ordering};

    /// When a point acts: at a count of passes, or at the first pass after a file was made.
    enum When {
        Pass(AtomicI64),
        File(PathBuf, AtomicI64),
    }

    /// A point and when it acts.
    pub(super) struct Plan(OnceLock<Option<(String, When)>>);

    impl Plan {
        pub(super) const fn new() -> Self {
            Self(OnceLock::new())
        }

        pub(super) fn is_now(&self, variable: &str, name: &str) -> bool {
            let plan = self
                .0
                .get_or_init(|| std::env::var(variable).ok().map(|text| parse(&text)));
            match plan {
                Some((point, when)) if point == name => when.is_now(),
                _ => false,
            }
        }
    }

    impl When {
        fn is_now(&self) -> bool {
            match self {
                When::Pass(left) => left.fetch_sub(1, Ordering::Relaxed) == 1,
                When::File(file, done) => file.exists() && done.fetch_add(1, Ordering::Relaxed) == 0,
            }
        }
    }

    fn parse(text: &str) -> (String, When) {
        if let Some((point, file)) = text.split_once('@') {
            return (point.to_owned(), When::File(file.into(), AtomicI64::new(0)));
        }
        let (point, count) = text.split_once(':').unwrap_or((text, "1"));
        (
            point.to_owned(),
            When::Pass(AtomicI64::new(count.parse().unwrap_or(1))),
        )
    }
}

#[cfg(feature = "crash-points")]
static ARMED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Lets this process obey the environment; without it, no point does anything. Only the demo's workers call it, so that
/// no environment can end a daemon.
#[cfg(feature = "crash-points")]
pub fn arm() {
    ARMED.store(true, std::sync::atomic::Ordering::Relaxed);
}

/// Called by [`crate::crash_point`].
#[cfg(feature = "crash-points")]
pub fn at(name: &str) {
    use rustix::process::{Signal, getpid, kill_process};
    static CRASH: plan::Plan = plan::Plan::new();
    static STOP: plan::Plan = plan::Plan::new();
    if !ARMED.load(std::sync::atomic::Ordering::Relaxed) {
        return;
    }
    if CRASH.is_now("TIDEGATE_CRASH_AT", name) {
        let _ = kill_process(getpid(), Signal::KILL);
        loop {
            std::thread::park();
        }
    }
    if STOP.is_now("TIDEGATE_STOP_AT", name) {
        let _ = kill_process(getpid(), Signal::STOP);
    }
}

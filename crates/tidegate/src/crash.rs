//! Named points at which a test ends or stops the process, behind the feature `crash-points`.
//!
//! `TIDEGATE_CRASH_AT=relay.after_append:3` sends SIGKILL to the process when it passes that point the third time, and
//! `relay.after_append@FILE` when it passes while FILE is there; it takes FILE away, so of several processes one ends.
//! `TIDEGATE_STOP_AT` sends SIGSTOP. Without the feature the macro expands to nothing.

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

    /// When a point acts: at a count of passes, or at each pass that takes a file away.
    enum When {
        Pass(AtomicI64),
        File(PathBuf),
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
                When::File(file) => std::fs::remove_file(file).is_ok(),
            }
        }
    }

    fn parse(text: &str) -> (String, When) {
        if let Some((point, file)) = text.split_once('@') {
            return (point.to_owned(), When::File(file.into()));
        }
        let (point, count) = text.split_once(':').unwrap_or((text, "1"));
        (
            point.to_owned(),
            When::Pass(AtomicI64::new(count.parse().unwrap_or(1))),
        )
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_count_acts_once() {
            let (point, when) = parse("relay.after_append:2");
            assert_eq!(point, "relay.after_append");
            assert_eq!(
                [when.is_now(), when.is_now(), when.is_now()],
                [false, true, false]
            );
        }

        #[test]
        fn a_file_lets_one_process_act_each_time_it_is_made() {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("fuse");
            let text = format!("relay.before_append@{}", file.display());
            let [one, other] = [parse(&text).1, parse(&text).1];
            assert!(!one.is_now() && !other.is_now());
            for _ in 0..2 {
                std::fs::write(&file, "").unwrap();
                assert_eq!([one.is_now(), other.is_now()], [true, false]);
            }
        }
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

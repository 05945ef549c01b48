//! Named points at which a test ends the process with SIGKILL, behind the feature `crash-points`.
//!
//! `TIDEGATE_CRASH_AT=relay.after_append:3` ends the process when that point is passed the third time. Without the
//! feature the macro expands to nothing.

/// Ends the process here when `TIDEGATE_CRASH_AT` names this point.
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {
        #[cfg(feature = "crash-points")]
        $crate::crash::at($name);
    };
}

/// The count still to pass, and the name, from the environment.
#[cfg(feature = "crash-points")]
pub fn at(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI64, Ordering};
    static PLAN: OnceLock<Option<(String, AtomicI64)>> = OnceLock::new();
    let plan = PLAN.get_or_init(|| {
        let text = std::env::var("TIDEGATE_CRASH_AT").ok()?;
        let (point, count) = text.rsplit_once(':').unwrap_or((&text, "1"));
        Some((point.to_owned(), AtomicI64::new(count.parse().unwrap_or(1))))
    });
    if let Some((point, left)) = plan
        && point == name
        && left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

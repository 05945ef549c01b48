//! Tidegate's own jobs: retention of whatever is kept for a while, and an alarm for what is not published.

mod retention;
mod unpublished;

pub use retention::Retention;
pub use unpublished::Unpublished;

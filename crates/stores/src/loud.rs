//! A dead-letter sink that keeps nothing and says so.

use tidegate_core::Result;
use tidegate_core::dead_letter::Detail;
use tidegate_core::store::{BoxFuture, DeadLetterSink};

/// Logs a warning for each dead letter: its position, cause and key, redacted. The letter stays in the database.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoudSink;

impl DeadLetterSink for LoudSink {
    fn accept<'a>(&'a self, detail: &'a Detail) -> BoxFuture<'a, Result<()>> {
        let letter = &detail.letter;
        tracing::warn!(
            id = %letter.id,
            state = letter.state.as_str(),
            key = %letter.key,
            class = letter.class,
            fingerprint = letter.fingerprint,
            attempts = letter.attempts,
            waiting = letter.waiting,
            "a dead letter waits for a person: `tidegate dead-letter show` has more"
        );
        Box::pin(std::future::ready(Ok(())))
    }
}

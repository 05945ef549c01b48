//! Dead letters: events that could not be applied, kept for a person to decide.
//!
//! **Promises.** Nothing is dropped silently: a dead letter is a parked row that keeps the original bytes, so it can
//! be redriven. No personal data reaches people, logs, metrics or sinks: whatever leaves the row passes
//! [`redact`] first, and what cannot be redacted is not shown.
//!
//! **Identity.** Native streams: (consumer, lineage, lane, n). Foreign streams: (consumer, event id, topic).
//!
//! **Authority.** The row in the target database is the only truth. Views, exports and sinks hold redacted copies and
//! point back at the row; redrive reads the row, never a copy.
//!
//! ```text
//! parked --attempts used up--> dead --redrive--> parked
//!                               |----discard---> gone, audited with a reason
//! ```
//!
//! **Failures.** A sink that fails leaves the event parked. A redactor that cannot understand its input returns a
//! fixed mask.
//!
//! **Not promised.** Redaction recognises names and shapes; it cannot know that free prose is about a person. Name
//! such fields in [`redact::Options`].

pub mod redact;

//! The proof of a store: one suite for each noun, run over every store. Each case has an id and a sentence.
//!
//! A case asserts; it lives here and not in a `tests` folder only so that every store's test file can name it.

// The whole crate is tests, whose names say what they show.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    missing_docs
)]

pub mod counts;
pub mod inbox;
pub mod lease;
pub mod outbox;
pub mod stream;
pub mod testbed;

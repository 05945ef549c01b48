//! The proof of a store: one suite with test ids, run over every store.

pub mod inbox;

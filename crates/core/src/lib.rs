//! Placeholder.

pub mod dead_letter;

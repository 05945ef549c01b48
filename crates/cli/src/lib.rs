//! What the `tidegate` binary is made of.

pub mod config;

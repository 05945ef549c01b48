//! What the `tidegate` binary is made of.

pub mod config;
pub mod demo;

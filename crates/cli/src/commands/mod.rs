//! One file for each command.

pub mod check;
pub mod completions;
pub mod config;
pub mod consumer;
pub mod dead_letter;
pub mod demo;
pub mod emit;
pub mod explain;
pub mod lease;
pub mod migrate;
pub mod outbox;
pub mod run;
pub mod status;
pub mod sweep;
pub mod tail;

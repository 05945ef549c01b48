//! The real binary, as people and programs meet it.

// Helpers of tests, which fail loudly.
#![allow(clippy::expect_used, clippy::panic)]

mod daemon;
mod demo;
mod emit;
mod golden;
mod look;
mod repair;
mod stores;
mod world;

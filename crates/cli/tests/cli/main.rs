//! The real binary, as people and programs meet it.

mod daemon;
mod emit;
mod golden;
mod look;
mod repair;
mod stores;
mod world;

//! What the `tidegate` binary is made of.

pub mod args;
pub mod commands;
pub mod config;
pub mod demo;
pub mod error;
pub mod exit;
mod logging;
pub mod output;
mod places;
mod settings;
mod sweeps;
mod table;
mod text;

pub use error::Failure;
pub use exit::Exit;

//! What the `tidegate` binary is made of.

pub mod args;
pub mod commands;
pub mod config;
pub mod context;
pub mod demo;
mod dispatch;
pub mod error;
pub mod exit;
pub mod global;
mod logging;
pub mod output;
mod places;
mod settings;
mod sweeps;
mod table;
mod text;

pub use dispatch::dispatch;
pub use error::Failure;
pub use exit::Exit;

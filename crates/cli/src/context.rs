//! What every command is given, and how it ends.

use crate::error::Failure;
use crate::exit::Exit;
use crate::global::Global;
use crate::output::Output;

/// How every command ends.
pub type Ended = Result<Exit, Failure>;

/// What every command is given.
#[derive(Debug, Clone)]
pub struct Context {
    /// The flags of every command.
    pub global: Global,
    /// Where to write.
    pub out: Output,
}

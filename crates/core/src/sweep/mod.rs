//! The sweep: a job at an interval that one process at a time runs, and that resumes where it stopped.
//!
//! # What it promises
//! With a live candidate, a run begins within [`machine::Options::every`] of the last one, or at once when it was
//! missed. Runs of one name never overlap in what they commit, when their transactions save the checkpoint: a save is
//! refused to every term but the one that opened the fence last.
//!
//! # What identifies what
//! A **name** is one job; its lease has the scope `sweep/NAME`. A **run** is one round of the job, cut into **steps**:
//! each a bounded piece of work with a transaction of its own. The **checkpoint** is the job's own bytes, with a
//! version that counts saves.
//!
//! # Who is authoritative
//! The lease decides who tries. The checkpoint's database decides who did: fence and version are compared in the
//! transaction that holds the step's effect.
//!
//! ```text
//!             ┌────────────────── no more ──────────────────┐
//!             ▼                                             │
//!   Waiting(due) ──due──▶ Stepping ──more──▶ Stepping ──▶ ... ──failed, cut──▶ Waiting(back-off)
//!             │                                             │
//!             └──────stop──────▶ Stopped ◀──────────panicked, lost, third failure in a row
//! ```
//!
//! # Which clock
//! Runs stand on a grid of `every` from the term's first run, on the monotonic clock. However many were missed, by
//! sleep, by a long run or by failures, one run makes up for all of them, and the grid stays.
//!
//! # Failures
//! - A step that fails or takes too long: the run ends and begins again after a pause that doubles, from where the
//!   checkpoint stands. After the third failure in a row the lease is given up, so that another process may try.
//! - A panic: the lease is given up at once. The pause grows as after a failure.
//! - A term that was fenced: the lease is given up; what it had begun was refused.
//!
//! # What it does not promise
//! Nothing about the wall clock: it is not cron. A job without a checkpoint may repeat or overlap its last step after a
//! hand-over, so it must be harmless to repeat. A run follows each take-over, also when the last one was recent.

pub mod machine;
#[cfg(test)]
mod tests;

use crate::error::{Code, Error, Result};
use crate::event::text;
use crate::lease::{Fence, Nonce, Scope, Token};
use crate::limits;

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// Rows swept, or whatever the job counts.
    pub done: u64,
    /// There is more in this run: come back. Only the last step of a run says false.
    pub more: bool,
}

impl Step {
    /// The last step of a run.
    pub const fn last(done: u64) -> Self {
        Self { done, more: false }
    }

    /// A step of a deletion in batches: a full one suggests that there is more.
    pub const fn of_batch(done: u64, batch: u32) -> Self {
        Self {
            done,
            more: done >= batch as u64,
        }
    }
}

/// A job's checkpoint as its database keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// Saves so far.
    pub version: u64,
    /// What the last one saved; `None` before the first.
    pub bytes: Option<Vec<u8>>,
}

/// Under which term, and from which version, a step saves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The job.
    pub name: String,
    /// Its lease, and its fence register.
    pub scope: Scope,
    /// The term's token.
    pub token: Token,
    /// The term's nonce.
    pub nonce: Nonce,
    /// The version that the step began from.
    pub version: u64,
}

impl Mark {
    /// The rule of a save, shared by every store: `fence` and `version` are what the database holds, read in the
    /// transaction that saves.
    ///
    /// # Errors
    /// [`Code::LeaseLost`] when another term opened the register, or another step saved: roll back.
    /// [`Code::OptionsInvalid`] for more than 4 KiB.
    pub fn admits(&self, fence: Option<Fence>, version: u64, bytes: &[u8]) -> Result<()> {
        if bytes.len() > limits::CHECKPOINT_BYTES_MAX {
            return Err(Error::new(
                Code::OptionsInvalid,
                format!(
                    "the checkpoint of {} has {} bytes; at most {} are kept",
                    self.name,
                    bytes.len(),
                    limits::CHECKPOINT_BYTES_MAX
                ),
            ));
        }
        if !Fence::accepts(fence, self.token, self.nonce) {
            return Err(self.lost("a later term has taken over"));
        }
        // A step that was cut may still commit, on a thread that could not be stopped.
        if version != self.version {
            return Err(self.lost("a later step has saved already"));
        }
        Ok(())
    }

    fn lost(&self, why: &str) -> Error {
        Error::new(Code::LeaseLost, format!("{}: {why}", self.scope))
    }
}

/// The scope of a job's lease.
///
/// # Errors
/// [`Code::EventInvalid`] for a name that is empty, longer than 63 bytes, or has control characters.
pub fn scope(name: &str) -> Result<Scope> {
    text("sweep name", name, 1, limits::NAME_BYTES_MAX)?;
    Scope::new(format!("sweep/{name}"))
}

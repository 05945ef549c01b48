//! What a turn refuses, whichever database runs it.

use std::collections::BTreeSet;
use std::fmt;

use tidegate_core::lane::LaneId;
use tidegate_core::outbox::Turn;
use tidegate_core::{Code, Error, Result};

/// Each lane is named once.
pub(crate) fn check_lanes(turn: &Turn) -> Result<()> {
    let lanes: BTreeSet<LaneId> = turn.lanes.iter().map(|t| t.lane).collect();
    if lanes.len() < turn.lanes.len() {
        return Err(Error::new(Code::Internal, "turn: a lane is named twice"));
    }
    Ok(())
}

pub(crate) fn settled_differently(lane: LaneId) -> Error {
    Error::new(
        Code::Fork,
        format!("lane {lane}: the acknowledged chain is not the chain of the planned rows"),
    )
}

/// Planned rows that are not in the table any more.
#[derive(Debug)]
pub(crate) struct Gone(Vec<LaneId>);

impl Gone {
    pub(crate) fn error(lanes: Vec<LaneId>) -> Error {
        tracing::error!(
            ?lanes,
            "planned rows are gone from the outbox table: nothing but Tidegate may delete there"
        );
        Error::new(Code::Internal, "planned rows are gone").with_source(Gone(lanes))
    }

    pub(crate) fn of(error: &Error) -> Option<&[LaneId]> {
        let source = std::error::Error::source(error)?;
        source.downcast_ref::<Gone>().map(|gone| gone.0.as_slice())
    }
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "planned rows of {} lanes", self.0.len())
    }
}

impl std::error::Error for Gone {}

//! Lanes, registers and ids as Redis keeps them.

use tidegate_core::lane::{LaneId, Lineage};
use tidegate_core::lease::Token;
use tidegate_core::stream::{Chain, EntryId, Register};
use tidegate_core::{Code, Error, Result, Uuid};

pub(super) fn damaged(what: &str) -> Error {
    Error::new(
        Code::StoreCorrupt,
        format!("a {what} of the stream cannot be read"),
    )
}

/// `lineage:slot`.
pub(super) fn lane_text(lane: LaneId) -> String {
    format!("{}:{}", lane.lineage.0.as_simple(), lane.slot)
}

pub(super) fn lane(text: &str) -> Result<LaneId> {
    let parts = text.split_once(':').and_then(|(lineage, slot)| {
        Some(LaneId {
            lineage: Lineage(Uuid::try_parse(lineage).ok()?),
            slot: slot.parse().ok()?,
        })
    });
    parts.ok_or_else(|| damaged("lane"))
}

pub(super) fn chain_text(chain: Chain) -> String {
    Uuid::from_bytes(chain.0).as_simple().to_string()
}

pub(super) fn chain(text: &str) -> Result<Chain> {
    let bytes = Uuid::try_parse(text).map_err(|_| damaged("chain"))?;
    Ok(Chain(bytes.into_bytes()))
}

pub(super) fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| damaged("number"))
}

/// `n token chain`.
pub(super) fn register(text: &str) -> Result<Register> {
    let mut parts = text.split(' ');
    let (Some(n), Some(token), Some(hash), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(damaged("register"));
    };
    Ok(Register {
        n: number(n)?,
        token: Token(number(token)?),
        chain: chain(hash)?,
    })
}

pub(super) fn id(text: &str) -> Result<EntryId> {
    text.parse().map_err(|_| damaged("position"))
}

//! Where a reader begins that wants everything from a time on.

use std::collections::BTreeMap;

use super::{Chain, EntryId, Lost, Place, Register};
use crate::error::{Code, Error, Result};
use crate::lane::LaneId;
use crate::time::Timestamp;

/// Finds, for each lane, the place before its first entry that was appended at or after a time. A store hands it every
/// entry in order of id, then what else it knows, all from one snapshot.
#[derive(Debug)]
pub struct Locator {
    from: Timestamp,
    before: BTreeMap<LaneId, (u64, Chain)>,
    first: BTreeMap<LaneId, (u64, EntryId)>,
}

impl Locator {
    /// Nothing seen yet.
    pub fn new(from: Timestamp) -> Self {
        Self {
            from,
            before: BTreeMap::new(),
            first: BTreeMap::new(),
        }
    }

    /// The next entry.
    pub fn entry(&mut self, lane: LaneId, id: EntryId, (n, chain): (u64, Chain), appended_at: Timestamp) {
        if self.first.contains_key(&lane) {
            return;
        }
        if appended_at >= self.from {
            self.first.insert(lane, (n, id));
        } else {
            self.before.insert(lane, (n, chain));
        }
    }

    /// The place of each lane; a lane without such an entry: after its last.
    ///
    /// # Errors
    /// [`Code::Gap`]: what stood before the first entry is gone, so nobody knows whether it was older than the time.
    pub fn places(self, registers: &[(LaneId, Register)], lost: &[Lost]) -> Result<Vec<(LaneId, Place)>> {
        let place = |(lane, register): &(LaneId, Register)| {
            let found = self.place(*lane, register, lost);
            found.map(|place| (*lane, place))
        };
        registers.iter().map(place).collect()
    }

    fn place(&self, lane: LaneId, register: &Register, lost: &[Lost]) -> Result<Place> {
        let Some((n, id)) = self.first.get(&lane).copied() else {
            return Ok(Place {
                n: register.n,
                chain: register.chain,
                cursor: EntryId::START,
            });
        };
        let chain = self.chain_before(lane, n, lost).ok_or_else(|| gone(lane, n))?;
        Ok(Place {
            n: n - 1,
            chain,
            cursor: id.before(),
        })
    }

    fn chain_before(&self, lane: LaneId, n: u64, lost: &[Lost]) -> Option<Chain> {
        if n == 1 {
            return Some(Chain::START);
        }
        let read = self.before.get(&lane).filter(|(at, _)| at + 1 == n);
        let declared = lost
            .iter()
            .find(|lost| lost.lane == lane && lost.through + 1 == n);
        read.map(|(_, chain)| *chain).or(declared.map(|lost| lost.chain))
    }
}

fn gone(lane: LaneId, n: u64) -> Error {
    let before = n - 1;
    Error::new(
        Code::Gap,
        format!("lane {lane}: number {before} is trimmed, so that the first entry since then is not known"),
    )
}

//! O1, N1 and F1 over transactions of the outbox.

use tidegate_core::Uuid;
use tidegate_core::lane::LaneId;
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::memory::outbox::{Book, Contents};

use super::{At, Checked, Truth, ensure};

/// Who a transaction says it is.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(crate) member: Nonce,
    pub(crate) lanes: Vec<(LaneId, Token)>,
}

impl Writer {
    fn token(&self, lane: LaneId) -> Option<Token> {
        let named = self.lanes.iter().find(|(named, _)| *named == lane);
        named.map(|(_, token)| *token)
    }
}

impl Truth {
    /// A transaction of a relay changed the outbox from `before` to `after`. `parks`: it was a park.
    pub(crate) fn outbox(
        &mut self,
        before: &Contents,
        after: &Contents,
        writer: &Writer,
        parks: bool,
    ) -> Checked {
        for slot in 0..after.books.len() {
            let changed = before.lanes[slot].state != after.lanes[slot].state
                || before.books[slot].plan != after.books[slot].plan
                || before.books[slot].rows.len() != after.books[slot].rows.len();
            if changed {
                fenced(before, after, writer, slot)?;
                self.numbers(before, after, slot, parks)?;
                self.removed(before, after, slot)?;
            }
        }
        self.archived(before, after)
    }

    fn numbers(&mut self, before: &Contents, after: &Contents, slot: usize, parks: bool) -> Checked {
        let (state, book) = (&after.lanes[slot].state, &after.books[slot]);
        let at = |n| (after.lanes[slot].lane.slot, n);
        ensure(
            "N1",
            state.planned == state.settled + book.plan.len() as u64,
            || format!("lane {slot}: planned {} is not settled and plan", state.planned),
        )?;
        let forward = state.settled >= before.lanes[slot].state.settled
            && state.planned >= before.lanes[slot].state.planned;
        ensure("N1", forward, || format!("lane {slot}: numbers went back"))?;
        let mut chain = state.chain;
        for (n, seq) in (state.settled + 1..).zip(&book.plan) {
            let id = seq.and_then(|seq| book.rows.get(&seq)).map(|e| e.id);
            chain = chain.next(n, id);
            self.assign(at(n), id, parks)?;
            self.chains.insert(at(n), chain);
        }
        Ok(())
    }

    fn assign(&mut self, at: At, id: Option<Uuid>, parks: bool) -> Checked {
        let known = self.assigned.insert(at, id);
        let void = parks && id.is_none() && !self.accepted.contains_key(&at);
        ensure("N1", known.is_none_or(|known| known == id) || void, || {
            format!("number {at:?} was {known:?} in the plan and is {id:?}")
        })
    }

    /// Rows that went: parked, or settled under a number that the stream accepted with the same bytes.
    fn removed(&self, before: &Contents, after: &Contents, slot: usize) -> Checked {
        let (old, new) = (&before.books[slot], &after.books[slot]);
        for (seq, event) in &old.rows {
            let stays = new.rows.contains_key(seq);
            let parked = after.parked.values().any(|p| p.rows.contains_key(seq));
            if stays || parked {
                continue;
            }
            let n = number(before, after, slot, *seq);
            let at = n.map(|n| (after.lanes[slot].lane.slot, n));
            let sent = at.is_some_and(|at| self.accepted.get(&at) == Some(&Some(event.id)));
            let settled = n.is_some_and(|n| n <= after.lanes[slot].state.settled);
            let bytes = self.event(event.id) == Some(event);
            ensure("O1", sent && settled && bytes, || {
                format!(
                    "event {} left the outbox; its number {at:?} never got into the stream",
                    event.id.as_u128()
                )
            })?;
        }
        Ok(())
    }

    fn archived(&self, before: &Contents, after: &Contents) -> Checked {
        for kept in after.archive.iter().skip(before.archive.len()) {
            let at = (kept.lane.slot, kept.n);
            let id = kept.event.as_ref().map(|e| e.id);
            ensure("N1", self.assigned.get(&at) == Some(&id), || {
                format!("the archive has another event at {at:?} than the plan had")
            })?;
        }
        Ok(())
    }
}

/// The number of a row, planned before or in this very transaction.
fn number(before: &Contents, after: &Contents, slot: usize, seq: u64) -> Option<u64> {
    let find = |book: &Book, settled: u64| {
        let mut planned = (settled + 1..).zip(&book.plan);
        planned.find(|(_, s)| **s == Some(seq)).map(|(n, _)| n)
    };
    find(&before.books[slot], before.lanes[slot].state.settled)
        .or_else(|| find(&after.books[slot], after.lanes[slot].state.settled))
}

fn fenced(before: &Contents, after: &Contents, writer: &Writer, slot: usize) -> Checked {
    let row = &before.lanes[slot];
    let mine = writer
        .token(row.lane)
        .is_some_and(|token| row.is_held(writer.member, token));
    ensure("F1", mine, || {
        format!(
            "lane {slot} changed under a token that is not {}: settled {} to {}, planned {} to {}",
            row.token,
            row.state.settled,
            after.lanes[slot].state.settled,
            row.state.planned,
            after.lanes[slot].state.planned,
        )
    })
}

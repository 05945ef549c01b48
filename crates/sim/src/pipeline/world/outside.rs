//! What comes from outside: transactions, rings, faults by themselves, and what people do.

use std::time::Duration;

use tidegate_core::memory::MemoryStream;
use tidegate_core::store::OutboxStore;
use tidegate_core::time::micros;

use super::super::canary::Canary;
use super::super::check::Checked;
use super::super::knobs::Fault;
use super::super::node::Input;
use super::super::perform::ready;
use super::super::plan::Deed;
use super::super::workload::Transaction;
use super::{Action, World};

impl World {
    pub(super) fn commit(&mut self, transaction: &Transaction) {
        if !transaction.commits {
            self.stores.coverage.hit("transaction rolled back");
            if self.stores.is(Canary::RolledBackPublished) {
                let written = ready(self.stores.outbox.enqueue(transaction.events.clone()));
                debug_assert!(written.is_ok());
            }
            return;
        }
        let keyless = transaction.events.iter().any(|e| e.key.is_none());
        self.stores.coverage.hit_if(keyless, "event without a key");
        self.stores.truth.commit(&transaction.events);
        let mut events = transaction.events.clone();
        if self.stores.is(Canary::WrittenBackwards) {
            events.reverse();
        }
        let written = ready(self.stores.outbox.enqueue(events));
        debug_assert!(written.is_ok());
        self.ring_later(true);
    }

    pub(super) fn ring_later(&mut self, relays: bool) {
        let after = self.rng.i64(0..5_000);
        self.at(self.now + after, Action::Ring { relays });
    }

    pub(super) fn ring(&mut self, relays: bool) -> Checked {
        for node in 0..self.nodes.len() {
            let heard = self.nodes[node].up && self.nodes[node].is_relay() == relays && !self.is_paused(node);
            if !heard {
                continue;
            }
            let lost = self.chaos && self.knobs.faults.has(Fault::LostRing) && self.rng.bool();
            if lost {
                self.stores.coverage.hit("ring lost");
            } else {
                self.step(node, Input::Rung)?;
            }
        }
        Ok(())
    }

    pub(super) fn do_deed(&mut self, deed: Deed) -> Checked {
        self.note(|| format!("{deed:?}"));
        match deed {
            Deed::Crash { node, back_after } => self.crash(node, back_after),
            Deed::Pause { node, for_micros } => {
                let long = for_micros > micros(self.knobs.ttl);
                self.stores.coverage.hit_if(long, "pause longer than the ttl");
                self.nodes[node].paused_until = self.now + for_micros;
            }
            Deed::Drain { node } => return self.drain(node),
            Deed::Outage { store, for_micros } => self.outages[store] = self.now + for_micros,
            Deed::Tail { entries } => self.lose(|stream| {
                stream.forget_tail(entries);
            }),
            Deed::Flush => self.lose(MemoryStream::flush),
            Deed::StoreJump { store, by } => {
                self.clocks[store].advance(Duration::from_micros(by.unsigned_abs()));
            }
            Deed::WallJump { node, by } => self.nodes[node].wall_offset += by,
            Deed::Release => self.release(),
            Deed::Redrive => self.stores.redrive(self.now)?,
            Deed::Discard => self.stores.discard(self.now)?,
            Deed::Trim => self.stores.trim()?,
        }
        Ok(())
    }

    pub(super) fn lose(&mut self, loss: impl FnOnce(&MemoryStream)) {
        let before = self.stores.stream.contents();
        loss(&self.stores.stream);
        let after = self.stores.stream.contents();
        self.stores.truth.lost(&before, &after);
        let flushed = before.incarnation != after.incarnation;
        let point = if flushed {
            "stream flushed"
        } else {
            "stream tail lost"
        };
        self.stores.coverage.hit(point);
        let settled = &self.stores.outbox.contents().lanes;
        let unsettled = settled.iter().any(|row| {
            let n = before.registers.get(&row.lane).map_or(0, |r| r.n);
            n > row.state.settled
        });
        self.stores
            .coverage
            .hit_if(unsettled, "stream lost entries that nobody settled");
    }

    /// A person releases whatever is parked at the source.
    pub(super) fn release(&mut self) {
        let parked = ready(self.stores.outbox.parked(100)).unwrap_or_default();
        for key in parked {
            self.stores.coverage.hit("source key released");
            let released = ready(self.stores.outbox.release(key.key));
            debug_assert!(released.is_ok_and(|rows| rows > 0));
        }
        self.ring_later(true);
    }
}

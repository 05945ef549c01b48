//! C1 to C6, F1 and Q1 to Q3 over commits in the target database.

use std::collections::BTreeMap;

use tidegate_core::inbox::{Applied, Batch, KeyRef, LaneApplied, Position};
use tidegate_core::lane::share::Row;
use tidegate_core::memory::inbox::Contents;
use tidegate_core::memory::stream::Contents as Stream;

use super::super::handler::SECRET;
use super::outbox::Writer;
use super::{Checked, Truth, ensure};

impl Truth {
    /// A transaction in the target database committed.
    pub(crate) fn inbox(&self, before: &Contents, after: &Contents, writer: &Writer) -> Checked {
        for row in &after.lanes {
            let old = before.lanes.iter().find(|old| old.lane == row.lane);
            let tally = |contents: &Contents| contents.ledgers.get(&row.lane).map(|l| l.tally);
            if let Some(old) = old {
                let moved = old.state.hw != row.state.hw || tally(before) != tally(after);
                moves(old, &row.state, writer, moved)?;
            }
        }
        self.snapshot(after)
    }

    /// Lanes of a consumer were registered.
    pub(crate) fn started(&mut self, stream: &Stream, inbox: &Contents) -> Checked {
        let starts = self.starts.get_or_insert_with(|| {
            let registers = stream.registers.iter();
            registers
                .map(|(lane, register)| (lane.slot, register.n))
                .collect()
        });
        for (lane, ledger) in &inbox.ledgers {
            let most = starts.get(&lane.slot).copied().unwrap_or(0);
            ensure("C7", ledger.start <= most || self.losses > 0, || {
                format!(
                    "lane {} starts at {}, and {most} were there",
                    lane.slot, ledger.start
                )
            })?;
        }
        Ok(())
    }

    /// A person's decision committed: it moves no lane.
    pub(crate) fn decided(&self, before: &Contents, after: &Contents) -> Checked {
        let stand = |contents: &Contents| -> Vec<u64> { contents.lanes.iter().map(|r| r.state.hw).collect() };
        ensure("Q4", stand(before) == stand(after), || {
            "a decision about a dead letter moved a position".into()
        })?;
        ensure("Q4", before.table == after.table, || {
            "a decision about a dead letter brought about an effect by itself".into()
        })?;
        self.snapshot(after)
    }

    fn snapshot(&self, after: &Contents) -> Checked {
        for row in &after.lanes {
            self.numbers_of(row, after)?;
        }
        counted(after)?;
        self.in_order(after)?;
        redacted(after)
    }

    /// Every number up to the position is exactly one of applied, void, skipped and waiting; none above is any.
    fn numbers_of(&self, row: &Row<Position>, after: &Contents) -> Checked {
        let (slot, hw) = (row.lane.slot, row.state.hw);
        let Some(ledger) = after.ledgers.get(&row.lane) else {
            return Ok(());
        };
        let mut applied = 0;
        for n in ledger.start + 1..=hw {
            let effects = after.table.get(&format!("e/{slot}/{n}")).map_or(0, String::len);
            ensure("C1", effects <= 1, || {
                format!("({slot}, {n}) took effect {effects} times")
            })?;
            applied += effects;
            let fates = effects + self.other_fates(row, n, after);
            ensure("C2", fates > 0, || {
                format!("({slot}, {n}) is below the position {hw} and nothing became of it")
            })?;
            ensure("Q2", fates == 1, || {
                format!("{fates} things became of ({slot}, {n})")
            })?;
        }
        let mine = after.table.range(format!("e/{slot}/")..format!("e/{slot}0"));
        let all = mine.count();
        ensure("C2", all == applied, || {
            format!("lane {slot}: {all} effects, {applied} of them up to the position {hw}")
        })?;
        let counted = ledger.tally.applied;
        ensure("C2", i64::try_from(applied) == Ok(counted), || {
            format!("lane {slot}: {applied} effects, {counted} counted")
        })?;
        ensure("Q1", i64::try_from(hw) == Ok(ledger.sum()), || {
            format!("lane {slot}: position {hw}, parts add up to {}", ledger.sum())
        })
    }

    fn other_fates(&self, row: &Row<Position>, n: u64, after: &Contents) -> usize {
        let slot = row.lane.slot;
        let id = self.accepted.get(&(slot, n));
        let void = id == Some(&None);
        let skipped = after.skipped.contains_key(&(row.lane, n)) || is_discarded(after, slot, n);
        let waits = id
            .and_then(|id| self.event((*id)?))
            .map(|event| KeyRef::of(row.lane.lineage, event))
            .and_then(|key| after.parked.get(&key))
            .is_some_and(|parked| parked.events.contains_key(&n));
        usize::from(void) + usize::from(skipped) + usize::from(waits)
    }

    /// Per key: what took effect is a prefix of what was published, but for skipped events.
    fn in_order(&self, after: &Contents) -> Checked {
        let keys = after.table.range("k/".to_owned().."k0".to_owned());
        for (name, numbers) in keys {
            let mut parts = name.splitn(3, '/').skip(1);
            let slot: u16 = parts.next().and_then(|s| s.parse().ok()).unwrap_or(0);
            let key = parts.next().unwrap_or_default().to_owned();
            let done: Vec<u64> = numbers.split(',').filter_map(|n| n.parse().ok()).collect();
            let skipped = |n: u64| {
                let mut all = after.skipped.keys();
                is_discarded(after, slot, n) || all.any(|(lane, at)| (lane.slot, *at) == (slot, n))
            };
            let published = self.by_key.get(&(slot, key));
            let start = after.ledgers.iter().find(|(lane, _)| lane.slot == slot);
            let start = start.map_or(0, |(_, ledger)| ledger.start);
            let published = published.into_iter().flatten().copied().filter(|n| *n > start);
            let wanted: Vec<u64> = published.filter(|n| !skipped(*n)).take(done.len()).collect();
            ensure("C4", done == wanted, || {
                format!("{name}: effects of {done:?}, published {wanted:?}")
            })?;
        }
        Ok(())
    }

    /// A cursor passes only entries that were taken in. Says nothing after a loss, which gives positions again.
    pub(crate) fn cursors(&self, inbox: &Contents, stream: &Stream) -> Checked {
        if self.losses > 0 {
            return Ok(());
        }
        for row in &inbox.lanes {
            let passed = stream
                .entries
                .range(..=row.state.cursor.1)
                .find(|(_, e)| e.lane == row.lane && e.entry.n > row.state.hw);
            ensure("C5", passed.is_none(), || {
                format!(
                    "lane {}: cursor {} passes an entry above {}",
                    row.lane.slot, row.state.cursor, row.state.hw
                )
            })?;
        }
        Ok(())
    }

    /// Entries were deleted for their age. After a loss positions say nothing, and holds are positions.
    pub(crate) fn trimmed(&mut self, before: &Stream, after: &Stream, inbox: &Contents) -> Checked {
        let gone = before
            .entries
            .iter()
            .filter(|(p, _)| !after.entries.contains_key(p));
        for (_, stored) in gone {
            let (lane, n) = (stored.lane, stored.entry.n);
            self.trimmed.insert((lane.slot, n));
            let hw = inbox.position(lane).map_or(0, |p| p.hw);
            ensure("C5", n <= hw || self.losses > 0, || {
                format!("({}, {n}) was trimmed and the consumer stands at {hw}", lane.slot)
            })?;
        }
        Ok(())
    }
}

/// Each lane of a batch that can go on went to its end, unless the call paused or did as much as it may.
pub(crate) fn went_on(batch: &Batch, applied: &Applied) -> Checked {
    let handled = applied.counts.applied + applied.counts.queued + applied.counts.skipped;
    if applied.failures.len() >= batch.failures_max || (batch.careful && handled >= 8) {
        return Ok(());
    }
    let outcomes: BTreeMap<_, _> = applied.lanes.iter().map(|(lane, o)| (*lane, o)).collect();
    for lane in batch.lanes.iter().filter(|_| applied.pause.is_none()) {
        let last = lane.entries.last().map_or(0, |e| e.n);
        let Some(LaneApplied::At(position)) = outcomes.get(&lane.lane) else {
            continue;
        };
        ensure("C6", position.hw >= last, || {
            format!(
                "lane {} stopped at {} of {last} without a reason",
                lane.lane.slot, position.hw
            )
        })?;
    }
    Ok(())
}

fn is_discarded(contents: &Contents, slot: u16, n: u64) -> bool {
    let mut all = contents.audit.iter();
    all.any(|a| a.action == "discard" && (a.id.lane.slot, a.id.n) == (slot, n))
}

fn moves(old: &Row<Position>, new: &Position, writer: &Writer, moved: bool) -> Checked {
    ensure("C3", new.hw >= old.state.hw, || {
        format!(
            "lane {}: position {} went back to {}",
            old.lane.slot, old.state.hw, new.hw
        )
    })?;
    let mut named = writer.lanes.iter().filter(|(lane, _)| *lane == old.lane);
    let mine = named.any(|(_, token)| old.is_held(writer.member, *token));
    ensure("F1", !moved || mine, || {
        format!(
            "lane {} moved from {} to {} under a token that is not {}",
            old.lane.slot, old.state.hw, new.hw, old.token
        )
    })
}

fn counted(after: &Contents) -> Checked {
    for (lane, ledger) in &after.ledgers {
        let queues = after.parked.values().filter(|p| p.lane == *lane);
        let waiting: usize = queues.map(|p| p.events.len()).sum();
        ensure("Q1", i64::try_from(waiting) == Ok(ledger.tally.parked), || {
            format!(
                "lane {}: {waiting} wait, {} counted",
                lane.slot, ledger.tally.parked
            )
        })?;
    }
    Ok(())
}

fn redacted(after: &Contents) -> Checked {
    let parked = after.parked.values().map(|p| &p.failure);
    let mut all = parked.chain(after.skipped.values().map(|s| &s.failure));
    ensure("Q3", !all.any(|f| f.message.contains(SECRET)), || {
        "a dead letter keeps a message in clear".into()
    })
}

//! Canaries that live at the edge of a store: what a wrong store or relay would do instead.

use tidegate_core::Reply;
use tidegate_core::inbox::transaction::{Advance, Tally};
use tidegate_core::inbox::{Applied, Batch, LaneApplied, Position};
use tidegate_core::lane::LaneId;
use tidegate_core::outbox::{LaneTurn, Planned, Refill, Turn, Turned};
use tidegate_core::store::{OutboxStore, Sink};
use tidegate_core::stream::{Appended, Chain, Entry, EntryId, LaneAppend, Register};

use super::super::canary::Canary;
use super::super::check::{Checked, Writer};
use super::super::workload::{Kind, kind_of};
use super::{Stores, ready, reply};

impl Stores {
    /// each lane's turn under whatever token the lane has.
    pub(super) fn turn_unfenced(&self, turn: &Turn) -> Reply<Vec<Turned>> {
        let rows = self.outbox.contents().lanes;
        let mut all = Vec::new();
        for lane in &turn.lanes {
            let row = &rows[usize::from(lane.lane.slot)];
            let turn = Turn {
                member: row.owner.unwrap_or(turn.member),
                lanes: vec![LaneTurn {
                    token: row.token,
                    ..*lane
                }],
                bytes_max: turn.bytes_max,
            };
            match reply(self.outbox.turn(turn)) {
                Reply::Done(turned) => all.extend(turned),
                no => return no,
            }
        }
        Reply::Done(all)
    }

    /// settles all that is planned.
    pub(super) fn settle_all(&self, mut turn: Turn) -> Turn {
        let rows = self.outbox.contents().lanes;
        for lane in turn.lanes.iter_mut().filter(|l| l.settle.is_some()) {
            let planned = rows[usize::from(lane.lane.slot)].state.planned;
            lane.settle = Some((planned, self.truth.chain((lane.lane.slot, planned))));
        }
        turn
    }

    /// the archive forgot the first number, and counts on from there.
    pub(super) fn renumbered(&self, lane: LaneId, from: u64, refill: Reply<Refill>) -> Reply<Refill> {
        let (true, Reply::Done(Refill::Events(events))) = (self.is(Canary::RefillRenumbers), &refill) else {
            return refill;
        };
        if events.len() < 2 {
            return refill;
        }
        let mut chain = self.truth.chain((lane.slot, from.saturating_sub(1)));
        let next = |(n, (planned, _)): (u64, &(Planned, Chain))| {
            chain = chain.next(n, planned.event.as_ref().map(|e| e.id));
            let event = planned.event.clone();
            (Planned { n, event }, chain)
        };
        Reply::Done(Refill::Events((from..).zip(&events[1..]).map(next).collect()))
    }

    /// the register goes to just below whatever comes.
    pub(super) fn raise_registers(&self, lanes: &[LaneAppend]) {
        let mut contents = self.stream.contents();
        for append in lanes {
            let first = append.entries.first().map_or(0, |e| e.n);
            let register = contents.registers.entry(append.lane).or_default();
            if first > register.n + 1 {
                let n = first - 1;
                let chain = self.truth.chain((append.lane.slot, n));
                *register = Register {
                    n,
                    chain,
                    ..*register
                };
            }
        }
        self.stream.restore(contents);
    }

    /// a void number leaves no entry.
    pub(super) fn append_holes(&self, append: &LaneAppend) -> Appended {
        let mut end = Appended::Through(0);
        for entry in &append.entries {
            if entry.event.is_none() {
                let mut contents = self.stream.contents();
                let register = contents.registers.entry(append.lane).or_default();
                if register.n + 1 == entry.n && append.token >= register.token {
                    *register = Register {
                        n: entry.n,
                        token: append.token,
                        chain: entry.chain,
                    };
                    self.stream.restore(contents);
                    end = Appended::Through(entry.n);
                    continue;
                }
            }
            let one = LaneAppend {
                entries: vec![entry.clone()],
                ..append.clone()
            };
            match ready(self.stream.append(vec![one])) {
                Ok(outcomes) => end = outcomes[0].clone(),
                Err(error) => return Appended::Paused(error.to_string()),
            }
            if !matches!(end, Appended::Through(_)) {
                return end;
            }
        }
        end
    }

    /// the first event of each append is said to be poison.
    pub(super) fn blamed(&mut self, append: &LaneAppend) -> Appended {
        self.truth.handed_over(append.lane.slot);
        Appended::Poison {
            n: append.entries.first().map_or(0, |entry| entry.n),
            reason: "simulated: full".into(),
        }
    }

    /// more often than anything explains.
    pub(super) fn send_again(&mut self, lanes: &[LaneAppend]) -> Checked {
        for _ in 0..20 {
            let before = self.stream.contents();
            drop(reply(self.stream.append(lanes.to_vec())));
            self.truth.appended(&before, &self.stream.contents(), lanes)?;
        }
        Ok(())
    }

    /// up to the first event that fails.
    pub(super) fn cut_short(&self, batch: &Batch) -> Batch {
        let mut batch = batch.clone();
        if self.is(Canary::FailureEndsBatch) {
            for lane in &mut batch.lanes {
                let fails = |entry: &Entry| entry.event.as_ref().is_some_and(|e| kind_of(e) == Kind::Bad);
                let end = lane.entries.iter().position(fails).map(|at| at + 1);
                lane.entries.truncate(end.unwrap_or(usize::MAX));
            }
        }
        batch
    }

    /// each lane of the batch stands one number lower.
    pub(super) fn go_back(&mut self, batch: &Batch, applied: &Applied) -> Checked {
        for (lane, outcome) in &applied.lanes {
            if let LaneApplied::At(position) = outcome
                && position.hw > 0
            {
                self.put(batch, *lane, position.hw, position.hw - 1)?;
            }
        }
        Ok(())
    }

    /// passes over what is missing.
    pub(super) fn jump_gaps(&mut self, batch: &Batch, applied: &Applied) -> Checked {
        for (lane, outcome) in &applied.lanes {
            if let LaneApplied::Gap { hw, next } = outcome {
                self.put(batch, *lane, *hw, next - 1)?;
            }
        }
        Ok(())
    }

    /// Moves a lane of the batch where it must not go.
    fn put(&mut self, batch: &Batch, lane: LaneId, from: u64, to: u64) -> Checked {
        let Some(named) = batch.lanes.iter().find(|l| l.lane == lane) else {
            return Ok(());
        };
        let advance = Advance {
            lane,
            token: named.token,
            from,
            to: Position {
                hw: to,
                chain: self.truth.chain((lane.slot, to)),
                cursor: EntryId::START,
                clean: false,
            },
            tally: Tally::default(),
        };
        let writer = Writer {
            member: batch.member,
            lanes: vec![(lane, named.token)],
        };
        match ready(self.db.jump(batch.member, advance)) {
            Ok(()) => self.committed(&writer),
            Err(_) => Ok(()),
        }
    }
}

//! Canaries that live at the edge of a store: what a wrong store or relay would do instead.

use tidegate_core::Reply;
use tidegate_core::inbox::transaction::{Advance, Tally};
use tidegate_core::inbox::{Applied, Batch, LaneApplied, Position};
use tidegate_core::lane::LaneId;
use tidegate_core::outbox::{LaneTurn, Planned, Refill, Turn, Turned};
use tidegate_core::store::{OutboxStore, Sink};
use tidegate_core::stream::{Appended, Chain, EntryId, LaneAppend, Register};

use super::super::canary::Canary;
use super::super::check::{Checked, Writer};
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

    /// passes over what is missing.
    pub(super) fn jump_gaps(&mut self, batch: &Batch, applied: &Applied) -> Checked {
        for (lane, outcome) in &applied.lanes {
            let named = batch.lanes.iter().find(|l| l.lane == *lane);
            let (Some(named), LaneApplied::Gap { hw, next }) = (named, outcome) else {
                continue;
            };
            let to = Position {
                hw: next - 1,
                chain: self.truth.chain((lane.slot, next - 1)),
                cursor: EntryId::START,
                clean: false,
            };
            let advance = Advance {
                lane: *lane,
                token: named.token,
                from: *hw,
                to,
                tally: Tally::default(),
            };
            let jumped = ready(self.db.jump(batch.member, advance));
            let writer = Writer {
                member: batch.member,
                lanes: vec![(*lane, named.token)],
            };
            if jumped.is_ok() {
                self.committed(&writer)?;
            }
        }
        Ok(())
    }
}

//! One owned lane, as the relay sees it.

use std::collections::VecDeque;

use crate::lane::LaneId;
use crate::lease::{Nonce, Token};
use crate::outbox::{LaneState, LaneTurn, Park, Planned};
use crate::stream::{Chain, Lost, Numbered, Register};
use crate::time::Ticks;

use super::Effect;

/// Contradictions between database and stream that are met before they are believed: a lost reply can explain the
/// first ones, and each is followed by a reload.
const SUSPICIONS_MAX: u8 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// The plan is to be loaded.
    Loading,
    /// The plan is here; the register is awaited.
    Loaded,
    /// Planning, appending, settling.
    Live,
    /// The stream is behind what is settled: history is appended again.
    Refill,
    /// A range is gone for good and is to be declared.
    Declare(Lost),
    /// An outcome is unknown: wait for the next hold, then load again.
    Doubt,
    /// A database went back in time. Nothing more is done here.
    Forked,
}

/// What a comparison of plan and register showed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reconciled {
    Waiting,
    /// Goes on; this many planned events were there already.
    Live(u64),
    Reload,
    /// The stream's register, below what is settled.
    Lost(u64),
    Forked(u64),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    pub(super) token: Token,
    pub(super) epoch: u64,
    pub(super) phase: Phase,
    /// Confirmed by the outbox.
    pub(super) settled: (u64, Chain),
    /// Confirmed by the stream.
    acked: (u64, Chain),
    /// Planned and not acknowledged, in order of n; while refilling, history.
    pub(super) planned: VecDeque<Numbered>,
    /// The end of the plan.
    tail: (u64, Chain),
    pub(super) settling: Option<(u64, Chain)>,
    /// The sink's last answer, until it is reconciled; the inner `None` is a sink without registers.
    #[allow(clippy::option_option)]
    pub(super) register: Option<Option<Register>>,
    pub(super) ask_register: bool,
    /// The last turn left rows behind.
    pub(super) more: bool,
    pub(super) poison: Option<(u64, String)>,
    pub(super) paused_until: Ticks,
    suspicions: u8,
}

impl Lane {
    pub(super) fn loading(token: Token, epoch: u64, state: LaneState) -> Self {
        let settled = (state.settled, state.chain);
        Self {
            token,
            epoch,
            phase: Phase::Loading,
            settled,
            acked: settled,
            planned: VecDeque::new(),
            tail: settled,
            settling: None,
            register: None,
            ask_register: true,
            more: false,
            poison: None,
            paused_until: Ticks::from_micros(i64::MIN),
            suspicions: 0,
        }
    }

    /// The outbox keeps this for the same tenure, with no turn on its way. A state read before a doubt began
    /// contradicts the next turn, and the lane is loaded again.
    pub(super) fn kept(&mut self, state: LaneState) {
        match self.phase {
            Phase::Doubt => {
                *self = Self {
                    suspicions: self.suspicions,
                    ..Self::loading(self.token, self.epoch, state)
                }
            }
            // A turn of mine landed after it was given up: rows have numbers that I do not know.
            Phase::Live if state.planned > self.tail.0 => self.phase = Phase::Doubt,
            _ => {}
        }
    }

    pub(super) fn refilling(&self) -> bool {
        self.phase == Phase::Refill
    }

    pub(super) fn unsettled(&self) -> bool {
        self.phase == Phase::Live && self.acked.0 > self.settled.0
    }

    pub(super) fn quiet(&self) -> bool {
        let idle = self.phase == Phase::Live && self.planned.is_empty() && !self.more && !self.unsettled();
        idle || self.phase == Phase::Forked
    }

    pub(super) fn wants_register(&self) -> bool {
        self.ask_register && matches!(self.phase, Phase::Loading | Phase::Loaded | Phase::Live)
    }

    pub(super) fn appendable(&self, now: Ticks) -> bool {
        matches!(self.phase, Phase::Live | Phase::Refill)
            && !self.planned.is_empty()
            && self.poison.is_none()
            && !self.ask_register
            && now >= self.paused_until
    }

    /// Rows this lane has ready for the sink; none when it cannot append now.
    pub(super) fn ahead(&self, now: Ticks) -> usize {
        if self.appendable(now) {
            self.planned.len()
        } else {
            0
        }
    }

    pub(super) fn next_entries(&self, room: usize) -> Vec<Numbered> {
        self.planned.iter().take(room).cloned().collect()
    }

    /// This lane's part in the next turn, if it has one.
    pub(super) fn turn(
        &mut self,
        lane: LaneId,
        poll: bool,
        may_work: bool,
        share: u32,
        ahead_max: usize,
    ) -> Option<LaneTurn> {
        let token = self.token;
        if self.phase == Phase::Loading {
            let plan = if may_work { share } else { 0 };
            return Some(LaneTurn {
                lane,
                token,
                settle: None,
                plan,
                load: true,
            });
        }
        if self.phase != Phase::Live {
            return None;
        }
        let wants = may_work && self.planned.len() < ahead_max && (poll || self.more);
        let plan = if wants { share } else { 0 };
        // With a full plan in hand, settling rides in the turn that plans the next batch.
        let settle_now = self.unsettled() && (plan > 0 || !may_work || self.planned.is_empty());
        let settle = settle_now.then_some(self.acked);
        if settle.is_none() && plan == 0 {
            return None;
        }
        self.settling = settle;
        Some(LaneTurn {
            lane,
            token,
            settle,
            plan,
            load: false,
        })
    }

    /// A turn came back.
    pub(super) fn turned(&mut self, events: Vec<Planned>, more: bool) {
        if let Some(settled) = self.settling.take() {
            self.settled = settled;
        }
        self.more = more;
        let extends = events.first().is_none_or(|e| e.n == self.tail.0 + 1);
        if !extends || !matches!(self.phase, Phase::Loading | Phase::Live) {
            // A turn of mine landed after it was given up: what I know of the plan is old.
            self.phase = Phase::Doubt;
            return;
        }
        for Planned { n, event } in events {
            let chain = self.tail.1.next(n, event.as_ref().map(|e| e.id));
            self.tail = (n, chain);
            self.planned.push_back(Numbered { n, chain, event });
        }
        if self.phase == Phase::Loading {
            self.phase = Phase::Loaded;
        }
    }

    /// The stream holds everything through `n`. Returns how many of mine that confirms.
    pub(super) fn acknowledge(&mut self, n: u64) -> u64 {
        if !matches!(self.phase, Phase::Live | Phase::Refill) {
            return 0;
        }
        let mut count = 0;
        while let Some(front) = self.planned.front().filter(|e| e.n <= n) {
            self.acked = (front.n, front.chain);
            self.planned.pop_front();
            count += 1;
        }
        count
    }

    /// The sink's register stands here, and nothing was appended.
    pub(super) fn moved(&mut self, register: Register) {
        self.register = Some(Some(register));
        self.unsettle_refill();
    }

    /// An append has no known outcome: the register tells.
    pub(super) fn unknown(&mut self) {
        self.register = None;
        self.ask_register = true;
        self.unsettle_refill();
    }

    /// History that was being put back starts over, from what the stream has by then.
    fn unsettle_refill(&mut self) {
        if self.phase == Phase::Refill {
            self.phase = Phase::Doubt;
        }
    }

    /// Compares what the database planned with what the stream holds.
    pub(super) fn reconcile(&mut self) -> Reconciled {
        if !matches!(self.phase, Phase::Loaded | Phase::Live) {
            return Reconciled::Waiting;
        }
        let Some(register) = self.register.take() else {
            return Reconciled::Waiting;
        };
        self.ask_register = false;
        let Some(register) = register else {
            self.phase = Phase::Live;
            return Reconciled::Live(0);
        };
        if register.n < self.settled.0 {
            self.phase = Phase::Refill;
            self.planned.clear();
            self.acked = (register.n, register.chain);
            return Reconciled::Lost(register.n);
        }
        if register.n < self.acked.0 {
            self.phase = Phase::Doubt;
            return Reconciled::Reload;
        }
        if self.chain_at(register.n) != Some(register.chain) {
            return self.suspect(register.n);
        }
        self.suspicions = 0;
        self.phase = Phase::Live;
        Reconciled::Live(self.acknowledge(register.n))
    }

    fn chain_at(&self, n: u64) -> Option<Chain> {
        if n == self.acked.0 {
            return Some(self.acked.1);
        }
        self.planned.iter().find(|e| e.n == n).map(|e| e.chain)
    }

    fn suspect(&mut self, n: u64) -> Reconciled {
        self.suspicions += 1;
        if self.suspicions >= SUSPICIONS_MAX {
            self.phase = Phase::Forked;
            return Reconciled::Forked(n);
        }
        self.phase = Phase::Doubt;
        Reconciled::Reload
    }

    /// The side step that this lane's phase asks for.
    pub(super) fn chore(&self, lane: LaneId, member: Nonce, limit: u32) -> Option<Effect> {
        let token = self.token;
        match (&self.phase, &self.poison) {
            (Phase::Live, Some((n, reason))) => Some(Effect::Park(Park {
                member,
                lane,
                token,
                n: *n,
                followers: true,
                reason: reason.clone(),
            })),
            (Phase::Refill, _) if self.planned.is_empty() => Some(Effect::Refill {
                lane,
                token,
                from: self.acked.0 + 1,
                limit,
            }),
            (Phase::Declare(lost), _) => Some(Effect::Declare(Lost { lane, ..*lost }, token)),
            _ => None,
        }
    }

    /// History to append again. A chain that does not follow from the register's is a fork.
    pub(super) fn refill(&mut self, events: Vec<(Planned, Chain)>) {
        let mut at = self.acked;
        for (Planned { n, event }, chain) in events {
            let follows = n == at.0 + 1 && at.1.next(n, event.as_ref().map(|e| e.id)) == chain;
            if !follows {
                self.planned.clear();
                self.phase = Phase::Forked;
                return;
            }
            at = (n, chain);
            self.planned.push_back(Numbered { n, chain, event });
        }
    }

    pub(super) fn missing(&mut self, lane: LaneId, oldest: u64, chain: Chain) {
        let lost = Lost {
            lane,
            from: self.acked.0 + 1,
            through: oldest.saturating_sub(1),
            chain,
        };
        self.phase = Phase::Declare(lost);
    }

    pub(super) fn declared(&mut self, n: u64) -> Option<Lost> {
        let Phase::Declare(lost) = self.phase else {
            return None;
        };
        if n != lost.through {
            self.phase = Phase::Doubt;
            return None;
        }
        self.acked = (lost.through, lost.chain);
        self.phase = Phase::Refill;
        Some(lost)
    }

    /// These planned numbers are void markers now, under a higher token.
    pub(super) fn voided(&mut self, token: Token, numbers: &[u64]) {
        self.token = token;
        self.poison = None;
        let mut chain = self.acked.1;
        for entry in &mut self.planned {
            if numbers.contains(&entry.n) {
                entry.event = None;
            }
            chain = chain.next(entry.n, entry.event.as_ref().map(|e| e.id));
            entry.chain = chain;
        }
        self.tail.1 = chain;
    }
}

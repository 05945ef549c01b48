//! The inbox's database as the apply transaction sees it: commits fail, and every committed snapshot is kept.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fastrand::Rng;
use tidegate_core::inbox::transaction::{
    Advance, Commit, FailedAgain, InboxDb, InboxTx, Locked, NewlyParked, Scheduled, Skipped, Waiting,
};
use tidegate_core::inbox::{Delivered, KeyRef};
use tidegate_core::lane::LaneId;
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::memory::inbox::{Contents, MemoryInbox, MemoryTx};
use tidegate_core::{Code, Error, Result};

use super::canary::Canary;
use super::knobs::{Fault, Knobs};

/// What the database, the handler and the world share while one call is carried out.
#[derive(Debug)]
pub(super) struct Inside {
    pub(super) knobs: Knobs,
    pub(super) canary: Option<Canary>,
    pub(super) rng: Rng,
    /// Things go wrong.
    pub(super) chaos: bool,
    /// The process ended in the handler.
    pub(super) killed: bool,
    /// The next call of the handler does nothing and says that it did.
    pub(super) drop_next: bool,
    /// Snapshots before and after each commit of this call.
    pub(super) commits: Vec<(Arc<Contents>, Arc<Contents>)>,
    /// Coverage points met.
    pub(super) met: Vec<&'static str>,
}

impl Inside {
    pub(super) fn strikes(&mut self, fault: Fault) -> bool {
        self.chaos && self.knobs.faults.has(fault) && self.rng.f64() < self.knobs.intensity
    }
}

#[derive(Debug, Clone)]
pub(super) struct Db {
    pub(super) inbox: MemoryInbox,
    pub(super) inside: Rc<RefCell<Inside>>,
}

/// A transaction.
pub(super) struct Tx {
    inner: MemoryTx,
    seen: Arc<Contents>,
    canary: Option<Canary>,
    /// Moves kept back to be committed apart.
    apart: Option<(Nonce, Vec<Advance>)>,
}

impl Tx {
    /// The effect of one event: counted by lane and number, and listed by key.
    pub(super) fn effect(&mut self, event: &Delivered) {
        let slot = event.lane.slot;
        self.inner.append(format!("e/{slot}/{}", event.n), "1");
        if let Some(key) = &event.event.key {
            self.inner
                .append(format!("k/{slot}/{key}"), &format!("{},", event.n));
        }
    }

    fn is(&self, canary: Canary) -> bool {
        self.canary == Some(canary)
    }
}

impl Db {
    async fn store(&self, tx: MemoryTx) -> Commit {
        let before = self.inbox.contents();
        let commit = self.inbox.commit(tx).await;
        let after = self.inbox.contents();
        self.inside.borrow_mut().commits.push((before, after));
        commit
    }

    /// Commits the position apart from its effect; in between, the process may end.
    async fn store_apart(&self, member: Nonce, moves: Vec<Advance>) -> Commit {
        let ends = self.inside.borrow_mut().rng.u32(0..4) == 0;
        if ends {
            self.inside.borrow_mut().killed = true;
            return Commit::Refused(unavailable());
        }
        let mut tx = match self.inbox.begin().await {
            Ok(tx) => tx,
            Err(error) => return Commit::Refused(error),
        };
        if let Err(error) = tx.advance(member, &moves).await {
            return Commit::Refused(error);
        }
        self.store(tx).await
    }

    /// Canary: an effect of nobody's event.
    pub(super) async fn scribble(&self) {
        if let Ok(mut tx) = self.inbox.begin().await {
            tx.append("e/0/0", "1");
            self.inbox.commit(tx).await;
        }
    }

    /// Moves a lane's position as nobody may.
    pub(super) async fn jump(&self, member: Nonce, advance: Advance) -> Result<()> {
        let mut tx = self.inbox.begin().await?;
        tx.advance(member, &[advance]).await?;
        self.store(tx).await;
        Ok(())
    }
}

fn unavailable() -> Error {
    Error::new(Code::StoreUnavailable, "simulated: commit refused")
}

impl InboxDb for Db {
    type Tx<'a> = Tx;

    async fn begin(&self) -> Result<Tx> {
        Ok(Tx {
            inner: self.inbox.begin().await?,
            seen: self.inbox.contents(),
            canary: self.inside.borrow().canary,
            apart: None,
        })
    }

    async fn commit(&self, tx: Tx) -> Commit {
        if self.inside.borrow().killed {
            return Commit::Refused(unavailable());
        }
        let fails = self.inside.borrow_mut().strikes(Fault::Commit);
        let how = if fails {
            self.inside.borrow_mut().rng.u32(1..=3)
        } else {
            0
        };
        let point = ["commit refused", "commit unknown and lost"].get((how as usize).wrapping_sub(1));
        self.inside.borrow_mut().met.extend(point);
        match how {
            1 => return Commit::Refused(unavailable()),
            2 => return Commit::Unknown(Error::unknown("simulated: commit lost")),
            _ => {}
        }
        let mut commit = self.store(tx.inner).await;
        if let (Commit::Done, Some((member, moves))) = (&commit, tx.apart) {
            commit = self.store_apart(member, moves).await;
        }
        if how == 3 {
            self.inside.borrow_mut().met.push("commit unknown and stands");
            return Commit::Unknown(Error::unknown("simulated: reply of a commit lost"));
        }
        commit
    }
}

impl InboxTx for Tx {
    async fn lock_lanes(&mut self, member: Nonce, lanes: &[(LaneId, Token)]) -> Result<Vec<Locked>> {
        if !self.is(Canary::ApplyUnfenced) {
            return self.inner.lock_lanes(member, lanes).await;
        }
        let mut locked = Vec::new();
        for (lane, _) in lanes {
            let row = self.seen.lanes.iter().find(|row| row.lane == *lane);
            if let Some((row, owner)) = row.and_then(|row| Some((row, row.owner?))) {
                locked.extend(self.inner.lock_lanes(owner, &[(*lane, row.token)]).await?);
            }
        }
        Ok(locked)
    }

    async fn parked_among(&mut self, keys: &[KeyRef]) -> Result<Vec<(KeyRef, u64)>> {
        if self.is(Canary::OvertakeParked) {
            return Ok(Vec::new());
        }
        self.inner.parked_among(keys).await
    }

    async fn parked_total(&mut self) -> Result<u64> {
        self.inner.parked_total().await
    }

    async fn set_aside(&mut self, keys: &[NewlyParked], events: &[Waiting]) -> Result<()> {
        if self.is(Canary::EffectOfDeadLetter) {
            for waiting in events {
                self.effect(&waiting.delivered);
            }
        }
        self.inner.set_aside(keys, events).await
    }

    async fn skip(&mut self, skipped: &Skipped) -> Result<()> {
        self.inner.skip(skipped).await
    }

    async fn advance(&mut self, member: Nonce, lanes: &[Advance]) -> Result<usize> {
        if self.is(Canary::DedupeOutside) && lanes.iter().any(|l| l.to.hw > l.from) {
            self.apart = Some((member, lanes.to_vec()));
            return Ok(lanes.len());
        }
        if self.is(Canary::VoidsUncounted) {
            let mut lanes = lanes.to_vec();
            for lane in &mut lanes {
                lane.tally.voids = 0;
            }
            return self.inner.advance(member, &lanes).await;
        }
        if !self.is(Canary::ApplyUnfenced) {
            return self.inner.advance(member, lanes).await;
        }
        let mut moved = 0;
        for advance in lanes {
            let row = self.seen.lanes.iter().find(|row| row.lane == advance.lane);
            if let Some((row, owner)) = row.and_then(|row| Some((row, row.owner?))) {
                let token = row.token;
                let advance = Advance {
                    token,
                    ..advance.clone()
                };
                moved += self.inner.advance(owner, &[advance]).await?;
            }
        }
        Ok(moved)
    }

    async fn scheduled(&mut self, lanes: &[LaneId], limit: u32) -> Result<Vec<Scheduled>> {
        self.inner.scheduled(lanes, limit).await
    }

    async fn queue_head(&mut self, lane: LaneId, key: &KeyRef, limit: u32) -> Result<Vec<Delivered>> {
        self.inner.queue_head(lane, key, limit).await
    }

    async fn unqueue(&mut self, lane: LaneId, key: &KeyRef, through: u64) -> Result<u64> {
        self.inner.unqueue(lane, key, through).await
    }

    async fn reschedule(&mut self, key: &KeyRef, failed: &FailedAgain) -> Result<()> {
        self.inner.reschedule(key, failed).await
    }

    async fn attempt(&mut self, lane: LaneId, n: u64, token: Token) -> Result<u32> {
        let tries = self.inner.attempt(lane, n, token).await?;
        Ok(if self.is(Canary::AttemptsForgotten) {
            1
        } else {
            tries
        })
    }

    async fn clear_attempt(&mut self, lane: LaneId, n: u64) -> Result<()> {
        self.inner.clear_attempt(lane, n).await
    }
}

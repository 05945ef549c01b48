//! Who owns which lanes: the part that every lane worker (relay, consumer) shares.
//!
//! A worker asks its store again and again with one [`Hold`]: heartbeat, release, renew and claim in one round trip.
//! The reply is the whole truth about what it owns, so a lost reply is repaired by the next one.
//!
//! Trust in a lane ends at `t_send + ttl - margin` on the worker's monotonic clock, counted from the request that
//! succeeded. Safety never rests on it: every write carries the lane's token and is compared where it lands.
//!
//! A lane above the fair share, or any lane when stopping, is *draining*: the worker ends what is in flight, says
//! [`Ownership::drained`], and the next hold releases it. Stop first, release second.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Held, Hold, LaneId};
use crate::error::{Code, Error, Result};
use crate::lease::{Nonce, Token};
use crate::time::Ticks;

/// How a worker holds its lanes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Options {
    /// Life of a grant on the store's clock. Default 10 s: a crashed owner is replaced within 11 s.
    pub ttl: Duration,
    /// Who this is, for people.
    pub label: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(10),
            label: "worker".into(),
        }
    }
}

impl Options {
    /// Shortest ttl that leaves room for three tries and the margin.
    pub const TTL_MIN: Duration = Duration::from_secs(1);
    /// Longest ttl: what a crash may cost.
    pub const TTL_MAX: Duration = Duration::from_secs(3600);

    /// Checks the bounds.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] with the value and the limit.
    pub fn validate(&self) -> Result<()> {
        if self.ttl < Self::TTL_MIN || self.ttl > Self::TTL_MAX {
            return Err(Error::new(
                Code::OptionsInvalid,
                format!(
                    "ttl is {:?}; it must be between 1 s and 1 h to leave room for renewals",
                    self.ttl
                ),
            ));
        }
        Ok(())
    }

    /// Time between holds: a third of the ttl, at most one second so that vacancies are seen soon.
    pub fn every(&self) -> Duration {
        (self.ttl / 3).min(Duration::from_secs(1))
    }

    /// Longest wait for one reply.
    pub fn attempt(&self) -> Duration {
        self.ttl / 5
    }

    /// Clock drift (a tenth, at least 100 ms) and the time to stop work in flight (a tenth, at most 1 s).
    pub fn margin(&self) -> Duration {
        (self.ttl / 10).max(Duration::from_millis(100)) + (self.ttl / 10).min(Duration::from_secs(1))
    }
}

/// What a hold's reply changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<S> {
    /// A lane is owned that was not, or was under another token.
    Gained {
        /// Which.
        lane: LaneId,
        /// The new tenure.
        token: Token,
        /// What the store keeps for it.
        state: S,
    },
    /// A lane still owned, with what the store keeps for it now.
    Kept {
        /// Which.
        lane: LaneId,
        /// What the store keeps for it.
        state: S,
    },
    /// A lane is not owned any more.
    Lost(LaneId),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Tenure {
    token: Token,
    until: Ticks,
    drained: bool,
    draining: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Asked {
    sent: Ticks,
    leave: bool,
    released: Vec<LaneId>,
}

/// The sub-machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ownership {
    member: Nonce,
    options: Options,
    tenures: BTreeMap<LaneId, Tenure>,
    asked: Option<Asked>,
    next_at: Ticks,
    stopping: bool,
    left: bool,
}

impl Ownership {
    /// Owns nothing yet; the first hold is due at once.
    pub fn new(member: Nonce, options: Options) -> Self {
        Self {
            member,
            options,
            tenures: BTreeMap::new(),
            asked: None,
            next_at: Ticks::from_micros(i64::MIN),
            stopping: false,
            left: false,
        }
    }

    /// This worker's nonce.
    pub fn member(&self) -> Nonce {
        self.member
    }

    /// The token of a lane owned now.
    pub fn token(&self, lane: LaneId) -> Option<Token> {
        self.tenures.get(&lane).map(|t| t.token)
    }

    /// Lanes owned now.
    pub fn lanes(&self) -> impl Iterator<Item = (LaneId, Token)> + '_ {
        self.tenures.iter().map(|(lane, t)| (*lane, t.token))
    }

    /// Whether new work may start in a lane.
    pub fn may_work(&self, lane: LaneId) -> bool {
        !self.stopping && self.tenures.get(&lane).is_some_and(|t| !t.draining)
    }

    /// Lanes that must finish what is in flight and start nothing.
    pub fn draining(&self) -> Vec<LaneId> {
        let leaving = |t: &Tenure| (t.draining || self.stopping) && !t.drained;
        self.tenures
            .iter()
            .filter(|(_, t)| leaving(t))
            .map(|(lane, _)| *lane)
            .collect()
    }

    /// Nothing is in flight in this lane: the next hold releases it.
    pub fn drained(&mut self, lane: LaneId, now: Ticks) {
        if let Some(tenure) = self.tenures.get_mut(&lane) {
            tenure.drained = true;
            self.next_at = now;
        }
    }

    /// The lane's store or sink refused my token: forget it.
    pub fn fenced(&mut self, lane: LaneId) {
        self.tenures.remove(&lane);
    }

    /// A store raised my token in a step of its own.
    pub fn retoken(&mut self, lane: LaneId, token: Token) {
        if let Some(tenure) = self.tenures.get_mut(&lane) {
            tenure.token = token;
        }
    }

    /// Asks for a hold at the next opportunity.
    pub fn refresh(&mut self, now: Ticks) {
        self.next_at = self.next_at.min(now);
    }

    /// Claims nothing more and gives everything up once drained.
    pub fn stop(&mut self, now: Ticks) {
        self.stopping = true;
        self.next_at = now;
    }

    /// A hold is in flight: what is owned may be about to change.
    pub fn asking(&self) -> bool {
        self.asked.is_some()
    }

    /// True after the last hold of a stopping worker was answered.
    pub fn left(&self) -> bool {
        self.left
    }

    /// Drops lanes whose trust ran out, and names them.
    pub fn expire(&mut self, now: Ticks) -> Vec<LaneId> {
        let gone: Vec<_> = self
            .tenures
            .iter()
            .filter(|(_, t)| t.until <= now)
            .map(|(l, _)| *l)
            .collect();
        for lane in &gone {
            self.tenures.remove(lane);
        }
        gone
    }

    /// The next hold, if one is due and none is in flight. While stopping it is sent when something drained, and the
    /// last one leaves.
    pub fn due(&mut self, now: Ticks) -> Option<Hold> {
        if self.asked.is_some() || self.left || now < self.next_at {
            return None;
        }
        let released: Vec<_> = self
            .tenures
            .iter()
            .filter(|(_, t)| t.drained)
            .map(|(l, _)| *l)
            .collect();
        let leave = self.stopping && released.len() == self.tenures.len();
        let release = released
            .iter()
            .filter_map(|l| Some((*l, self.token(*l)?)))
            .collect();
        self.asked = Some(Asked {
            sent: now,
            leave,
            released,
        });
        self.next_at = now.after(self.options.every());
        let Options { ttl, label } = self.options.clone();
        Some(Hold {
            member: self.member,
            label,
            ttl,
            release,
            leave: leave || self.stopping,
        })
    }

    /// The hold was answered.
    pub fn held<S>(&mut self, now: Ticks, held: Held<S>) -> Vec<Change<S>> {
        let Some(asked) = self.asked.take() else {
            return Vec::new();
        };
        let until = asked.sent.after(self.options.ttl).before(self.options.margin());
        let mut before = std::mem::take(&mut self.tenures);
        for lane in &asked.released {
            before.remove(lane);
        }
        // Lanes that I had lost sight of are released before I leave.
        self.left = asked.leave && held.owned.is_empty();
        let mut changes = Vec::new();
        for owned in held.owned {
            if until <= now {
                continue; // A grant that arrives too late is no grant.
            }
            let old = before.remove(&owned.lane);
            if let Some(raised) = old.as_ref().filter(|t| t.token > owned.token) {
                // The store answered before it raised my token; the trust of that tenure stands as it was.
                self.tenures.insert(owned.lane, raised.clone());
                continue;
            }
            let same = old.as_ref().filter(|t| t.token == owned.token);
            let tenure = Tenure {
                token: owned.token,
                until,
                drained: same.is_some_and(|t| t.drained),
                draining: same.is_some_and(|t| t.draining),
            };
            let (lane, token, state) = (owned.lane, owned.token, owned.state);
            let kept = same.is_some();
            if old.is_some() && !kept {
                changes.push(Change::Lost(lane));
            }
            self.tenures.insert(lane, tenure);
            changes.push(if kept {
                Change::Kept { lane, state }
            } else {
                Change::Gained { lane, token, state }
            });
        }
        changes.extend(before.into_keys().map(Change::Lost));
        self.mark_surplus(held.members, held.lanes);
        changes
    }

    /// The hold failed or its outcome is unknown: trust is not extended; ask again soon.
    pub fn failed(&mut self, now: Ticks) {
        if let Some(asked) = self.asked.take() {
            self.left = asked.leave && self.tenures.is_empty();
        }
        self.next_at = now.after(self.options.every() / 4);
    }

    /// When something is due by itself.
    pub fn wake_at(&self) -> Option<Ticks> {
        let trust = self.tenures.values().map(|t| t.until).min();
        let hold = (self.asked.is_none() && !self.left).then_some(self.next_at);
        trust.into_iter().chain(hold).min()
    }

    /// Lanes above the fair share are drained, highest first.
    fn mark_surplus(&mut self, members: u32, lanes: u32) {
        let fair = lanes.div_ceil(members.max(1)) as usize;
        let keeping = self.tenures.values().filter(|t| !t.draining).count();
        let surplus = keeping.saturating_sub(fair);
        for tenure in self
            .tenures
            .values_mut()
            .rev()
            .filter(|t| !t.draining)
            .take(surplus)
        {
            tenure.draining = true;
        }
    }
}

//! The same random history against the memory store and the store under test must give equal replies.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::lane::{Hold, LaneId};
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::memory::{Clock, MemoryOutbox};
use tidegate_core::outbox::{LaneTurn, LaneTurned, Park, ParkReply, Planned, Turn, Turned};
use tidegate_core::store::OutboxStore;
use tidegate_core::stream::Chain;
use tidegate_core::{Event, Result, Timestamp};

use super::{Subject, event, hold};
use crate::counts;

const LANES: u16 = 4;
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// `TIDEGATE_HISTORIES` (200) times 60 steps, one after another on one outbox, so that later ones meet a long past.
pub async fn o_070_random_histories_equal_those_of_the_memory_store(subject: &dyn Subject) {
    let histories = counts::budget("TIDEGATE_HISTORIES", 200);
    let seed = counts::budget("TIDEGATE_SEED", 1);
    let store = subject.outbox(LANES, true).await;
    let model = MemoryOutbox::new(subject.clock(), store.settings().await.unwrap());
    let mut world = World::new(store, model, subject.clock(), seed);
    for history in 0..histories {
        for step in 0..60 {
            world.step().await;
            if step % 12 == 0 {
                world
                    .compare(&format!("seed {seed}, history {history}, step {step}"))
                    .await;
            }
        }
    }
    let unmet: Vec<_> = KINDS.iter().filter(|kind| !world.met.contains(**kind)).collect();
    assert!(histories < 100 || unmet.is_empty(), "never met: {unmet:?}");
    counts::add("conformance.outbox.histories", histories);
}

/// What one member believes of a lane.
#[derive(Clone)]
struct Belief {
    lane: LaneId,
    token: Token,
    settled: (u64, Chain),
    planned: Vec<Planned>,
}

struct World {
    store: Arc<dyn OutboxStore>,
    model: MemoryOutbox,
    clock: Clock,
    random: fastrand::Rng,
    members: Vec<(Nonce, Vec<Belief>)>,
    next_id: u128,
    log: Vec<String>,
    met: BTreeSet<&'static str>,
}

/// Parts of replies that a history of any length must meet: otherwise it compares nothing.
const KINDS: [&str; 9] = [
    "Fork",
    "Fenced",
    "EventInvalid",
    "Internal",
    "Missing",
    "Parked {",
    "event: None",
    "more: true",
    "Events([(",
];

/// Replies are compared as text: equal text, equal values.
fn told<T: std::fmt::Debug>(reply: &Result<T>) -> String {
    match reply {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}", error.code()),
    }
}

macro_rules! both {
    ($world:expr, $call:ident ( $($arg:expr),* )) => {{
        let asked = format!(concat!(stringify!($call), "{:?}"), ($(&$arg,)*));
        let real = $world.store.$call($($arg.clone()),*).await;
        let model = $world.model.$call($($arg.clone()),*).await;
        let (real_told, model_told) = (told(&real), told(&model));
        let trail = $world.log.iter().rev().take(8).rev().cloned().collect::<Vec<_>>().join("\n");
        assert_eq!(real_told, model_told, "{asked}\nafter\n{trail}");
        $world.log.push(asked);
        $world.met.extend(KINDS.iter().filter(|kind| real_told.contains(**kind)));
        real
    }};
}

impl World {
    fn new(store: Arc<dyn OutboxStore>, model: MemoryOutbox, clock: Clock, seed: u64) -> Self {
        clock.advance(Duration::from_secs(1));
        Self {
            store,
            model,
            clock,
            random: fastrand::Rng::with_seed(seed),
            members: (1..=3).map(|n| (Nonce(n), Vec::new())).collect(),
            next_id: 0,
            log: Vec::new(),
            met: BTreeSet::new(),
        }
    }

    async fn step(&mut self) {
        match self.random.u8(..100) {
            0..25 => self.enqueue().await,
            25..40 => self.hold().await,
            40..80 => self.turn().await,
            80..85 => self.park().await,
            85..90 => self.release().await,
            90..93 => self.refill().await,
            93..95 => self.sweep().await,
            _ => self
                .clock
                .advance(Duration::from_millis(self.random.u64(0..6_000))),
        }
    }

    /// The tables that people see are equal too.
    async fn compare(&mut self, at: &str) {
        let (real, model) = (self.store.lanes().await, self.model.lanes().await);
        assert_eq!(told(&real), told(&model), "{at}: lanes");
        let (real, model) = (self.store.parked(50).await, self.model.parked(50).await);
        assert_eq!(told(&real), told(&model), "{at}: parked");
    }

    fn event(&mut self) -> Event {
        self.next_id += 1;
        let key = self.random.choice(KEYS).unwrap_or("a");
        let mut event = event(key, self.next_id);
        event.occurred_at = Timestamp::from_micros(self.clock.now().as_micros());
        event.payload = vec![7; self.random.usize(0..40)].into();
        if self.random.u8(..8) == 0 {
            event.key = None;
        }
        if self.random.u8(..60) == 0 {
            event.topic = String::new();
        }
        event
    }

    async fn enqueue(&mut self) {
        let events: Vec<_> = (0..self.random.usize(0..6)).map(|_| self.event()).collect();
        let _ = both!(self, enqueue(events));
    }

    async fn hold(&mut self) {
        let at = self.random.usize(0..self.members.len());
        let (member, beliefs) = &self.members[at];
        let release = beliefs.iter().filter(|_| self.random.u8(..8) == 0);
        let release = release.map(|b| (b.lane, b.token)).collect();
        let ask = Hold {
            ttl: Duration::from_secs(self.random.u64(1..10)),
            release,
            leave: self.random.u8(..10) == 0,
            ..hold(*member)
        };
        let held = both!(self, hold(ask)).unwrap();
        let before = std::mem::take(&mut self.members[at].1);
        self.members[at].1 = held
            .owned
            .into_iter()
            .map(|o| Belief {
                lane: o.lane,
                token: o.token,
                settled: (o.state.settled, o.state.chain),
                planned: before
                    .iter()
                    .find(|b| b.lane == o.lane && b.token == o.token && b.settled.0 == o.state.settled)
                    .map(|b| b.planned.clone())
                    .unwrap_or_default(),
            })
            .collect();
    }

    async fn turn(&mut self) {
        let at = self.random.usize(0..self.members.len());
        let (member, beliefs) = self.members[at].clone();
        let mut lanes = Vec::new();
        for belief in &beliefs {
            if self.random.u8(..4) > 0 {
                lanes.push(self.part(belief));
            }
        }
        let turn = Turn {
            member,
            lanes,
            bytes_max: self.random.usize(0..120),
        };
        let Ok(turned) = both!(self, turn(turn)) else {
            return;
        };
        for (part, Turned { outcome, .. }) in turn.lanes.iter().zip(turned) {
            let belief = self.members[at].1.iter_mut().find(|b| b.lane == part.lane);
            believe(belief.unwrap(), part, outcome);
        }
    }

    fn part(&mut self, belief: &Belief) -> LaneTurn {
        let acknowledged = self.random.usize(0..=belief.planned.len());
        let mut settle = (acknowledged > 0 && self.random.bool()).then(|| {
            let (n, chain) = super::end(belief.settled.1, &belief.planned[..acknowledged]);
            (n, chain)
        });
        match (self.random.u8(..40), &mut settle) {
            (0, Some((n, _))) => *n += 5,
            (1, Some((_, chain))) => *chain = Chain([9; 16]),
            _ => {}
        }
        let stale = self.random.u8(..40) == 0;
        LaneTurn {
            lane: belief.lane,
            token: if stale {
                Token(belief.token.0 - 1)
            } else {
                belief.token
            },
            settle,
            plan: self.random.u32(0..5),
            load: self.random.u8(..4) == 0,
        }
    }

    /// Someone's lane, with what they believe of it.
    fn any(&mut self) -> Option<(usize, usize)> {
        let at = self.random.usize(0..self.members.len());
        let lanes = self.members[at].1.len();
        (lanes > 0).then(|| (at, self.random.usize(0..lanes)))
    }

    async fn park(&mut self) {
        let Some((at, of)) = self.any() else {
            return;
        };
        let (member, belief) = (self.members[at].0, self.members[at].1[of].clone());
        let park = Park {
            member,
            lane: belief.lane,
            token: belief.token,
            n: belief.settled.0 + self.random.u64(0..4),
            followers: self.random.bool(),
            reason: format!("reason {}", self.random.u8(..3)),
        };
        if let Ok(ParkReply::Parked { token, voided }) = both!(self, park(park)) {
            let belief = &mut self.members[at].1[of];
            belief.token = token;
            for planned in belief.planned.iter_mut().filter(|p| voided.contains(&p.n)) {
                planned.event = None;
            }
        }
    }

    async fn release(&mut self) {
        let parked = self.model.parked(50).await.unwrap();
        let known = self.random.choice(parked).map(|p| p.key);
        let key = known.unwrap_or_else(|| "nobody".to_owned());
        both!(self, release(key)).unwrap();
    }

    async fn refill(&mut self) {
        let Some((at, of)) = self.any() else {
            return;
        };
        let (member, belief) = (self.members[at].0, self.members[at].1[of].clone());
        let (from, limit) = (self.random.u64(1..belief.settled.0 + 3), self.random.u32(1..20));
        let (lane, token) = (belief.lane, belief.token);
        both!(self, refill(member, lane, token, from, limit)).unwrap();
    }

    async fn sweep(&mut self) {
        let now = Timestamp::from_micros(self.clock.now().as_micros());
        let before = now.before(Duration::from_millis(self.random.u64(0..60_000)));
        let limit = self.random.u32(1..30);
        both!(self, sweep_archive(before, limit)).unwrap();
    }
}

/// What an honest member makes of a reply.
fn believe(belief: &mut Belief, part: &LaneTurn, outcome: LaneTurned) {
    let LaneTurned::Planned { events, .. } = outcome else {
        belief.planned.clear();
        return;
    };
    if let Some((n, chain)) = part.settle.filter(|(n, _)| *n > belief.settled.0) {
        belief.settled = (n, chain);
        belief.planned.retain(|p| p.n > n);
    }
    if part.load {
        belief.planned.clear();
    }
    belief.planned.extend(events);
    // A plan with a hole is one that was never loaded: what is before the hole is not known.
    let first = belief.planned.first().map(|p| p.n);
    if first.is_some_and(|n| n != belief.settled.0 + 1) {
        belief.planned.clear();
    }
}

//! Everything a seed decides before the world begins.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use tidegate_core::time::micros;

macro_rules! faults {
    ($($variant:ident = $name:literal: $doc:literal,)+) => {
        /// A kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fault { $(#[doc = $doc] $variant,)+ }

        impl Fault {
            /// Every kind.
            pub const ALL: [Fault; [$($name),+].len()] = [$(Fault::$variant,)+];

            /// As printed.
            pub fn name(self) -> &'static str {
                match self { $(Fault::$variant => $name,)+ }
            }
        }
    };
}

faults! {
    Crash = "crash": "A process ends and another one begins.",
    Pause = "pause": "A process stands still, sometimes for longer than its ttl.",
    Stop = "stop": "A process is told to stop, and another one begins.",
    Outage = "outage": "The lease store refuses everything for a while.",
    Delay = "delay": "A request or reply takes long.",
    LostRequest = "lost-request": "A request never arrives.",
    LostReply = "lost-reply": "A request is carried out, and nobody hears of it.",
    Twice = "twice": "A request is carried out again later.",
    Refuse = "refuse": "A store says no, and means it.",
    LostBell = "lost-bell": "A bell is not heard.",
    Deaf = "deaf": "Work does not stop when told.",
    Break = "break": "A person breaks the lease.",
    Flush = "flush": "The lease store forgets everything.",
    Restore = "restore": "The lease store goes back to what it was earlier.",
    Stuck = "stuck": "The store's wall clock is useless: tokens only count up.",
}

/// A set of kinds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Faults(u32);

impl Faults {
    /// None.
    pub const NONE: Faults = Faults(0);
    /// Every kind.
    pub const ALL: Faults = Faults(u32::MAX);

    /// Whether this kind is on.
    pub fn has(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u32) != 0
    }

    /// Without this kind.
    #[must_use]
    pub fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u32))
    }

    /// What both have.
    #[must_use]
    pub fn and(self, other: Faults) -> Self {
        Self(self.0 & other.0)
    }

    fn draw(rng: &mut Rng) -> Self {
        // A tenth of the seeds goes right; in the others each kind is on or off.
        if rng.u8(0..10) == 0 {
            Self::NONE
        } else {
            Self(rng.u32(..))
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = Fault::ALL.into_iter().filter(|fault| self.has(*fault));
        f.debug_set().entries(on.map(Fault::name)).finish()
    }
}

/// Something that goes wrong by itself, or is done by a person.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed {
    Crash { node: usize },
    Pause { node: usize, for_micros: i64 },
    Stop { node: usize, within: Duration },
    Outage { for_micros: i64 },
    Break,
    Flush,
    Restore,
}

#[derive(Debug, Clone)]
pub(super) struct Knobs {
    pub(super) rng: Rng,
    pub(super) faults: Faults,
    /// How often a request meets a fault that is on.
    pub(super) intensity: f64,
    /// The ttl of each node; candidates and holders may differ.
    pub(super) ttls: Vec<Duration>,
    /// How long things go wrong.
    pub(super) chaos: i64,
}

impl Knobs {
    pub(super) fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let faults = Faults::draw(&mut rng);
        let base = [600, 1_500, 10_000][rng.usize(0..3)];
        let ttls = (0..rng.usize(2..5))
            .map(|_| Duration::from_millis(base * [1, 1, 2][rng.usize(0..3)]))
            .collect();
        Self {
            intensity: [0.02, 0.1, 0.3][rng.usize(0..3)],
            chaos: micros(Duration::from_millis(base)) * rng.i64(8..30),
            faults,
            ttls,
            rng,
        }
    }

    pub(super) fn ttl_max(&self) -> i64 {
        self.ttls.iter().map(|ttl| micros(*ttl)).max().unwrap_or_default()
    }

    /// When what happens. The plan is data, so that a failing run can be shrunk.
    pub(super) fn plan(&mut self) -> Vec<(i64, Deed)> {
        let mut plan = Vec::new();
        for fault in Fault::ALL {
            for _ in 0..self.rng.usize(1..=4) {
                let at = self.rng.i64(0..self.chaos);
                let deed = self.deed(fault);
                plan.extend(deed.filter(|_| self.faults.has(fault)).map(|deed| (at, deed)));
            }
        }
        plan
    }

    fn deed(&mut self, fault: Fault) -> Option<Deed> {
        let node = self.rng.usize(0..self.ttls.len());
        let span = self.rng.i64(1..2 * self.ttl_max());
        let within = Duration::from_micros(self.rng.u64(0..3) * span.unsigned_abs());
        Some(match fault {
            Fault::Crash => Deed::Crash { node },
            Fault::Pause => Deed::Pause {
                node,
                for_micros: span,
            },
            Fault::Stop => Deed::Stop { node, within },
            Fault::Outage => Deed::Outage { for_micros: span },
            Fault::Break => Deed::Break,
            Fault::Flush => Deed::Flush,
            Fault::Restore => Deed::Restore,
            _ => return None,
        })
    }
}

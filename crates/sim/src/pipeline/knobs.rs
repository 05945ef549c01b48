//! Everything a seed decides before the world begins.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fastrand::Rng;
use tidegate_core::inbox::handler::Mode;
use tidegate_core::inbox::{Policy, Start};

macro_rules! faults {
    ($($variant:ident = $name:literal: $doc:literal,)+) => {
        /// A kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fault { $(#[doc = $doc] $variant,)+ }

        impl Fault {
            /// Every kind.
            pub const ALL: [Fault; [$($name),+].len()] = [$(Fault::$variant,)+];

            /// As printed in a repro line.
            pub fn name(self) -> &'static str {
                match self { $(Fault::$variant => $name,)+ }
            }
        }
    };
}

faults! {
    Crash = "crash": "A process ends and comes back as another member.",
    CrashAtEffect = "crash-at-effect": "A process ends just before or after an effect takes place.",
    Pause = "pause": "A process stands still, sometimes for longer than its ttl.",
    Delay = "delay": "A request or reply takes long.",
    LostRequest = "lost-request": "A request never arrives; the outcome is unknown.",
    LostReply = "lost-reply": "A request is carried out; the outcome is unknown.",
    Full = "full": "The stream takes nothing of a lane for a while.",
    Refuse = "refuse": "A store says no, and means it.",
    Late = "late": "The outcome is unknown, and later it happens after all.",
    Twice = "twice": "A request is carried out again later.",
    Outage = "outage": "A store refuses everything for a while.",
    Tail = "tail": "The stream forgets its newest entries.",
    Flush = "flush": "The stream forgets everything.",
    Large = "large": "Some events are larger than the stream takes.",
    Bad = "bad": "The handler can never apply some events.",
    Flaky = "flaky": "The handler cannot apply some events until the faults end.",
    Infra = "infra": "Something below the handler is down now and then.",
    Killer = "killer": "Some events end the process that handles them.",
    Commit = "commit": "A commit of the apply transaction is refused, or its reply or request is lost.",
    Drain = "drain": "A process is told to stop and is started again.",
    LostRing = "lost-ring": "The doorbell is not heard.",
    Jump = "jump": "Clocks of stores jump forward, wall clocks of processes anywhere.",
    Trim = "trim": "Old entries that no consumer needs are deleted from the stream.",
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    /// With this kind.
    #[must_use]
    pub fn with(self, fault: Fault) -> Self {
        Self(self.0 | 1 << fault as u32)
    }

    /// Without this kind.
    #[must_use]
    pub fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u32))
    }

    /// Kinds that are in both.
    #[must_use]
    pub fn and(self, other: Faults) -> Self {
        Self(self.0 & other.0)
    }
}

/// Names with commas, or `none`.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Fault::ALL
            .into_iter()
            .filter(|fault| self.has(*fault))
            .map(Fault::name)
            .collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join(","))
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = text.split(',').filter(|name| !matches!(*name, "" | "none"));
        names.into_iter().try_fold(Faults::NONE, |faults, name| {
            let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name);
            fault
                .map(|fault| faults.with(fault))
                .ok_or_else(|| format!("{name} is not a kind of fault"))
        })
    }
}

/// Sizes, times and kinds of fault of one run.
#[derive(Debug, Clone)]
pub struct Knobs {
    /// The seed.
    pub seed: u64,
    /// Kinds of fault that are on.
    pub faults: Faults,
    /// How likely each per-effect fault is.
    pub intensity: f64,
    /// Lanes of the outbox.
    pub lanes: u16,
    /// Relay processes.
    pub relays: usize,
    /// Consumer processes.
    pub consumers: usize,
    /// Keys of the workload.
    pub keys: u64,
    /// Transactions of the workload.
    pub transactions: u64,
    /// Life of a lane's lease.
    pub ttl: Duration,
    /// Most events of a relay's plan and append.
    pub plan_max: u32,
    /// Most events of a consumer's apply.
    pub apply_max: u32,
    /// Longest wait for a reply that is not a hold's.
    pub call: Duration,
    /// Longest usual latency of one way.
    pub latency: Duration,
    /// Settled rows are kept.
    pub archive: bool,
    /// What a failing event does to its key.
    pub policy: Policy,
    /// How the handler takes events.
    pub mode: Mode,
    /// The handler says which event failed.
    pub names_culprit: bool,
    /// How long things go wrong.
    pub chaos: Duration,
    /// Where the consumer starts.
    pub start: Start,
}

impl Knobs {
    /// The knobs of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x007d_e9a7);
        let swarm = |rng: &mut Rng| {
            let pick = |faults: Faults, fault| if rng.bool() { faults.with(fault) } else { faults };
            Fault::ALL.into_iter().fold(Faults::NONE, pick)
        };
        // A drain is no fault: a tenth of the seeds has nothing else.
        let faults = match rng.u32(0..10) {
            0 => Faults::NONE.with(Fault::Drain),
            _ => swarm(&mut rng),
        };
        let chaos = rng.u64(8..40);
        let consumers = rng.usize(1..=3);
        // What is now for two processes that start together is anybody's guess.
        let start = if consumers == 1 && rng.bool() {
            Start::Now
        } else {
            Start::Earliest
        };
        Self {
            seed,
            faults,
            intensity: [0.01, 0.03, 0.1][rng.usize(0..3)],
            lanes: rng.u16(1..=4),
            relays: rng.usize(1..=3),
            consumers,
            start,
            keys: rng.u64(1..=10),
            transactions: rng.u64(10..=60),
            ttl: Duration::from_millis(rng.u64(1000..4000)),
            plan_max: [4, 16, 64][rng.usize(0..3)],
            apply_max: [3, 16, 64][rng.usize(0..3)],
            call: Duration::from_millis(rng.u64(300..3000)),
            latency: Duration::from_micros([500, 5_000, 50_000][rng.usize(0..3)]),
            archive: rng.bool(),
            policy: if rng.u32(0..4) == 0 {
                Policy::Skip
            } else {
                Policy::Park
            },
            mode: if rng.bool() { Mode::Each } else { Mode::Batch },
            names_culprit: rng.bool(),
            chaos: Duration::from_secs(chaos),
        }
    }
}

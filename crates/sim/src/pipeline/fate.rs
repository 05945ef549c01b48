//! What becomes of one call: drawn once, when it is sent.

use fastrand::Rng;
use tidegate_core::time::micros;

use super::knobs::{Fault, Knobs};

/// The plan of one call, in microseconds from when it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fate {
    /// Carried out after this; never when `None`.
    pub(super) execute: Option<i64>,
    /// Carried out once more after this.
    pub(super) again: Option<i64>,
    /// What the caller learns, and when.
    pub(super) answer: Answer,
    /// The caller's process ends: before it is carried out, or after and before the reply.
    pub(super) crash: Option<Crash>,
    /// For coverage.
    pub(super) point: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The reply, this long after it is carried out.
    Reply(i64),
    Refused(i64),
    Unknown(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    Before,
    After,
}

/// What kind of call it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    /// No reply after this is silence.
    pub(super) limit: i64,
    /// Runs inside the caller.
    pub(super) inside: bool,
}

impl Fate {
    /// Draws a fate. `chaos` is false once everything is to heal.
    pub(super) fn draw(rng: &mut Rng, knobs: &Knobs, call: Call, chaos: bool) -> Fate {
        let (there, back) = (way(rng, knobs), way(rng, knobs));
        let plain = Fate {
            execute: Some(there),
            again: None,
            answer: Answer::Reply(back),
            crash: None,
            point: None,
        };
        if !chaos {
            return plain;
        }
        let drawn = Fault::ALL
            .into_iter()
            .filter(|fault| knobs.faults.has(*fault) && is_per_call(*fault))
            .find(|_| rng.f64() < knobs.intensity);
        match drawn {
            Some(fault) => plain.with(fault, rng, knobs, call),
            None => plain,
        }
        .in_time(call)
    }

    fn with(self, fault: Fault, rng: &mut Rng, knobs: &Knobs, call: Call) -> Fate {
        let there = self.execute.unwrap_or_default();
        let long = rng.i64(0..2 * micros(knobs.ttl));
        let silence = Answer::Unknown(call.limit);
        let point = |point, fate| Fate {
            point: Some(point),
            ..fate
        };
        match fault {
            Fault::Delay => Fate {
                execute: Some(there + if rng.bool() { long } else { 0 }),
                answer: Answer::Reply(rng.i64(0..=long.max(1))),
                ..self
            },
            Fault::LostRequest => point(
                "lost request",
                Fate {
                    execute: None,
                    answer: silence,
                    ..self
                },
            ),
            Fault::LostReply => point(
                "lost reply",
                Fate {
                    answer: silence,
                    ..self
                },
            ),
            Fault::Refuse => point(
                "refused request",
                Fate {
                    execute: None,
                    answer: Answer::Refused(there),
                    ..self
                },
            ),
            Fault::Late => point(
                "late execution",
                Fate {
                    execute: Some(call.limit + long),
                    answer: silence,
                    ..self
                },
            ),
            Fault::Twice if !call.inside => point(
                "second execution",
                Fate {
                    again: Some(there + long),
                    ..self
                },
            ),
            Fault::CrashAtEffect => {
                let crash = if rng.bool() { Crash::Before } else { Crash::After };
                Fate {
                    crash: Some(crash),
                    ..self
                }
            }
            _ => self,
        }
    }

    /// A reply after the limit is silence at the limit.
    fn in_time(self, call: Call) -> Fate {
        match (self.execute, self.answer) {
            (Some(execute), Answer::Reply(back)) if execute + back > call.limit => Fate {
                answer: Answer::Unknown(call.limit),
                ..self
            },
            _ => self,
        }
    }
}

fn is_per_call(fault: Fault) -> bool {
    use Fault as F;
    matches!(
        fault,
        F::Delay | F::LostRequest | F::LostReply | F::Refuse | F::Late | F::Twice | F::CrashAtEffect
    )
}

fn way(rng: &mut Rng, knobs: &Knobs) -> i64 {
    rng.i64(50..=micros(knobs.latency).max(51))
}

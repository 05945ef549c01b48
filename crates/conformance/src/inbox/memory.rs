//! The memory inbox as a [`World`].

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tidegate_core::dead_letter::redact::Redactor;
use tidegate_core::inbox::apply::{apply, retry};
use tidegate_core::inbox::handler::{Handler, LocalBoxFuture, Mode};
use tidegate_core::inbox::transaction::Skipped;
use tidegate_core::inbox::{Class, Delivered, Failure, Options, Verdict};
use tidegate_core::memory::Clock;
use tidegate_core::memory::dead_letter::MemoryDeadLetters;
use tidegate_core::memory::inbox::{Contents, MemoryInbox, MemoryTx, Parked};
use tidegate_core::store::{Applier, DeadLetters, InboxStore};
use tidegate_core::{Code, Error};

use super::{Act, Doomed, LaneView, ParkedView, Plan, Snapshot, World, doomed_plan};

/// An inbox and its clock.
#[derive(Debug, Default)]
pub struct Memory {
    /// The inbox.
    pub inbox: MemoryInbox,
    clock: Clock,
}

impl Memory {
    /// Empty.
    pub fn new() -> Self {
        let clock = Clock::default();
        Self {
            inbox: MemoryInbox::new(clock.clone()),
            clock,
        }
    }
}

impl World for Memory {
    fn inbox(&self) -> Arc<dyn InboxStore> {
        Arc::new(self.inbox.clone())
    }

    fn applier(&self, plan: Plan, options: Options) -> Arc<dyn Applier> {
        Arc::new(self.inbox.applier(Planned(plan), options, Redactor::default()))
    }

    fn pass_time(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn snapshot(&self) -> Snapshot {
        view(&self.inbox.contents())
    }

    fn letters(&self) -> Arc<dyn DeadLetters> {
        Arc::new(MemoryDeadLetters::new(self.inbox.clone(), Redactor::default()))
    }

    /// A future that is dropped half way is a process that ended.
    fn doomed(&self, run: &Doomed) -> bool {
        let (handler, options) = (Planned(doomed_plan()), Options::default());
        let redactor = Redactor::default();
        match run.retry {
            None => ended(apply(
                &self.inbox,
                &handler,
                &options,
                &redactor,
                &run.batch(self),
            )),
            Some(after) => ended(retry(
                &self.inbox,
                &handler,
                &options,
                &redactor,
                &run.request(after),
            )),
        }
    }

    fn statements(&self) -> Option<u64> {
        None
    }
}

fn ended(process: impl Future) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    std::pin::pin!(process).poll(&mut context).is_pending()
}

/// Says what the plan says of one event; the caller has written the effect.
pub fn verdict(plan: &Plan, index: usize, event: &Delivered) -> Option<Verdict> {
    match (plan.act)(event) {
        Act::Apply | Act::End => None,
        Act::Fail(fingerprint) => Some(Verdict::Failed {
            index: (!plan.unattributed).then_some(index),
            failure: Failure {
                class: Class::Handler,
                fingerprint: fingerprint.into(),
                message: format!("{fingerprint} for jane@example.org"),
            },
        }),
        Act::Panic => std::panic::resume_unwind(Box::new("the handler's own panic")),
        Act::Down => Some(Verdict::Infrastructure(Error::new(
            Code::StoreUnavailable,
            "something below",
        ))),
    }
}

/// A handler that logs and then follows its plan.
struct Planned(Plan);

impl Handler<MemoryTx> for Planned {
    fn mode(&self) -> Mode {
        self.0.mode
    }

    fn apply<'a>(&'a self, tx: &'a mut MemoryTx, events: &'a [Delivered]) -> LocalBoxFuture<'a, Verdict> {
        Box::pin(async move {
            for (index, event) in events.iter().enumerate() {
                let key = event.event.key.as_deref().unwrap_or("-");
                tx.append("log", &format!("{} {} {key}\n", event.lane.slot, event.n));
                if (self.0.act)(event) == Act::End {
                    std::future::pending::<()>().await;
                }
                if let Some(verdict) = verdict(&self.0, index, event) {
                    return verdict;
                }
            }
            Verdict::Applied
        })
    }
}

fn view(contents: &Contents) -> Snapshot {
    let log = contents.table.get("log").map_or("", String::as_str);
    Snapshot {
        effects: log.lines().map(effect).collect(),
        lanes: contents
            .lanes
            .iter()
            .map(|row| LaneView {
                slot: row.lane.slot,
                position: row.state,
                ledger: contents.ledgers[&row.lane],
            })
            .collect(),
        parked: contents
            .parked
            .iter()
            .map(|(key, parked)| parked_view(&key.key, parked))
            .collect(),
        skipped: contents.skipped.values().map(position).collect(),
        attempts: contents
            .attempts
            .iter()
            .map(|((lane, n), attempt)| (lane.slot, *n, attempt.tenures))
            .collect(),
    }
}

fn effect(line: &str) -> (u16, u64, String) {
    let mut words = line.splitn(3, ' ');
    let mut next = || words.next().expect("three words");
    let (slot, n) = (next().parse().unwrap(), next().parse().unwrap());
    (slot, n, next().to_owned())
}

fn parked_view(key: &str, parked: &Parked) -> ParkedView {
    ParkedView {
        slot: parked.lane.slot,
        key: key.to_owned(),
        state: parked.state,
        attempts: parked.attempts,
        next_at: parked.next_at,
        class: parked.failure.class.as_str(),
        fingerprint: parked.failure.fingerprint.clone(),
        message: parked.failure.message.clone(),
        events: parked.events.keys().copied().collect(),
    }
}

fn position(skipped: &Skipped) -> (u16, u64) {
    (skipped.delivered.lane.slot, skipped.delivered.n)
}

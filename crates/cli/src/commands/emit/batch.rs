//! Many events from lines, in transactions of many lines.

use serde_json::json;
use tidegate::limits::PAYLOAD_BYTES_MAX;
use tidegate::store::OutboxStore;
use tidegate::{Draft, Effect, Error};
use tokio::sync::mpsc::Receiver;

use super::line::Shape;
use super::lines::{Input, Line};
use super::progress::Progress;
use super::seal;
use crate::context::{Context, Ended};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output;
use crate::text::counted;

/// Lines in one transaction: a commit costs about what a few hundred rows cost.
const LINES_MAX: usize = 1000;
/// Payload bytes in one transaction.
const BYTES_MAX: usize = 4 * PAYLOAD_BYTES_MAX;

/// What was done so far.
#[derive(Debug, Default)]
struct Tally {
    committed: u64,
    refused: u64,
    skipped: u64,
    /// The last line that was committed; every good line up to it is.
    last_committed: u64,
    interrupted: bool,
}

/// Events of consecutive lines, not yet committed.
#[derive(Debug, Default)]
struct Batch {
    drafts: Vec<Draft>,
    bytes: usize,
    first: u64,
    last: u64,
}

impl Batch {
    fn push(&mut self, number: u64, draft: Draft) {
        if self.drafts.is_empty() {
            self.first = number;
        }
        self.last = number;
        self.bytes += draft.payload.len();
        self.drafts.push(draft);
    }

    fn is_full(&self) -> bool {
        self.drafts.len() >= LINES_MAX || self.bytes >= BYTES_MAX
    }
}

/// Writes every good line. Stops at the first failure of the store, at the end, and at a signal.
pub(super) async fn emit(
    context: &Context,
    outbox: &dyn OutboxStore,
    input: Input,
    shape: &Shape,
    skip: u64,
) -> Ended {
    let progress = Progress::new(context, input.bytes);
    let lines = input.lines()?;
    let mut run = Run {
        outbox,
        shape,
        skip,
        tally: Tally::default(),
        progress,
    };
    let stopped = run.all(lines).await;
    run.progress.finish();
    match stopped {
        Ok(()) => run.report(context, None),
        Err(stop) => run.report(context, Some(stop)),
    }
}

/// Why it ended before the input did.
struct Stop {
    error: Error,
    /// Lines whose fate is unknown.
    unknown: Option<(u64, u64)>,
}

struct Run<'a> {
    outbox: &'a dyn OutboxStore,
    shape: &'a Shape,
    skip: u64,
    tally: Tally,
    progress: Progress,
}

impl Run<'_> {
    async fn all(&mut self, mut lines: Receiver<Line>) -> Result<(), Stop> {
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            let mut some = Vec::new();
            let got = tokio::select! {
                biased;
                _ = &mut interrupt => {
                    self.tally.interrupted = true;
                    return Ok(());
                }
                got = lines.recv_many(&mut some, LINES_MAX) => got,
            };
            if got == 0 {
                return Ok(());
            }
            self.take(some).await?;
        }
    }

    /// Commits what has arrived, in as few transactions as the bounds allow: a slow input is not kept waiting.
    async fn take(&mut self, lines: Vec<Line>) -> Result<(), Stop> {
        let mut batch = Batch::default();
        for line in lines {
            self.progress.at(line.bytes);
            if line.number <= self.skip {
                self.tally.skipped += 1;
                continue;
            }
            match line.read(self.shape) {
                Ok(draft) => batch.push(line.number, draft),
                Err(reason) => self.refuse(line.number, &reason),
            }
            if batch.is_full() {
                self.commit(std::mem::take(&mut batch)).await?;
            }
        }
        self.commit(batch).await
    }

    fn refuse(&mut self, number: u64, reason: &str) {
        self.tally.refused += 1;
        self.progress
            .pause(|| output::warn(format!("line {number}: {reason}")));
    }

    async fn commit(&mut self, batch: Batch) -> Result<(), Stop> {
        if batch.drafts.is_empty() {
            return Ok(());
        }
        let count = batch.drafts.len() as u64;
        let whole = |error: Error| {
            let unknown = (error.effect() != Effect::NotApplied).then_some((batch.first, batch.last));
            Stop { error, unknown }
        };
        let events = batch
            .drafts
            .into_iter()
            .map(seal)
            .collect::<Result<Vec<_>, _>>()
            .map_err(whole)?;
        self.outbox.enqueue(events).await.map_err(whole)?;
        self.tally.committed += count;
        self.tally.last_committed = batch.last;
        self.progress.committed(self.tally.committed);
        Ok(())
    }

    fn report(&self, context: &Context, stop: Option<Stop>) -> Ended {
        let tally = &self.tally;
        if context.out.is_json() {
            let error = stop.as_ref().map(|stop| stop.error.code().id());
            context.out.object(&json!({
                "committed": tally.committed, "refused": tally.refused, "skipped": tally.skipped,
                "last_committed_line": tally.last_committed, "interrupted": tally.interrupted, "stopped_by": error,
                "unknown_lines": stop.as_ref().and_then(|stop| stop.unknown),
            }))?;
        }
        let refused = if tally.refused == 0 {
            String::new()
        } else {
            format!(", {} refused", counted(tally.refused, "line"))
        };
        context.out.say(format!(
            "{} committed{refused}",
            counted(tally.committed, "event")
        ));
        match stop {
            Some(stop) => Err(self.stopped(context, stop)),
            None if tally.interrupted => Ok(self.interrupted(context)),
            None if tally.refused > 0 => Ok(Exit::Input),
            None => Ok(Exit::Ok),
        }
    }

    fn interrupted(&self, context: &Context) -> Exit {
        context.out.say(format!(
            "interrupted after line {0}; go on with --skip {0}",
            self.done()
        ));
        Exit::Signal
    }

    fn stopped(&self, context: &Context, stop: Stop) -> Failure {
        match stop.unknown {
            Some((first, last)) => {
                context.out.say(format!(
                    "lines {first} to {last} may stand: look before you go on with --skip"
                ));
            }
            None => context.out.say(format!(
                "stopped after line {0}; go on with --skip {0}",
                self.done()
            )),
        }
        Failure::Error(stop.error)
    }

    /// Every good line up to this one is committed.
    fn done(&self) -> u64 {
        self.tally.last_committed.max(self.skip)
    }
}

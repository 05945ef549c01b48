//! Tries parked keys that are due, head first and in order, under the lane's lock.
//!
//! A newer event cannot overtake: while a key is parked its events queue, and the transaction that takes the last one
//! from the queue is the one that un-parks. Before a head is handed to the handler that fact is committed, so that an
//! event that ends the process is found out here too.

use crate::error::{Code, Error, Result};
use crate::inbox::apply::{Redact, at_commit, crashed, done, forget_attempt, redacted};
use crate::inbox::handler::{self, Handler};
use crate::inbox::sift::due;
use crate::inbox::transaction::{Advance, FailedAgain, InboxDb, InboxTx, ParkedState, Scheduled, Tally};
use crate::inbox::{Delivered, Failure, Options, Position, Retried, Retry, Verdict};
use crate::lane::LaneId;
use crate::lease::Token;

/// Keys tried in one call: a call stays short beside the batches it alternates with.
const KEYS_MAX: u32 = 100;
/// Events of one key taken in one transaction after its head succeeded.
const CHUNK: u32 = 100;
/// Events handled in one call, for the same reason as [`KEYS_MAX`].
const EVENTS_MAX: u64 = 1_000;

/// Tries parked keys of the given lanes that are due.
///
/// # Errors
/// Nothing was done: the due keys could not be read. Later failures are [`Retried::pause`].
pub async fn retry<'db, D, H>(
    db: &'db D,
    handler: &H,
    options: &Options,
    redact: &dyn Redact,
    request: &Retry,
) -> Result<Retried>
where
    D: InboxDb,
    H: Handler<D::Tx<'db>> + ?Sized,
{
    let mut run = Run {
        db,
        handler,
        options,
        redact,
        request,
        retried: Retried::default(),
        failed: 0,
    };
    let due = run.scheduled(KEYS_MAX).await?;
    for key in due.iter().filter(|key| key.next_at <= request.now) {
        if run.failed >= request.failures_max.max(1) {
            break;
        }
        if let Err(error) = run.key(key).await {
            run.retried.pause = Some(error);
            return Ok(run.retried);
        }
    }
    match run.scheduled(1).await {
        Ok(next) => run.retried.next = next.first().map(|key| key.next_at),
        Err(error) => run.retried.pause = Some(error),
    }
    Ok(run.retried)
}

struct Run<'r, 'db, D, H: ?Sized> {
    db: &'db D,
    handler: &'r H,
    options: &'r Options,
    redact: &'r dyn Redact,
    request: &'r Retry,
    retried: Retried,
    failed: usize,
}

/// One key under way.
struct Key<'k> {
    scheduled: &'k Scheduled,
    token: Token,
    /// Failed retries of the present head.
    attempts: u32,
    /// Events to take next.
    size: u32,
    /// Events to take after a success.
    chunk: u32,
}

/// How one transaction of a key ended.
enum Step {
    /// Events are left, and may be tried now.
    More,
    /// Empty, failed again, dead, fenced or gone.
    Stop,
}

impl<'db, D, H> Run<'_, 'db, D, H>
where
    D: InboxDb,
    H: Handler<D::Tx<'db>> + ?Sized,
{
    async fn scheduled(&self, limit: u32) -> Result<Vec<Scheduled>> {
        let mut tx = self.db.begin().await?;
        let held = tx.lock_lanes(self.request.member, &self.request.lanes).await?;
        let lanes: Vec<LaneId> = held.iter().filter(|l| l.parked > 0).map(|l| l.lane).collect();
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        tx.scheduled(&lanes, limit).await
    }

    async fn key(&mut self, scheduled: &Scheduled) -> Result<()> {
        let token = self
            .request
            .lanes
            .iter()
            .find(|(lane, _)| *lane == scheduled.lane);
        let Some((_, token)) = token else {
            return Ok(());
        };
        let mut key = Key {
            scheduled,
            token: *token,
            attempts: scheduled.attempts,
            size: 1,
            chunk: CHUNK,
        };
        while self.retried.counts.applied < EVENTS_MAX {
            if matches!(self.step(&mut key).await?, Step::Stop) {
                break;
            }
        }
        Ok(())
    }

    /// Announces the head, then takes it and perhaps some that follow it.
    async fn step(&mut self, key: &mut Key<'_>) -> Result<Step> {
        let Some((head, tries)) = self.announce(key).await? else {
            return Ok(Step::Stop);
        };
        if tries > self.options.crashes_max {
            let dead = self.verdict(key, crashed(tries - 1), ParkedState::Dead);
            return self.record(key, head, dead).await;
        }
        if tries > 1 {
            // Something in this queue ended a process: one at a time from here on.
            (key.size, key.chunk) = (1, 1);
        }
        let taken = self.take(key, head).await;
        if taken.is_err() {
            self.withdraw(key, head).await;
        }
        taken
    }

    async fn announce(&self, key: &Key<'_>) -> Result<Option<(u64, u32)>> {
        let lane = key.scheduled.lane;
        let mut tx = self.db.begin().await?;
        if self.lock(&mut tx, key).await?.is_none() {
            return Ok(None);
        }
        let heads = tx.queue_head(lane, &key.scheduled.key, 1).await?;
        let Some(head) = heads.first() else {
            return Ok(None);
        };
        let tries = tx.attempt(lane, head.n, key.token).await?;
        if let Err(error) = done(self.db.commit(tx).await) {
            self.withdraw(key, head.n).await;
            return Err(error);
        }
        Ok(Some((head.n, tries)))
    }

    async fn lock(&self, tx: &mut D::Tx<'db>, key: &Key<'_>) -> Result<Option<Position>> {
        let lane = [(key.scheduled.lane, key.token)];
        let locked = tx.lock_lanes(self.request.member, &lane).await?;
        Ok(locked.first().map(|row| row.position))
    }

    async fn take(&mut self, key: &mut Key<'_>, head: u64) -> Result<Step> {
        let mut tx = self.db.begin().await?;
        let Some(position) = self.lock(&mut tx, key).await? else {
            return Ok(Step::Stop);
        };
        let (lane, name) = (key.scheduled.lane, &key.scheduled.key);
        let events = tx.queue_head(lane, name, key.size).await?;
        match handler::run(self.handler, &mut tx, &events).await {
            Verdict::Applied => self.commit(tx, key, position, &events).await,
            Verdict::Failed { index, failure } => {
                drop(tx);
                self.failed(key, head, events.len(), index, failure).await
            }
            Verdict::Infrastructure(error) => Err(error),
        }
    }

    /// Infrastructure failed after an announcement: nothing crashed, and nothing is to be blamed.
    async fn withdraw(&self, key: &Key<'_>, head: u64) {
        let lane = key.scheduled.lane;
        let _ = forget_attempt(self.db, self.request.member, lane, key.token, head).await;
    }

    async fn commit(
        &mut self,
        mut tx: D::Tx<'db>,
        key: &mut Key<'_>,
        position: Position,
        events: &[Delivered],
    ) -> Result<Step> {
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return Ok(Step::Stop);
        };
        let (lane, name) = (key.scheduled.lane, &key.scheduled.key);
        tx.clear_attempt(lane, first.n).await?;
        let left = tx.unqueue(lane, name, last.n).await?;
        let moved = tx
            .advance(
                self.request.member,
                &[advance(lane, key.token, position, events.len())],
            )
            .await?;
        if moved != 1 {
            return Err(Error::new(
                Code::Internal,
                "a lane row changed while it was locked",
            ));
        }
        if let Err(error) = done(self.db.commit(tx).await) {
            let failure = at_commit(&error).ok_or(error)?;
            return self.failed(key, first.n, events.len(), None, failure).await;
        }
        self.retried.counts.applied += u64::try_from(events.len()).unwrap_or(0);
        self.retried.counts.unparked += u64::from(left == 0);
        key.attempts = 0;
        key.size = key.chunk;
        Ok(if left == 0 { Step::Stop } else { Step::More })
    }

    /// The head failed: back off. A later one failed: take the ones before it, then it is the head.
    async fn failed(
        &mut self,
        key: &mut Key<'_>,
        head: u64,
        taken: usize,
        index: Option<usize>,
        failure: Failure,
    ) -> Result<Step> {
        if taken > 1 && index != Some(0) {
            let before = index.map_or(1, |index| index.max(1));
            key.size = u32::try_from(before).unwrap_or(1);
            return Ok(Step::More);
        }
        self.failed += 1;
        let retries = key.attempts.saturating_add(1);
        let state = if retries >= self.options.attempts_max {
            ParkedState::Dead
        } else {
            ParkedState::Retrying
        };
        key.attempts = retries;
        let failed = self.verdict(key, redacted(failure, self.redact), state);
        self.record(key, head, failed).await
    }

    fn verdict(&self, key: &Key<'_>, failure: Failure, state: ParkedState) -> FailedAgain {
        FailedAgain {
            state,
            attempts: key.attempts,
            failure,
            at: self.request.now,
            next_at: due(self.options, key.attempts, self.request.now),
        }
    }

    async fn record(&mut self, key: &Key<'_>, head: u64, failed: FailedAgain) -> Result<Step> {
        let mut tx = self.db.begin().await?;
        if self.lock(&mut tx, key).await?.is_some() {
            tx.clear_attempt(key.scheduled.lane, head).await?;
            tx.reschedule(&key.scheduled.key, &failed).await?;
            done(self.db.commit(tx).await)?;
        }
        Ok(Step::Stop)
    }
}

/// The lane stays where it is; events move from parked to applied.
fn advance(lane: LaneId, token: Token, position: Position, events: usize) -> Advance {
    let events = i64::try_from(events).unwrap_or(i64::MAX);
    Advance {
        lane,
        token,
        from: position.hw,
        to: position,
        tally: Tally {
            applied: events,
            parked: -events,
            ..Tally::default()
        },
    }
}

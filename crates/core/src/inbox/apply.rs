//! Takes a batch in: one transaction when all goes well, a few when an event fails.
//!
//! ```text
//!   begin ─ lock lanes ─ drop old, check next ─ parked keys? ─ handler ─ set aside ─ advance ─ commit
//!              │fenced        │gap, fork: the lane         │            │failed
//!              ▼              ▼ stops before it            ▼            ▼
//!            dropped        others go on                 queue       roll back; run again up to the
//!                                                                    event and record its failure; go on
//! ```
//! The happy path has no savepoint and a constant number of statements: begin, lock, advance, commit, and one look at
//! the parked keys when a lane has any.
//!
//! Each failure runs the events before it again, and whoever renews leases waits for the call: so it ends after
//! [`Batch::failures_max`] of them. What is left comes with the next call.

mod careful;

use crate::dead_letter::redact::Redactor;
use crate::error::{Code, Effect, Error, Result};
use crate::inbox::handler::{self, Handler};
use crate::inbox::sift::{self, Blame, Pass, Route, View, Waits};
use crate::inbox::transaction::{Announced, Commit, InboxDb, InboxTx};
use crate::inbox::{Applied, Batch, Class, Counts, Failed, Failure, LaneApplied, Options, Position, Verdict};
use crate::lane::LaneId;
use crate::lease::Token;

use careful::Announcement;

pub use crate::inbox::retry::retry;

/// Makes a message fit to be stored. Stores use a [`Redactor`]; a simulator may use a function.
pub trait Redact {
    /// The message without what must not be seen.
    fn text(&self, message: &str) -> String;
}

impl Redact for Redactor {
    fn text(&self, message: &str) -> String {
        self.redact_text(message)
    }
}

impl<F: Fn(&str) -> String> Redact for F {
    fn text(&self, message: &str) -> String {
        self(message)
    }
}

/// Takes in a batch: the protocol of [`crate::inbox`] over one database and one handler.
///
/// Giving the same batch again after an unknown outcome is safe: what was committed is dropped as a duplicate.
///
/// # Errors
/// Nothing was done: not even the lane rows could be read. Later failures are [`Applied::pause`].
pub async fn apply<'db, D, H>(
    db: &'db D,
    handler: &H,
    options: &Options,
    redact: &dyn Redact,
    batch: &Batch,
) -> Result<Applied>
where
    D: InboxDb,
    H: Handler<D::Tx<'db>> + ?Sized,
{
    let mut run = Run {
        db,
        handler,
        options,
        redact,
        batch,
        lanes: batch.lanes.iter().map(|_| Lane::default()).collect(),
        blame: None,
        suspects: None,
        pace: usize::MAX,
        announcement: Announcement::None,
        doubtful: Vec::new(),
        alone: 0,
        counts: Counts::default(),
        failed: 0,
        failures: Vec::new(),
    };
    let ended = run.passes().await;
    if ended.is_err() {
        run.withdraw().await;
    }
    run.finish(ended)
}

/// What is known of one lane of the batch.
#[derive(Debug, Default)]
struct Lane {
    /// Entries taken in.
    taken: usize,
    /// Where it stands, as last read or committed.
    last: Option<Position>,
    /// Nothing more is to be done.
    outcome: Option<LaneApplied>,
}

struct Run<'r, 'db, D, H: ?Sized> {
    db: &'db D,
    handler: &'r H,
    options: &'r Options,
    redact: &'r dyn Redact,
    batch: &'r Batch,
    lanes: Vec<Lane>,
    blame: Option<Blame>,
    /// How many of the next deliveries hold an event that failed without saying which.
    suspects: Option<usize>,
    /// Most events in the next transaction: one after a search, since poison seldom comes alone; doubles as they go well.
    pace: usize,
    /// Careful mode: what is recorded and has no result yet.
    announcement: Announcement,
    /// Careful mode: events that were under way when a process ended. While there are any, other lanes wait.
    doubtful: Vec<Announced>,
    /// Careful mode: events taken one at a time so far.
    alone: usize,
    counts: Counts,
    /// Events blamed so far.
    failed: usize,
    failures: Vec<Failed>,
}

impl<'r, 'db, D, H> Run<'r, 'db, D, H>
where
    D: InboxDb,
    H: Handler<D::Tx<'db>> + ?Sized,
{
    /// One transaction after another until every lane has an outcome, or the call has done enough.
    async fn passes(&mut self) -> Result<()> {
        for _ in 0..self.passes_max() {
            if self.is_over() {
                return Ok(());
            }
            if self.batch.careful && self.is_unannounced() {
                self.announce().await?;
            }
            self.pass().await?;
        }
        Err(Error::new(
            Code::Internal,
            "a batch did not end: its handler answers differently each time",
        ))
    }

    fn is_over(&self) -> bool {
        let all = self.lanes.iter().all(|lane| lane.outcome.is_some());
        let enough = self.failed >= self.batch.failures_max.max(1) || self.was_careful_enough();
        all || (self.blame.is_none() && enough)
    }

    /// Far above what halving needs for every event to fail; only a handler without a stable answer gets there.
    fn passes_max(&self) -> usize {
        let entries: usize = self.batch.lanes.iter().map(|lane| lane.entries.len()).sum();
        (entries + self.batch.lanes.len() + 1) * 64
    }

    async fn pass(&mut self) -> Result<()> {
        let mut tx = self.db.begin().await?;
        let route = self.route(&mut tx).await?;
        let (index, failure) = match handler::run(self.handler, &mut tx, &route.deliver).await {
            Verdict::Applied => return self.commit(tx, route).await,
            Verdict::Failed { index, failure } => (index, failure),
            Verdict::Infrastructure(error) => return Err(error),
        };
        self.search(&route, index, failure);
        Ok(())
    }

    /// Locks the open lanes and decides what this transaction does with their entries.
    async fn route(&mut self, tx: &mut D::Tx<'db>) -> Result<Route> {
        let view = self.view(tx).await?;
        let mut waits = Waits::default();
        let keys = view.keys_to_look_up();
        if !keys.is_empty() {
            waits.keys.extend(tx.parked_among(&keys).await?);
        }
        if !waits.keys.is_empty() || self.blame.is_some() {
            waits.total = tx.parked_total().await?;
        }
        let pass = Pass {
            options: self.options,
            now: self.batch.now,
            blame: self.blame.as_ref(),
            limit: self.limit(),
        };
        Ok(sift::route(&view, &mut waits, &pass))
    }

    async fn view(&mut self, tx: &mut D::Tx<'db>) -> Result<View<'r>> {
        let open: Vec<(LaneId, Token)> = self
            .batch
            .lanes
            .iter()
            .zip(&self.lanes)
            .filter(|(_, lane)| lane.outcome.is_none())
            .map(|(batch, _)| (batch.lane, batch.token))
            .collect();
        let locked = tx.lock_lanes(self.batch.member, &open).await?;
        let mut view = View::new();
        for (index, batch) in self.batch.lanes.iter().enumerate() {
            let lane = &mut self.lanes[index];
            if lane.outcome.is_some() {
                continue;
            }
            let mut doubtful = self.doubtful.iter();
            let waits = !self.doubtful.is_empty() && !doubtful.any(|range| range.lane == batch.lane);
            let Some(row) = locked.iter().find(|row| row.lane == batch.lane) else {
                lane.outcome = Some(LaneApplied::Fenced);
                continue;
            };
            lane.last = Some(row.position);
            if waits {
                continue;
            }
            view.push(index, batch, lane.taken, row.clone());
        }
        view.merge();
        Ok(view)
    }

    fn limit(&self) -> usize {
        if !self.doubtful.is_empty() {
            return 1;
        }
        let half = self.suspects.map_or(usize::MAX, |suspects| (suspects / 2).max(1));
        half.min(self.pace)
    }

    async fn commit(&mut self, mut tx: D::Tx<'db>, route: Route) -> Result<()> {
        let advances = route.advances();
        if advances.is_empty() && self.is_unannounced() {
            self.committed(route);
            return Ok(());
        }
        if !route.wait.is_empty() {
            tx.set_aside(&route.park, &route.wait).await?;
        }
        if let Some(skipped) = &route.skip {
            tx.skip(skipped).await?;
        }
        self.settle_announcement(&mut tx, &route).await?;
        if !advances.is_empty() && tx.advance(self.batch.member, &advances).await? != advances.len() {
            return Err(Error::new(
                Code::Internal,
                "a lane row changed while it was locked",
            ));
        }
        match done(self.db.commit(tx).await) {
            Ok(()) => self.committed(route),
            Err(error) => match at_commit(&error).filter(|_| !route.deliver.is_empty()) {
                Some(failure) => self.search(&route, None, failure),
                None => return Err(error),
            },
        }
        Ok(())
    }

    fn committed(&mut self, route: Route) {
        self.announcement = Announcement::None;
        self.counts += route.counts;
        self.suspects = self
            .suspects
            .map(|suspects| suspects.saturating_sub(route.deliver.len()))
            .filter(|suspects| *suspects > 0 && route.blamed.is_none());
        if route.blamed.is_none() {
            self.pace = self.pace.saturating_mul(2);
        }
        if let Some(blame) = self.blame.take_if(|_| route.blamed.is_some()) {
            self.failed += 1;
            let parked = route.park.first().map(|parked| &parked.key);
            let key = parked.or(route.skip.as_ref().map(|skipped| &skipped.key));
            self.failures.extend(key.map(|key| Failed {
                key: key.clone(),
                fingerprint: blame.failure.fingerprint,
            }));
        }
        for lane in route.lanes {
            let known = &mut self.lanes[lane.batch];
            known.taken += lane.taken;
            known.last = Some(lane.to);
            known.outcome = lane.outcome;
        }
    }

    /// Names the event to blame, or halves the search for it. The transaction is rolled back.
    fn search(&mut self, route: &Route, index: Option<usize>, failure: Failure) {
        let only = (route.deliver.len() == 1).then_some(0);
        let culprit = index.or(only).and_then(|index| route.deliver.get(index));
        self.suspects = culprit.is_none().then_some(route.deliver.len());
        if only.is_some() {
            self.pace = 1;
        }
        self.blame = culprit.map(|event| Blame {
            lane: event.lane,
            n: event.n,
            failure: redacted(failure, self.redact),
            dead: false,
        });
    }

    fn finish(self, ended: Result<()>) -> Result<Applied> {
        let mut applied = Applied {
            counts: self.counts,
            failures: self.failures,
            doubtful: self.alone > 0,
            ..Applied::default()
        };
        for (batch, lane) in self.batch.lanes.iter().zip(self.lanes) {
            let outcome = lane.outcome.or(lane.last.map(LaneApplied::At));
            applied.lanes.extend(outcome.map(|outcome| (batch.lane, outcome)));
        }
        match ended {
            Err(error) if applied.lanes.len() < self.batch.lanes.len() => Err(error),
            ended => {
                applied.pause = ended.err();
                Ok(applied)
            }
        }
    }
}

/// In a transaction of its own, and only while the lane is still held.
pub(super) async fn forget_attempt<D: InboxDb>(
    db: &D,
    member: crate::lease::Nonce,
    lane: LaneId,
    token: Token,
    n: u64,
) -> Result<()> {
    let mut tx = db.begin().await?;
    if !tx.lock_lanes(member, &[(lane, token)]).await?.is_empty() {
        tx.clear_attempt(lane, n).await?;
        done(db.commit(tx).await)?;
    }
    Ok(())
}

pub(super) fn done(commit: Commit) -> Result<()> {
    match commit {
        Commit::Done => Ok(()),
        Commit::Refused(error) => Err(error),
        Commit::Unknown(error) => Err(error.with_effect(Effect::Unknown)),
    }
}

/// A constraint checked at commit blames one of the events, without saying which.
pub(super) fn at_commit(error: &Error) -> Option<Failure> {
    (error.code() == Code::HandlerFailed).then(|| Failure {
        class: Class::Data,
        fingerprint: format!("commit {}", error.context()),
        message: error.to_string(),
    })
}

pub(super) fn redacted(failure: Failure, redact: &dyn Redact) -> Failure {
    Failure {
        message: redact.text(&failure.message),
        ..failure
    }
}

pub(super) fn crashed(times: u32) -> Failure {
    Failure {
        class: Class::Crash,
        fingerprint: "crash".into(),
        message: format!("the process ended {times} times while this event was handled"),
    }
}

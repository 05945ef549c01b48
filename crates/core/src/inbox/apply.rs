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

use crate::dead_letter::redact::Redactor;
use crate::error::{Code, Effect, Error, Result};
use crate::inbox::handler::{self, Handler};
use crate::inbox::sift::{self, Blame, Pass, Route, View, Waits};
use crate::inbox::transaction::{Commit, InboxDb, InboxTx};
use crate::inbox::{Applied, Batch, Class, Counts, Failure, LaneApplied, Options, Position, Verdict};
use crate::lane::LaneId;
use crate::lease::Token;

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
        announced: None,
        counts: Counts::default(),
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
    /// Careful mode: the event whose attempt is recorded and has no result yet.
    announced: Option<(LaneId, u64, Token)>,
    counts: Counts,
    failures: Vec<String>,
}

impl<'r, 'db, D, H> Run<'r, 'db, D, H>
where
    D: InboxDb,
    H: Handler<D::Tx<'db>> + ?Sized,
{
    /// One transaction after another until every lane has an outcome.
    async fn passes(&mut self) -> Result<()> {
        for _ in 0..self.passes_max() {
            if self.lanes.iter().all(|lane| lane.outcome.is_some()) {
                return Ok(());
            }
            if self.batch.careful && self.blame.is_none() {
                self.announce().await?;
            }
            self.pass().await?;
        }
        Err(Error::new(
            Code::Internal,
            "a batch did not end: its handler answers differently each time",
        ))
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
            let Some(row) = locked.iter().find(|row| row.lane == batch.lane) else {
                lane.outcome = Some(LaneApplied::Fenced);
                continue;
            };
            lane.last = Some(row.position);
            view.push(index, batch, lane.taken, row.clone());
        }
        view.merge();
        Ok(view)
    }

    fn limit(&self) -> usize {
        if self.batch.careful {
            return 1;
        }
        self.suspects.map_or(usize::MAX, |suspects| (suspects / 2).max(1))
    }

    async fn commit(&mut self, mut tx: D::Tx<'db>, route: Route) -> Result<()> {
        let advances = route.advances();
        if advances.is_empty() {
            self.committed(route);
            return Ok(());
        }
        if !route.wait.is_empty() {
            tx.set_aside(&route.park, &route.wait).await?;
        }
        if let Some(skipped) = &route.skip {
            tx.skip(skipped).await?;
        }
        if self.batch.careful {
            settle_attempts(&mut tx, &route).await?;
        }
        let moved = tx.advance(self.batch.member, &advances).await?;
        if moved != advances.len() {
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
        self.announced = None;
        self.counts += route.counts;
        self.suspects = self
            .suspects
            .map(|suspects| suspects.saturating_sub(route.deliver.len()))
            .filter(|suspects| *suspects > 0 && route.blamed.is_none());
        if let Some(blame) = self.blame.take_if(|_| route.blamed.is_some()) {
            let recorded = !route.park.is_empty() || route.skip.is_some();
            self.failures
                .extend(recorded.then_some(blame.failure.fingerprint));
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
        self.blame = culprit.map(|event| Blame {
            lane: event.lane,
            n: event.n,
            failure: redacted(failure, self.redact),
            dead: false,
        });
    }

    /// Careful mode: records that the next event is about to be handled, and commits that. An event that this ended
    /// the process for too often is blamed.
    async fn announce(&mut self) -> Result<()> {
        let mut tx = self.db.begin().await?;
        let route = self.route(&mut tx).await?;
        let Some(next) = route.deliver.first() else {
            return Ok(());
        };
        let token = route.token(next.lane).unwrap_or_default();
        let attempts = tx.attempt(next.lane, next.n, token).await?;
        self.announced = Some((next.lane, next.n, token));
        done(self.db.commit(tx).await)?;
        if attempts > self.options.crashes_max {
            self.announced = None;
            self.blame = Some(Blame {
                lane: next.lane,
                n: next.n,
                failure: crashed(attempts - 1),
                dead: true,
            });
        }
        Ok(())
    }

    /// Infrastructure failed after an announcement: takes it back, if that works, since nothing crashed. If not, an
    /// attempt still counts once per tenure.
    async fn withdraw(&mut self) {
        if let Some((lane, n, token)) = self.announced.take() {
            let _ = forget_attempt(self.db, self.batch.member, lane, token, n).await;
        }
    }

    fn finish(self, ended: Result<()>) -> Result<Applied> {
        let mut applied = Applied {
            counts: self.counts,
            failures: self.failures,
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

async fn settle_attempts<Tx: InboxTx>(tx: &mut Tx, route: &Route) -> Result<()> {
    let handled = route.deliver.iter().map(|event| (event.lane, event.n));
    for (lane, n) in handled.chain(route.blamed) {
        tx.clear_attempt(lane, n).await?;
    }
    Ok(())
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

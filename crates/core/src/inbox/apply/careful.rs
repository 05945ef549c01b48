//! Careful mode: finds the event that ends the process, and blames nothing else (ADR-0007).
//!
//! A batch is announced before it is handled: of each lane, from which event to which. The transaction that takes it in
//! also forgets that. An announcement that an earlier tenure left behind means that the process ended within: its
//! events are doubtful, and are taken one at a time, each announced by itself with its attempts counted.

use crate::error::Result;
use crate::inbox::handler::Handler;
use crate::inbox::sift::{Blame, LaneRoute, Route};
use crate::inbox::transaction::{Announce, Announced, InboxDb, InboxTx};
use crate::lane::LaneId;
use crate::lease::Token;

use super::{Run, crashed, done};

/// Events taken one at a time in one call: each costs two commits, and renewals wait for the call.
const ALONE_MAX: usize = 8;

/// What is recorded and has no result yet.
#[derive(Debug, Default)]
pub(super) enum Announcement {
    #[default]
    None,
    /// A batch: part of a lane each.
    Batch(Vec<Announced>),
    /// One event, at the head of a doubtful range.
    Alone(Announced),
}

impl Announcement {
    fn ranges(&self) -> &[Announced] {
        match self {
            Announcement::None => &[],
            Announcement::Batch(ranges) => ranges,
            Announcement::Alone(range) => std::slice::from_ref(range),
        }
    }
}

impl<'db, D, H> Run<'_, 'db, D, H>
where
    D: InboxDb,
    H: Handler<D::Tx<'db>> + ?Sized,
{
    pub(super) fn is_unannounced(&self) -> bool {
        self.blame.is_none() && matches!(self.announcement, Announcement::None)
    }

    /// Enough events were taken one at a time, and none is under way.
    pub(super) fn was_careful_enough(&self) -> bool {
        self.alone >= ALONE_MAX && self.is_unannounced()
    }

    /// Records what is about to be handled, and commits that.
    pub(super) async fn announce(&mut self) -> Result<()> {
        let mut tx = self.db.begin().await?;
        self.doubtful = self.left_behind(&mut tx).await?;
        let route = self.route(&mut tx).await?;
        if route.deliver.is_empty() {
            return Ok(());
        }
        if self.doubtful.is_empty() {
            self.announce_batch(tx, &route).await
        } else {
            self.announce_alone(tx, &route).await
        }
    }

    /// Ranges of the open lanes that another tenure announced, or that are being taken one at a time.
    async fn left_behind(&mut self, tx: &mut D::Tx<'db>) -> Result<Vec<Announced>> {
        self.doubtful.clear();
        let open = self.batch.lanes.iter().zip(&self.lanes);
        let open: Vec<(LaneId, Token)> = open
            .filter(|(_, lane)| lane.outcome.is_none())
            .map(|(batch, _)| (batch.lane, batch.token))
            .collect();
        let lanes: Vec<LaneId> = open.iter().map(|(lane, _)| *lane).collect();
        let mut announced = tx.announced(&lanes).await?;
        announced.retain(|range| range.alone || !open.contains(&(range.lane, range.token)));
        for range in &mut announced {
            range.alone = true;
        }
        Ok(announced)
    }

    async fn announce_batch(&mut self, mut tx: D::Tx<'db>, route: &Route) -> Result<()> {
        let ranges = ranges(route);
        tx.announce(&replacing(route, &ranges)).await?;
        self.announcement = Announcement::Batch(ranges);
        done(self.db.commit(tx).await)
    }

    /// An event that ended the process too often is blamed.
    async fn announce_alone(&mut self, mut tx: D::Tx<'db>, route: &Route) -> Result<()> {
        let Some(next) = route.deliver.first() else {
            return Ok(());
        };
        let token = route.token(next.lane).unwrap_or_default();
        let upto = self.doubtful.iter().filter(|range| range.lane == next.lane);
        let upto = upto.map(|range| range.upto).max().unwrap_or(next.n);
        let attempts = tx.attempt(next.lane, next.n, token).await?;
        self.alone += 1;
        self.announcement = Announcement::Alone(Announced {
            lane: next.lane,
            n: next.n,
            upto,
            token,
            alone: true,
        });
        done(self.db.commit(tx).await)?;
        if attempts > self.options.crashes_max {
            self.blame = Some(Blame {
                lane: next.lane,
                n: next.n,
                failure: crashed(attempts - 1),
                dead: true,
            });
        }
        Ok(())
    }

    /// Forgets what is announced; what is left of a doubtful range stays so, also where its first events only queued.
    pub(super) async fn settle_announcement(&self, tx: &mut D::Tx<'db>, route: &Route) -> Result<()> {
        let announced = self.announcement.ranges();
        let passed = self.doubtful.iter().filter(|range| {
            let moved = |lane: &LaneRoute| lane.lane == range.lane && lane.to.hw >= range.n;
            announced.iter().all(|a| a.lane != range.lane) && route.lanes.iter().any(moved)
        });
        let ends = announced.iter().chain(passed).filter_map(|range| {
            let lane = route.lanes.iter().find(|lane| lane.lane == range.lane)?;
            Some(Announce {
                lane: range.lane,
                beyond: lane.before.hw,
                range: rest(range, lane.to.hw),
            })
        });
        let ends: Vec<Announce> = ends.collect();
        if ends.is_empty() {
            return Ok(());
        }
        tx.announce(&ends).await
    }

    /// Infrastructure failed after an announcement: takes it back, if that works, since nothing crashed. If not, an
    /// attempt still counts once per tenure.
    pub(super) async fn withdraw(&mut self) {
        let _ = self.take_back().await;
        self.announcement = Announcement::None;
    }

    /// In a transaction of its own, and only of lanes that are still held.
    async fn take_back(&self) -> Result<()> {
        let ranges = self.announcement.ranges();
        if ranges.is_empty() {
            return Ok(());
        }
        let lanes: Vec<(LaneId, Token)> = ranges.iter().map(|range| (range.lane, range.token)).collect();
        let mut tx = self.db.begin().await?;
        let locked = tx.lock_lanes(self.batch.member, &lanes).await?;
        let ends = ranges.iter().filter_map(|range| {
            let row = locked.iter().find(|row| row.lane == range.lane)?;
            Some(Announce {
                lane: range.lane,
                beyond: row.position.hw,
                range: rest(range, row.position.hw),
            })
        });
        let ends: Vec<Announce> = ends.collect();
        if !ends.is_empty() {
            tx.announce(&ends).await?;
            done(self.db.commit(tx).await)?;
        }
        Ok(())
    }
}

/// What is doubtful after this number.
fn rest(range: &Announced, hw: u64) -> Option<Announced> {
    let rest = Announced {
        n: range.n.max(hw + 1),
        ..*range
    };
    Some(rest).filter(|rest| rest.alone && rest.n <= rest.upto)
}

/// The first and the last event of each lane.
fn ranges(route: &Route) -> Vec<Announced> {
    let of_lane = |lane: LaneId| {
        let mut mine = route.deliver.iter().filter(move |event| event.lane == lane);
        let n = mine.next()?.n;
        Some(Announced {
            lane,
            n,
            upto: mine.last().map_or(n, |event| event.n),
            token: route.token(lane)?,
            alone: false,
        })
    };
    route.lanes.iter().filter_map(|lane| of_lane(lane.lane)).collect()
}

fn replacing(route: &Route, ranges: &[Announced]) -> Vec<Announce> {
    let before = |lane: LaneId| route.lanes.iter().find(|l| l.lane == lane).map(|l| l.before.hw);
    let replace = |range: &Announced| {
        Some(Announce {
            lane: range.lane,
            beyond: before(range.lane)?,
            range: Some(*range),
        })
    };
    ranges.iter().filter_map(replace).collect()
}

//! The apply transaction's statements.

use std::ops::Deref;

use tidegate_core::inbox::transaction::{
    Advance, Announce, Announced, Commit, FailedAgain, InboxTx, Locked, NewlyParked, Scheduled, Skipped,
    Waiting,
};
use tidegate_core::inbox::{Delivered, KeyRef};
use tidegate_core::lane::LaneId;
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::{Code, Effect, Error, Result, Timestamp, Uuid};
use tokio_postgres::Client;

use super::row;
use crate::postgres::columns::{get, headers_text, nonce_uuid};
use crate::postgres::db::{Database, Tx};
use crate::postgres::error::{is_aborted, is_constraint};
use crate::postgres::typed::{bytea, int4, int8, int8_or, string, string_or, text, uuid};

/// Payload bytes written by one statement.
const PAYLOADS_MAX: usize = 64 * 1024 * 1024;

/// The open transaction; a handler runs statements on the [`Client`] that it derefs to. Dropped, it rolls back.
#[derive(Debug)]
pub struct PostgresTx {
    tx: Tx,
    consumer: i64,
    /// Carried by the transaction, so that one that a handler ended is not taken for it.
    mark: String,
}

impl Deref for PostgresTx {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.tx
    }
}

fn slot(lane: LaneId) -> i32 {
    i32::from(lane.slot)
}

fn signed(token: Token) -> i64 {
    token.0.cast_signed()
}

impl PostgresTx {
    pub(super) async fn begin(db: &Database, consumer: i64) -> Result<Self> {
        Ok(Self {
            tx: db.begin().await?,
            consumer,
            mark: Uuid::new_v4().to_string(),
        })
    }

    pub(super) async fn commit(self) -> Commit {
        match self.tx.commit("committing an apply").await {
            Ok(()) => Commit::Done,
            Err(error) if error.effect() == Effect::Unknown => Commit::Unknown(error),
            Err(error) if is_constraint(&error) => {
                let cause = std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
                Commit::Refused(Error::new(Code::HandlerFailed, cause))
            }
            Err(error) => Commit::Refused(error),
        }
    }

    async fn queue(&self, events: &[Waiting]) -> Result<()> {
        let mut payloads = Vec::new();
        let mut rows = Vec::with_capacity(events.len());
        for waiting in events {
            let event = &waiting.delivered.event;
            let from = payloads.len() + 1;
            payloads.extend_from_slice(&event.payload);
            rows.push((
                waiting.key.lineage.0.to_string(),
                &waiting.key.key,
                waiting.delivered.lane.slot,
                waiting.delivered.n.cast_signed(),
                event.id.to_string(),
                &event.topic,
                &event.key,
                event.version,
                &event.content_type,
                headers_text(event)?,
                event.occurred_at.as_micros(),
                from,
                event.payload.len(),
            ));
        }
        let (at, rows, all) = ("queueing events", row::json(&rows)?, payloads.as_slice());
        let consumer = int8(&self.consumer);
        let params = [consumer.clone(), string(&rows), bytea(&all)];
        self.tx.execute(at, include_str!("queue.sql"), &params).await?;
        let params = [consumer, string(&rows)];
        self.tx
            .execute(at, include_str!("count_queued.sql"), &params)
            .await?;
        Ok(())
    }

    async fn park(&self, keys: &[NewlyParked]) -> Result<()> {
        let rows: Vec<_> = keys
            .iter()
            .map(|key| {
                (
                    key.key.lineage.0.to_string(),
                    &key.key.key,
                    key.lane.slot,
                    key.state.as_str(),
                    key.next_at.as_micros(),
                    key.failure.class.as_str(),
                    &key.failure.fingerprint,
                    &key.failure.message,
                    key.at.as_micros(),
                )
            })
            .collect();
        let rows = row::json(&rows)?;
        let params = [int8(&self.consumer), string(&rows)];
        self.tx
            .execute("parking keys", include_str!("park.sql"), &params)
            .await?;
        Ok(())
    }
}

fn announced(range: Announced) -> (String, u16, i64, i64, i64, bool) {
    (
        range.lane.lineage.0.to_string(),
        range.lane.slot,
        range.n.cast_signed(),
        range.upto.cast_signed(),
        signed(range.token),
        range.alone,
    )
}

impl InboxTx for PostgresTx {
    /// One round trip. Another transaction does not carry the mark; a failed one answers nothing.
    async fn is_open(&mut self) -> Result<bool> {
        let (at, sql) = ("looking at the transaction", include_str!("is_open.sql"));
        match self.tx.query(at, sql, &[string(&self.mark)]).await {
            Ok(rows) => get(&row::one(rows)?, 0),
            Err(error) if is_aborted(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn lock_lanes(&mut self, member: Nonce, lanes: &[(LaneId, Token)]) -> Result<Vec<Locked>> {
        let asked: Vec<_> = lanes
            .iter()
            .map(|(lane, token)| (lane.lineage.0.to_string(), lane.slot, signed(*token)))
            .collect();
        let (asked, member) = (row::json(&asked)?, nonce_uuid(member));
        let params = [
            int8(&self.consumer),
            uuid(&member),
            string(&asked),
            string(&self.mark),
        ];
        let rows = self
            .tx
            .query("locking lanes", include_str!("lock_lanes.sql"), &params)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Locked {
                    lane: row::lane(row, 0)?,
                    position: row::position(row, 2)?,
                    parked: row::unsigned(row, 7)?,
                })
            })
            .collect()
    }

    async fn parked_among(&mut self, keys: &[KeyRef]) -> Result<Vec<(KeyRef, u64)>> {
        let asked: Vec<_> = keys
            .iter()
            .map(|key| (key.lineage.0.to_string(), &key.key))
            .collect();
        let asked = row::json(&asked)?;
        let params = [int8(&self.consumer), string(&asked)];
        let rows = self
            .tx
            .query(
                "looking for parked keys",
                include_str!("parked_among.sql"),
                &params,
            )
            .await?;
        rows.iter()
            .map(|row| Ok((row::key(row, 0, 1)?, row::unsigned(row, 2)?)))
            .collect()
    }

    async fn parked_total(&mut self) -> Result<u64> {
        let rows = self
            .tx
            .query(
                "counting parked events",
                include_str!("parked_total.sql"),
                &[int8(&self.consumer)],
            )
            .await?;
        row::unsigned(&row::one(rows)?, 0)
    }

    async fn set_aside(&mut self, keys: &[NewlyParked], events: &[Waiting]) -> Result<()> {
        if !keys.is_empty() {
            self.park(keys).await?;
        }
        let mut bytes = 0;
        let chunks = events.chunk_by(|_, next| {
            bytes += next.delivered.event.payload.len();
            let fits = bytes < PAYLOADS_MAX;
            bytes = if fits { bytes } else { 0 };
            fits
        });
        for chunk in chunks {
            self.queue(chunk).await?;
        }
        Ok(())
    }

    async fn skip(&mut self, skipped: &Skipped) -> Result<()> {
        let Skipped {
            key,
            delivered: Delivered { lane, n, event },
            failure,
            at,
        } = skipped;
        let (headers, payload) = (headers_text(event)?, event.payload.as_ref());
        self.tx
            .execute(
                "skipping an event",
                include_str!("skip.sql"),
                &[
                    int8(&self.consumer),
                    uuid(&lane.lineage.0),
                    int4(&slot(*lane)),
                    int8(&n.cast_signed()),
                    string(&key.key),
                    text(&failure.class.as_str()),
                    string(&failure.fingerprint),
                    string(&failure.message),
                    int8(&at.as_micros()),
                    uuid(&event.id),
                    string(&event.topic),
                    string_or(&event.key),
                    int8_or(&event.version),
                    string(&event.content_type),
                    string_or(&headers),
                    bytea(&payload),
                    int8(&event.occurred_at.as_micros()),
                ],
            )
            .await?;
        Ok(())
    }

    async fn advance(&mut self, member: Nonce, lanes: &[Advance]) -> Result<usize> {
        let rows: Vec<_> = lanes
            .iter()
            .map(|lane| {
                (
                    lane.lane.lineage.0.to_string(),
                    lane.lane.slot,
                    signed(lane.token),
                    lane.from.cast_signed(),
                    lane.to.hw.cast_signed(),
                    Uuid::from_bytes(lane.to.chain.0).as_simple().to_string(),
                    lane.to.cursor.0.cast_signed(),
                    lane.to.cursor.1.cast_signed(),
                    lane.tally.applied,
                    lane.tally.voids,
                    lane.tally.skipped,
                    lane.tally.parked,
                )
            })
            .collect();
        let (at, rows, member) = ("advancing lanes", row::json(&rows)?, nonce_uuid(member));
        let params = [int8(&self.consumer), uuid(&member), string(&rows)];
        let moved = self.tx.execute(at, include_str!("advance.sql"), &params).await?;
        Ok(usize::try_from(moved).unwrap_or(usize::MAX))
    }

    async fn scheduled(&mut self, lanes: &[LaneId], limit: u32) -> Result<Vec<Scheduled>> {
        let (lanes, limit) = (row::lanes(lanes)?, i64::from(limit));
        let params = [int8(&self.consumer), string(&lanes), int8(&limit)];
        let rows = self
            .tx
            .query("looking for due keys", include_str!("scheduled.sql"), &params)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Scheduled {
                    lane: row::lane(row, 0)?,
                    key: row::key(row, 0, 2)?,
                    attempts: get::<i32>(row, 3)?.cast_unsigned(),
                    next_at: Timestamp::from_micros(get(row, 4)?),
                })
            })
            .collect()
    }

    async fn queue_head(&mut self, lane: LaneId, key: &KeyRef, limit: u32) -> Result<Vec<Delivered>> {
        let limit = i64::from(limit);
        let params = [
            int8(&self.consumer),
            uuid(&key.lineage.0),
            string(&key.key),
            int8(&limit),
        ];
        let rows = self
            .tx
            .query("reading a parked queue", include_str!("queue_head.sql"), &params)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Delivered {
                    lane,
                    n: row::unsigned(row, 0)?,
                    event: row::event(row, 1)?,
                })
            })
            .collect()
    }

    async fn unqueue(&mut self, _lane: LaneId, key: &KeyRef, through: u64) -> Result<u64> {
        let at = "taking from a parked queue";
        let through = through.cast_signed();
        let params = [
            int8(&self.consumer),
            uuid(&key.lineage.0),
            string(&key.key),
            int8(&through),
        ];
        let taken = self
            .tx
            .execute(at, include_str!("unqueue.sql"), &params)
            .await?
            .cast_signed();
        let params = [
            int8(&self.consumer),
            uuid(&key.lineage.0),
            string(&key.key),
            int8(&taken),
        ];
        let rows = self
            .tx
            .query(at, include_str!("count_unqueued.sql"), &params)
            .await?;
        let left = row::unsigned(&row::one(rows)?, 0)?;
        if left == 0 {
            self.tx
                .execute(at, include_str!("unpark.sql"), &params[..3])
                .await?;
        }
        Ok(left)
    }

    async fn reschedule(&mut self, key: &KeyRef, failed: &FailedAgain) -> Result<()> {
        self.tx
            .execute(
                "recording a failed retry",
                include_str!("reschedule.sql"),
                &[
                    int8(&self.consumer),
                    uuid(&key.lineage.0),
                    string(&key.key),
                    text(&failed.state.as_str()),
                    int4(&failed.attempts.cast_signed()),
                    int8(&failed.next_at.as_micros()),
                    text(&failed.failure.class.as_str()),
                    string(&failed.failure.fingerprint),
                    string(&failed.failure.message),
                    int8(&failed.at.as_micros()),
                ],
            )
            .await?;
        Ok(())
    }

    async fn announced(&mut self, lanes: &[LaneId]) -> Result<Vec<Announced>> {
        let lanes = row::lanes(lanes)?;
        let params = [int8(&self.consumer), string(&lanes)];
        let rows = self
            .tx
            .query(
                "looking for announcements",
                include_str!("announced.sql"),
                &params,
            )
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Announced {
                    lane: row::lane(row, 0)?,
                    n: row::unsigned(row, 2)?,
                    upto: row::unsigned(row, 3)?,
                    token: Token(row::unsigned(row, 4)?),
                    alone: get(row, 5)?,
                })
            })
            .collect()
    }

    async fn announce(&mut self, lanes: &[Announce]) -> Result<()> {
        let at = "announcing events";
        let dropped: Vec<_> = lanes
            .iter()
            .map(|a| (a.lane.lineage.0.to_string(), a.lane.slot, a.beyond.cast_signed()))
            .collect();
        let dropped = row::json(&dropped)?;
        let params = [int8(&self.consumer), string(&dropped)];
        self.tx
            .execute(at, include_str!("drop_announced.sql"), &params)
            .await?;
        let rows: Vec<_> = lanes.iter().filter_map(|a| a.range.map(announced)).collect();
        if !rows.is_empty() {
            let rows = row::json(&rows)?;
            let params = [int8(&self.consumer), string(&rows)];
            self.tx.execute(at, include_str!("announce.sql"), &params).await?;
        }
        Ok(())
    }

    async fn attempt(&mut self, lane: LaneId, n: u64, token: Token) -> Result<u32> {
        let rows = self
            .tx
            .query(
                "recording an attempt",
                include_str!("attempt.sql"),
                &[
                    int8(&self.consumer),
                    uuid(&lane.lineage.0),
                    int4(&slot(lane)),
                    int8(&n.cast_signed()),
                    int8(&signed(token)),
                ],
            )
            .await?;
        Ok(get::<i32>(&row::one(rows)?, 0)?.cast_unsigned())
    }

    async fn clear_attempt(&mut self, lane: LaneId, n: u64) -> Result<()> {
        self.tx
            .execute(
                "forgetting an attempt",
                include_str!("clear_attempt.sql"),
                &[
                    int8(&self.consumer),
                    uuid(&lane.lineage.0),
                    int4(&slot(lane)),
                    int8(&n.cast_signed()),
                ],
            )
            .await?;
        Ok(())
    }
}

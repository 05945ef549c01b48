//! The apply transaction's statements.

use std::ops::Deref;

use rusqlite::{Connection, params};
use tidegate_core::inbox::transaction::{
    Advance, Announce, Announced, Commit, FailedAgain, InboxTx, Locked, NewlyParked, Scheduled, Skipped,
    Waiting,
};
use tidegate_core::inbox::{Delivered, KeyRef};
use tidegate_core::lane::LaneId;
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::{Code, Effect, Error, Result, Timestamp};

use super::row;
use crate::sqlite::Sql;
use crate::sqlite::columns::{blob, headers_text, int};
use crate::sqlite::error::Failure;
use crate::sqlite::values::Values;
use crate::sqlite::writer::Writer;

/// Payload bytes written by one statement: far below SQLite's limit for a value.
const PAYLOADS_MAX: usize = 64 * 1024 * 1024;

const LOCK_WIDTH: usize = 5;
static LOCK: Values = Values::new(
    "locking lanes",
    "select l.lineage, l.lane, l.hw, l.chain, l.cursor_hi, l.cursor_lo, l.clean, l.parked from (values ",
    LOCK_WIDTH,
    ") v cross join tidegate_consumer_lane l
       on l.consumer = v.column1 and l.lineage = v.column2 and l.lane = v.column3
     where l.owner = v.column4 and l.token = v.column5",
);

const ADVANCE_WIDTH: usize = 14;
/// Compare-and-set of member, token and hw; every lane at once.
static ADVANCE: Values = Values::new(
    "advancing lanes",
    "update tidegate_consumer_lane as l
     set hw = v.column7, chain = v.column8, cursor_hi = v.column9, cursor_lo = v.column10,
       applied = l.applied + v.column11, voids = l.voids + v.column12,
       skipped = l.skipped + v.column13, parked = l.parked + v.column14
     from (values ",
    ADVANCE_WIDTH,
    ") v
     where l.consumer = v.column1 and l.lineage = v.column3 and l.lane = v.column4
       and l.owner = v.column2 and l.token = v.column5 and l.hw = v.column6",
);

/// The open transaction; a handler uses it as the [`Connection`] that it is. Dropped, it rolls back.
#[derive(Debug)]
pub struct SqliteTx<'w> {
    writer: &'w Writer,
    consumer: i64,
}

impl Deref for SqliteTx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.writer
    }
}

impl Drop for SqliteTx<'_> {
    fn drop(&mut self) {
        self.writer.roll_back();
    }
}

impl<'w> SqliteTx<'w> {
    pub(super) fn begin(writer: &'w Writer, consumer: i64) -> Result<Self> {
        writer.begin().map_err(Failure::error)?;
        Ok(Self { writer, consumer })
    }

    pub(super) fn commit(self) -> Commit {
        match self.writer.commit().map_err(Failure::error) {
            Ok(()) => Commit::Done,
            Err(error) if error.effect() == Effect::Unknown => Commit::Unknown(error),
            Err(error) if is_constraint(&error) => {
                Commit::Refused(Error::new(Code::HandlerFailed, "SQLITE_CONSTRAINT_FOREIGNKEY"))
            }
            Err(error) => Commit::Refused(error),
        }
    }

    fn sql(&self) -> Sql<'_> {
        self.writer.sql()
    }

    fn queue(&self, events: &[Waiting]) -> Result<()> {
        let mut payloads = Vec::new();
        let rows: Vec<_> = events
            .iter()
            .map(|waiting| {
                let event = &waiting.delivered.event;
                let from = payloads.len() + 1;
                payloads.extend_from_slice(&event.payload);
                Ok((
                    row::lineage_hex(waiting.key.lineage),
                    &waiting.key.key,
                    waiting.delivered.lane.slot,
                    waiting.delivered.n.cast_signed(),
                    event.id.as_simple().to_string(),
                    &event.topic,
                    &event.key,
                    event.version,
                    &event.content_type,
                    headers_text(event)?,
                    event.occurred_at.as_micros(),
                    from,
                    event.payload.len(),
                ))
            })
            .collect::<Result<_>>()?;
        let rows = row::json(&rows)?;
        let at = "queueing events";
        self.sql().execute(
            at,
            include_str!("queue.sql"),
            params![self.consumer, rows, payloads],
        )?;
        self.sql()
            .execute(at, include_str!("count_queued.sql"), params![self.consumer, rows])?;
        Ok(())
    }

    fn park(&self, keys: &[NewlyParked]) -> Result<()> {
        let rows: Vec<_> = keys
            .iter()
            .map(|key| {
                (
                    row::lineage_hex(key.key.lineage),
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
        self.sql().execute(
            "parking keys",
            include_str!("park.sql"),
            params![self.consumer, rows],
        )?;
        Ok(())
    }
}

fn announced(range: Announced) -> (String, u16, i64, i64, i64, bool) {
    (
        row::lineage_hex(range.lane.lineage),
        range.lane.slot,
        range.n.cast_signed(),
        range.upto.cast_signed(),
        row::token(range.token),
        range.alone,
    )
}

fn is_constraint(error: &Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<rusqlite::ffi::Error>())
        .is_some_and(|e| e.code == rusqlite::ErrorCode::ConstraintViolation)
}

impl InboxTx for SqliteTx<'_> {
    async fn is_open(&mut self) -> Result<bool> {
        Ok(!self.writer.is_autocommit())
    }

    /// `BEGIN IMMEDIATE` holds the only write lock there is: reading the rows is locking them.
    async fn lock_lanes(&mut self, member: Nonce, lanes: &[(LaneId, Token)]) -> Result<Vec<Locked>> {
        let member = row::nonce(member);
        let mut params = Vec::with_capacity(lanes.len() * LOCK_WIDTH);
        for (lane, token) in lanes {
            params.extend([
                int(self.consumer),
                blob(lane.lineage.0.as_bytes()),
                int(lane.slot.into()),
                blob(&member),
                int(row::token(*token)),
            ]);
        }
        let mut locked = Vec::with_capacity(lanes.len());
        LOCK.each(&self.sql(), &params, &[], |row| {
            locked.push(Locked {
                lane: row::lane(row, 0)?,
                position: row::position(row, 2)?,
                parked: row::number(row, 7)?,
            });
            Ok(())
        })?;
        Ok(locked)
    }

    async fn parked_among(&mut self, keys: &[KeyRef]) -> Result<Vec<(KeyRef, u64)>> {
        let asked: Vec<_> = keys
            .iter()
            .map(|key| (row::lineage_hex(key.lineage), &key.key))
            .collect();
        let asked = row::json(&asked)?;
        self.sql().query(
            "looking for parked keys",
            include_str!("parked_among.sql"),
            params![self.consumer, asked],
            |row| Ok((row::key(row, 0, 1)?, row::number(row, 2)?)),
        )
    }

    async fn parked_total(&mut self) -> Result<u64> {
        self.sql().one(
            "counting parked events",
            "select coalesce(sum(parked), 0) from tidegate_consumer_lane where consumer = ?1",
            [self.consumer],
            |row| row::number(row, 0),
        )
    }

    async fn set_aside(&mut self, keys: &[NewlyParked], events: &[Waiting]) -> Result<()> {
        if !keys.is_empty() {
            self.park(keys)?;
        }
        let mut bytes = 0;
        let chunks = events.chunk_by(|_, next| {
            bytes += next.delivered.event.payload.len();
            let fits = bytes < PAYLOADS_MAX;
            bytes = if fits { bytes } else { 0 };
            fits
        });
        for chunk in chunks {
            self.queue(chunk)?;
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
        let headers = headers_text(event)?;
        self.sql().execute(
            "skipping an event",
            include_str!("skip.sql"),
            params![
                self.consumer,
                lane.lineage.0.as_bytes(),
                lane.slot,
                n.cast_signed(),
                key.key,
                failure.class.as_str(),
                failure.fingerprint,
                failure.message,
                at.as_micros(),
                event.id.as_bytes(),
                event.topic,
                event.key,
                event.version,
                event.content_type,
                headers,
                event.payload.as_ref(),
                event.occurred_at.as_micros(),
            ],
        )?;
        Ok(())
    }

    async fn advance(&mut self, member: Nonce, lanes: &[Advance]) -> Result<usize> {
        let member = row::nonce(member);
        let mut params = Vec::with_capacity(lanes.len() * ADVANCE_WIDTH);
        for lane in lanes {
            params.extend([
                int(self.consumer),
                blob(&member),
                blob(lane.lane.lineage.0.as_bytes()),
                int(lane.lane.slot.into()),
                int(row::token(lane.token)),
                int(lane.from.cast_signed()),
                int(lane.to.hw.cast_signed()),
                blob(&lane.to.chain.0),
                int(lane.to.cursor.0.cast_signed()),
                int(lane.to.cursor.1.cast_signed()),
                int(lane.tally.applied),
                int(lane.tally.voids),
                int(lane.tally.skipped),
                int(lane.tally.parked),
            ]);
        }
        ADVANCE.run(&self.sql(), &params)
    }

    async fn scheduled(&mut self, lanes: &[LaneId], limit: u32) -> Result<Vec<Scheduled>> {
        let lanes = row::lanes(lanes)?;
        self.sql().query(
            "looking for due keys",
            include_str!("scheduled.sql"),
            params![self.consumer, lanes, limit],
            |row| {
                Ok(Scheduled {
                    lane: row::lane(row, 0)?,
                    key: row::key(row, 0, 2)?,
                    attempts: row.get(3)?,
                    next_at: Timestamp::from_micros(row.get(4)?),
                })
            },
        )
    }

    async fn queue_head(&mut self, lane: LaneId, key: &KeyRef, limit: u32) -> Result<Vec<Delivered>> {
        self.sql().query(
            "reading a parked queue",
            include_str!("queue_head.sql"),
            params![self.consumer, key.lineage.0.as_bytes(), key.key, limit],
            |row| {
                Ok(Delivered {
                    lane,
                    n: row::number(row, 0)?,
                    event: row::event(row, 1)?,
                })
            },
        )
    }

    async fn unqueue(&mut self, _lane: LaneId, key: &KeyRef, through: u64) -> Result<u64> {
        let (at, lineage) = ("taking from a parked queue", key.lineage.0.as_bytes());
        let sql = self.sql();
        let taken = sql.execute(
            at,
            include_str!("unqueue.sql"),
            params![self.consumer, lineage, key.key, through.cast_signed()],
        )?;
        let left = sql.one(
            at,
            include_str!("count_unqueued.sql"),
            params![self.consumer, lineage, key.key, taken.cast_signed()],
            |row| row::number(row, 0),
        )?;
        if left == 0 {
            sql.execute(
                at,
                include_str!("unpark.sql"),
                params![self.consumer, lineage, key.key],
            )?;
        }
        Ok(left)
    }

    async fn reschedule(&mut self, key: &KeyRef, failed: &FailedAgain) -> Result<()> {
        self.sql().execute(
            "recording a failed retry",
            include_str!("reschedule.sql"),
            params![
                self.consumer,
                key.lineage.0.as_bytes(),
                key.key,
                failed.state.as_str(),
                failed.attempts,
                failed.next_at.as_micros(),
                failed.failure.class.as_str(),
                failed.failure.fingerprint,
                failed.failure.message,
                failed.at.as_micros(),
            ],
        )?;
        Ok(())
    }

    async fn announced(&mut self, lanes: &[LaneId]) -> Result<Vec<Announced>> {
        let lanes = row::lanes(lanes)?;
        self.sql().query(
            "looking for announcements",
            include_str!("announced.sql"),
            params![self.consumer, lanes],
            |row| {
                Ok(Announced {
                    lane: row::lane(row, 0)?,
                    n: row::number(row, 2)?,
                    upto: row::number(row, 3)?,
                    token: Token(row::number(row, 4)?),
                    alone: row.get(5)?,
                })
            },
        )
    }

    async fn announce(&mut self, lanes: &[Announce]) -> Result<()> {
        let (at, sql) = ("announcing events", self.sql());
        let dropped: Vec<_> = lanes
            .iter()
            .map(|a| {
                (
                    row::lineage_hex(a.lane.lineage),
                    a.lane.slot,
                    a.beyond.cast_signed(),
                )
            })
            .collect();
        let dropped = params![self.consumer, row::json(&dropped)?];
        sql.execute(at, include_str!("drop_announced.sql"), dropped)?;
        let rows: Vec<_> = lanes.iter().filter_map(|a| a.range.map(announced)).collect();
        if !rows.is_empty() {
            let rows = params![self.consumer, row::json(&rows)?];
            sql.execute(at, include_str!("announce.sql"), rows)?;
        }
        Ok(())
    }

    async fn attempt(&mut self, lane: LaneId, n: u64, token: Token) -> Result<u32> {
        self.sql().one(
            "recording an attempt",
            include_str!("attempt.sql"),
            params![
                self.consumer,
                lane.lineage.0.as_bytes(),
                lane.slot,
                n.cast_signed(),
                row::token(token)
            ],
            |row| row.get(0),
        )
    }

    async fn clear_attempt(&mut self, lane: LaneId, n: u64) -> Result<()> {
        self.sql().execute(
            "forgetting an attempt",
            include_str!("clear_attempt.sql"),
            params![
                self.consumer,
                lane.lineage.0.as_bytes(),
                lane.slot,
                n.cast_signed()
            ],
        )?;
        Ok(())
    }
}

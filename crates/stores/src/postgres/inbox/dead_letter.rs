//! Dead letters: views and decisions. Every decision is one transaction with its audit, under the lock of its lane's row:
//! it waits for the apply transaction that is under way, and that for it.

use tidegate_core::dead_letter::{
    Audit, Books, Decided, Detail, Filter, Id, Letter, ParkedKeys, Raw, State, Told, Untold, Which,
    check_reason, not_here,
};
use tidegate_core::inbox::KeyRef;
use tidegate_core::inbox::transaction::{Ledger, Tally};
use tidegate_core::lane::{LaneId, Lineage};
use tidegate_core::store::{BoxFuture, DeadLetters};
use tidegate_core::{Code, Error, Result, Timestamp, Uuid};
use tokio_postgres::Row;

use super::{PostgresInbox, row};
use crate::postgres::columns::get;
use crate::postgres::db::Tx;
use crate::postgres::typed::{int4, int8, string, string_or, text, uuid, uuid_or};

impl PostgresInbox {
    async fn rows(
        &self,
        at: &'static str,
        sql: &str,
        params: &[crate::postgres::Typed<'_>],
    ) -> Result<Vec<Row>> {
        self.database.query(at, sql, params).await
    }
}

impl DeadLetters for PostgresInbox {
    fn ls(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Letter>>> {
        Box::pin(async move {
            let (state, limit) = (
                filter.state.map(|state| State::as_str(state).to_owned()),
                i64::from(filter.limit),
            );
            let params = [
                int8(&self.consumer),
                string_or(&state),
                string_or(&filter.fingerprint),
                int8(&limit),
            ];
            let rows = self
                .rows("listing dead letters", include_str!("letters.sql"), &params)
                .await?;
            rows.iter()
                .map(|row| Ok(raw(row)?.letter(&self.options.redactor)))
                .collect()
        })
    }

    fn show(&self, id: Id) -> BoxFuture<'_, Result<Option<Detail>>> {
        Box::pin(async move {
            let tx = self.database.begin().await?;
            let found = at(&tx, self.consumer, id).await?;
            Ok(found.map(|row| row.detail(&self.options.redactor)))
        })
    }

    fn redrive(&self, which: Which, reason: String, now: Timestamp) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let tx = self.database.begin().await?;
            let changed = redrive(&tx, self.consumer, &which, &reason, now).await?;
            tx.commit("redriving dead letters").await?;
            Ok(changed)
        })
    }

    fn discard(&self, id: Id, reason: String, now: Timestamp) -> BoxFuture<'_, Result<Decided>> {
        Box::pin(async move {
            check_reason(&reason)?;
            let tx = self.database.begin().await?;
            lock(&tx, self.consumer, id.lane).await?;
            let decided = discard(&tx, self.consumer, id, &reason, now).await?;
            tx.commit(Position::AT).await?;
            Ok(decided)
        })
    }

    fn release(&self, id: Id, reason: String, now: Timestamp) -> BoxFuture<'_, Result<Decided>> {
        Box::pin(async move {
            check_reason(&reason)?;
            let tx = self.database.begin().await?;
            lock(&tx, self.consumer, id.lane).await?;
            let decided = release(&tx, self.consumer, id, &reason, now).await?;
            tx.commit(Position::AT).await?;
            Ok(decided)
        })
    }

    fn audit(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Audit>>> {
        Box::pin(async move {
            let limit = i64::from(limit);
            let params = [int8(&self.consumer), int8(&limit)];
            let rows = self
                .rows("reading the audit", include_str!("audits.sql"), &params)
                .await?;
            rows.iter().map(audited).collect()
        })
    }

    fn parked_keys(&self) -> BoxFuture<'_, Result<ParkedKeys>> {
        Box::pin(async move {
            let sql = include_str!("parked_keys.sql");
            let rows = self
                .rows("counting parked keys", sql, &[int8(&self.consumer)])
                .await?;
            let row = &row::one(rows)?;
            Ok(ParkedKeys {
                retrying: row::unsigned(row, 0)?,
                dead: row::unsigned(row, 1)?,
                events: row::unsigned(row, 2)?,
            })
        })
    }

    fn books(&self) -> BoxFuture<'_, Result<Vec<Books>>> {
        Box::pin(async move {
            let sql = include_str!("books.sql");
            let rows = self
                .rows("reading the books", sql, &[int8(&self.consumer)])
                .await?;
            rows.iter().map(books).collect()
        })
    }

    fn untold(&self, which: Untold) -> BoxFuture<'_, Result<Vec<Detail>>> {
        Box::pin(async move {
            let lanes = which.lanes.as_deref().map(row::lanes).transpose()?;
            let (since, id) = which.after.unzip();
            let limit = i64::from(which.limit);
            let since = since.map_or(i64::MIN, Timestamp::as_micros);
            let lineage = id.map_or(Uuid::nil(), |id| id.lane.lineage.0);
            let slot = id.map_or(0, |id| i32::from(id.lane.slot));
            let n = id.map_or(0, |id| id.n.cast_signed());
            let params = [
                int8(&self.consumer),
                int8(&limit),
                string_or(&lanes),
                int8(&since),
                uuid(&lineage),
                int4(&slot),
                int8(&n),
            ];
            let rows = self
                .rows("reading untold dead letters", include_str!("untold.sql"), &params)
                .await?;
            rows.iter()
                .map(|row| Ok(raw(row)?.detail(&self.options.redactor)))
                .collect()
        })
    }

    fn told(&self, letters: Vec<Told>) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let taken: Vec<_> = letters
                .iter()
                .map(|Told { id, failed_at }| {
                    (
                        id.lane.lineage.0.to_string(),
                        id.lane.slot,
                        id.n.cast_signed(),
                        failed_at.as_micros(),
                    )
                })
                .collect();
            let taken = row::json(&taken)?;
            let (at, params) = (
                "marking told dead letters",
                [int8(&self.consumer), string(&taken)],
            );
            let tx = self.database.begin().await?;
            tx.execute(at, include_str!("told_parked.sql"), &params).await?;
            tx.execute(at, include_str!("told_skipped.sql"), &params).await?;
            tx.commit(at).await
        })
    }
}

/// Waits for the apply transaction of the lane that is under way.
async fn lock(tx: &Tx, consumer: i64, lane: LaneId) -> Result<()> {
    let slot = i32::from(lane.slot);
    let params = [int8(&consumer), uuid(&lane.lineage.0), int4(&slot)];
    tx.query(Position::AT, include_str!("lock_lane.sql"), &params)
        .await?;
    Ok(())
}

fn raw(row: &Row) -> Result<Raw> {
    Ok(Raw {
        id: id(row, 0)?,
        state: state(&get::<String>(row, 3)?),
        key: get(row, 4)?,
        class: get(row, 5)?,
        fingerprint: get(row, 6)?,
        message: get(row, 7)?,
        attempts: get::<i32>(row, 8)?.cast_unsigned(),
        waiting: row::unsigned(row, 9)?,
        since: Timestamp::from_micros(get(row, 10)?),
        failed_at: Timestamp::from_micros(get(row, 11)?),
        next_at: get::<Option<i64>>(row, 12)?.map(Timestamp::from_micros),
        event: row::event(row, 13)?,
    })
}

/// `lineage, lane, n` from column `at` on.
fn id(row: &Row, at: usize) -> Result<Id> {
    Ok(Id {
        lane: row::lane(row, at)?,
        n: row::unsigned(row, at + 2)?,
    })
}

fn state(text: &str) -> State {
    match text {
        "retrying" => State::Retrying,
        "skipped" => State::Skipped,
        _ => State::Dead,
    }
}

fn audited(row: &Row) -> Result<Audit> {
    Ok(Audit {
        at: Timestamp::from_micros(get(row, 0)?),
        action: get(row, 1)?,
        reason: get(row, 2)?,
        id: id(row, 3)?,
        event_id: get(row, 6)?,
        fingerprint: get(row, 7)?,
    })
}

fn books(row: &Row) -> Result<Books> {
    Ok(Books {
        lane: row::lane(row, 0)?,
        hw: row::unsigned(row, 2)?,
        ledger: Ledger {
            start: row::unsigned(row, 3)?,
            tally: Tally {
                applied: get(row, 4)?,
                voids: get(row, 5)?,
                skipped: get(row, 6)?,
                parked: get(row, 7)?,
            },
            discarded: get(row, 8)?,
        },
    })
}

/// The waiting or skipped event at a position.
async fn at(tx: &Tx, consumer: i64, id: Id) -> Result<Option<Raw>> {
    let (slot, n) = (i32::from(id.lane.slot), id.n.cast_signed());
    let params = [int8(&consumer), uuid(&id.lane.lineage.0), int4(&slot), int8(&n)];
    let rows = tx
        .query("reading a dead letter", include_str!("letter.sql"), &params)
        .await?;
    rows.first().map(raw).transpose()
}

/// What a redrive is limited to.
#[derive(Default)]
struct Choice {
    lineage: Option<Uuid>,
    key: Option<String>,
    fingerprint: Option<String>,
}

impl Choice {
    fn key(lineage: Lineage, key: String) -> Self {
        Self {
            lineage: Some(lineage.0),
            key: Some(key),
            fingerprint: None,
        }
    }
}

async fn redrive(tx: &Tx, consumer: i64, which: &Which, reason: &str, now: Timestamp) -> Result<u64> {
    let choice = choice(tx, consumer, which).await?;
    let (step, now) = ("redriving dead letters", now.as_micros());
    let params = [
        int8(&consumer),
        int8(&now),
        text(&reason),
        uuid_or(&choice.lineage),
        string_or(&choice.key),
        string_or(&choice.fingerprint),
    ];
    tx.execute(step, include_str!("redrive_audit.sql"), &params)
        .await?;
    let params = [
        int8(&consumer),
        int8(&now),
        uuid_or(&choice.lineage),
        string_or(&choice.key),
        string_or(&choice.fingerprint),
    ];
    tx.execute(step, include_str!("redrive.sql"), &params).await
}

async fn choice(tx: &Tx, consumer: i64, which: &Which) -> Result<Choice> {
    match which {
        Which::All => Ok(Choice::default()),
        Which::Fingerprint(cause) => Ok(Choice {
            fingerprint: Some(cause.clone()),
            ..Choice::default()
        }),
        Which::Key(key) => {
            if !is_parked(tx, consumer, key).await? {
                return Err(Error::new(Code::NotFound, "the key is not parked"));
            }
            Ok(Choice::key(key.lineage, key.key.clone()))
        }
        Which::Event(id) => match at(tx, consumer, *id).await? {
            None => Err(not_here(*id)),
            Some(row) if row.state == State::Skipped => Err(was_skipped(*id)),
            Some(row) => Ok(Choice::key(id.lane.lineage, row.key)),
        },
    }
}

fn was_skipped(id: Id) -> Error {
    Error::new(
        Code::OptionsInvalid,
        format!(
            "{id} was skipped and newer events of its key are applied: release it out of order, or discard it"
        ),
    )
}

async fn is_parked(tx: &Tx, consumer: i64, key: &KeyRef) -> Result<bool> {
    let sql = "select exists (select 1 from tidegate.inbox_parked where consumer = $1 and lineage = $2 and key = $3)";
    let params = [int8(&consumer), uuid(&key.lineage.0), string(&key.key)];
    let rows = tx.query("looking for a parked key", sql, &params).await?;
    get(&row::one(rows)?, 0)
}

async fn discard(tx: &Tx, consumer: i64, id: Id, reason: &str, now: Timestamp) -> Result<Decided> {
    let Some(found) = at(tx, consumer, id).await? else {
        return already(tx, consumer, id, "discard").await;
    };
    let position = Position::of(consumer, id);
    position.audit(tx, "discard", reason, &found, now).await?;
    if found.state == State::Skipped {
        position.run(tx, include_str!("discard_skipped.sql")).await?;
        position
            .tally(tx, include_str!("ledger_discard_skipped.sql"))
            .await?;
    } else {
        position.leave_queue(tx, &found.key, now).await?;
        position
            .tally(tx, include_str!("ledger_discard_queued.sql"))
            .await?;
    }
    position.run(tx, include_str!("clear_attempt.sql")).await?;
    Ok(Decided::Done)
}

async fn release(tx: &Tx, consumer: i64, id: Id, reason: &str, now: Timestamp) -> Result<Decided> {
    let found = at(tx, consumer, id).await?;
    let Some(found) = found.filter(|found| found.state == State::Skipped) else {
        return already(tx, consumer, id, "release").await;
    };
    let position = Position::of(consumer, id);
    position.audit(tx, "release", reason, &found, now).await?;
    position.enter_queue(tx, &found.key, now).await?;
    position.run(tx, include_str!("discard_skipped.sql")).await?;
    position.tally(tx, include_str!("ledger_release.sql")).await?;
    Ok(Decided::Done)
}

async fn already(tx: &Tx, consumer: i64, id: Id, action: &str) -> Result<Decided> {
    let (slot, n) = (i32::from(id.lane.slot), id.n.cast_signed());
    let params = [
        int8(&consumer),
        uuid(&id.lane.lineage.0),
        int4(&slot),
        int8(&n),
        text(&action),
    ];
    let rows = tx
        .query("looking into the audit", include_str!("audited.sql"), &params)
        .await?;
    let done: bool = get(&row::one(rows)?, 0)?;
    done.then_some(Decided::Already).ok_or_else(|| not_here(id))
}

/// A position under decision.
struct Position {
    consumer: i64,
    lineage: Uuid,
    slot: i32,
    n: i64,
}

impl Position {
    const AT: &'static str = "deciding about a dead letter";

    fn of(consumer: i64, id: Id) -> Self {
        Self {
            consumer,
            lineage: id.lane.lineage.0,
            slot: i32::from(id.lane.slot),
            n: id.n.cast_signed(),
        }
    }

    /// A statement over consumer, lineage, lane and number.
    async fn run(&self, tx: &Tx, sql: &str) -> Result<()> {
        let params = [
            int8(&self.consumer),
            uuid(&self.lineage),
            int4(&self.slot),
            int8(&self.n),
        ];
        tx.execute(Self::AT, sql, &params).await?;
        Ok(())
    }

    /// A statement over consumer, lineage and lane.
    async fn tally(&self, tx: &Tx, sql: &str) -> Result<()> {
        let params = [int8(&self.consumer), uuid(&self.lineage), int4(&self.slot)];
        tx.execute(Self::AT, sql, &params).await?;
        Ok(())
    }

    async fn start_over(&self, tx: &Tx, key: &str, now: Timestamp) -> Result<()> {
        let now = now.as_micros();
        let params = [int8(&self.consumer), uuid(&self.lineage), text(&key), int8(&now)];
        tx.execute(Self::AT, include_str!("start_over.sql"), &params)
            .await?;
        Ok(())
    }

    async fn is_head(&self, tx: &Tx) -> Result<bool> {
        let params = [
            int8(&self.consumer),
            uuid(&self.lineage),
            int4(&self.slot),
            int8(&self.n),
        ];
        let rows = tx.query(Self::AT, include_str!("holder.sql"), &params).await?;
        get(&row::one(rows)?, 1)
    }

    /// Deletes the event; a new head is due at once; an empty queue un-parks.
    async fn leave_queue(&self, tx: &Tx, key: &str, now: Timestamp) -> Result<()> {
        if self.is_head(tx).await? {
            self.start_over(tx, key, now).await?;
        }
        self.run(tx, include_str!("discard_queued.sql")).await?;
        self.count(tx, key, -1).await?;
        let params = [int8(&self.consumer), uuid(&self.lineage), text(&key)];
        tx.execute(Self::AT, include_str!("unpark.sql"), &params).await?;
        Ok(())
    }

    /// Copies the skipped event into its key's queue, parking the key where it is not.
    async fn enter_queue(&self, tx: &Tx, key: &str, now: Timestamp) -> Result<()> {
        let due = now.as_micros();
        let params = [
            int8(&self.consumer),
            uuid(&self.lineage),
            int4(&self.slot),
            int8(&self.n),
            int8(&due),
        ];
        tx.execute(Self::AT, include_str!("release_park.sql"), &params)
            .await?;
        self.run(tx, include_str!("release_queue.sql")).await?;
        self.count(tx, key, 1).await?;
        if self.is_head(tx).await? {
            self.start_over(tx, key, now).await?;
        }
        Ok(())
    }

    async fn count(&self, tx: &Tx, key: &str, by: i64) -> Result<()> {
        let sql = "update tidegate.inbox_parked set events = events + $4 where consumer = $1 and lineage = $2 and key = $3";
        let params = [int8(&self.consumer), uuid(&self.lineage), text(&key), int8(&by)];
        tx.execute(Self::AT, sql, &params).await?;
        Ok(())
    }

    async fn audit(&self, tx: &Tx, action: &str, reason: &str, found: &Raw, now: Timestamp) -> Result<()> {
        let now = now.as_micros();
        let params = [
            int8(&self.consumer),
            int8(&now),
            text(&action),
            text(&reason),
            uuid(&self.lineage),
            int4(&self.slot),
            int8(&self.n),
            uuid(&found.event.id),
            string(&found.fingerprint),
        ];
        tx.execute(Self::AT, include_str!("audit.sql"), &params).await?;
        Ok(())
    }
}

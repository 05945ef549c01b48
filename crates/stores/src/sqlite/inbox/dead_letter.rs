//! Dead letters: views and decisions. One writer makes every decision a transaction of its own, with its audit.

use rusqlite::{Row, params};
use tidegate_core::dead_letter::{
    Audit, Books, Decided, Detail, Filter, Id, Letter, ParkedKeys, Raw, State, Told, Untold, Which,
    check_reason, not_here,
};
use tidegate_core::inbox::KeyRef;
use tidegate_core::inbox::transaction::{Ledger, Tally};
use tidegate_core::lane::Lineage;
use tidegate_core::store::{BoxFuture, DeadLetters};
use tidegate_core::{Code, Error, Result, Timestamp, Uuid};

use super::{SqliteInbox, row};
use crate::sqlite::Sql;

impl DeadLetters for SqliteInbox {
    fn ls(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Letter>>> {
        let (consumer, redactor) = (self.consumer, self.options.redactor.clone());
        self.database.read(move |sql| {
            let rows = sql.query(
                "listing dead letters",
                include_str!("letters.sql"),
                params![
                    consumer,
                    filter.state.map(State::as_str),
                    filter.fingerprint,
                    filter.limit
                ],
                raw,
            )?;
            Ok(rows.iter().map(|row| row.letter(&redactor)).collect())
        })
    }

    fn show(&self, id: Id) -> BoxFuture<'_, Result<Option<Detail>>> {
        let (consumer, redactor) = (self.consumer, self.options.redactor.clone());
        self.database.read(move |sql| {
            let found = at(sql, consumer, id)?;
            Ok(found.map(|row| row.detail(&redactor)))
        })
    }

    fn redrive(&self, which: Which, reason: String, now: Timestamp) -> BoxFuture<'_, Result<u64>> {
        let consumer = self.consumer;
        self.database
            .write(move |sql| redrive(sql, consumer, &which, &reason, now))
    }

    fn discard(&self, id: Id, reason: String, now: Timestamp) -> BoxFuture<'_, Result<Decided>> {
        let consumer = self.consumer;
        self.database.write(move |sql| {
            check_reason(&reason)?;
            discard(sql, consumer, id, &reason, now)
        })
    }

    fn release(&self, id: Id, reason: String, now: Timestamp) -> BoxFuture<'_, Result<Decided>> {
        let consumer = self.consumer;
        self.database.write(move |sql| {
            check_reason(&reason)?;
            release(sql, consumer, id, &reason, now)
        })
    }

    fn audit(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Audit>>> {
        let consumer = self.consumer;
        self.database.read(move |sql| {
            sql.query(
                "reading the audit",
                include_str!("audits.sql"),
                params![consumer, limit],
                audited,
            )
        })
    }

    fn parked_keys(&self) -> BoxFuture<'_, Result<ParkedKeys>> {
        let consumer = self.consumer;
        self.database.read(move |sql| {
            sql.one(
                "counting parked keys",
                include_str!("parked_keys.sql"),
                [consumer],
                |row| {
                    Ok(ParkedKeys {
                        retrying: row::number(row, 0)?,
                        dead: row::number(row, 1)?,
                        events: row::number(row, 2)?,
                    })
                },
            )
        })
    }

    fn books(&self) -> BoxFuture<'_, Result<Vec<Books>>> {
        let consumer = self.consumer;
        self.database
            .read(move |sql| sql.query("reading the books", include_str!("books.sql"), [consumer], books))
    }

    fn untold(&self, which: Untold) -> BoxFuture<'_, Result<Vec<Detail>>> {
        let (consumer, redactor) = (self.consumer, self.options.redactor.clone());
        self.database.read(move |sql| {
            let lanes = which.lanes.as_deref().map(row::lanes).transpose()?;
            let (since, id) = which.after.unzip();
            let params = params![
                consumer,
                which.limit,
                lanes,
                since.map_or(i64::MIN, Timestamp::as_micros),
                id.map_or([0; 16], |id| *id.lane.lineage.0.as_bytes()),
                id.map_or(0, |id| id.lane.slot),
                id.map_or(0, |id| id.n.cast_signed()),
            ];
            let rows = sql.query(
                "reading untold dead letters",
                include_str!("untold.sql"),
                params,
                raw,
            )?;
            Ok(rows.iter().map(|row| row.detail(&redactor)).collect())
        })
    }

    fn told(&self, letters: Vec<Told>) -> BoxFuture<'_, Result<()>> {
        let consumer = self.consumer;
        self.database.write(move |sql| {
            let taken: Vec<_> = letters
                .iter()
                .map(|Told { id, failed_at }| {
                    (
                        row::lineage_hex(id.lane.lineage),
                        id.lane.slot,
                        id.n.cast_signed(),
                        failed_at.as_micros(),
                    )
                })
                .collect();
            let taken = row::json(&taken)?;
            let at = "marking told dead letters";
            sql.execute(at, include_str!("told_parked.sql"), params![consumer, taken])?;
            sql.execute(at, include_str!("told_skipped.sql"), params![consumer, taken])?;
            Ok(())
        })
    }
}

fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    Ok(Raw {
        id: id(row, 0)?,
        state: state(&row.get::<_, String>(3)?),
        key: row.get(4)?,
        class: row.get(5)?,
        fingerprint: row.get(6)?,
        message: row.get(7)?,
        attempts: row.get(8)?,
        waiting: row::number(row, 9)?,
        since: Timestamp::from_micros(row.get(10)?),
        failed_at: Timestamp::from_micros(row.get(11)?),
        next_at: row.get::<_, Option<i64>>(12)?.map(Timestamp::from_micros),
        event: row::event(row, 13)?,
    })
}

/// `lineage, lane, n` from column `at` on.
fn id(row: &Row<'_>, at: usize) -> rusqlite::Result<Id> {
    Ok(Id {
        lane: row::lane(row, at)?,
        n: row::number(row, at + 2)?,
    })
}

fn state(text: &str) -> State {
    match text {
        "retrying" => State::Retrying,
        "skipped" => State::Skipped,
        _ => State::Dead,
    }
}

fn audited(row: &Row<'_>) -> rusqlite::Result<Audit> {
    Ok(Audit {
        at: Timestamp::from_micros(row.get(0)?),
        action: row.get(1)?,
        reason: row.get(2)?,
        id: id(row, 3)?,
        event_id: Uuid::from_bytes(row.get(6)?),
        fingerprint: row.get(7)?,
    })
}

fn books(row: &Row<'_>) -> rusqlite::Result<Books> {
    Ok(Books {
        lane: row::lane(row, 0)?,
        hw: row::number(row, 2)?,
        ledger: Ledger {
            start: row::number(row, 3)?,
            tally: Tally {
                applied: row.get(4)?,
                voids: row.get(5)?,
                skipped: row.get(6)?,
                parked: row.get(7)?,
            },
            discarded: row.get(8)?,
        },
    })
}

/// The waiting or skipped event at a position.
fn at(sql: &Sql<'_>, consumer: i64, id: Id) -> Result<Option<Raw>> {
    let (lineage, n) = (id.lane.lineage.0.as_bytes(), id.n.cast_signed());
    sql.first(
        "reading a dead letter",
        include_str!("letter.sql"),
        params![consumer, lineage, id.lane.slot, n],
        raw,
    )
}

/// What a redrive is limited to.
#[derive(Default)]
struct Choice {
    lineage: Option<[u8; 16]>,
    key: Option<String>,
    fingerprint: Option<String>,
}

impl Choice {
    fn key(lineage: Lineage, key: String) -> Self {
        Self {
            lineage: Some(lineage.0.into_bytes()),
            key: Some(key),
            fingerprint: None,
        }
    }
}

fn redrive(sql: &Sql<'_>, consumer: i64, which: &Which, reason: &str, now: Timestamp) -> Result<u64> {
    let Choice {
        lineage,
        key,
        fingerprint,
    } = choice(sql, consumer, which)?;
    let (step, now) = ("redriving dead letters", now.as_micros());
    sql.execute(
        step,
        include_str!("redrive_audit.sql"),
        params![consumer, now, reason, lineage, key, fingerprint],
    )?;
    let changed = sql.execute(
        step,
        include_str!("redrive.sql"),
        params![consumer, now, lineage, key, fingerprint],
    )?;
    Ok(u64::try_from(changed).unwrap_or(u64::MAX))
}

fn choice(sql: &Sql<'_>, consumer: i64, which: &Which) -> Result<Choice> {
    match which {
        Which::All => Ok(Choice::default()),
        Which::Fingerprint(cause) => Ok(Choice {
            fingerprint: Some(cause.clone()),
            ..Choice::default()
        }),
        Which::Key(key) => {
            if !is_parked(sql, consumer, key)? {
                return Err(Error::new(Code::NotFound, "the key is not parked"));
            }
            Ok(Choice::key(key.lineage, key.key.clone()))
        }
        Which::Event(id) => match at(sql, consumer, *id)? {
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

fn is_parked(sql: &Sql<'_>, consumer: i64, key: &KeyRef) -> Result<bool> {
    sql.one(
        "looking for a parked key",
        "select exists (select 1 from tidegate_inbox_parked where consumer = ?1 and lineage = ?2 and key = ?3)",
        params![consumer, key.lineage.0.as_bytes(), key.key],
        |row| row.get(0),
    )
}

fn discard(sql: &Sql<'_>, consumer: i64, id: Id, reason: &str, now: Timestamp) -> Result<Decided> {
    let Some(found) = at(sql, consumer, id)? else {
        return already(sql, consumer, id, "discard");
    };
    let position = Position::of(consumer, id);
    position.audit(sql, "discard", reason, &found, now)?;
    if found.state == State::Skipped {
        position.run(sql, include_str!("discard_skipped.sql"))?;
        position.tally(sql, include_str!("ledger_discard_skipped.sql"))?;
    } else {
        position.leave_queue(sql, &found.key, now)?;
        position.tally(sql, include_str!("ledger_discard_queued.sql"))?;
    }
    position.run(sql, include_str!("clear_attempt.sql"))?;
    Ok(Decided::Done)
}

fn release(sql: &Sql<'_>, consumer: i64, id: Id, reason: &str, now: Timestamp) -> Result<Decided> {
    let found = at(sql, consumer, id)?.filter(|found| found.state == State::Skipped);
    let Some(found) = found else {
        return already(sql, consumer, id, "release");
    };
    let position = Position::of(consumer, id);
    position.audit(sql, "release", reason, &found, now)?;
    position.enter_queue(sql, &found.key, now)?;
    position.run(sql, include_str!("discard_skipped.sql"))?;
    position.tally(sql, include_str!("ledger_release.sql"))?;
    Ok(Decided::Done)
}

fn already(sql: &Sql<'_>, consumer: i64, id: Id, action: &str) -> Result<Decided> {
    let done = sql.one(
        "looking into the audit",
        include_str!("audited.sql"),
        params![
            consumer,
            id.lane.lineage.0.as_bytes(),
            id.lane.slot,
            id.n.cast_signed(),
            action
        ],
        |row| row.get::<_, bool>(0),
    )?;
    done.then_some(Decided::Already).ok_or_else(|| not_here(id))
}

/// A position under decision.
struct Position {
    consumer: i64,
    lineage: [u8; 16],
    slot: u16,
    n: i64,
}

impl Position {
    const AT: &'static str = "deciding about a dead letter";

    fn of(consumer: i64, id: Id) -> Self {
        Self {
            consumer,
            lineage: id.lane.lineage.0.into_bytes(),
            slot: id.lane.slot,
            n: id.n.cast_signed(),
        }
    }

    /// A statement over consumer, lineage, lane and number.
    fn run(&self, sql: &Sql<'_>, text: &str) -> Result<()> {
        sql.execute(
            Self::AT,
            text,
            params![self.consumer, self.lineage, self.slot, self.n],
        )?;
        Ok(())
    }

    /// A statement over consumer, lineage and lane.
    fn tally(&self, sql: &Sql<'_>, text: &str) -> Result<()> {
        sql.execute(Self::AT, text, params![self.consumer, self.lineage, self.slot])?;
        Ok(())
    }

    fn start_over(&self, sql: &Sql<'_>, key: &str, now: Timestamp) -> Result<()> {
        let now = now.as_micros();
        sql.execute(
            Self::AT,
            include_str!("start_over.sql"),
            params![self.consumer, self.lineage, key, now],
        )?;
        Ok(())
    }

    fn is_head(&self, sql: &Sql<'_>) -> Result<bool> {
        sql.one(
            Self::AT,
            include_str!("holder.sql"),
            params![self.consumer, self.lineage, self.slot, self.n],
            |row| row.get(1),
        )
    }

    /// Deletes the event; a new head is due at once; an empty queue un-parks.
    fn leave_queue(&self, sql: &Sql<'_>, key: &str, now: Timestamp) -> Result<()> {
        if self.is_head(sql)? {
            self.start_over(sql, key, now)?;
        }
        self.run(sql, include_str!("discard_queued.sql"))?;
        self.count(sql, key, -1)?;
        let unpark = include_str!("unpark.sql");
        sql.execute(Self::AT, unpark, params![self.consumer, self.lineage, key])?;
        Ok(())
    }

    /// Copies the skipped event into its key's queue, parking the key where it is not.
    fn enter_queue(&self, sql: &Sql<'_>, key: &str, now: Timestamp) -> Result<()> {
        sql.execute(
            Self::AT,
            include_str!("release_park.sql"),
            params![self.consumer, self.lineage, self.slot, self.n, now.as_micros()],
        )?;
        self.run(sql, include_str!("release_queue.sql"))?;
        self.count(sql, key, 1)?;
        if self.is_head(sql)? {
            self.start_over(sql, key, now)?;
        }
        Ok(())
    }

    fn count(&self, sql: &Sql<'_>, key: &str, by: i64) -> Result<()> {
        sql.execute(
            Self::AT,
            "update tidegate_inbox_parked set events = events + ?4 where consumer = ?1 and lineage = ?2 and key = ?3",
            params![self.consumer, self.lineage, key, by],
        )?;
        Ok(())
    }

    fn audit(&self, sql: &Sql<'_>, action: &str, reason: &str, found: &Raw, now: Timestamp) -> Result<()> {
        let event = found.event.id.as_bytes();
        sql.execute(
            Self::AT,
            include_str!("audit.sql"),
            params![
                self.consumer,
                now.as_micros(),
                action,
                reason,
                self.lineage,
                self.slot,
                self.n,
                event,
                found.fingerprint
            ],
        )?;
        Ok(())
    }
}

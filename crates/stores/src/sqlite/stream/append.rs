//! Compare and append.

use std::collections::BTreeSet;

use tidegate_core::lane::LaneId;
use tidegate_core::lease::Token;
use tidegate_core::stream::{Appended, LaneAppend, Lost, Numbered, Register};
use tidegate_core::{Code, Error, Result, Timestamp};

use super::{json_lanes, rowid};
use crate::sqlite::Sql;
use crate::sqlite::columns::{
    EVENT_WIDTH, Param, blob, chain, headers_text, int, number, push_event, signed, token, unsigned,
};
use crate::sqlite::values::Values;

const FIND_WIDTH: usize = 4;
static FIND: Values = Values::new(
    "append",
    "select v.column1, r.id, r.n, r.token, r.chain from (values ",
    FIND_WIDTH,
    ") v cross join tidegate_register r
       on r.stream = v.column2 and r.lineage = v.column3 and r.lane = v.column4",
);

static INSERT: Values = Values::insert(
    "append",
    "insert into tidegate_entry (id, register, n, token, chain, appended_at, event_id, topic, key, version, \
     content_type, headers, payload, occurred_at) select * from (values ",
    6 + EVENT_WIDTH,
);

static UPDATE: Values = Values::new(
    "append",
    "update tidegate_register set n = v.column2, token = v.column3, chain = v.column4 from (values ",
    4,
    ") v where tidegate_register.id = v.column1",
);

/// A register's row.
#[derive(Clone, Copy)]
struct Stored {
    id: i64,
    register: Register,
}

/// The registers of these lanes, in order; made where they are missing. One statement, or three for a new lane.
fn registers(sql: &Sql<'_>, stream: i64, lanes: &[LaneId]) -> Result<Vec<Stored>> {
    if let Some(all) = look(sql, stream, lanes)? {
        return Ok(all);
    }
    let names = json_lanes(lanes.iter().copied());
    sql.execute("append", include_str!("new_registers.sql"), (stream, names))?;
    let all = look(sql, stream, lanes)?;
    all.ok_or_else(|| Error::new(Code::Internal, "append: a register is missing after it was made"))
}

fn look(sql: &Sql<'_>, stream: i64, lanes: &[LaneId]) -> Result<Option<Vec<Stored>>> {
    let mut params = Vec::with_capacity(lanes.len() * FIND_WIDTH);
    for (lane, at) in lanes.iter().zip(0..) {
        let lineage = blob(lane.lineage.0.as_bytes());
        params.extend([int(at), int(stream), lineage, int(lane.slot.into())]);
    }
    let mut all = vec![None; lanes.len()];
    FIND.each(sql, &params, &[], |row| {
        let stored = Stored {
            id: row.get(1)?,
            register: Register {
                n: number(row, 2)?,
                token: token(row, 3)?,
                chain: chain(row, 4)?,
            },
        };
        let at = row.get::<_, u32>(0)? as usize;
        *all.get_mut(at).ok_or(rusqlite::Error::InvalidQuery)? = Some(stored);
        Ok(())
    })?;
    Ok(all.into_iter().collect())
}

fn write(sql: &Sql<'_>, changed: &[Stored]) -> Result<()> {
    let mut params: Vec<Param<'_>> = Vec::with_capacity(changed.len() * 4);
    for Stored { id, register } in changed {
        params.extend([
            int(*id),
            int(signed(register.n)),
            int(signed(register.token.0)),
            blob(&register.chain.0),
        ]);
    }
    UPDATE.run(sql, &params).map(|_| ())
}

/// Writes nothing where the tokens are already there: an idle relay looks often.
pub(super) fn raise(sql: &Sql<'_>, stream: i64, lanes: &[(LaneId, Token)]) -> Result<Vec<Option<Register>>> {
    let names: Vec<_> = lanes.iter().map(|(lane, _)| *lane).collect();
    let mut stored = registers(sql, stream, &names)?;
    let mut changed = Vec::new();
    for (stored, (_, token)) in stored.iter_mut().zip(lanes) {
        if stored.register.token < *token {
            stored.register.token = *token;
            changed.push(*stored);
        }
    }
    write(sql, &changed)?;
    Ok(stored.into_iter().map(|s| Some(s.register)).collect())
}

/// Four statements for up to 1,024 entries of any number of lanes, and one for each lane that is refused.
pub(super) fn append(
    sql: &Sql<'_>,
    stream: i64,
    appends: &[LaneAppend],
    payload_max: usize,
    now: Timestamp,
) -> Result<Vec<Appended>> {
    check_lanes(appends)?;
    let names: Vec<_> = appends.iter().map(|append| append.lane).collect();
    let stored = registers(sql, stream, &names)?;
    let mut outcomes = Vec::with_capacity(appends.len());
    let mut accepted = Vec::new();
    for (append, mut stored) in appends.iter().zip(stored) {
        let outcome = compare(append, stored.register, payload_max);
        if matches!(outcome, Appended::Fenced(_) | Appended::Moved(_)) {
            let params = (stored.id, signed(append.entries.len() as u64));
            sql.execute("append", include_str!("refused.sql"), params)?;
        }
        if let (Appended::Through(n), Some(last)) = (&outcome, append.entries.last()) {
            stored.register = Register {
                n: *n,
                token: append.token,
                chain: last.chain,
            };
            accepted.push((append, stored));
        }
        outcomes.push(outcome);
    }
    if !accepted.is_empty() {
        insert(sql, stream, &accepted, now)?;
        let changed: Vec<_> = accepted.into_iter().map(|(_, stored)| stored).collect();
        write(sql, &changed)?;
    }
    Ok(outcomes)
}

/// Each lane is named once, and its numbers follow each other.
fn check_lanes(appends: &[LaneAppend]) -> Result<()> {
    let lanes: BTreeSet<LaneId> = appends.iter().map(|append| append.lane).collect();
    if lanes.len() < appends.len() {
        return Err(Error::new(Code::Internal, "append: a lane is named twice"));
    }
    appends.iter().try_for_each(check_numbers)
}

/// The numbers of one lane follow each other.
fn check_numbers(append: &LaneAppend) -> Result<()> {
    let follow = append.entries.windows(2).all(|pair| pair[1].n == pair[0].n + 1);
    if follow {
        return Ok(());
    }
    Err(Error::new(
        Code::Internal,
        format!("append: numbers of lane {} have a hole", append.lane),
    ))
}

/// What the register says to this append.
fn compare(append: &LaneAppend, register: Register, payload_max: usize) -> Appended {
    if append.token < register.token {
        return Appended::Fenced(register.token);
    }
    let (Some(first), Some(last)) = (append.entries.first(), append.entries.last()) else {
        return Appended::Through(register.n);
    };
    let id = first.event.as_ref().map(|e| e.id);
    if first.n != register.n + 1 || first.chain != register.chain.next(first.n, id) {
        return Appended::Moved(register);
    }
    let bytes = |entry: &Numbered| entry.event.as_ref().map_or(0, |e| e.payload.len());
    match append.entries.iter().find(|entry| bytes(entry) > payload_max) {
        Some(large) => Appended::Poison {
            n: large.n,
            reason: format!(
                "payload is {} bytes; the stream takes {payload_max}",
                bytes(large)
            ),
        },
        None => Appended::Through(last.n),
    }
}

fn insert(sql: &Sql<'_>, stream: i64, accepted: &[(&LaneAppend, Stored)], now: Timestamp) -> Result<()> {
    let entries: Vec<_> = accepted
        .iter()
        .flat_map(|(append, stored)| {
            append
                .entries
                .iter()
                .map(|entry| (entry, append.token, stored.id))
        })
        .collect();
    let count = entries.len() as u64;
    let params = (stream, signed(count));
    let last: i64 = sql.one("append", include_str!("advance.sql"), params, |row| row.get(0))?;
    let headers = entries
        .iter()
        .map(|(entry, ..)| entry.event.as_ref().map_or(Ok(None), headers_text))
        .collect::<Result<Vec<_>>>()?;
    let mut params: Vec<Param<'_>> = Vec::with_capacity(entries.len() * (6 + EVENT_WIDTH));
    let positions = unsigned(last) - count + 1..;
    for ((position, (entry, token, register)), headers) in positions.zip(&entries).zip(&headers) {
        params.extend([
            int(rowid(stream, position)),
            int(*register),
            int(signed(entry.n)),
            int(signed(token.0)),
            blob(&entry.chain.0),
            int(now.as_micros()),
        ]);
        push_event(&mut params, entry.event.as_ref(), headers.as_deref());
    }
    INSERT.run(sql, &params).map(|_| ())
}

pub(super) fn declare_lost(
    sql: &Sql<'_>,
    stream: i64,
    lost: &Lost,
    token: Token,
    now: Timestamp,
) -> Result<Appended> {
    let stored = registers(sql, stream, &[lost.lane])?;
    let [Stored { id, register }] = stored[..] else {
        return Err(Error::new(
            Code::Internal,
            "declare lost: one register was asked for",
        ));
    };
    if token < register.token {
        return Ok(Appended::Fenced(register.token));
    }
    if lost.from != register.n + 1 || lost.through < lost.from {
        return Ok(Appended::Moved(register));
    }
    let register = Register {
        n: lost.through,
        token,
        chain: lost.chain,
    };
    write(sql, &[Stored { id, register }])?;
    let lineage = lost.lane.lineage.0;
    let (first, last) = (signed(lost.from), signed(lost.through));
    let params = (
        stream,
        lineage.as_bytes(),
        lost.lane.slot,
        first,
        last,
        lost.chain.0,
        now.as_micros(),
    );
    sql.execute("declare lost", include_str!("declare_lost.sql"), params)?;
    Ok(Appended::Through(lost.through))
}

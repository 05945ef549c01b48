//! Compare and append.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use redis::Cmd;
use tidegate_core::lane::LaneId;
use tidegate_core::lease::Token;
use tidegate_core::stream::{Appended, Chain, LaneAppend, Lost, Numbered, Register};
use tidegate_core::{Code, Error, Result};

use super::values::{chain, chain_text, damaged, lane_text, number, register};
use super::{Inner, envelope, fresh};
use crate::redis::error;

/// Entries of one script: more would hold the server for milliseconds.
const SCRIPT_MAX: usize = 128;

/// What a script answers: what happened, and the register's three parts.
type Answer = (String, String, String, String);

/// One round trip for all lanes.
pub(super) async fn raise(inner: &Inner, lanes: &[(LaneId, Token)]) -> Result<Vec<Register>> {
    let mut call = inner
        .scripts
        .register
        .call(&[&inner.keys.registers, &inner.keys.meta]);
    call.arg(fresh());
    for (lane, token) in lanes {
        call.arg(lane_text(*lane)).arg(token.0);
    }
    let mut connection = inner.db.connection();
    let all: Vec<String> = inner
        .scripts
        .register
        .run(&mut connection, &call)
        .await
        .map_err(error::map("reading registers"))?;
    let all = all
        .iter()
        .map(|text| register(text))
        .collect::<Result<Vec<_>>>()?;
    if all.len() != lanes.len() {
        return Err(damaged("register"));
    }
    lanes
        .iter()
        .zip(&all)
        .for_each(|((lane, _), register)| inner.saw(*lane, *register));
    Ok(all)
}

/// One round trip; one more for lanes that this handle does not know.
pub(super) async fn append(
    inner: &Inner,
    appends: &[LaneAppend],
    payload_max: usize,
) -> Result<Vec<Appended>> {
    check_lanes(appends)?;
    if appends.is_empty() {
        return Ok(Vec::new());
    }
    let strangers: Vec<_> = appends
        .iter()
        .filter(|append| inner.prior(append).is_none())
        .map(|append| (append.lane, Token(0)))
        .collect();
    if !strangers.is_empty() {
        raise(inner, &strangers).await?;
    }
    let mut calls = redis::pipe();
    let mut parts = Vec::with_capacity(appends.len());
    for append in appends {
        let poison = poison(append, payload_max);
        let scripts = calls_of(inner, append, poison.is_some())?;
        parts.push((scripts.len(), poison));
        for call in scripts {
            calls.add_command(call);
        }
    }
    let mut connection = inner.db.connection();
    let answers: Vec<Answer> = inner
        .scripts
        .append
        .run_all(&mut connection, &calls)
        .await
        .map_err(error::map_many("append"))?;
    let mut answers = answers.into_iter();
    let mut outcomes = Vec::with_capacity(appends.len());
    for (append, (scripts, poison)) in appends.iter().zip(parts) {
        let mut outcome = None;
        for answer in answers.by_ref().take(scripts) {
            outcome = Some(inner.answered(append.lane, &answer)?);
        }
        let outcome = outcome.ok_or_else(|| damaged("reply"))?;
        outcomes.push(match (outcome, poison) {
            (Appended::Through(_), Some(poison)) => poison,
            (outcome, _) => outcome,
        });
    }
    Ok(outcomes)
}

/// The scripts of one lane: when one is refused, so are those after it.
fn calls_of(inner: &Inner, append: &LaneAppend, check_only: bool) -> Result<Vec<Cmd>> {
    let (Some(first), now) = (append.entries.first(), inner.db.now()) else {
        return Ok(vec![call(inner, append, "", (0, Chain::START), &[])?]);
    };
    // A chain that nobody has is refused.
    let prior = inner.prior(append);
    let unknown = Chain([0xff; 16]);
    if check_only {
        let before = (first.n, prior.unwrap_or(unknown));
        return Ok(vec![call(inner, append, &now, before, &[])?]);
    }
    let mut before = prior.unwrap_or(unknown);
    let mut calls = Vec::new();
    for chunk in append.entries.chunks(SCRIPT_MAX) {
        let (Some(head), Some(last)) = (chunk.first(), chunk.last()) else {
            continue;
        };
        calls.push(call(inner, append, &now, (head.n, before), chunk)?);
        before = last.chain;
    }
    Ok(calls)
}

fn call(
    inner: &Inner,
    append: &LaneAppend,
    now: &str,
    (first, before): (u64, Chain),
    chunk: &[Numbered],
) -> Result<Cmd> {
    let keys = [
        inner.keys.entries.as_str(),
        &inner.keys.registers,
        &inner.keys.meta,
    ];
    let mut call = inner.scripts.append.call(&keys);
    let (n, chain) = chunk
        .last()
        .map_or((0, Chain::START), |entry| (entry.n, entry.chain));
    call.arg(now)
        .arg(fresh())
        .arg(lane_text(append.lane))
        .arg(append.token.0)
        .arg(first)
        .arg(chain_text(before))
        .arg(n)
        .arg(chain_text(chain))
        .arg(chunk.len());
    for entry in chunk {
        let event = entry.event.as_ref();
        let text = event.map_or(Ok(String::new()), |event| {
            envelope::write(append.lane.lineage, event)
        })?;
        call.arg(entry.n)
            .arg(chain_text(entry.chain))
            .arg(event.map_or(0, |event| event.payload.len()))
            .arg(text);
    }
    Ok(call)
}

fn poison(append: &LaneAppend, payload_max: usize) -> Option<Appended> {
    let bytes = |entry: &Numbered| entry.event.as_ref().map_or(0, |e| e.payload.len());
    let large = append.entries.iter().find(|entry| bytes(entry) > payload_max)?;
    Some(Appended::Poison {
        n: large.n,
        reason: format!(
            "payload is {} bytes; the stream takes {payload_max}",
            bytes(large)
        ),
    })
}

/// Each lane is named once, and its numbers follow each other.
fn check_lanes(appends: &[LaneAppend]) -> Result<()> {
    let lanes: BTreeSet<LaneId> = appends.iter().map(|append| append.lane).collect();
    if lanes.len() < appends.len() {
        return Err(Error::new(Code::Internal, "append: a lane is named twice"));
    }
    let holed = |append: &&LaneAppend| append.entries.windows(2).any(|pair| pair[1].n != pair[0].n + 1);
    match appends.iter().find(holed) {
        None => Ok(()),
        Some(append) => Err(Error::new(
            Code::Internal,
            format!("append: numbers of lane {} have a hole", append.lane),
        )),
    }
}

pub(super) async fn declare_lost(inner: &Inner, lost: &Lost, token: Token) -> Result<Appended> {
    let keys = [inner.keys.registers.as_str(), &inner.keys.meta, &inner.keys.lost];
    let mut call = inner.scripts.declare_lost.call(&keys);
    call.arg(fresh())
        .arg(lane_text(lost.lane))
        .arg(token.0)
        .arg(lost.from)
        .arg(lost.through)
        .arg(chain_text(lost.chain));
    let mut connection = inner.db.connection();
    let answer = inner.scripts.declare_lost.run(&mut connection, &call).await;
    let answer: Answer = answer.map_err(error::map("declaring a loss"))?;
    inner.answered(lost.lane, &answer)
}

impl Inner {
    fn saw(&self, lane: LaneId, register: Register) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(lane, register);
    }

    /// The chain before an append, if this handle saw it and the append continues it.
    fn prior(&self, append: &LaneAppend) -> Option<Chain> {
        let first = append.entries.first()?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let register = seen.get(&append.lane).filter(|r| r.n + 1 == first.n)?;
        let id = first.event.as_ref().map(|event| event.id);
        (register.chain.next(first.n, id) == first.chain).then_some(register.chain)
    }

    /// Takes in what a script said.
    fn answered(&self, lane: LaneId, (what, n, token, hash): &Answer) -> Result<Appended> {
        let register = Register {
            n: number(n)?,
            token: Token(number(token)?),
            chain: chain(hash)?,
        };
        self.saw(lane, register);
        match what.as_str() {
            "through" => Ok(Appended::Through(register.n)),
            "moved" => Ok(Appended::Moved(register)),
            "fenced" => Ok(Appended::Fenced(register.token)),
            _ => Err(damaged("reply")),
        }
    }
}

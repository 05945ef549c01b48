//! Dead letters of the memory inbox.

use std::collections::BTreeMap;

use crate::dead_letter::redact::Redactor;
use crate::dead_letter::{
    Audit, Books, Decided, Detail, Filter, Id, Letter, ParkedKeys, Raw, State, Told, Untold, Which,
    check_reason, not_here,
};
use crate::error::{Code, Error, Result};
use crate::inbox::KeyRef;
use crate::inbox::transaction::{ParkedState, Skipped};
use crate::memory::inbox::{Contents, MemoryInbox, Parked};
use crate::store::{BoxFuture, DeadLetters};
use crate::time::Timestamp;

/// The dead letters of a [`MemoryInbox`].
#[derive(Debug, Clone, Default)]
pub struct MemoryDeadLetters {
    inbox: MemoryInbox,
    redactor: Redactor,
}

impl MemoryDeadLetters {
    /// Those of this inbox, seen through this redactor.
    pub fn new(inbox: MemoryInbox, redactor: Redactor) -> Self {
        Self { inbox, redactor }
    }

    /// Changes everything or, when `decide` fails, nothing.
    fn decide<T>(&self, decide: impl FnOnce(&mut Contents) -> Result<T>) -> Result<T> {
        self.inbox.update(|contents| {
            let before = contents.clone();
            let decided = decide(contents);
            if decided.is_err() {
                *contents = before;
            }
            decided
        })
    }
}

impl DeadLetters for MemoryDeadLetters {
    fn ls(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Letter>>> {
        Box::pin(async move {
            let contents = self.inbox.contents();
            let mut rows: Vec<Raw> = heads(&contents).chain(skipped(&contents)).collect();
            rows.retain(|row| wanted(row, &filter));
            rows.sort_by_key(|row| (row.since, row.id));
            rows.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
            Ok(rows.iter().map(|row| row.letter(&self.redactor)).collect())
        })
    }

    fn show(&self, id: Id) -> BoxFuture<'_, Result<Option<Detail>>> {
        Box::pin(async move {
            let contents = self.inbox.contents();
            let waiting = holder(&contents, id).and_then(|key| raw(key, contents.parked.get(key)?, id.n));
            let row = waiting.or_else(|| contents.skipped.get(&(id.lane, id.n)).map(of_skipped));
            Ok(row.map(|row| row.detail(&self.redactor)))
        })
    }

    fn redrive(&self, which: Which, reason: String, now: Timestamp) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move { self.decide(|contents| redrive(contents, &which, &reason, now)) })
    }

    fn discard(&self, id: Id, reason: String, now: Timestamp) -> BoxFuture<'_, Result<Decided>> {
        Box::pin(async move {
            check_reason(&reason)?;
            self.decide(|contents| discard(contents, id, &reason, now))
        })
    }

    fn release(&self, id: Id, reason: String, now: Timestamp) -> BoxFuture<'_, Result<Decided>> {
        Box::pin(async move {
            check_reason(&reason)?;
            self.decide(|contents| release(contents, id, &reason, now))
        })
    }

    fn audit(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Audit>>> {
        Box::pin(async move {
            let contents = self.inbox.contents();
            let newest = contents.audit.iter().rev();
            Ok(newest
                .take(usize::try_from(limit).unwrap_or(usize::MAX))
                .cloned()
                .collect())
        })
    }

    fn parked_keys(&self) -> BoxFuture<'_, Result<ParkedKeys>> {
        Box::pin(async move {
            let contents = self.inbox.contents();
            let mut keys = ParkedKeys::default();
            for parked in contents.parked.values() {
                match parked.state {
                    ParkedState::Retrying => keys.retrying += 1,
                    ParkedState::Dead => keys.dead += 1,
                }
                keys.events += parked.events.len() as u64;
            }
            Ok(keys)
        })
    }

    fn books(&self) -> BoxFuture<'_, Result<Vec<Books>>> {
        Box::pin(async move {
            let contents = self.inbox.contents();
            let books = contents.lanes.iter().map(|row| Books {
                lane: row.lane,
                hw: row.state.hw,
                ledger: contents.ledgers.get(&row.lane).copied().unwrap_or_default(),
            });
            Ok(books.collect())
        })
    }

    fn untold(&self, which: Untold) -> BoxFuture<'_, Result<Vec<Detail>>> {
        Box::pin(async move {
            let contents = self.inbox.contents();
            let mut rows: Vec<Raw> = offered(&contents).collect();
            rows.retain(|row| is_wanted(row, &which) && !contents.told.contains(&row.id));
            rows.sort_by_key(|row| (row.since, row.id));
            rows.truncate(usize::try_from(which.limit).unwrap_or(usize::MAX));
            Ok(rows.iter().map(|row| row.detail(&self.redactor)).collect())
        })
    }

    fn told(&self, letters: Vec<Told>) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.inbox.update(|contents| {
                let here: BTreeMap<Id, Timestamp> =
                    offered(contents).map(|row| (row.id, row.failed_at)).collect();
                let same = |told: &Told| here.get(&told.id) == Some(&told.failed_at);
                let ids = letters.into_iter().filter(same).map(|told| told.id);
                contents.told.extend(ids);
            });
            Ok(())
        })
    }
}

/// What a sink may be offered.
fn offered(contents: &Contents) -> impl Iterator<Item = Raw> {
    let dead = heads(contents).filter(|row| row.state == State::Dead);
    dead.chain(skipped(contents))
}

fn is_wanted(row: &Raw, which: &Untold) -> bool {
    let here = which
        .lanes
        .as_ref()
        .is_none_or(|lanes| lanes.contains(&row.id.lane));
    here && which.after.is_none_or(|after| (row.since, row.id) > after)
}

fn heads(contents: &Contents) -> impl Iterator<Item = Raw> {
    contents
        .parked
        .iter()
        .filter_map(|(key, parked)| raw(key, parked, *parked.events.keys().next()?))
}

fn skipped(contents: &Contents) -> impl Iterator<Item = Raw> {
    contents.skipped.values().map(of_skipped)
}

fn wanted(row: &Raw, filter: &Filter) -> bool {
    filter.state.is_none_or(|state| row.state == state)
        && filter.fingerprint.as_ref().is_none_or(|f| row.fingerprint == *f)
}

fn raw(key: &KeyRef, parked: &Parked, n: u64) -> Option<Raw> {
    Some(Raw {
        id: Id { lane: parked.lane, n },
        state: match parked.state {
            ParkedState::Retrying => State::Retrying,
            ParkedState::Dead => State::Dead,
        },
        key: key.key.clone(),
        class: parked.failure.class.as_str().into(),
        fingerprint: parked.failure.fingerprint.clone(),
        message: parked.failure.message.clone(),
        attempts: parked.attempts,
        waiting: u64::try_from(parked.events.len()).unwrap_or(u64::MAX),
        since: parked.first_at,
        failed_at: parked.last_at,
        next_at: Some(parked.next_at),
        event: parked.events.get(&n)?.clone(),
    })
}

fn of_skipped(skipped: &Skipped) -> Raw {
    Raw {
        id: Id {
            lane: skipped.delivered.lane,
            n: skipped.delivered.n,
        },
        state: State::Skipped,
        key: skipped.key.key.clone(),
        class: skipped.failure.class.as_str().into(),
        fingerprint: skipped.failure.fingerprint.clone(),
        message: skipped.failure.message.clone(),
        attempts: 0,
        waiting: 1,
        since: skipped.at,
        failed_at: skipped.at,
        next_at: None,
        event: skipped.delivered.event.clone(),
    }
}

/// The key in whose queue this event waits.
fn holder(contents: &Contents, id: Id) -> Option<&KeyRef> {
    let holds = |parked: &Parked| parked.lane == id.lane && parked.events.contains_key(&id.n);
    let found = contents.parked.iter().find(|(_, parked)| holds(parked));
    found.map(|(key, _)| key)
}

fn redrive(contents: &mut Contents, which: &Which, reason: &str, now: Timestamp) -> Result<u64> {
    let mut changed = 0;
    for key in chosen(contents, which)? {
        changed += u64::from(redrive_key(contents, &key, reason, now));
    }
    Ok(changed)
}

fn chosen(contents: &Contents, which: &Which) -> Result<Vec<KeyRef>> {
    let dead = contents
        .parked
        .iter()
        .filter(|(_, p)| p.state == ParkedState::Dead);
    match which {
        Which::All => Ok(dead.map(|(key, _)| key.clone()).collect()),
        Which::Fingerprint(cause) => {
            let same = dead.filter(|(_, parked)| parked.failure.fingerprint == *cause);
            Ok(same.map(|(key, _)| key.clone()).collect())
        }
        Which::Key(key) if contents.parked.contains_key(key) => Ok(vec![key.clone()]),
        Which::Key(_) => Err(Error::new(Code::NotFound, "the key is not parked")),
        Which::Event(id) if contents.skipped.contains_key(&(id.lane, id.n)) => Err(was_skipped(*id)),
        Which::Event(id) => holder(contents, *id)
            .map(|key| vec![key.clone()])
            .ok_or_else(|| not_here(*id)),
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

fn redrive_key(contents: &mut Contents, key: &KeyRef, reason: &str, now: Timestamp) -> bool {
    let Some(parked) = contents.parked.get_mut(key) else {
        return false;
    };
    let due = parked.state == ParkedState::Retrying && parked.attempts == 0 && parked.next_at <= now;
    if due {
        return false;
    }
    start_over(parked, now);
    let fingerprint = parked.failure.fingerprint.clone();
    let lane = parked.lane;
    let head = parked.events.iter().next().map(|(n, event)| (*n, event.id));
    if let Some((n, event_id)) = head {
        contents.told.remove(&Id { lane, n });
        contents.audit.push(Audit {
            at: now,
            action: "redrive".into(),
            reason: reason.into(),
            id: Id { lane, n },
            event_id,
            fingerprint,
        });
    }
    true
}

fn start_over(parked: &mut Parked, now: Timestamp) {
    parked.state = ParkedState::Retrying;
    parked.attempts = 0;
    parked.next_at = now;
}

fn discard(contents: &mut Contents, id: Id, reason: &str, now: Timestamp) -> Result<Decided> {
    let row = taken_from_queue(contents, id, now).or_else(|| taken_from_skipped(contents, id));
    let Some(row) = row else {
        return already(contents, id, "discard");
    };
    let ledger = contents.ledgers.entry(id.lane).or_default();
    ledger.discarded += 1;
    match row.state {
        State::Skipped => ledger.tally.skipped -= 1,
        _ => ledger.tally.parked -= 1,
    }
    contents.attempts.remove(&(id.lane, id.n));
    contents.told.remove(&id);
    contents.audit.push(audit("discard", reason, &row, now));
    Ok(Decided::Done)
}

fn taken_from_queue(contents: &mut Contents, id: Id, now: Timestamp) -> Option<Raw> {
    let key = holder(contents, id)?.clone();
    let parked = contents.parked.get_mut(&key)?;
    let row = raw(&key, parked, id.n)?;
    let was_head = parked.events.keys().next() == Some(&id.n);
    parked.events.remove(&id.n);
    if was_head {
        start_over(parked, now);
    }
    if parked.events.is_empty() {
        contents.parked.remove(&key);
    }
    Some(row)
}

fn taken_from_skipped(contents: &mut Contents, id: Id) -> Option<Raw> {
    contents
        .skipped
        .remove(&(id.lane, id.n))
        .map(|skipped| of_skipped(&skipped))
}

fn already(contents: &Contents, id: Id, action: &str) -> Result<Decided> {
    let done = contents.audit.iter().any(|a| a.id == id && a.action == action);
    done.then_some(Decided::Already).ok_or_else(|| not_here(id))
}

fn audit(action: &str, reason: &str, row: &Raw, now: Timestamp) -> Audit {
    Audit {
        at: now,
        action: action.into(),
        reason: reason.into(),
        id: row.id,
        event_id: row.event.id,
        fingerprint: row.fingerprint.clone(),
    }
}

fn release(contents: &mut Contents, id: Id, reason: &str, now: Timestamp) -> Result<Decided> {
    let Some(skipped) = contents.skipped.remove(&(id.lane, id.n)) else {
        return already(contents, id, "release");
    };
    let parked = contents
        .parked
        .entry(skipped.key.clone())
        .or_insert_with(|| Parked {
            lane: id.lane,
            state: ParkedState::Retrying,
            attempts: 0,
            next_at: now,
            failure: skipped.failure.clone(),
            first_at: skipped.at,
            last_at: skipped.at,
            events: BTreeMap::new(),
        });
    parked.events.insert(id.n, skipped.delivered.event.clone());
    if parked.events.keys().next() == Some(&id.n) {
        start_over(parked, now);
    }
    let tally = &mut contents.ledgers.entry(id.lane).or_default().tally;
    tally.skipped -= 1;
    tally.parked += 1;
    contents.told.remove(&id);
    let row = of_skipped(&skipped);
    contents.audit.push(audit("release", reason, &row, now));
    Ok(Decided::Done)
}

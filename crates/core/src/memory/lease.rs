//! Leases and fence registers in memory. [`Book`] and [`Registers`] are the rules, as plain data: the simulator and
//! the model checker use them directly.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Bell, Clock};
use crate::error::Result;
use crate::lease::{
    Acquire, Acquired, Fence, Nonce, Opened, Raised, Record, Released, Renewed, Scope, Term, Token,
};
use crate::store::{BoxFuture, Doorbell, LeaseStore};
use crate::time::Ticks;

/// Every lease record. A record is never removed: its token must not be forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Book(BTreeMap<Scope, Row>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Row {
    token: Token,
    held: Option<Held>,
    ttl: Duration,
    /// Not included: at this time the lease has expired.
    expires: Ticks,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Held {
    nonce: Nonce,
    holder: String,
}

impl Row {
    fn live(&self, now: Ticks) -> Option<&Held> {
        self.held.as_ref().filter(|_| now < self.expires)
    }

    fn record(&self, scope: &Scope, now: Ticks) -> Record {
        Record {
            scope: scope.clone(),
            token: self.token,
            holder: self.held.as_ref().map(|held| held.holder.clone()),
            ttl: self.ttl,
            remaining: self.live(now).map_or(Duration::ZERO, |_| self.expires.since(now)),
        }
    }
}

impl Book {
    /// See [`LeaseStore::acquire`]. `wall_micros` floors new tokens.
    pub fn acquire(&mut self, now: Ticks, wall_micros: i64, ask: Acquire) -> Acquired {
        let previous = self.0.get(&ask.scope);
        let token = match previous.and_then(|row| row.live(now).map(|held| (row, held))) {
            Some((row, held)) if held.nonce == ask.nonce => row.token.max(ask.min_token),
            Some((row, held)) => {
                return Acquired::Busy {
                    remaining: row.expires.since(now),
                    holder: held.holder.clone(),
                };
            }
            None => Token::next(
                previous.map_or(Token(0), |row| row.token),
                wall_micros,
                ask.min_token,
            ),
        };
        let row = Row {
            token,
            held: Some(Held {
                nonce: ask.nonce,
                holder: ask.holder,
            }),
            ttl: ask.ttl,
            expires: now.after(ask.ttl),
        };
        self.0.insert(ask.scope, row);
        Acquired::Granted(token)
    }

    /// See [`LeaseStore::renew`]; one term.
    pub fn renew(&mut self, now: Ticks, term: &Term) -> Renewed {
        match self.mine(now, term) {
            Some(row) => {
                row.expires = now.after(row.ttl);
                Renewed::Held
            }
            None => Renewed::Lost,
        }
    }

    /// See [`LeaseStore::release`].
    pub fn release(&mut self, term: &Term) -> Released {
        match self.same(term) {
            Some(row) => {
                row.held = None;
                Released::Vacant
            }
            None => Released::NotHeld,
        }
    }

    /// See [`LeaseStore::raise`].
    pub fn raise(&mut self, now: Ticks, term: &Term, above: Token) -> Raised {
        match self.mine(now, term) {
            Some(row) => {
                row.token = Token(row.token.max(above).0.saturating_add(1));
                Raised::To(row.token)
            }
            None => Raised::NotHeld,
        }
    }

    /// See [`LeaseStore::break_lease`].
    pub fn break_lease(&mut self, now: Ticks, scope: &Scope) -> Option<Record> {
        let row = self.0.get_mut(scope).filter(|row| row.held.is_some())?;
        let record = row.record(scope, now);
        row.held = None;
        Some(record)
    }

    /// See [`LeaseStore::list`].
    pub fn list(&self, now: Ticks) -> Vec<Record> {
        self.0.iter().map(|(scope, row)| row.record(scope, now)).collect()
    }

    fn same(&mut self, term: &Term) -> Option<&mut Row> {
        self.0.get_mut(&term.scope).filter(|row| {
            row.token == term.token && row.held.as_ref().is_some_and(|held| held.nonce == term.nonce)
        })
    }

    fn mine(&mut self, now: Ticks, term: &Term) -> Option<&mut Row> {
        self.same(term).filter(|row| now < row.expires)
    }
}

/// The fence registers of one sink.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Registers(BTreeMap<Scope, Fence>);

impl Registers {
    /// See [`LeaseStore::open_fence`].
    pub fn open(&mut self, scope: &Scope, token: Token, nonce: Nonce) -> Opened {
        match self.0.get(scope) {
            Some(fence) if !Fence::admits(Some(*fence), token, nonce) => Opened::Refused(fence.token),
            _ => {
                self.0.insert(scope.clone(), Fence { token, nonce });
                Opened::Open
            }
        }
    }

    /// Whether a write under this term is accepted; a real sink asks in the transaction that writes.
    pub fn accepts(&self, scope: &Scope, token: Token, nonce: Nonce) -> bool {
        Fence::accepts(self.0.get(scope).copied(), token, nonce)
    }
}

/// A lease store in memory, on a clock that a test moves; clones share it.
#[derive(Debug, Clone)]
pub struct Leases {
    clock: Clock,
    bell: Bell,
    data: Arc<Mutex<(Book, Registers)>>,
}

impl Leases {
    /// An empty store. The clock serves as wall time, too.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            bell: Bell::default(),
            data: Arc::default(),
        }
    }

    /// Whether a guarded write under this term is accepted.
    pub fn check_fence(&self, scope: &Scope, token: Token, nonce: Nonce) -> bool {
        self.lock().1.accepts(scope, token, nonce)
    }

    fn lock(&self) -> MutexGuard<'_, (Book, Registers)> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Doorbell for Leases {
    fn rung(&self) -> BoxFuture<'_, ()> {
        self.bell.rung()
    }
}

impl LeaseStore for Leases {
    fn acquire(&self, ask: Acquire) -> BoxFuture<'_, Result<Acquired>> {
        Box::pin(async move {
            ask.check()?;
            let now = self.clock.now();
            Ok(self.lock().0.acquire(now, now.as_micros(), ask))
        })
    }

    fn renew(&self, terms: Vec<Term>) -> BoxFuture<'_, Result<Vec<Renewed>>> {
        Box::pin(async move {
            let mut data = self.lock();
            let now = self.clock.now();
            Ok(terms.iter().map(|term| data.0.renew(now, term)).collect())
        })
    }

    fn release(&self, term: Term) -> BoxFuture<'_, Result<Released>> {
        Box::pin(async move {
            let released = self.lock().0.release(&term);
            if released == Released::Vacant {
                self.bell.ring();
            }
            Ok(released)
        })
    }

    fn raise(&self, term: Term, above: Token) -> BoxFuture<'_, Result<Raised>> {
        Box::pin(async move {
            above.check()?;
            Ok(self.lock().0.raise(self.clock.now(), &term, above))
        })
    }

    fn break_lease(&self, scope: Scope) -> BoxFuture<'_, Result<Option<Record>>> {
        Box::pin(async move {
            let broken = self.lock().0.break_lease(self.clock.now(), &scope);
            if broken.is_some() {
                self.bell.ring();
            }
            Ok(broken)
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Record>>> {
        Box::pin(async move { Ok(self.lock().0.list(self.clock.now())) })
    }

    fn open_fence(&self, scope: Scope, token: Token, nonce: Nonce) -> BoxFuture<'_, Result<Opened>> {
        Box::pin(async move {
            token.check()?;
            Ok(self.lock().1.open(&scope, token, nonce))
        })
    }
}

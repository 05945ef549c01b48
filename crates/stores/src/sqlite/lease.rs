//! Leases and fence registers in a file.
//!
//! Expiry is decided by the boot-time clock of this machine, read inside the transaction that uses it. A record of
//! another boot has expired: its holder cannot have survived.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Row};
use tidegate_core::lease::{
    Acquire, Acquired, Fence, Nonce, Opened, Raised, Record, Released, Renewed, Scope, Term, Token,
};
use tidegate_core::store::{BoxFuture, Doorbell, LeaseStore};
use tidegate_core::time::micros;
use tidegate_core::{Result, Ticks};

use super::{Clock, Database, Sql};

/// The leases of one database file.
#[derive(Debug, Clone)]
pub struct Leases {
    db: Database,
}

impl Leases {
    /// Over an open file.
    pub fn new(db: Database) -> Self {
        Self { db }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.db.clock()
    }
}

/// Whether writes under this term are accepted; call it first in the transaction that writes, on its connection.
///
/// The transaction must be an immediate one: SQLite's single writer then keeps the register still until it ends.
///
/// # Errors
/// The store's.
pub fn check_fence(tx: &Connection, scope: &Scope, token: Token, nonce: Nonce) -> Result<bool> {
    Ok(Fence::accepts(register(&Sql::on(tx), scope)?, token, nonce))
}

/// Opens the register inside a transaction of the caller's: see [`LeaseStore::open_fence`].
///
/// # Errors
/// The store's.
pub fn open_fence(sql: &Sql<'_>, scope: &Scope, token: Token, nonce: Nonce) -> Result<Opened> {
    token.check()?;
    let current = register(sql, scope)?;
    if let Some(fence) = current.filter(|fence| !Fence::admits(Some(*fence), token, nonce)) {
        return Ok(Opened::Refused(fence.token));
    }
    let values = (scope.as_str(), integer(token), blob(nonce));
    sql.execute("opening a fence", include_str!("lease/fence_open.sql"), values)?;
    Ok(Opened::Open)
}

pub(super) fn register(sql: &Sql<'_>, scope: &Scope) -> Result<Option<Fence>> {
    let text = include_str!("lease/fence_read.sql");
    sql.first("reading a fence", text, [scope.as_str()], |row| {
        Ok(Fence {
            token: token(row, 0)?,
            nonce: nonce(row, 1)?,
        })
    })
}

/// One reading of the clock, and the boot it belongs to.
struct Moment {
    now: Ticks,
    boot: [u8; 16],
}

impl Moment {
    fn of(clock: &dyn Clock) -> Self {
        Self {
            now: clock.boot(),
            boot: clock.boot_id().into_bytes(),
        }
    }
}

struct Lease {
    scope: String,
    token: Token,
    nonce: Option<Nonce>,
    holder: Option<String>,
    ttl: Duration,
    until: Ticks,
    boot: [u8; 16],
}

impl Lease {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            scope: row.get(0)?,
            token: token(row, 1)?,
            nonce: row
                .get::<_, Option<[u8; 16]>>(2)?
                .map(u128::from_be_bytes)
                .map(Nonce),
            holder: row.get(3)?,
            ttl: Duration::from_micros(unsigned(row, 4)?),
            until: Ticks::from_micros(row.get(5)?),
            boot: row.get(6)?,
        })
    }

    /// The holder's nonce, unless the lease is vacant or has expired.
    fn live(&self, at: &Moment) -> Option<Nonce> {
        self.nonce.filter(|_| self.boot == at.boot && at.now < self.until)
    }

    fn remaining(&self, at: &Moment) -> Duration {
        self.live(at).map_or(Duration::ZERO, |_| self.until.since(at.now))
    }

    /// Somebody else holds it.
    fn busy(&self, at: &Moment, nonce: Nonce) -> Option<Acquired> {
        self.live(at)
            .filter(|holder| *holder != nonce)
            .map(|_| Acquired::Busy {
                remaining: self.remaining(at),
                holder: self.holder.clone().unwrap_or_default(),
            })
    }

    fn record(self, at: &Moment) -> Result<Record> {
        Ok(Record {
            remaining: self.remaining(at),
            scope: Scope::new(self.scope)?,
            token: self.token,
            holder: self.holder.filter(|_| self.nonce.is_some()),
            ttl: self.ttl,
        })
    }
}

fn read(sql: &Sql<'_>, scope: &Scope) -> Result<Option<Lease>> {
    let text = include_str!("lease/read.sql");
    sql.first("reading a lease", text, [scope.as_str()], Lease::of)
}

fn acquire(sql: &Sql<'_>, clock: &dyn Clock, ask: &Acquire) -> Result<Acquired> {
    let at = Moment::of(clock);
    let previous = read(sql, &ask.scope)?;
    if let Some(busy) = previous.as_ref().and_then(|lease| lease.busy(&at, ask.nonce)) {
        return Ok(busy);
    }
    let token = match &previous {
        Some(mine) if mine.live(&at).is_some() => mine.token.max(ask.min_token),
        other => {
            let last = other.as_ref().map_or(Token(0), |lease| lease.token);
            Token::next(last, clock.now().as_micros(), ask.min_token)
        }
    };
    let values = (
        ask.scope.as_str(),
        integer(token),
        blob(ask.nonce),
        &ask.holder,
        micros(ask.ttl),
        at.now.after(ask.ttl).as_micros(),
        at.boot,
    );
    sql.execute("acquiring a lease", include_str!("lease/acquire.sql"), values)?;
    Ok(Acquired::Granted(token))
}

fn renew(sql: &Sql<'_>, clock: &dyn Clock, terms: &[Term]) -> Result<Vec<Renewed>> {
    let at = Moment::of(clock);
    let mine: Vec<_> = terms
        .iter()
        .map(|term| {
            (
                term.scope.as_str(),
                term.token.0,
                format!("{:032x}", term.nonce.0),
            )
        })
        .collect();
    let mine = serde_json::json!(mine).to_string();
    let values = (mine, at.now.as_micros(), at.boot);
    let text = include_str!("lease/renew.sql");
    let held = sql.query("renewing leases", text, values, |row| {
        Ok((row.get::<_, String>(0)?, token(row, 1)?, nonce(row, 2)?))
    })?;
    let held: HashSet<_> = held.into_iter().collect();
    let reply = |term: &Term| {
        if held.contains(&(term.scope.as_str().to_owned(), term.token, term.nonce)) {
            Renewed::Held
        } else {
            Renewed::Lost
        }
    };
    Ok(terms.iter().map(reply).collect())
}

fn release(sql: &Sql<'_>, term: &Term) -> Result<Released> {
    let values = (term.scope.as_str(), integer(term.token), blob(term.nonce));
    let changed = sql.execute("releasing a lease", include_str!("lease/release.sql"), values)?;
    Ok(if changed == 0 {
        Released::NotHeld
    } else {
        Released::Vacant
    })
}

fn raise(sql: &Sql<'_>, clock: &dyn Clock, term: &Term, above: Token) -> Result<Raised> {
    above.check()?;
    let at = Moment::of(clock);
    let values = (
        term.scope.as_str(),
        integer(term.token),
        blob(term.nonce),
        integer(above),
        at.now.as_micros(),
        at.boot,
    );
    let text = include_str!("lease/raise.sql");
    let raised = sql.first("raising a token", text, values, |row| token(row, 0))?;
    Ok(raised.map_or(Raised::NotHeld, Raised::To))
}

fn break_lease(sql: &Sql<'_>, clock: &dyn Clock, scope: &Scope) -> Result<Option<Record>> {
    let Some(lease) = read(sql, scope)?.filter(|lease| lease.nonce.is_some()) else {
        return Ok(None);
    };
    sql.execute(
        "breaking a lease",
        include_str!("lease/break.sql"),
        [scope.as_str()],
    )?;
    lease.record(&Moment::of(clock)).map(Some)
}

fn list(sql: &Sql<'_>, clock: &dyn Clock) -> Result<Vec<Record>> {
    let at = Moment::of(clock);
    let leases = sql.query("listing leases", include_str!("lease/list.sql"), [], Lease::of)?;
    leases.into_iter().map(|lease| lease.record(&at)).collect()
}

impl Doorbell for Leases {
    fn rung(&self) -> BoxFuture<'_, ()> {
        self.db.rung()
    }
}

impl LeaseStore for Leases {
    fn acquire(&self, ask: Acquire) -> BoxFuture<'_, Result<Acquired>> {
        Box::pin(async move {
            ask.check()?;
            let clock = self.clock();
            let (looker, scope, nonce) = (Arc::clone(&clock), ask.scope.clone(), ask.nonce);
            // Followers ask whenever the file changes: they must not queue for the write lock to hear "busy".
            let busy = self.db.read(move |sql| {
                let lease = read(sql, &scope)?;
                Ok(lease.and_then(|lease| lease.busy(&Moment::of(&*looker), nonce)))
            });
            match busy.await? {
                Some(busy) => Ok(busy),
                None => self.db.write(move |sql| acquire(sql, &*clock, &ask)).await,
            }
        })
    }

    fn renew(&self, terms: Vec<Term>) -> BoxFuture<'_, Result<Vec<Renewed>>> {
        let clock = self.clock();
        self.db.write(move |sql| renew(sql, &*clock, &terms))
    }

    fn release(&self, term: Term) -> BoxFuture<'_, Result<Released>> {
        self.db.write(move |sql| release(sql, &term))
    }

    fn raise(&self, term: Term, above: Token) -> BoxFuture<'_, Result<Raised>> {
        let clock = self.clock();
        self.db.write(move |sql| raise(sql, &*clock, &term, above))
    }

    fn break_lease(&self, scope: Scope) -> BoxFuture<'_, Result<Option<Record>>> {
        let clock = self.clock();
        self.db.write(move |sql| break_lease(sql, &*clock, &scope))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Record>>> {
        let clock = self.clock();
        self.db.read(move |sql| list(sql, &*clock))
    }

    fn open_fence(&self, scope: Scope, token: Token, nonce: Nonce) -> BoxFuture<'_, Result<Opened>> {
        self.db.write(move |sql| open_fence(sql, &scope, token, nonce))
    }
}

fn blob(nonce: Nonce) -> [u8; 16] {
    nonce.0.to_be_bytes()
}

fn nonce(row: &Row<'_>, index: usize) -> rusqlite::Result<Nonce> {
    row.get(index).map(u128::from_be_bytes).map(Nonce)
}

/// Tokens are below 2^53.
fn integer(token: Token) -> i64 {
    i64::try_from(token.0).unwrap_or(i64::MAX)
}

fn token(row: &Row<'_>, index: usize) -> rusqlite::Result<Token> {
    unsigned(row, index).map(Token)
}

pub(super) fn unsigned(row: &Row<'_>, index: usize) -> rusqlite::Result<u64> {
    let value = row.get(index)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(index, value))
}

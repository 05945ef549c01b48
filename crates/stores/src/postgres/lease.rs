//! Leases and fence registers in a database.
//!
//! Expiry is decided by the server's clock, read inside the statement that uses it. A missing record means a new scope:
//! the table is as durable as the data beside it.

use std::collections::HashSet;
use std::time::Duration;

use tidegate_core::lease::{
    Acquire, Acquired, Nonce, Opened, Raised, Record, Released, Renewed, Scope, Term, Token,
};
use tidegate_core::store::{BoxFuture, Doorbell, LeaseStore};
use tidegate_core::time::micros;
use tidegate_core::{Code, Error, Result, Uuid};
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};

use super::columns::{get, nonce_uuid, number, token};
use super::{Database, Tx, map_error};

/// The leases of one database.
#[derive(Debug, Clone)]
pub struct Leases {
    db: Database,
}

impl Leases {
    /// Over an open database.
    pub fn new(db: Database) -> Self {
        Self { db }
    }
}

/// Whether writes under this term are accepted; call it first in the transaction that writes, on its connection. The
/// register stays as it is until that transaction ends: whoever opens it for another term waits.
///
/// # Errors
/// The database's.
pub async fn check_fence(
    tx: &impl GenericClient,
    db: &Database,
    scope: &Scope,
    token: Token,
    nonce: Nonce,
) -> Result<bool> {
    let sql = db.text(include_str!("lease/fence_check.sql"));
    let params: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)] = &[
        (&scope.as_str(), Type::TEXT),
        (&integer(token), Type::INT8),
        (&nonce_uuid(nonce), Type::UUID),
    ];
    let rows = tx.query_typed(&sql, params).await;
    Ok(!rows.map_err(map_error("checking a fence"))?.is_empty())
}

/// A record, and who may be behind it.
struct Lease {
    record: Record,
    nonce: Option<Nonce>,
}

fn lease(row: &Row) -> Result<Lease> {
    let nonce = super::columns::nonce(row, 2)?;
    let remaining = Duration::from_micros(number(row, 5)?);
    Ok(Lease {
        record: Record {
            scope: Scope::new(get::<String>(row, 0)?)?,
            token: token(row, 1)?,
            holder: get::<Option<String>>(row, 3)?.filter(|_| nonce.is_some()),
            ttl: Duration::from_micros(number(row, 4)?),
            remaining: nonce.map_or(Duration::ZERO, |_| remaining),
        },
        nonce,
    })
}

impl Lease {
    /// Somebody else holds it.
    fn busy(self, nonce: Nonce) -> Option<Acquired> {
        let held = self.record.remaining > Duration::ZERO && self.nonce != Some(nonce);
        held.then(|| Acquired::Busy {
            remaining: self.record.remaining,
            holder: self.record.holder.unwrap_or_default(),
        })
    }
}

impl Leases {
    async fn read(&self, scope: Option<&str>) -> Result<Vec<Lease>> {
        let params = &[(&self.db.now() as _, Type::INT8), (&scope as _, Type::TEXT)];
        let rows = self
            .db
            .query("reading leases", include_str!("lease/read.sql"), params)
            .await?;
        rows.iter().map(lease).collect()
    }

    /// One read when it is busy; one write more when it is not.
    async fn acquire(&self, ask: &Acquire) -> Result<Acquired> {
        ask.check()?;
        loop {
            let there = self.read(Some(ask.scope.as_str())).await?;
            if let Some(busy) = there.into_iter().find_map(|lease| lease.busy(ask.nonce)) {
                return Ok(busy);
            }
            let params = &[
                (&self.db.now() as _, Type::INT8),
                (&ask.scope.as_str() as _, Type::TEXT),
                (&nonce_uuid(ask.nonce) as _, Type::UUID),
                (&ask.holder as _, Type::TEXT),
                (&micros(ask.ttl) as _, Type::INT8),
                (&integer(ask.min_token) as _, Type::INT8),
            ];
            let text = include_str!("lease/acquire.sql");
            let granted = self.db.query("acquiring a lease", text, params).await?;
            // No row: another one was faster, and is read now.
            if let Some(row) = granted.first() {
                return Ok(Acquired::Granted(token(row, 0)?));
            }
        }
    }

    async fn renew(&self, terms: &[Term]) -> Result<Vec<Renewed>> {
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let scopes: Vec<_> = terms.iter().map(|term| term.scope.as_str()).collect();
        let tokens: Vec<_> = terms.iter().map(|term| integer(term.token)).collect();
        let nonces: Vec<_> = terms.iter().map(|term| nonce_uuid(term.nonce)).collect();
        let params = &[
            (&self.db.now() as _, Type::INT8),
            (&scopes as _, Type::TEXT_ARRAY),
            (&tokens as _, Type::INT8_ARRAY),
            (&nonces as _, Type::UUID_ARRAY),
        ];
        let text = include_str!("lease/renew.sql");
        let rows = self.db.query("renewing leases", text, params).await?;
        let held: HashSet<(String, i64, Uuid)> = rows
            .iter()
            .map(|row| Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?)))
            .collect::<Result<_>>()?;
        let reply = |term: &Term| {
            let key = (
                term.scope.as_str().to_owned(),
                integer(term.token),
                nonce_uuid(term.nonce),
            );
            if held.contains(&key) {
                Renewed::Held
            } else {
                Renewed::Lost
            }
        };
        Ok(terms.iter().map(reply).collect())
    }

    async fn release(&self, term: &Term) -> Result<Released> {
        let params = &[
            (&term.scope.as_str() as _, Type::TEXT),
            (&integer(term.token) as _, Type::INT8),
            (&nonce_uuid(term.nonce) as _, Type::UUID),
            (&self.db.channel() as _, Type::TEXT),
        ];
        let text = include_str!("lease/release.sql");
        let released = self.db.query("releasing a lease", text, params).await?;
        if released.is_empty() {
            return Ok(Released::NotHeld);
        }
        self.db.ring();
        Ok(Released::Vacant)
    }

    async fn raise(&self, term: &Term, above: Token) -> Result<Raised> {
        above.check()?;
        let params = &[
            (&self.db.now() as _, Type::INT8),
            (&term.scope.as_str() as _, Type::TEXT),
            (&integer(term.token) as _, Type::INT8),
            (&nonce_uuid(term.nonce) as _, Type::UUID),
            (&integer(above) as _, Type::INT8),
        ];
        let text = include_str!("lease/raise.sql");
        let raised = self.db.query("raising a token", text, params).await?;
        raised
            .first()
            .map_or(Ok(Raised::NotHeld), |row| token(row, 0).map(Raised::To))
    }

    async fn break_lease(&self, scope: &Scope) -> Result<Option<Record>> {
        let params = &[
            (&self.db.now() as _, Type::INT8),
            (&scope.as_str() as _, Type::TEXT),
            (&self.db.channel() as _, Type::TEXT),
        ];
        let text = include_str!("lease/break.sql");
        let broken = self.db.query("breaking a lease", text, params).await?;
        if !broken.is_empty() {
            self.db.ring();
        }
        broken.first().map(|row| Ok(lease(row)?.record)).transpose()
    }

    async fn open_fence(&self, scope: &Scope, token: Token, nonce: Nonce) -> Result<Opened> {
        token.check()?;
        let tx = self.db.begin().await?;
        let opened = open_fence(&tx, scope, token, nonce).await?;
        tx.commit("opening a fence").await?;
        Ok(opened)
    }
}

async fn open_fence(tx: &Tx, scope: &Scope, token: Token, nonce: Nonce) -> Result<Opened> {
    let at = "opening a fence";
    let params = &[
        (&scope.as_str() as _, Type::TEXT),
        (&integer(token) as _, Type::INT8),
        (&nonce_uuid(nonce) as _, Type::UUID),
    ];
    let opened = tx.query(at, include_str!("lease/fence_open.sql"), params).await?;
    if !opened.is_empty() {
        return Ok(Opened::Open);
    }
    let rows = tx
        .query(at, include_str!("lease/fence_read.sql"), &params[..1])
        .await?;
    let row = rows
        .first()
        .ok_or_else(|| Error::new(Code::Internal, "a fence register went away"))?;
    self::token(row, 0).map(Opened::Refused)
}

impl Doorbell for Leases {
    fn rung(&self) -> BoxFuture<'_, ()> {
        self.db.rung()
    }
}

impl LeaseStore for Leases {
    fn acquire(&self, ask: Acquire) -> BoxFuture<'_, Result<Acquired>> {
        Box::pin(async move { Self::acquire(self, &ask).await })
    }

    fn renew(&self, terms: Vec<Term>) -> BoxFuture<'_, Result<Vec<Renewed>>> {
        Box::pin(async move { Self::renew(self, &terms).await })
    }

    fn release(&self, term: Term) -> BoxFuture<'_, Result<Released>> {
        Box::pin(async move { Self::release(self, &term).await })
    }

    fn raise(&self, term: Term, above: Token) -> BoxFuture<'_, Result<Raised>> {
        Box::pin(async move { Self::raise(self, &term, above).await })
    }

    fn break_lease(&self, scope: Scope) -> BoxFuture<'_, Result<Option<Record>>> {
        Box::pin(async move { Self::break_lease(self, &scope).await })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Record>>> {
        Box::pin(async move {
            let all = self.read(None).await?;
            Ok(all.into_iter().map(|lease| lease.record).collect())
        })
    }

    fn open_fence(&self, scope: Scope, token: Token, nonce: Nonce) -> BoxFuture<'_, Result<Opened>> {
        Box::pin(async move { Self::open_fence(self, &scope, token, nonce).await })
    }
}

/// Tokens are below 2^53.
fn integer(token: Token) -> i64 {
    i64::try_from(token.0).unwrap_or(i64::MAX)
}

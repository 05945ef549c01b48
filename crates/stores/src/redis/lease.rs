//! Leases and fence registers in Redis: one hash for each, one script for each step, on the server's clock.
//!
//! A scope that the server does not know may be new, or forgotten by a flush while somebody holds it. The first to ask
//! therefore waits, as long as [`Leases::wait`] says. Tokens are floored by the time: they rise over a flush, too.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::lease::{
    Acquire, Acquired, Fence, Nonce, Opened, Raised, Record, Released, Renewed, Scope, Term, Token,
};
use tidegate_core::store::{BoxFuture, Doorbell, LeaseStore};
use tidegate_core::time::micros;
use tidegate_core::{Code, Error, Result};

use super::script::Script;
use super::{Database, bell, error};
use crate::listener::Listener;

/// The longest ttl in use, unless told otherwise.
const WAIT: Duration = Duration::from_secs(30);

/// The leases of one prefix; cheap to clone.
#[derive(Debug, Clone)]
pub struct Leases {
    inner: Arc<Inner>,
    wait: Duration,
}

#[derive(Debug)]
struct Inner {
    db: Database,
    leases: String,
    fences: String,
    channel: String,
    listener: Listener,
    acquire: Script,
    renew: Script,
    release: Script,
    raise: Script,
    break_lease: Script,
    fence_open: Script,
}

impl Leases {
    /// Over an open server.
    pub fn new(db: Database) -> Self {
        let key = |what: &str| format!("{}:{{lease}}:{what}", db.prefix());
        let channel = key("bell");
        let inner = Inner {
            leases: key("leases"),
            fences: key("fences"),
            listener: Listener::default(),
            channel,
            acquire: Script::new(include_str!("lease/acquire.lua")),
            renew: Script::new(include_str!("lease/renew.lua")),
            release: Script::new(include_str!("lease/release.lua")),
            raise: Script::new(include_str!("lease/raise.lua")),
            break_lease: Script::new(include_str!("lease/break.lua")),
            fence_open: Script::new(include_str!("lease/fence_open.lua")),
            db,
        };
        Self {
            inner: Arc::new(inner),
            wait: WAIT,
        }
    }

    /// How long the first to ask for a scope that the server does not know waits: the longest ttl that anybody uses.
    /// Default 30 s. Zero where work is fenced by what it writes to.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Whether writes under this term are accepted.
    ///
    /// # Errors
    /// The server's.
    pub async fn check_fence(&self, scope: &Scope, token: Token, nonce: Nonce) -> Result<bool> {
        let held = redis::cmd("HGET")
            .arg(&self.inner.fences)
            .arg(scope.as_str())
            .query_async::<Option<String>>(&mut self.inner.db.connection())
            .await
            .map_err(error::map("checking a fence"))?;
        let held = held.as_deref().map(fence).transpose()?;
        Ok(Fence::accepts(held, token, nonce))
    }
}

impl Inner {
    async fn acquire(&self, ask: &Acquire, wait: Duration) -> Result<Acquired> {
        ask.check()?;
        let mut call = self.acquire.call(&[&self.leases]);
        call.arg(self.db.now())
            .arg(ask.scope.as_str())
            .arg(hex(ask.nonce))
            .arg(&ask.holder)
            .arg(micros(ask.ttl))
            .arg(ask.min_token.0)
            .arg(micros(wait));
        let mut connection = self.db.connection();
        let answer = self.acquire.run(&mut connection, &call).await;
        let (what, value, holder): (String, u64, String) = answer.map_err(error::map("acquiring a lease"))?;
        Ok(match what.as_str() {
            "granted" => Acquired::Granted(Token(value)),
            _ => Acquired::Busy {
                remaining: Duration::from_micros(value),
                holder,
            },
        })
    }

    async fn renew(&self, terms: &[Term]) -> Result<Vec<Renewed>> {
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = self.renew.call(&[&self.leases]);
        call.arg(self.db.now());
        for term in terms {
            call.arg(term.scope.as_str())
                .arg(term.token.0)
                .arg(hex(term.nonce));
        }
        let mut connection = self.db.connection();
        let held = self.renew.run(&mut connection, &call).await;
        let held: Vec<u8> = held.map_err(error::map("renewing leases"))?;
        let reply = |held: &u8| if *held == 1 { Renewed::Held } else { Renewed::Lost };
        Ok(held.iter().map(reply).collect())
    }

    async fn release(&self, term: &Term) -> Result<Released> {
        let mut call = self.release.call(&[&self.leases]);
        call.arg(&self.channel)
            .arg(term.scope.as_str())
            .arg(term.token.0)
            .arg(hex(term.nonce));
        let mut connection = self.db.connection();
        let released = self.release.run(&mut connection, &call).await;
        let released: u8 = released.map_err(error::map("releasing a lease"))?;
        Ok(if released == 1 {
            Released::Vacant
        } else {
            Released::NotHeld
        })
    }

    async fn raise(&self, term: &Term, above: Token) -> Result<Raised> {
        above.check()?;
        let mut call = self.raise.call(&[&self.leases]);
        call.arg(self.db.now())
            .arg(term.scope.as_str())
            .arg(term.token.0)
            .arg(hex(term.nonce))
            .arg(above.0);
        let mut connection = self.db.connection();
        let raised = self.raise.run(&mut connection, &call).await;
        let raised: Option<u64> = raised.map_err(error::map("raising a token"))?;
        Ok(raised.map_or(Raised::NotHeld, |token| Raised::To(Token(token))))
    }

    async fn break_lease(&self, scope: &Scope) -> Result<Option<Record>> {
        let now = self.now().await?;
        let mut call = self.break_lease.call(&[&self.leases]);
        call.arg(&self.channel).arg(scope.as_str());
        let mut connection = self.db.connection();
        let broken = self.break_lease.run(&mut connection, &call).await;
        let broken: Option<String> = broken.map_err(error::map("breaking a lease"))?;
        broken.map(|text| record(scope.as_str(), &text, now)).transpose()
    }

    async fn list(&self) -> Result<Vec<Record>> {
        let now = self.now().await?;
        let all = redis::cmd("HGETALL")
            .arg(&self.leases)
            .query_async::<HashMap<String, String>>(&mut self.db.connection())
            .await
            .map_err(error::map("listing leases"))?;
        let mut all = all
            .iter()
            .map(|(scope, text)| record(scope, text, now))
            .collect::<Result<Vec<_>>>()?;
        all.sort_unstable_by(|a, b| a.scope.as_str().cmp(b.scope.as_str()));
        Ok(all)
    }

    async fn now(&self) -> Result<i64> {
        if let Ok(given) = self.db.now().parse() {
            return Ok(given);
        }
        let time = redis::cmd("TIME").query_async(&mut self.db.connection()).await;
        let (seconds, rest): (i64, i64) = time.map_err(error::map("reading the time"))?;
        Ok(seconds * 1_000_000 + rest)
    }

    async fn open_fence(&self, scope: &Scope, token: Token, nonce: Nonce) -> Result<Opened> {
        token.check()?;
        let mut call = self.fence_open.call(&[&self.fences]);
        call.arg(scope.as_str()).arg(token.0).arg(hex(nonce));
        let mut connection = self.db.connection();
        let refused = self.fence_open.run(&mut connection, &call).await;
        let refused: Option<u64> = refused.map_err(error::map("opening a fence"))?;
        Ok(refused.map_or(Opened::Open, |token| Opened::Refused(Token(token))))
    }
}

fn hex(nonce: Nonce) -> String {
    format!("{:032x}", nonce.0)
}

fn damaged(what: &str) -> Error {
    Error::new(Code::StoreCorrupt, format!("a {what} cannot be read"))
}

fn fence(text: &str) -> Result<Fence> {
    let parts = text.split_once(' ').and_then(|(token, nonce)| {
        Some(Fence {
            token: Token(token.parse().ok()?),
            nonce: Nonce(u128::from_str_radix(nonce, 16).ok()?),
        })
    });
    parts.ok_or_else(|| damaged("fence"))
}

/// `token ttl end nonce holder`.
fn record(scope: &str, text: &str, now: i64) -> Result<Record> {
    let mut parts = text.splitn(5, ' ');
    let mut number = || -> Option<i64> { parts.next()?.parse().ok() };
    let (token, ttl, ends) = (number(), number(), number());
    let (nonce, holder) = (parts.next(), parts.next());
    let (Some(token), Some(ttl), Some(ends), Some(nonce), Some(holder)) = (token, ttl, ends, nonce, holder)
    else {
        return Err(damaged("lease"));
    };
    let held = nonce != "-";
    let positive = |value: i64| u64::try_from(value).unwrap_or(0);
    Ok(Record {
        scope: Scope::new(scope)?,
        token: Token(positive(token)),
        holder: held.then(|| holder.to_owned()),
        ttl: Duration::from_micros(positive(ttl)),
        remaining: if held {
            Duration::from_micros(positive(ends.saturating_sub(now)))
        } else {
            Duration::ZERO
        },
    })
}

impl Doorbell for Leases {
    fn rung(&self) -> BoxFuture<'_, ()> {
        bell::told(&self.inner.listener, self.inner.db.client(), &self.inner.channel)
    }
}

impl LeaseStore for Leases {
    fn acquire(&self, ask: Acquire) -> BoxFuture<'_, Result<Acquired>> {
        Box::pin(async move { self.inner.acquire(&ask, self.wait).await })
    }

    fn renew(&self, terms: Vec<Term>) -> BoxFuture<'_, Result<Vec<Renewed>>> {
        Box::pin(async move { self.inner.renew(&terms).await })
    }

    fn release(&self, term: Term) -> BoxFuture<'_, Result<Released>> {
        Box::pin(async move { self.inner.release(&term).await })
    }

    fn raise(&self, term: Term, above: Token) -> BoxFuture<'_, Result<Raised>> {
        Box::pin(async move { self.inner.raise(&term, above).await })
    }

    fn break_lease(&self, scope: Scope) -> BoxFuture<'_, Result<Option<Record>>> {
        Box::pin(async move { self.inner.break_lease(&scope).await })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Record>>> {
        Box::pin(self.inner.list())
    }

    fn open_fence(&self, scope: Scope, token: Token, nonce: Nonce) -> BoxFuture<'_, Result<Opened>> {
        Box::pin(async move { self.inner.open_fence(&scope, token, nonce).await })
    }
}

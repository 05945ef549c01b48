//! Two workers, one SQLite file, one leader.
//!
//! You will see `one` lead and count, `two` wait, `one` being stopped, and `two` take over a few milliseconds later under
//! a higher token. In the end the file itself refuses a late write of `one`.
//!
//! ```sh
//! cargo run -p tidegate --example 01_lease
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::lease::{Guard, Leases, Nonce, Scope, Token};
use tidegate::stores::sqlite::{self, Database, OpenOptions, lease::check_fence};
use tidegate::{Code, Error, Result, Worker};
use tokio::sync::mpsc;

const JOB: &str = "counting";

#[tokio::main]
async fn main() -> Result<()> {
    let folder =
        tempfile::tempdir().map_err(|error| Error::new(Code::StoreUnavailable, error.to_string()))?;
    let file = folder.path().join("app.db");
    let (terms, mut led) = mpsc::unbounded_channel();

    let one = worker(
        "one",
        &Database::open(&file, OpenOptions::default())?,
        terms.clone(),
    )?;
    let two = worker("two", &Database::open(&file, OpenOptions::default())?, terms)?;
    one.start();
    let old = led.recv().await;
    two.start();
    tokio::time::sleep(Duration::from_millis(500)).await;

    println!("one is stopped");
    let began = Instant::now();
    one.stop(Duration::from_secs(5)).await;
    let new = led.recv().await;
    println!("two leads {:.0?} after that was asked for", began.elapsed());
    tokio::time::sleep(Duration::from_millis(300)).await;
    two.stop(Duration::from_secs(5)).await;

    let db = Database::open(&file, OpenOptions::default())?;
    for (name, term) in [("one", old), ("two", new)] {
        let Some((token, nonce)) = term else { continue };
        match count(&db, token, nonce).await? {
            Some(n) => println!("{name} may still write under token {token}: {n}"),
            None => println!("{name} is too late: the file refuses token {token}"),
        }
    }
    Ok(())
}

/// A worker that counts in the file for as long as it leads.
fn worker(name: &'static str, db: &Database, terms: mpsc::UnboundedSender<(Token, Nonce)>) -> Result<Worker> {
    let (db, store) = (db.clone(), Arc::new(sqlite::lease::Leases::new(db.clone())));
    let leases = Leases::new(store.clone())
        .ttl(Duration::from_secs(2))
        .holder(name);
    leases.campaign(JOB, move |guard: Guard| {
        let (db, store, terms) = (db.clone(), store.clone(), terms.clone());
        async move {
            let token = guard.open_fence(&*store).await?;
            println!("{name} leads under token {token}");
            // Nobody listens once `main` has ended.
            let _ = terms.send((token, guard.nonce()));
            while guard.check() {
                if let Some(n) = count(&db, token, guard.nonce()).await? {
                    println!("{name} counts {n}");
                }
                tokio::select! {
                    () = guard.cancelled() => break,
                    () = tokio::time::sleep(Duration::from_millis(100)) => {}
                }
            }
            Ok(())
        }
    })
}

/// One guarded transaction: the fence is compared where the write happens. `None`: refused.
async fn count(db: &Database, token: Token, nonce: Nonce) -> Result<Option<i64>> {
    let scope = Scope::new(JOB)?;
    db.write(move |sql| {
        if !check_fence(sql.connection(), &scope, token, nonce)? {
            return Ok(None);
        }
        sql.execute("counting", "create table if not exists counter (n integer)", [])?;
        sql.execute(
            "counting",
            "insert into counter select 1 + count(*) from counter",
            [],
        )?;
        let n = sql.one("counting", "select max(n) from counter", [], |row| row.get(0))?;
        Ok(Some(n))
    })
    .await
}

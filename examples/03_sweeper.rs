//! A job at an interval that one process at a time runs, and that goes on where a crash left it.
//!
//! Two sweepers, as two processes would have them, fold a table of visits into a total, ten rows a step. The first one
//! crashes in mid-run. The second one waits for its lease to run out, takes over, and goes on from the checkpoint:
//! no row is counted twice, none is left out. Then the archive of an outbox is swept once. You will see:
//!
//! ```text
//! first: 10 visits
//! first: 20 visits
//! first: crashes in the third step
//! second: 30 visits
//! second: 40 visits
//! second: 50 visits
//! total 1275 of 1275
//! kept for an hour: swept 0
//! ```
//!
//! Run it: `cargo run -p tidegate --example 03_sweeper`

use std::error::Error;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate::lease::Leases;
use tidegate::stores::sqlite::outbox::Wanted;
use tidegate::stores::sqlite::sweep::{Checkpoints, save_checkpoint};
use tidegate::stores::sqlite::{Database, OpenOptions, Sql, SqliteOutbox, lease};
use tidegate::sweep::jobs::Retention;
use tidegate::sweep::{Context, Mark, Step};
use tidegate::{Sweeper, Worker};

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

/// Short, so that the take-over is soon; ten seconds is a better choice.
const TTL: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("app.db");
    let db = Database::open(&path, OpenOptions::default())?;
    db.write(|sql| {
        sql.execute("setting up", "create table visits (id integer primary key)", [])?;
        sql.execute("setting up", "create table total (sum integer)", [])?;
        sql.execute("setting up", "insert into total values (0)", [])?;
        let visits = "with recursive n (id) as (select 1 union all select id + 1 from n where id < 50)
             insert into visits select id from n";
        sql.execute("setting up", visits, [])
    })
    .await?;

    let first = folding("first", &path, Some(20))?;
    first.start();
    until(&first, 20).await;
    drop(first);
    println!("first: crashes in the third step");

    let second = folding("second", &path, None)?;
    second.start();
    until(&second, 30).await;
    let drained = second.stop(Duration::from_secs(5)).await;
    assert!(drained.cleanly);

    let total = db.read(|sql| sql.one("reading", "select sum from total", [], |row| row.get::<_, i64>(0)));
    println!("total {} of {}", total.await?, (1..=50).sum::<i64>());

    let outbox = SqliteOutbox::open(&db, "orders", Wanted::default()).await?;
    let retention = Retention::archive(Arc::new(outbox), Duration::from_secs(3600));
    let sweeper = Sweeper::new("retention", leases(db), EVERY, retention).build()?;
    println!("kept for an hour: swept {}", sweeper.run_once().await?);
    Ok(())
}

fn leases(db: Database) -> Leases {
    Leases::new(Arc::new(lease::Leases::new(db))).ttl(TTL)
}

/// A sweeper with a connection of its own, which hangs when it stands at `hang`.
fn folding(who: &'static str, path: &Path, hang: Option<i64>) -> Result<Worker> {
    let db = Database::open(path, OpenOptions::default())?;
    let (leases, checkpoints) = (leases(db.clone()), Checkpoints::new(db.clone()));
    let job = move |ctx: Context| {
        let db = db.clone();
        async move {
            let from = ctx.checkpoint.as_deref().map_or(0, position);
            let mark = ctx.mark();
            if hang == Some(from) {
                pending::<()>().await;
            }
            let step = db.write(move |sql| fold(sql, &mark, from)).await?;
            println!("{who}: {} visits", from + 10);
            Ok(step)
        }
    };
    let sweeper = Sweeper::new("fold", leases, EVERY, job).checkpoints(Arc::new(checkpoints));
    Ok(sweeper.build()?)
}

/// The effect and the checkpoint, in one transaction.
fn fold(sql: &Sql<'_>, mark: &Mark, from: i64) -> tidegate::Result<Step> {
    let to = from + 10;
    let sum = "update total set sum = sum + (select sum(id) from visits where id > ?1 and id <= ?2)";
    sql.execute("folding", sum, (from, to))?;
    save_checkpoint(sql.connection(), mark, &to.to_le_bytes())?;
    Ok(Step {
        done: 10,
        more: to < 50,
    })
}

fn position(bytes: &[u8]) -> i64 {
    bytes.try_into().map_or(0, i64::from_le_bytes)
}

async fn until(worker: &Worker, done: u64) {
    while worker.position() < done {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

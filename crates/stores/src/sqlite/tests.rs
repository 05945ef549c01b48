//! The database file itself: opening, refusing, sharing commits, surviving panics, ringing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use tidegate_core::{Code, Effect, Error, Result};

use super::{Database, OpenOptions, Sql};

fn file() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.db");
    (dir, path)
}

fn open(path: &PathBuf) -> Result<Database> {
    Database::open(path, OpenOptions::default())
}

fn refused(path: &PathBuf, options: OpenOptions) -> Code {
    Database::open(path, options).unwrap_err().code()
}

fn insert(sql: &Sql<'_>, value: i64) -> Result<usize> {
    sql.execute("test", "insert into t (v) values (?1)", [value])
}

async fn count(db: &Database) -> i64 {
    db.read(|sql| sql.one("test", "select count(*) from t", [], |r| r.get(0)))
        .await
        .unwrap()
}

async fn with_table(path: &PathBuf) -> Database {
    let db = open(path).unwrap();
    db.write(|sql| sql.execute("test", "create table t (v integer unique)", []))
        .await
        .unwrap();
    db
}

#[test]
fn adds_its_tables_to_a_users_own_file_and_leaves_the_rest() {
    let (_dir, path) = file();
    let own = Connection::open(&path).unwrap();
    own.execute_batch("create table orders (id integer); insert into orders values (7)")
        .unwrap();
    drop(open(&path).unwrap());
    let id: i64 = own.query_row("select id from orders", [], |r| r.get(0)).unwrap();
    let mark: i64 = own.query_row("pragma application_id", [], |r| r.get(0)).unwrap();
    assert_eq!((id, mark), (7, 0));
}

#[test]
fn refuses_without_touching() {
    let (dir, path) = file();
    let keep = OpenOptions {
        create: false,
        migrate: false,
        ..OpenOptions::default()
    };
    assert_eq!(refused(&path, keep.clone()), Code::NotFound);
    Connection::open(&path)
        .unwrap()
        .execute_batch("create table orders (id integer)")
        .unwrap();
    let before = std::fs::read(&path).unwrap();
    assert_eq!(refused(&path, keep.clone()), Code::NotADatabase);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let text = dir.path().join("notes.txt");
    std::fs::write(
        &text,
        "not a database, but long enough to have had a header".repeat(20),
    )
    .unwrap();
    assert_eq!(refused(&text, OpenOptions::default()), Code::NotADatabase);
    assert_eq!(
        refused(&dir.path().to_owned(), OpenOptions::default()),
        Code::NotADatabase
    );
    assert_eq!(
        refused(&PathBuf::from(":memory:"), OpenOptions::default()),
        Code::OptionsInvalid
    );
    assert_eq!(
        refused(&dir.path().join("no/such.db"), OpenOptions::default()),
        Code::NotFound
    );
}

#[test]
fn refuses_a_newer_schema() {
    let (_dir, path) = file();
    drop(open(&path).unwrap());
    Connection::open(&path)
        .unwrap()
        .execute_batch("insert into tidegate_schema values (99, 'x', 0)")
        .unwrap();
    assert_eq!(refused(&path, OpenOptions::default()), Code::SchemaNewer);
}

#[test]
fn sixteen_openers_migrate_once() {
    let (_dir, path) = file();
    let path = Arc::new(path);
    let opened: Vec<_> = (0..16)
        .map(|_| {
            let path = Arc::clone(&path);
            std::thread::spawn(move || open(&path).map(drop))
        })
        .collect();
    for handle in opened {
        handle.join().unwrap().unwrap();
    }
    let rows: i64 = Connection::open(&*path)
        .unwrap()
        .query_row("select count(*) from tidegate_schema", [], |r| r.get(0))
        .unwrap();
    assert_eq!(rows, 1);
}

#[tokio::test]
async fn grouped_writes_share_a_commit_and_fail_alone() {
    let (_dir, path) = file();
    let db = with_table(&path).await;
    // The first job holds the thread, so that the others queue behind it.
    let gate = db.call(|_| {
        std::thread::sleep(Duration::from_millis(50));
        Ok(())
    });
    let before = db.commits();
    let writes: Vec<_> = [1, 2, 2, 3]
        .into_iter()
        .map(|v| db.write(move |sql| insert(sql, v)))
        .collect();
    gate.await.unwrap();
    let mut codes = Vec::new();
    for write in writes {
        codes.push(write.await.map_err(|e| e.code()));
    }
    assert_eq!(codes, [Ok(1), Ok(1), Err(Code::Internal), Ok(1)]);
    assert_eq!(db.commits() - before, 1);
    assert_eq!(count(&db).await, 3);
}

#[tokio::test]
async fn a_panic_fails_its_job_only() {
    let (_dir, path) = file();
    let db = with_table(&path).await;
    let panicking = db.write(|sql| {
        insert(sql, 1)?;
        assert!(sql.connection().is_autocommit(), "deliberate");
        Ok(())
    });
    let error = panicking.await.unwrap_err();
    assert_eq!(error.code(), Code::Internal);
    let alone = db.call(|w| {
        w.execute_batch("begin; insert into t values (2)").unwrap();
        panic!("deliberate") as Result<()>
    });
    assert_eq!(alone.await.unwrap_err().effect(), Effect::Unknown);
    assert_eq!(count(&db).await, 0);
    assert_eq!(db.write(|sql| insert(sql, 3)).await.unwrap(), 1);
    assert_eq!(count(&db).await, 1);
}

#[tokio::test]
async fn a_lock_held_elsewhere_is_busy_and_nothing_is_applied() {
    let (_dir, path) = file();
    let options = OpenOptions {
        busy_timeout: Duration::from_millis(20),
        ..OpenOptions::default()
    };
    let db = Database::open(&path, options).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let error = db.write(|_| Ok(())).await.unwrap_err();
    assert_eq!(
        (error.code(), error.effect()),
        (Code::StoreBusy, Effect::NotApplied)
    );
    other.execute_batch("rollback").unwrap();
    db.write(|_| Ok(())).await.unwrap();
}

#[tokio::test]
async fn read_only_reads_and_refuses_writes() {
    let (_dir, path) = file();
    let db = with_table(&path).await;
    let options = OpenOptions {
        read_only: true,
        ..OpenOptions::default()
    };
    let reader = Database::open(&path, options).unwrap();
    assert_eq!(count(&reader).await, 0);
    assert_eq!(
        reader.write(|_| Ok(())).await.unwrap_err().code(),
        Code::StoreReadOnly
    );
    drop(db);
}

#[tokio::test]
async fn errors_hold_no_values() {
    let (_dir, path) = file();
    let db = with_table(&path).await;
    db.write(|sql| sql.execute("test", "create table s (v text primary key) without rowid", []))
        .await
        .unwrap();
    let twice = db.write(|sql| {
        for _ in 0..2 {
            sql.execute("test", "insert into s values (?1)", ["secret-canary"])?;
        }
        Ok(())
    });
    let error: Error = twice.await.unwrap_err();
    let raised = db.write(|sql| sql.execute("test", "select raise_no_such('secret-canary')", []));
    for error in [error, raised.await.unwrap_err()] {
        let mut text = format!("{error} {error:?}");
        let mut source = std::error::Error::source(&error);
        while let Some(below) = source {
            text.push_str(&below.to_string());
            source = below.source();
        }
        assert!(!text.contains("canary"), "{text}");
    }
}

#[tokio::test]
async fn the_bell_rings_for_own_and_foreign_commits_and_is_quiet_otherwise() {
    let (_dir, path) = file();
    let db = with_table(&path).await;
    let wait = Duration::from_secs(5);
    let ring = db.rung();
    db.write(|sql| insert(sql, 1)).await.unwrap();
    tokio::time::timeout(wait, ring).await.unwrap();

    let ring = db.rung();
    let other = Connection::open(&path).unwrap();
    other.execute("insert into t values (2)", []).unwrap();
    tokio::time::timeout(wait, ring).await.unwrap();

    // Rings left over from the commits above come first; then there is silence.
    let quiet = async {
        loop {
            if tokio::time::timeout(Duration::from_millis(60), db.rung())
                .await
                .is_err()
            {
                return;
            }
        }
    };
    tokio::time::timeout(wait, quiet).await.unwrap();
}

#[test]
fn the_printed_schema_makes_a_file_that_opens_without_migrating() {
    let (_dir, path) = file();
    let by_hand = Connection::open(&path).unwrap();
    by_hand.execute_batch(&super::schema_sql()).unwrap();
    drop(by_hand);
    let options = OpenOptions {
        create: false,
        migrate: false,
        ..OpenOptions::default()
    };
    Database::open(&path, options).unwrap();
    open(&path).unwrap();
}

//! The lease suite over SQLite, and what only a file and processes can show.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_conformance::lease::Subject;
use tidegate_conformance::{counts, lease_suite};
use tidegate_core::lease::{Acquire, Acquired, Nonce, Released, Renewed, Scope, Term, Token};
use tidegate_core::memory::Clock;
use tidegate_core::store::{BoxFuture, LeaseStore};
use tidegate_core::{Result, Ticks, Timestamp, Uuid};
use tidegate_stores::sqlite::lease::{Leases, check_fence};
use tidegate_stores::sqlite::{self, Database, OpenOptions};

struct Sqlite {
    _folder: TempDir,
    path: PathBuf,
    clock: FileClock,
}

/// The suite's clock in the terms of a file.
#[derive(Debug, Clone, Default)]
struct FileClock {
    clock: Clock,
    boot: Arc<Mutex<Uuid>>,
}

impl sqlite::Clock for FileClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now().as_micros())
    }

    fn boot(&self) -> Ticks {
        self.clock.now()
    }

    fn boot_id(&self) -> Uuid {
        *self.boot.lock().unwrap()
    }
}

impl Sqlite {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            path: folder.path().join("leases.db"),
            _folder: folder,
            clock: FileClock::default(),
        }
    }

    fn database(&self) -> Database {
        let clock = Arc::new(self.clock.clone());
        let options = OpenOptions {
            clock,
            ..OpenOptions::default()
        };
        Database::open(&self.path, options).unwrap()
    }
}

impl Subject for Sqlite {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(Leases::new(self.database()))
    }

    fn clock(&self) -> Clock {
        self.clock.clock.clone()
    }

    fn guarded<'a>(&'a self, scope: &'a Scope, token: Token, nonce: Nonce) -> BoxFuture<'a, Result<bool>> {
        let (database, scope) = (self.database(), scope.clone());
        Box::pin(async move {
            let checked = database.write(move |sql| check_fence(sql.connection(), &scope, token, nonce));
            checked.await
        })
    }
}

lease_suite!(Sqlite::new());

fn job() -> Scope {
    Scope::new("job").unwrap()
}

async fn granted(store: &dyn LeaseStore, scope: Scope, nonce: u128) -> Option<Term> {
    let ttl = Duration::from_secs(60);
    let nonce = Nonce(nonce);
    let ask = Acquire {
        scope: scope.clone(),
        nonce,
        ttl,
        min_token: Token(0),
        holder: String::new(),
    };
    match store.acquire(ask).await.unwrap() {
        Acquired::Granted(token) => Some(Term {
            scope,
            token,
            nonce,
            ttl,
        }),
        Acquired::Busy { .. } => None,
    }
}

#[tokio::test]
async fn l_040_a_lease_of_another_boot_has_expired() {
    let subject = Sqlite::new();
    let store = subject.store();
    let old = granted(&*store, job(), 1).await.unwrap();
    assert!(granted(&*store, job(), 2).await.is_none());
    *subject.clock.boot.lock().unwrap() = Uuid::from_u128(7);
    assert_eq!(store.renew(vec![old.clone()]).await.unwrap(), [Renewed::Lost]);
    assert!(granted(&*store, job(), 2).await.unwrap().token > old.token);
}

#[tokio::test]
async fn l_041_renewing_many_leases_costs_what_renewing_one_does() {
    let subject = Sqlite::new();
    let database = subject.database();
    let store = Leases::new(database.clone());
    let mut terms = Vec::new();
    for n in 0..200u128 {
        let scope = Scope::new(format!("job {n}")).unwrap();
        terms.push(granted(&store, scope, n).await.unwrap());
    }
    let spent = async |terms: &[Term]| {
        let before = (database.statements(), database.commits());
        let renewed = store.renew(terms.to_vec()).await.unwrap();
        assert!(renewed.iter().all(|renewed| *renewed == Renewed::Held));
        (database.statements() - before.0, database.commits() - before.1)
    };
    assert_eq!(spent(&terms).await, spent(&terms[..1]).await);
}

#[tokio::test]
async fn l_042_asking_for_a_held_lease_writes_nothing() {
    let subject = Sqlite::new();
    let database = subject.database();
    let store = Leases::new(database.clone());
    granted(&store, job(), 1).await.unwrap();
    let before = database.commits();
    for _ in 0..10 {
        assert!(granted(&store, job(), 2).await.is_none());
    }
    assert_eq!(database.commits(), before);
}

const CHILD: &str = "TIDEGATE_TEST_LEASE_CHILD";
const PROCESSES: u128 = 4;
const ROUNDS: u128 = 15;

#[test]
fn l_043_terms_of_many_processes_never_overlap() {
    let folder = tempfile::tempdir().unwrap();
    let children: Vec<Child> = (0..PROCESSES).map(|n| child(folder.path(), n)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let tokens = std::fs::read_to_string(folder.path().join("tokens")).unwrap();
    let tokens: Vec<u64> = tokens.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(tokens.len() as u128, PROCESSES * ROUNDS);
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    counts::add("conformance.lease.process_terms", tokens.len() as u64);
}

fn child(folder: &Path, n: u128) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "l_043_in_a_child_process", "--nocapture"])
        .env(CHILD, folder)
        .env("TIDEGATE_TEST_LEASE_NONCE", n.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Does nothing unless it is started by the test above.
#[tokio::test]
async fn l_043_in_a_child_process() {
    let Some(folder) = std::env::var_os(CHILD).map(PathBuf::from) else {
        return;
    };
    let n: u128 = std::env::var("TIDEGATE_TEST_LEASE_NONCE")
        .unwrap()
        .parse()
        .unwrap();
    let database = Database::open(folder.join("leases.db"), OpenOptions::default()).unwrap();
    let store = Leases::new(database);
    for round in 0..ROUNDS {
        let term = loop {
            if let Some(term) = granted(&store, job(), n * 1000 + round).await {
                break term;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        let inside = folder.join("inside");
        std::fs::File::create_new(&inside).expect("two at once");
        append(&folder.join("tokens"), &format!("{}\n", term.token));
        std::fs::remove_file(&inside).unwrap();
        assert_eq!(store.release(term).await.unwrap(), Released::Vacant);
    }
}

fn append(path: &Path, line: &str) {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(line.as_bytes()).unwrap();
}

//! Real servers, real daemons, and what both databases hold.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tidegate_conformance::testbed::{Postgres, Redis};
use tokio_postgres::{Client, NoTls};

/// Longest wait for what should come soon; a bound, not a pause.
pub(crate) const SOON: Duration = Duration::from_secs(60);

const SERVICE: &str = "
    create table orders (id text primary key, total bigint not null, version bigint not null);
";
/// `applied` keeps every version that a row ever had, in the order of application.
const FOLLOWER: &str = "
    create table orders_copy (id text primary key, total bigint not null, version bigint not null);
    create table applied (seq bigint generated always as identity primary key, id text, total bigint, version bigint);
    create function note() returns trigger language plpgsql as $$
    begin
      insert into applied (id, total, version) values (new.id, new.total, new.version);
      return null;
    end $$;
    create trigger note after insert or update on orders_copy for each row execute function note();
";

/// The servers, the configuration, and the daemons that run.
pub(crate) struct World {
    pub(crate) service: Postgres,
    pub(crate) follower: Postgres,
    pub(crate) redis: Redis,
    dir: TempDir,
}

impl World {
    /// `outbox` and `stream` are further lines of their sections.
    pub(crate) async fn new(outbox: &str, stream: &str) -> Self {
        let (service, follower, redis) = (Postgres::start(), Postgres::start(), Redis::start());
        connect(&service).await.batch_execute(SERVICE).await.unwrap();
        connect(&follower).await.batch_execute(FOLLOWER).await.unwrap();
        let dir = TempDir::new().unwrap();
        let world = Self {
            service,
            follower,
            redis,
            dir,
        };
        std::fs::write(world.file(), world.configuration(outbox, stream)).unwrap();
        world.ok(&["migrate"]);
        world
    }

    fn configuration(&self, outbox: &str, stream: &str) -> String {
        format!(
            r#"
[store]
service = {{ url = "{}" }}
follower = {{ url = "{}" }}
cache = {{ url = "{}" }}
[outbox.orders]
store = "service"
stream = "orders"
ttl = "2s"
{outbox}
[stream.orders]
store = "cache"
{stream}
[consumer.copy]
stream = "orders"
store = "follower"
start = "earliest"
ttl = "2s"
backoff_max = "500ms"
table = {{ name = "orders_copy", key = "id", version = "version", columns = {{ total = "total" }} }}
[http]
listen = "127.0.0.1:0"
"#,
            self.service.url(),
            self.follower.url(),
            self.redis.url()
        )
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("tidegate.toml")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command
            .args(args)
            .args(["-c", "tidegate.toml"])
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        command
    }

    /// Runs a command, which must succeed; returns what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {err}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts a daemon and waits until it says so.
    pub(crate) fn daemon(&self) -> Daemon {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join("daemons.log"))
            .unwrap();
        let mut child = self
            .command(&["run", "--json"])
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert!(line.contains("started"), "{line:?}: {}", self.log());
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        Daemon { child }
    }

    /// What the daemons logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("daemons.log")).unwrap_or_default()
    }

    /// Waits until the follower equals the service, and checks that no row ever went back.
    pub(crate) async fn settle(&self) {
        let (service, follower) = (connect(&self.service).await, connect(&self.follower).await);
        let began = Instant::now();
        loop {
            let (left, right) = (
                rows(&service, "orders").await,
                rows(&follower, "orders_copy").await,
            );
            if left == right {
                break;
            }
            assert!(
                began.elapsed() < SOON,
                "the follower is not equal: {} and {} rows, {} differ\n{}\n{}",
                left.len(),
                right.len(),
                left.iter().filter(|row| !right.contains(row)).count(),
                self.ok(&["status"]),
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        never_back(&follower).await;
    }
}

/// A running daemon; killed when dropped.
pub(crate) struct Daemon {
    child: Child,
}

impl Daemon {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// kill -9.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Drains it, which must be clean.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection of the user's own. Waits while the server starts.
pub(crate) async fn connect(server: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn rows(client: &Client, table: &str) -> Vec<(String, i64, i64)> {
    let query = format!("select id, total, version from {table} order by id collate \"C\"");
    let rows = client.query(&query, &[]).await.unwrap();
    rows.iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect()
}

/// Of each row, every version came once and in rising order.
async fn never_back(follower: &Client) {
    let query = "select count(*) from (
        select version <= lag(version) over (partition by id order by seq) as back from applied) v where back";
    let back: i64 = follower.query_one(query, &[]).await.unwrap().get(0);
    assert_eq!(back, 0, "rows that went back or were applied twice");
}

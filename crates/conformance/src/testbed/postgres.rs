//! A private Postgres. The data folder is a copy of a template that is made once per machine and version.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

use super::server::{Server, copy_tree, find, free_port, give, listens};

/// Whom the server runs as when the test runs as root, which Postgres refuses: nobody.
const NOBODY: u32 = 65_534;

/// A running server with the superuser `postgres` and the database `postgres`, trusting loopback.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
    port: u16,
    // Removed after the server is gone: fields drop in order.
    folder: TempDir,
}

impl Postgres {
    /// Starts one. Commits do not wait for the disk: a killed server loses nothing all the same, only a killed machine
    /// would.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with settings of its own, such as `("max_connections", "20")`.
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        let user = geteuid().is_root().then_some(NOBODY);
        let template = template(user);
        for _ in 0..5 {
            let folder = tempfile::Builder::new()
                .prefix("tidegate-postgres-")
                .tempdir()
                .unwrap();
            give(folder.path(), user);
            let data = folder.path().join("data");
            copy_tree(&template, &data, user);
            let port = free_port();
            let server = Server::new(
                program("postgres"),
                arguments(&data, port, settings),
                user,
                folder.path().join("log"),
            );
            if server.start(|| listens(port) && accepts(&data)).is_ok() {
                return Self { server, port, folder };
            }
        }
        panic!("Postgres did not start on five ports");
    }

    /// The URL of the superuser's database.
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// The same through another port: a proxy's.
    pub fn url_at(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/postgres")
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// kill -9, and waits until it is gone.
    pub fn kill(&self) {
        self.server.end(Signal::KILL);
    }

    /// A fast shutdown: open transactions are rolled back.
    pub fn stop(&self) {
        self.server.end(Signal::INT);
    }

    /// Starts it again on the same port and data.
    pub fn restart(&self) {
        let data = self.folder.path().join("data");
        // Left behind by a kill; the children of the dead one end by themselves.
        let _ = fs::remove_file(data.join("postmaster.pid"));
        self.server
            .start(|| listens(self.port) && accepts(&data))
            .unwrap();
    }

    /// SIGSTOP of the postmaster: no new connections. Open ones are processes of their own and go on.
    pub fn pause(&self) {
        self.server.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.server.signal(Signal::CONT);
    }
}

fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let folders: Vec<_> = versions.map(|entry| entry.path().join("bin")).collect();
    find(name, &folders, "postgresql")
}

/// The server writes `ready` into the last line of its pid file.
fn accepts(data: &Path) -> bool {
    fs::read_to_string(data.join("postmaster.pid")).is_ok_and(|text| text.trim_end().ends_with("ready"))
}

fn arguments(data: &Path, port: u16, settings: &[(&str, &str)]) -> Vec<String> {
    let fixed = [
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", ""),
        ("fsync", "off"),
        ("full_page_writes", "off"),
        ("shared_buffers", "32MB"),
        ("max_connections", "60"),
        ("autovacuum_naptime", "5s"),
        ("log_min_messages", "fatal"),
    ];
    let mut all = vec![
        "-D".to_owned(),
        data.display().to_string(),
        "-p".to_owned(),
        port.to_string(),
    ];
    for (name, value) in fixed.iter().chain(settings) {
        all.extend(["-c".to_owned(), format!("{name}={value}")]);
    }
    all
}

/// Makes the template, or waits until another test has made it.
fn template(user: Option<u32>) -> PathBuf {
    let initdb = program("initdb").canonicalize().unwrap();
    let version = initdb.display().to_string().replace('/', "-");
    let me = geteuid().as_raw();
    let root = std::env::temp_dir().join(format!("tidegate-template-{me}{version}"));
    fs::create_dir_all(&root).unwrap();
    give(&root, user);
    let lock = File::create(root.join("lock")).unwrap();
    lock.lock().unwrap();
    let (made, making) = (root.join("data"), root.join("making"));
    if !made.exists() {
        let _ = fs::remove_dir_all(&making);
        let mut command = Command::new("setpriv");
        if let Some(user) = user {
            command.args([
                format!("--reuid={user}"),
                format!("--regid={user}"),
                "--clear-groups".into(),
            ]);
        }
        let output = command
            .arg("--")
            .arg(&initdb)
            .args([
                "--no-sync",
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "--locale=C",
            ])
            .args(["--wal-segsize=1", "-D"])
            .arg(&making)
            .current_dir("/")
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        fs::rename(&making, &made).unwrap();
    }
    made
}

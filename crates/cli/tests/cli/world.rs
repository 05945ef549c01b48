//! A folder of its own for each test, and the binary run in it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Planted in payloads, values and URLs: no output for people may hold it.
pub(crate) const CANARY: &str = "c4n4ry-4111111111111111";

/// A folder in which the binary runs.
pub(crate) struct World {
    pub(crate) dir: TempDir,
}

/// What a run said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            dir: TempDir::new().expect("a folder"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), content).expect("written");
        self
    }

    /// The binary, not yet started, with nothing of the outside world in its environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        self.run_with(args, b"")
    }

    /// Runs with this on standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Said {
        let mut command = self.command(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let mut stdin = child.stdin.take().expect("piped");
        // A command that does not read its input closes it early.
        let _ = stdin.write_all(input);
        drop(stdin);
        Said::of(&child.wait_with_output().expect("ended"))
    }

    /// Payloads in the outbox `main` of a file, in order of their rows.
    pub(crate) fn waiting(&self, file: &str) -> Vec<String> {
        let connection = rusqlite::Connection::open(self.path(file)).expect("opened");
        let mut rows = connection
            .prepare("select cast(payload as text) from tidegate_outbox order by seq")
            .expect("prepared");
        let payloads = rows.query_map([], |row| row.get(0)).expect("queried");
        payloads.collect::<Result<_, _>>().expect("read")
    }

    /// Rows waiting; zero while the file is being made.
    pub(crate) fn count(&self, file: &str) -> i64 {
        let connection = rusqlite::Connection::open(self.path(file)).expect("opened");
        let count = connection.query_row("select count(*) from tidegate_outbox", [], |row| row.get(0));
        count.unwrap_or(0)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).expect("listed");
        let mut names: Vec<_> = entries
            .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Said {
    pub(crate) fn of(output: &Output) -> Self {
        let said = Self {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        assert!(!said.err.contains("panicked"), "{said:?}");
        assert!(!said.err.contains("stack backtrace"), "{said:?}");
        assert!(
            !said.err.contains(CANARY),
            "a payload or secret on standard error: {said:?}"
        );
        said
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.status, 0, "{self:?}");
        self
    }

    /// Ended with this status and said exactly this on standard error.
    #[track_caller]
    pub(crate) fn fails(self, status: i32, err: &str) -> Self {
        assert_eq!((self.status, self.err.as_str()), (status, err), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.out.trim()).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }
}

/// The bytes of a file, to see that it did not change.
pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("read")
}

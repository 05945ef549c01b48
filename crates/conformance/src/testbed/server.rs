//! A server process: a direct child that is stopped, killed, paused and started again on the same port.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to answer or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program and its arguments; the process that runs them now, if any.
#[derive(Debug)]
pub(super) struct Server {
    program: PathBuf,
    arguments: Vec<String>,
    /// Whom it runs as; `None`: as the test does.
    user: Option<u32>,
    log: PathBuf,
    child: Mutex<Option<Child>>,
}

impl Server {
    pub(super) fn new(program: PathBuf, arguments: Vec<String>, user: Option<u32>, log: PathBuf) -> Self {
        Self {
            program,
            arguments,
            user,
            log,
            child: Mutex::new(None),
        }
    }

    /// Starts it and waits until `ready`. Fails with the log when it ends before.
    pub(super) fn start(&self, ready: impl Fn() -> bool) -> Result<(), String> {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        // Ends with the thread that started it: also when the test is killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(user) = self.user {
            command.args([
                format!("--reuid={user}"),
                format!("--regid={user}"),
                "--clear-groups".into(),
            ]);
        }
        command
            .arg("--")
            .arg(&self.program)
            .args(&self.arguments)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let child = command.spawn().expect("setpriv is in Debian's util-linux");
        let mut slot = self.slot();
        *slot = Some(child);
        let began = Instant::now();
        while !ready() {
            let ended = slot.as_mut().and_then(|child| child.try_wait().unwrap());
            if ended.is_some() || began.elapsed() > PATIENCE {
                *slot = None;
                return Err(format!(
                    "{} did not start: {}",
                    self.program.display(),
                    fs::read_to_string(&self.log).unwrap_or_default()
                ));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Sends a signal to the process that runs.
    pub(super) fn signal(&self, signal: Signal) {
        let slot = self.slot();
        let child = slot.as_ref().expect("the server runs");
        let pid = Pid::from_child(child);
        kill_process(pid, signal).unwrap();
    }

    /// Sends a signal that ends it, and waits for that.
    pub(super) fn end(&self, signal: Signal) {
        if self.slot().is_none() {
            return;
        }
        self.signal(signal);
        let mut slot = self.slot();
        let child = slot.as_mut().expect("the server runs");
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if began.elapsed() > PATIENCE {
                child.kill().unwrap();
            }
            thread::sleep(Duration::from_millis(2));
        }
        *slot = None;
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.slot().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A port that nobody listens on now.
pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Whether somebody listens.
pub(super) fn listens(port: u16) -> bool {
    TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_secs(1)).is_ok()
}

/// The program on the path or in one of `folders`.
pub(super) fn find(name: &str, folders: &[PathBuf], package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(folders.iter().cloned())
        .map(|folder| folder.join(name))
        .find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{name} is missing: apt-get install {package} (./test does it)"))
}

/// Copies a folder of files, folders and links, for `user` when one is given.
pub(super) fn copy_tree(from: &Path, to: &Path, user: Option<u32>) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target, user);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            give(&target, user);
        }
    }
    give(to, user);
    let mode = fs::metadata(from).unwrap().permissions();
    fs::set_permissions(to, mode).unwrap();
}

/// Makes `user` the owner.
pub(super) fn give(path: &Path, user: Option<u32>) {
    if let Some(user) = user {
        std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
    }
}

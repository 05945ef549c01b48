//! Child processes that can be killed, stopped and continued.

use std::fs::File;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tidegate::Result;

use super::io;
use super::stage::Stage;

/// A worker process of the demo.
pub struct Process {
    role: String,
    name: String,
    child: Child,
}

impl Process {
    /// Starts `tidegate demo-worker ROLE --dir DIR --name NAME` with these variables; its words go to `DIR/NAME.log`.
    ///
    /// It ends when this process does, and has a process group of its own: a Ctrl-C is for the demo alone.
    pub fn start(stage: &Stage, role: &str, name: &str, faults: &[(&str, &str)]) -> Result<Self> {
        let dir = &stage.dir;
        let log = File::create(dir.join(format!("{name}.log"))).map_err(|e| io("making a log file", e))?;
        let mut command = Command::new(&stage.binary);
        command
            .args(["demo-worker", role, "--name", name, "--dir"])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0)
            .env_remove("TIDEGATE_CRASH_AT")
            .env_remove("TIDEGATE_STOP_AT")
            .envs(faults.iter().copied());
        let child = command.spawn().map_err(|e| io("starting a worker process", e))?;
        Ok(Self {
            role: role.to_owned(),
            name: name.to_owned(),
            child,
        })
    }

    /// What it runs.
    pub fn role(&self) -> &str {
        &self.role
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, once it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// True once it has ended.
    pub fn ended(&mut self) -> bool {
        self.status().is_some()
    }

    /// True once it has ended by SIGKILL.
    pub fn killed(&mut self) -> bool {
        self.status()
            .is_some_and(|status| status.signal() == Some(Signal::KILL.as_raw()))
    }

    /// True while a SIGSTOP holds it.
    pub fn stopped(&mut self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        stat.rsplit_once(')')
            .is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended meanwhile, which the caller sees by `ended`.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits for its end, at most `limit`. `None` when it still runs.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Some(status) = self.status() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

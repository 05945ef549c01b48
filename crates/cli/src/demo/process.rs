//! Child processes that can be killed, stopped and continued.

use std::fs::File;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tidegate::Result;

use super::io;
use super::stage::Stage;

/// A worker process of the demo.
pub struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts `tidegate demo-worker ROLE --dir DIR --name NAME`; its words go to `DIR/NAME.log`.
    pub fn start(stage: &Stage, role: &str, name: &str, fault: Option<(&str, &str)>) -> Result<Self> {
        let dir = &stage.dir;
        let log = File::create(dir.join(format!("{name}.log"))).map_err(|e| io("making a log file", e))?;
        let mut command = Command::new(&stage.binary);
        command
            .args(["demo-worker", role, "--name", name, "--dir"])
            .arg(dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command
            .env_remove("TIDEGATE_CRASH_AT")
            .env_remove("TIDEGATE_STOP_AT");
        if let Some((variable, point)) = fault {
            command.env(variable, point);
        }
        let child = command.spawn().map_err(|e| io("starting a worker process", e))?;
        Ok(Self {
            name: name.to_owned(),
            child,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// True once it has ended.
    pub fn ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// True while a SIGSTOP holds it.
    pub fn stopped(&self) -> bool {
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

    /// Waits for its end, at most `limit`; then kills it. `None` when it had to be killed.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
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

//! A private Redis.

use std::path::PathBuf;

use rustix::process::Signal;
use tempfile::TempDir;

use super::server::{Server, find, free_port, listens};

/// A running server.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    port: u16,
    _folder: TempDir,
}

impl Redis {
    /// Starts one that keeps its data in memory only.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with settings of its own, such as `("appendonly", "yes")`.
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        for _ in 0..5 {
            let folder = tempfile::Builder::new()
                .prefix("tidegate-redis-")
                .tempdir()
                .unwrap();
            let port = free_port();
            let mut arguments: Vec<String> = Vec::new();
            let dir = folder.path().display().to_string();
            let port_text = port.to_string();
            let fixed = [
                ("port", port_text.as_str()),
                ("bind", "127.0.0.1"),
                ("dir", &dir),
                ("save", ""),
                ("appendonly", "no"),
                ("maxmemory-policy", "noeviction"),
            ];
            for (name, value) in fixed.iter().chain(settings) {
                arguments.extend([format!("--{name}"), (*value).to_owned()]);
            }
            let server = Server::new(program(), arguments, None, folder.path().join("log"));
            if server.start(|| listens(port)).is_ok() {
                return Self {
                    server,
                    port,
                    _folder: folder,
                };
            }
        }
        panic!("Redis did not start on five ports");
    }

    /// Its URL.
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// The same through another port: a proxy's.
    pub fn url_at(&self, port: u16) -> String {
        format!("redis://127.0.0.1:{port}")
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// kill -9, and waits until it is gone.
    pub fn kill(&self) {
        self.server.end(Signal::KILL);
    }

    /// Stops it; it saves where it is set to.
    pub fn stop(&self) {
        self.server.end(Signal::TERM);
    }

    /// Starts it again on the same port and folder.
    pub fn restart(&self) {
        self.server.start(|| listens(self.port)).unwrap();
    }

    /// SIGSTOP: it answers nothing.
    pub fn pause(&self) {
        self.server.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.server.signal(Signal::CONT);
    }
}

fn program() -> PathBuf {
    find("redis-server", &[], "redis-server")
}

//! Helpers: `rusm run` in its own folder.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Signal, kill_process};

const DEADLINE: Duration = Duration::from_mins(2);

pub(crate) fn rusm(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rusm"));
    command.arg("run").args(args).current_dir(dir).env_clear().stdin(Stdio::null());
    command.env("XDG_RUNTIME_DIR", dir).env("XDG_CACHE_HOME", dir.join("cache"));
    command
}

/// Runs the command; returns the exit code and the text written to stderr.
pub(crate) fn run(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = rusm(dir, args).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Creates a folder with these files.
pub(crate) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

/// A run that continues, and is killed if the test fails.
pub(crate) struct Run {
    child: Child,
    log: Receiver<String>,
    pub(crate) seen: Vec<String>,
}

impl Run {
    pub(crate) fn start(dir: &Path, args: &[&str]) -> Self {
        let mut child = rusm(dir, args).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, log) = sync_channel(4096);
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, log, seen: Vec::new() }
    }

    /// Reads the log up to the line with these words.
    pub(crate) fn wait(&mut self, words: &str) -> String {
        let until = Instant::now() + DEADLINE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.log.recv_timeout(left) else { panic!("no {words:?} in {:#?}", self.seen) };
            self.seen.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends the signal repeatedly until the run ends; returns the exit code.
    pub(crate) fn ended_by(&mut self, signal: Signal) -> Option<i32> {
        let until = Instant::now() + DEADLINE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "{:#?}", self.seen);
            self.signal(signal);
            if let Ok(line) = self.log.recv_timeout(Duration::from_millis(50)) {
                self.seen.push(line);
            }
        }
        self.child.wait().unwrap().code()
    }

    /// Reads the rest of the log; returns the exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        while let Ok(line) = self.log.recv_timeout(DEADLINE) {
            self.seen.push(line);
        }
        self.child.wait().unwrap().code()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the path of a prebuilt guest in the repository.
pub(crate) fn prebuilt(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guests/prebuilt").join(name);
    path.canonicalize().unwrap().display().to_string()
}

/// Returns both ends of a pipe that is full: a write waits until the other end is read.
pub(crate) fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer)
}

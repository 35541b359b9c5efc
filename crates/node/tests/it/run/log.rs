//! The log of a node: without a reader, without a writable file, and with rotation.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::run::harness::{folder, rusm};

const DEADLINE: Duration = Duration::from_mins(2);

/// A guest that writes to the log in an endless loop.
const FLOOD: &str = r#"(module
    (import "rusm" "log" (func $log (param i32 i32 i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "a line of a guest that writes as fast as it can")
    (func (export "run") (loop $next (call $log (i32.const 2) (i32.const 0) (i32.const 47)) (br $next))))"#;

/// A node with guests that flood its log; killed if the test fails.
struct Flood(Child);

impl Flood {
    fn start(dir: &Path, args: &[&str], stderr: Stdio) -> Self {
        let args = [args, &["--count", "16", "flood.wat"]].concat();
        Self(rusm(dir, &args).stderr(stderr).spawn().unwrap())
    }

    /// Observes the node until the given counter of its log is above 0.
    fn wait_for(&mut self, dir: &Path, counter: &str) {
        let until = Instant::now() + DEADLINE;
        let mut observer = None;
        loop {
            assert!(self.0.try_wait().unwrap().is_none() && Instant::now() < until, "{counter} stays 0");
            let Some(stream) = &mut observer else {
                observer = attach(&dir.join("rusm/flood.sock"));
                std::thread::yield_now();
                continue;
            };
            let message: Value = serde_json::from_slice(&next_message(stream)).unwrap();
            if message["frame"]["observer"]["log"][counter].as_u64().is_some_and(|count| count > 0) {
                return;
            }
        }
    }

    /// Sends SIGTERM once and waits for the end; returns the exit code.
    fn terminate(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "the node does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Attaches as an observer; returns `None` while nothing listens on the socket.
fn attach(socket: &Path) -> Option<UnixStream> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: rusm.v1\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(read(&mut stream, 1)[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    Some(stream)
}

/// Reads the next text message of the node; it sends each message in one frame.
fn next_message(stream: &mut UnixStream) -> Vec<u8> {
    loop {
        let head = read(stream, 2);
        let len = match head[1] {
            126 => u16::from_be_bytes(read(stream, 2).try_into().unwrap()).into(),
            127 => u64::from_be_bytes(read(stream, 8).try_into().unwrap()),
            len => len.into(),
        };
        let payload = read(stream, len as usize);
        if head[0] == 0x81 {
            return payload;
        }
    }
}

fn read(stream: &mut UnixStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_reader_of_stderr_that_stops_does_not_stop_the_node() {
    let dir = folder(&[("flood.wat", FLOOD)]);
    // Nothing ever reads from this pipe.
    let mut node = Flood::start(dir.path(), &[], Stdio::piped());

    node.wait_for(dir.path(), "dropped_total");

    assert_eq!(node.terminate(), Some(0), "a signal does not wait for the log");
}

#[test]
fn a_log_that_cannot_be_written_does_not_stop_the_node() {
    let dir = folder(&[("flood.wat", FLOOD)]);
    let mut node = Flood::start(dir.path(), &["--log-file", "/dev/full"], Stdio::null());

    node.wait_for(dir.path(), "errors_total");

    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn a_log_file_is_rotated_at_its_size() {
    const MAX: u64 = 1024 * 1024;
    let dir =
        folder(&[("flood.wat", FLOOD), ("rusm.toml", "[log]\nfile = \"x.log\"\nmax_bytes = \"1MiB\"\nkeep = 2\n")]);
    let mut node = Flood::start(dir.path(), &[], Stdio::null());

    let until = Instant::now() + DEADLINE;
    while !dir.path().join("x.log.2").exists() {
        assert!(Instant::now() < until, "the log does not grow");
        std::thread::yield_now();
    }
    assert_eq!(node.terminate(), Some(0));

    let logs = fs::read_dir(dir.path()).unwrap().map(Result::unwrap);
    let logs: Vec<_> = logs.filter(|entry| entry.file_name().to_string_lossy().starts_with("x.log")).collect();
    assert_eq!(logs.len(), 3);
    for log in logs {
        assert!(log.metadata().unwrap().len() <= MAX, "{:?} {}", log.file_name(), log.metadata().unwrap().len());
        let text = fs::read_to_string(log.path()).unwrap();
        assert!(text.ends_with('\n') && text.starts_with("20"), "files hold whole lines");
    }
}

#[test]
fn guests_that_flood_the_log_are_cut_and_told() {
    let dir = folder(&[("flood.wat", FLOOD), ("rusm.toml", "[log]\nfile = \"x.log\"\n[limits]\nlog_lines = 10\n")]);
    let mut node = Flood::start(dir.path(), &[], Stdio::null());

    let until = Instant::now() + DEADLINE;
    let told = || fs::read_to_string(dir.path().join("x.log")).unwrap_or_default().contains("lines were truncated");
    while !told() {
        assert!(Instant::now() < until, "the log does not report cut lines");
        std::thread::yield_now();
    }

    assert_eq!(node.terminate(), Some(0));
}

//! Nodes that join others, as processes on this machine: what `docs/cluster.md` tells a user to do.
//!
//! It needs the feature `cluster`. The nodes take any free ports, and each step waits for a line of a log.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

#[path = "cluster/scenarios.rs"]
mod scenarios;

use std::fs::DirBuilder;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const DEADLINE: Duration = Duration::from_mins(2);
/// Line of a node that listens for others.
const PART: &str = "node is part of a cluster";
/// Line of a node that has a session with another.
const CONNECTED: &str = "connected to a node";
/// Line of a node that has lost a session with another.
const LOST: &str = "the connection to a node is lost";

fn rusm(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rusm"));
    command.args(args).current_dir(dir).env_clear().env("XDG_RUNTIME_DIR", dir).stdin(Stdio::null());
    command
}

fn run(dir: &Path, args: &[&str]) -> Output {
    rusm(dir, args).output().unwrap()
}

/// Returns the exit code of a command that fails, and what it says.
fn refusal(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = run(dir, args);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A node in its own process, killed at the end of the test.
struct Node {
    name: &'static str,
    child: Child,
    log: Receiver<String>,
    seen: Vec<String>,
    /// Number of lines that earlier steps have used.
    used: Vec<usize>,
}

impl Node {
    fn start(dir: &Path, name: &'static str, args: &[&str]) -> Self {
        let all = [&["node", "--name", name, "--cluster-listen", "127.0.0.1:0"], args].concat();
        let mut child = rusm(dir, &all).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, log) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { name, child, log, seen: Vec::new(), used: Vec::new() }
    }

    /// Waits for a line with all of these words, which no earlier step has waited for.
    fn wait(&mut self, words: &[&str]) -> String {
        let until = Instant::now() + DEADLINE;
        let mut next = 0;
        loop {
            while let Some(line) = self.seen.get(next) {
                if !self.used.contains(&next) && words.iter().all(|word| line.contains(word)) {
                    self.used.push(next);
                    return line.clone();
                }
                next += 1;
            }
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.log.recv_timeout(left) else {
                panic!("node {} did not say {words:?}: {:#?}", self.name, self.seen)
            };
            self.seen.push(line);
        }
    }

    /// Waits until the node listens for others, and returns its address.
    fn address(&mut self) -> String {
        let line = self.wait(&[PART]);
        let (_, rest) = line.split_once("address=\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends the node, and returns its exit code.
    fn ended_by(mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        self.wait(&["node has stopped"]);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the boot id in a line about a connection.
fn boot(line: &str) -> String {
    line.split_once("boot=").unwrap().1.split_whitespace().next().unwrap().to_owned()
}

fn status(dir: &Path, name: &str) -> Value {
    let output = run(dir, &["cluster", "status", "--name", name, "--json"]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the state of a peer, and the number of lost connections.
fn peer(status: &Value, name: &str) -> (String, u64) {
    let peer = status["peers"].as_array().unwrap().iter().find(|peer| peer["name"] == name).unwrap();
    (peer["state"].as_str().unwrap().to_owned(), peer["downs"].as_u64().unwrap())
}

/// Lets a node leave. Returns true if another node has heard it, and false if that one has lost it instead.
fn leaves(dir: &Path, name: &str, other: &str) -> bool {
    let left = run(dir, &["cluster", "leave", "--name", name]);
    let said = String::from_utf8_lossy(&left.stdout);
    assert!(said.contains("everything sent was acknowledged"), "{left:?}");
    if said.contains("not everything") {
        return false;
    }
    loop {
        match &*peer(&status(dir, other), name).0 {
            "up" => std::thread::yield_now(),
            state => return state == "left",
        }
    }
}

#[test]
fn three_nodes_join_and_notice_one_that_is_killed_one_that_hangs_and_one_that_leaves() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let mut a = Node::start(dir, "a", &[]);
    let seed = a.address();
    let mut b = Node::start(dir, "b", &["--join", &seed]);
    let mut c = Node::start(dir, "c", &["--join", &seed]);
    let first_of_b = boot(&a.wait(&[CONNECTED, "peer=b"]));
    let first_of_c = boot(&a.wait(&[CONNECTED, "peer=c"]));
    // They have only joined `a`.
    b.wait(&[CONNECTED, "peer=c"]);
    c.wait(&[CONNECTED, "peer=b"]);
    let joined = status(dir, "a");
    assert_eq!((joined["link"].as_str(), joined["encrypted"].as_bool()), (Some("zenoh tcp"), Some(false)));
    assert_eq!((peer(&joined, "b"), peer(&joined, "c")), (("up".to_owned(), 0), ("up".to_owned(), 0)));

    let drained = run(dir, &["cluster", "drain", "--name", "b"]);
    assert!(drained.status.success());
    assert_eq!(status(dir, "b")["draining"], true);

    c.kill();
    a.wait(&[LOST, "peer=c"]);
    b.wait(&[LOST, "peer=c"]);
    assert_eq!(peer(&status(dir, "a"), "c"), ("down".to_owned(), 1));
    let mut c = Node::start(dir, "c", &["--join", &seed]);
    c.wait(&[CONNECTED, "peer=b"]);
    assert_ne!(boot(&a.wait(&[CONNECTED, "peer=c"])), first_of_c, "another life of the node");

    b.signal(Signal::STOP);
    a.wait(&[LOST, "peer=b"]);
    b.signal(Signal::CONT);
    assert_eq!(boot(&a.wait(&[CONNECTED, "peer=b"])), first_of_b, "the same life");

    // On a busy machine, two nodes may take each other as silent just then, and no good-bye gets through: try again.
    while !leaves(dir, "c", "a") {
        assert_eq!(c.ended_by(Signal::TERM), Some(0));
        c = Node::start(dir, "c", &["--join", &seed]);
        c.wait(&[CONNECTED, "peer=a"]);
    }
    assert_eq!(c.ended_by(Signal::TERM), Some(0));
    assert_eq!(a.ended_by(Signal::TERM), Some(0));
}

#[test]
fn nodes_connect_again_although_the_one_through_which_they_met_has_ended() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let mut a = Node::start(dir, "a", &[]);
    let join = ["--join", &a.address()];
    let mut b = Node::start(dir, "b", &join);
    let mut c = Node::start(dir, "c", &join);
    c.wait(&[CONNECTED, "peer=b"]);
    b.wait(&[CONNECTED, "peer=c"]);

    c.signal(Signal::STOP);
    b.wait(&[LOST, "peer=c"]);
    a.kill();
    c.signal(Signal::CONT);

    c.wait(&[LOST, "peer=b"]);
    for (node, other) in [(&mut b, "peer=c"), (&mut c, "peer=b")] {
        node.wait(&[CONNECTED, other]);
    }
}

#[test]
fn an_observer_through_another_node_is_named_in_the_audit_log() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let mut a = Node::start(dir, "a", &[]);
    let mut b = Node::start(dir, "b", &["--join", &a.address()]);
    a.wait(&[CONNECTED, "peer=b"]);
    let mut observer = loop {
        match UnixStream::connect(dir.join("rusm/b@a.sock")) {
            Ok(socket) => break socket,
            Err(_) => std::thread::yield_now(),
        }
    };

    let head = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: rusm.v1\r\n\r\n";
    observer.write_all(head.as_bytes()).unwrap();
    observer.read_exact(&mut [0; 12]).unwrap();
    let command = br#"{"type":"stop"}"#;
    // A text frame with an empty mask.
    observer.write_all(&[&[0x81, 0x80 | command.len() as u8, 0, 0, 0, 0], &command[..]].concat()).unwrap();

    let client = format!("process {} on node a\"", std::process::id());
    let line = b.wait(&["rusm::audit", "Stop"]);
    assert!(line.contains(&client), "{line}");
}

#[test]
fn nodes_with_certificates_of_one_authority_join_and_others_do_not() {
    let (temp, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, foreign) = (temp.path(), other.path());
    let created = run(dir, &["cluster", "init", "--node", "a=127.0.0.1", "--node", "b=127.0.0.1"]);
    assert!(created.status.success(), "{created:?}");
    assert!(run(foreign, &["cluster", "init", "--node", "d=127.0.0.1"]).status.success());
    let mut a = Node::start(dir, "a", &["--cluster-certificates", "cluster"]);
    let seed = a.address();
    let mut b = Node::start(dir, "b", &["--cluster-certificates", "cluster", "--join", &seed]);
    let mut d = Node::start(foreign, "d", &["--cluster-certificates", "cluster", "--join", &seed]);

    a.wait(&[CONNECTED, "peer=b"]);
    b.wait(&[CONNECTED, "peer=a"]);
    d.wait(&["no other node was reached yet"]);

    let joined = status(dir, "a");
    assert_eq!((joined["link"].as_str(), joined["encrypted"].as_bool()), (Some("zenoh quic"), Some(true)));
    assert_eq!(joined["peers"].as_array().map(Vec::len), Some(1), "{joined}");
    assert_eq!(status(foreign, "d")["peers"].as_array().map(Vec::len), Some(0));
    b.kill();
    a.wait(&[LOST, "peer=b"]);
}

#[test]
fn what_cannot_join_is_refused_with_one_line() {
    let (temp, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, elsewhere) = (temp.path(), other.path());
    let mut a = Node::start(dir, "a", &[]);
    let seed = a.address();
    // A node of the same user, whose sockets are elsewhere.
    let secret = |dir: &Path| dir.join("rusm/cluster.secret");
    DirBuilder::new().mode(0o700).create(elsewhere.join("rusm")).unwrap();
    std::fs::copy(secret(dir), secret(elsewhere)).unwrap();
    let again = ["node", "--name", "a", "--cluster-listen", "127.0.0.1:0", "--join", &seed];
    let taken = ["node", "--name", "b", "--cluster-listen", &seed];
    let open = ["node", "--name", "b", "--cluster-listen", "10.0.0.5"];
    let far = ["node", "--name", "b", "--join", "10.0.0.4"];

    let init = ["cluster", "init", "--node", "a=10.0.0.4", "--dir"];
    let no_folder = [&init[..], &["/dev/null/x"]].concat();
    let no_name = [&init[..], &["x", "--cluster", ""]].concat();
    for (args, expected, wanted) in [
        (&again[..], 2, "a node named a is in the cluster already: choose another --name"),
        (&taken, 2, "Address already in use (os error 98): choose an address with --cluster-listen"),
        (&open, 2, "10.0.0.5:7447 is not a loopback address: a node without certificates stays on this machine"),
        (&far, 2, "10.0.0.4:7447 is not a loopback address: a node without certificates stays on this machine"),
        (&["cluster", "status", "--name", "nobody"], 3, "node \"nobody\" is not in a cluster on this machine"),
        (&["cluster", "init", "--node", "x"], 2, "--node x: must be NAME=ADDRESS, such as a=10.0.0.4"),
        (&no_folder, 1, "cannot access /dev/null/x: Not a directory"),
        (&no_name, 2, "the name of a cluster must have 1 to 64 bytes"),
    ] {
        let (code, line) = refusal(elsewhere, args);
        assert_eq!((code, line.contains(wanted), line.lines().count()), (Some(expected), true, 1), "{args:?}: {line}");
    }
}

#[test]
fn clients_of_the_socket_that_say_nothing_or_are_gone_delay_and_change_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let mut a = Node::start(dir, "a", &["--join", "[::1]"]);
    a.address();
    let client = || UnixStream::connect(dir.join("rusm/a.cluster")).unwrap();

    // One after the other, they would take more time than a command waits.
    let silent: Vec<UnixStream> = (0..8).map(|_| client()).collect();
    assert_eq!(status(dir, "a")["name"], "a");
    a.signal(Signal::STOP);
    for command in ["drain", "leave"] {
        writeln!(client(), "{command}").unwrap();
    }
    a.signal(Signal::CONT);
    assert_eq!(status(dir, "a")["draining"], false);

    let mut asking = client();
    asking.write_all(b"status\n").unwrap();
    let mut answer = String::new();
    asking.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("}\n"), "the node closes the connection after its answer: {answer}");

    assert_eq!(a.ended_by(Signal::TERM), Some(0));
    drop(silent);
}

//! Compares the servers of rusm with plain ones, in turn and from outside of their process.
//!
//! ```text
//! peers-serving [ROUNDS [SECONDS [CASE...]]]     6 rounds of 3 s of all cases: http, ws, sse, tcp
//! peers-serving serve CASE SERVER                one server; prints its port, and ends with its standard input
//! peers-serving serve all rusm                   requests, events and WebSockets; drains at SIGTERM, for tests/hostile
//! ```
//!
//! Each turn starts a server as a process of its own, loads it, and reads the CPU time of that process: the figure that
//! does not depend on the client, and hardly on other programs of the machine.

mod load;
mod peers;
mod ours;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Schedulers, or worker threads, of each server.
pub const THREADS: usize = 2;
/// Bytes of a response, of a message and of an event.
pub const PAYLOAD_BYTES: usize = 64;
/// Time of load before a turn is measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// Cases with their servers; the first one is ours.
const CASES: [(&str, &str, &[&str]); 4] = [
    ("http", "request", &["rusm", "rusm-inline", "hyper"]),
    ("ws", "round trip", &["rusm", "tungstenite", "fastwebsockets"]),
    ("sse", "event", &["rusm", "hyper"]),
    ("tcp", "connection", &["rusm", "tokio"]),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, case, server] = &arguments[..]
        && command == "serve"
    {
        return serve(case, server);
    }
    let number = |at: usize, default| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (rounds, seconds) = (number(0, 6), number(1, 3));
    let wanted = arguments.get(2..).unwrap_or_default();
    for (case, operation, servers) in CASES {
        if wanted.is_empty() || wanted.iter().any(|name| name == case) {
            compare(case, operation, servers, rounds, Duration::from_secs(seconds));
        }
    }
}

/// Runs a server until the standard input ends.
fn serve(case: &str, server: &str) {
    // Ends the program with its parent, whatever becomes of that.
    std::thread::spawn(|| {
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        std::process::exit(0);
    });
    let ready = |port: u16| {
        println!("{port}");
        std::io::stdout().flush().expect("the parent reads the port");
    };
    match server {
        "rusm" | "rusm-inline" => ours::serve(case, server, ready),
        _ => peers::serve(case, server, ready),
    }
}

/// Figures of a turn.
struct Turn {
    per_sec: f64,
    cpu_ns: f64,
}

fn compare(case: &str, operation: &str, servers: &[&str], rounds: u64, time: Duration) {
    let mut turns: Vec<Vec<Turn>> = servers.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for at in 0..servers.len() {
            // Every other round backwards, so that a drift of the machine affects all alike.
            let at = if round % 2 == 0 { at } else { servers.len() - 1 - at };
            turns[at].push(turn(case, servers[at], time));
        }
    }
    println!("{case}, {rounds} turns of {} s each", time.as_secs());
    let ours = median(turns[0].iter().map(|turn| turn.cpu_ns));
    for (server, turns) in servers.iter().zip(&turns) {
        let of = |figure: fn(&Turn) -> f64| turns.iter().map(figure);
        let cpu = median(of(|turn| turn.cpu_ns));
        println!(
            "  {server:15} {:9.0} /s   CPU of a {operation} {cpu:6.0} ns ({:.0} to {:.0})   ÷ rusm's {:.2}",
            median(of(|turn| turn.per_sec)),
            of(|turn| turn.cpu_ns).fold(f64::MAX, f64::min),
            of(|turn| turn.cpu_ns).fold(0.0, f64::max),
            cpu / ours,
        );
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

fn turn(case: &str, server: &str, time: Duration) -> Turn {
    let mut child = Server::start(case, server);
    let load = load::Load::start(case, child.port);
    std::thread::sleep(WARM_UP);
    let (ops, cpu, start) = (load.count(), child.cpu(), Instant::now());
    std::thread::sleep(time);
    let (ops, cpu, took) = (load.count() - ops, child.cpu() - cpu, start.elapsed());
    load.stop();
    drop(child.process.stdin.take());
    child.process.wait().expect("the server is a child of this process");
    assert!(ops > 0, "no operations of {server}");
    Turn { per_sec: ops as f64 / took.as_secs_f64(), cpu_ns: cpu.as_nanos() as f64 / ops as f64 }
}

struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start(case: &str, server: &str) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut process = Command::new(program)
            .args(["serve", case, server])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut line).expect("a line");
        Self { port: line.trim().parse().expect("the server prints its port"), process }
    }

    /// Returns the CPU time of all its threads. None of them ends during a turn.
    fn cpu(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).expect("the server runs");
        let of_task = |task: std::fs::DirEntry| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        };
        Duration::from_nanos(tasks.filter_map(|task| of_task(task.ok()?)).sum())
    }
}

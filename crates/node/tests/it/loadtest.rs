//! `rusm loadtest` from a user's point of view.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Starts a server that answers each request at once, on one thread per connection; returns its address.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    loop {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        head.extend_from_slice(&buffer[..len]);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        }
    }
}

fn rusm(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rusm"));
    command.current_dir(dir).env_clear().env("XDG_RUNTIME_DIR", dir).env("XDG_DATA_HOME", dir).stdin(Stdio::null());
    command.arg("loadtest").args(args).output().unwrap()
}

/// The shortest possible run.
const SHORT: [&str; 4] = ["--warm-up", "100ms", "--connections", "4"];

#[test]
fn a_load_can_be_made_once_more_from_its_report_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{}/x", server());
    let args = ["http", &url, "--rate", "200", "--for", "300ms", "--runs", "2", "--output", "a.json"];

    let text = rusm(dir.path(), &[&args, &SHORT[..]].concat());
    let again = rusm(dir.path(), &["--from", "a.json", "--json"]);

    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("loadtest-http · open loop") && text.contains("pacer"), "{text}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(dir.path().join("a.json")).unwrap()).unwrap();
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((again["kind"].as_str(), &again["recipe"]), (Some("loadtest"), &report["recipe"]));
    assert_eq!(
        (again["recipe"]["params"]["url"].as_str(), again["runs"].as_array().map(Vec::len)),
        (Some(&*url), Some(2))
    );
    std::fs::write(dir.path().join("b.json"), again.to_string()).unwrap();
    let mut compare = Command::new(env!("CARGO_BIN_EXE_rusm"));
    let compared = compare.current_dir(dir.path()).args(["bench", "compare", "a.json", "b.json"]).output().unwrap();
    assert!(String::from_utf8_lossy(&compared.stdout).contains("latency_ns_p99"), "{compared:?}");
}

#[test]
fn the_highest_rate_is_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{}/", server());
    let args = ["http", &url, "--find-max", "--slo", "p99=60s", "--max-errors", "3%", "--json", "--svg", "c.svg"];

    // On a busy machine a short run may get no answer.
    let found = ["200ms", "2s", "8s"].into_iter().find_map(|time| {
        let output = rusm(dir.path(), &[&args[..], &["--for", time], &SHORT].concat());
        serde_json::from_slice::<Value>(&output.stdout).ok()
    });

    let found = found.expect("there are answers");
    assert!(
        found["capacity_per_sec"].as_f64() > Some(0.0) && found["levels"].as_array().unwrap().len() >= 3,
        "{found}"
    );
    assert!(dir.path().join("c.svg").exists());
}

#[test]
fn mistakes_get_one_line_and_the_right_code() {
    let dir = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = format!("http://{free}/");
    std::fs::write(dir.path().join("empty.json"), "").unwrap();
    for (args, wanted, wanted_code) in [
        (&["http", &gone, "--rate", "-5"][..], "rate of -5 is not between", 2),
        (&["http", &gone, "--rate", "5", "--connections", "0"], "connections of 0 is not between 1 and 100000", 2),
        (&["http", &gone, "--rate", "5", "--connections", "-3"], "connections of -3 is not between 1 and 100000", 2),
        (&["http", &gone], "no load is given: use --rate R, --max or --find-max", 2),
        (&["http", "gopher://x", "--max"], "\"gopher://x\" is not a valid URL", 2),
        (&["conn", "wss://x/", "--max"], "is encrypted: this load test supports only ws://", 2),
        (&["udp", &gone, "--max"], "udp", 2),
        (&["http"], "missing", 2),
        (&["http", &gone, "--max", "--runs", "0"], "0 runs are not between 1 and 1000", 2),
        (
            &["http", &gone, "--find-max", "--max-errors", "-3%"],
            "--max-errors of \"-3%\" must be between 0% and 100%",
            2,
        ),
        (&["tcp", "tcp://127.0.0.1:1", "--max", "--payload", "lots"], "--payload of \"lots\" must be a size", 2),
        (&["--from", "empty.json"], "empty.json is empty, not a report", 2),
        (&["http", &gone, "--max"], "cannot connect: ", 3),
    ] {
        let output = rusm(dir.path(), args);

        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), line.lines().count()), (Some(wanted_code), 1), "{args:?}: {line}");
        assert!(line.contains(wanted), "{args:?}: {line}");
    }
}

//! `rusm cluster init`, `status`, `drain` and `leave`.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rusm_cluster::certificates::{self, CertificateError, NodeAddresses};
use rusm_console::runtime_dir;
use rusm_text::{escape_json_into, escaped};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde_json::Value;

use super::control::socket;
use super::private_socket::read_line;
use crate::cli::cluster::{ClusterCommand, NodeFlag};
use crate::failure::{Failure, system};

/// Time within which a node has to answer: more than a leave takes.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Pause while too many clients wait for a node.
const CONNECT_AGAIN: Duration = Duration::from_millis(50);
/// Maximum length of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;

pub(crate) fn run(command: ClusterCommand) -> Result<u8, Failure> {
    match command {
        ClusterCommand::Init { nodes, dir, cluster, days } => init(&nodes, &dir, &cluster, days),
        ClusterCommand::Status { node, json } => {
            let status = ask(&node, "status")?;
            if !json {
                return print(&table(&status));
            }
            let mut line = String::new();
            escape_json_into(&mut line, &status.to_string());
            print(&format!("{line}\n"))
        }
        ClusterCommand::Drain { node } => {
            let answer = ask(&node, "drain")?;
            if answer["draining"] != true {
                return Err(unexpected(&node));
            }
            print(&format!("node {} starts no more processes for other nodes\n", escaped(&node.name)))
        }
        ClusterCommand::Leave { node } => {
            let answer = ask(&node, "leave")?;
            let all = answer["acknowledged"].as_bool().ok_or_else(|| unexpected(&node))?;
            let how = if all { "everything sent was acknowledged" } else { "not everything sent was acknowledged" };
            print(&format!("node {} has left its cluster: {how}\n", escaped(&node.name)))
                .map(|code| if all { code } else { 1 })
        }
    }
}

fn print(text: &str) -> Result<u8, Failure> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(system("write to stdout")(error)),
        _ => Ok(0),
    }
}

fn init(nodes: &[String], dir: &Path, cluster: &str, days: u32) -> Result<u8, Failure> {
    let nodes: Vec<NodeAddresses> = nodes.iter().map(|text| node(text)).collect::<Result<_, _>>()?;
    let written = certificates::create(dir, cluster, &nodes, days).map_err(|error| match error {
        CertificateError::File { path, source } => system(format!("access {}", escaped(path.display())))(source),
        error => Failure::Usage(error.to_string()),
    })?;
    let mut text = String::new();
    for file in &written {
        // Writing to a string does not fail.
        _ = writeln!(text, "{}", escaped(file.display()));
    }
    if let Some(first) = nodes.first() {
        _ = writeln!(
            text,
            "Start each node with its files: rusm node --name {} --cluster-listen {} --cluster-certificates {}",
            first.name,
            first.addresses[0],
            escaped(dir.display())
        );
    }
    print(&text)
}

/// Parses `NAME=ADDRESS[,ADDRESS]`.
fn node(text: &str) -> Result<NodeAddresses, Failure> {
    let wrong = |why: String| Failure::Usage(format!("--node {text}: {why}, such as a=10.0.0.4"));
    let (name, addresses) = text.split_once('=').ok_or_else(|| wrong("must be NAME=ADDRESS".to_owned()))?;
    let name = name.parse().map_err(|error| wrong(format!("{error}")))?;
    let addresses: Vec<String> = addresses.split(',').map(|address| address.trim().to_owned()).collect();
    if !addresses.iter().all(|address| is_address(address)) {
        return Err(wrong("an address is an IP address or a host name without a port".to_owned()));
    }
    Ok(NodeAddresses { name, addresses })
}

fn is_address(text: &str) -> bool {
    let is_host = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    is_host || text.parse::<std::net::IpAddr>().is_ok()
}

/// Sends a command to a node, and returns its answer.
fn ask(node: &NodeFlag, command: &str) -> Result<Value, Failure> {
    let dir = node.socket_dir.clone().filter(|dir| !dir.as_os_str().is_empty());
    let path = socket(&dir.unwrap_or_else(runtime_dir), &node.name);
    let until = Instant::now() + ANSWER_WITHIN;
    let silent =
        || Failure::Unreachable(format!("node {} has not answered within {} s", node.name, ANSWER_WITHIN.as_secs()));
    let mut stream = connect(&path, until).map_err(|error| match error.kind() {
        // Too many clients wait for it.
        io::ErrorKind::WouldBlock => silent(),
        _ => Failure::Unreachable(format!(
            "node {:?} is not in a cluster on this machine ({}: {error}): start it with rusm node --cluster",
            node.name,
            path.display()
        )),
    })?;
    let ended = || Failure::Unreachable(format!("node {} has ended before it answered", node.name));
    let failed = || system(format!("ask node {}", node.name));
    let mut ask = || {
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        writeln!(stream, "{command}")?;
        read_line(&mut stream, ANSWER_BYTES_MAX, until)
    };
    let answer = ask().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => silent(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => ended(),
        _ => failed()(error),
    })?;
    if answer.is_empty() {
        return Err(ended());
    }
    let Ok(answer) = serde_json::from_str::<Value>(&answer) else { return Err(unexpected(node)) };
    match answer["error"].as_str() {
        Some(error) => Err(Failure::Answer(format!("node {}: {}", node.name, escaped(error)))),
        None => Ok(answer),
    }
}

/// Connects to a node. While too many clients wait for it, this tries again.
fn connect(path: &Path, until: Instant) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match net::connect(&socket, &address) {
            Ok(()) => {
                let stream = UnixStream::from(socket);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(Errno::AGAIN) if Instant::now() < until => std::thread::park_timeout(CONNECT_AGAIN),
            Err(error) => return Err(error.into()),
        }
    }
}

fn unexpected(node: &NodeFlag) -> Failure {
    Failure::Answer(format!(
        "node {} has given an answer that rusm does not understand: is it of this version?",
        node.name
    ))
}

/// Returns the status as a table.
fn table(status: &Value) -> String {
    let text = |value: &Value| escaped(value.as_str().unwrap_or("-")).to_string();
    let number = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string());
    let endpoints: Vec<String> = status["endpoints"].as_array().into_iter().flatten().map(text).collect();
    let mut out = format!(
        "{} · {}{} · {}{}\n",
        text(&status["name"]),
        text(&status["link"]),
        if status["encrypted"] == true { ", encrypted" } else { "" },
        endpoints.join(" "),
        if status["draining"] == true { " · draining" } else { "" },
    );
    _ = writeln!(
        out,
        "{:<20} {:<10} {:>9} {:>9} {:>12} {:>12} {:>6}",
        "NODE", "STATE", "RTT µs", "IN DOUBT", "SENT", "RECEIVED", "LOST"
    );
    for peer in status["peers"].as_array().into_iter().flatten() {
        let rtt = peer["rtt_ns"].as_u64().map_or_else(|| "-".to_owned(), |ns| (ns / 1_000).to_string());
        _ = writeln!(
            out,
            "{:<20} {:<10} {rtt:>9} {:>9} {:>12} {:>12} {:>6}",
            text(&peer["name"]),
            text(&peer["state"]),
            number(&peer["in_doubt_frames"]),
            number(&peer["messages_out"]),
            number(&peer["messages_in"]),
            number(&peer["downs"]),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_node_is_one_and_nothing_else() {
        for address in ["10.0.0.4", "fe80::1", "a-1.example_org"] {
            assert!(node(&format!("a={address}")).is_ok(), "{address}");
        }
        for address in ["", "a b", "\u{1b}[31m", "10.0.0.4:7447", "a\nb", "é"] {
            assert!(node(&format!("a={address}")).is_err(), "{address:?}");
        }
    }
}

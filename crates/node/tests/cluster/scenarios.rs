//! Scenarios of several nodes: each of them is a program, and none is left behind.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{DEADLINE, run, rusm};

/// Runs a scenario once, and returns its report.
fn run_report(dir: &Path, id: &str, duration: &str, params: &[&str]) -> Value {
    let mut args = vec!["bench", "run", id, "--runs", "1", "--json", "--no-history", "--warm-up", "100ms"];
    args.extend(["--for", duration, "--schedulers", "2"]);
    args.extend(params.iter().flat_map(|param| ["--param", param]));
    let output = run(dir, &args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    let report = document["runs"][0].clone();
    assert_eq!(report["error"], Value::Null, "{report:#}");
    report
}

/// Returns the rows of a table, each as pairs of column and value.
fn rows(report: &Value, title: &str) -> Vec<serde_json::Map<String, Value>> {
    let tables = report["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["title"].as_str().unwrap().starts_with(title)).unwrap();
    let names: Vec<&str> =
        table["columns"].as_array().unwrap().iter().map(|column| column["name"].as_str().unwrap()).collect();
    let row = |row: &Value| names.iter().map(|name| (*name).to_owned()).zip(row.as_array().unwrap().clone()).collect();
    table["rows"].as_array().unwrap().iter().map(row).collect()
}

fn number(row: &serde_json::Map<String, Value>, name: &str) -> u64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row:?}")) as u64
}

/// Returns true if a program exists, and has not ended.
fn exists(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Returns the programs that a program has started.
fn children(id: u32) -> BTreeSet<String> {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < until, "{what} did not happen");
        std::thread::yield_now();
    }
}

#[test]
fn each_message_of_a_fan_out_to_other_nodes_is_answered_and_the_nodes_end_with_the_run() {
    let temp = tempfile::tempdir().unwrap();

    for params in
        [&["nodes=2", "subscribers=3", "senders=2", "window=4", "payload=1KiB"][..], &["nodes=1", "subscribers=1"]]
    {
        let report = run_report(temp.path(), "distributed-fanout", "300ms", params);

        let account = &rows(&report, "Loss account")[0];
        assert_eq!(report["errors_total"], 0, "{report:#}");
        assert!(number(account, "sent") > 0 && report["ops_total"].as_u64() > Some(0), "{report:#}");
        assert_eq!((number(account, "lost"), number(account, "out of order or changed")), (0, 0));
        assert!(rows(&report, "Round trip of the transport").iter().all(|row| number(row, "p50") > 0));
        let nodes = rows(&report, "Nodes");
        assert_eq!(nodes.len(), params[0].trim_start_matches("nodes=").parse::<usize>().unwrap());
        for node in nodes {
            assert!(number(&node, "messages out") > 0 && number(&node, "messages in") > 0, "{node:?}");
            assert!(!exists(node["process id"].as_str().unwrap()), "{node:?}");
        }
    }
}

#[test]
fn the_nodes_of_a_run_end_although_its_program_is_killed() {
    let temp = tempfile::tempdir().unwrap();
    let args = ["bench", "run", "distributed-fanout", "--runs", "1", "--for", "1h", "--no-history"];
    let mut program = rusm(temp.path(), &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut nodes = BTreeSet::new();
    eventually("the nodes of the run", || {
        nodes = children(program.id());
        nodes.len() == 2
    });

    kill_process(Pid::from_child(&program), Signal::KILL).unwrap();
    program.wait().unwrap();

    eventually("the end of the nodes", || !nodes.iter().any(|id| exists(id)));
}

#[test]
fn keys_of_drained_nodes_move_without_a_failed_call_and_those_of_killed_nodes_fail_with_a_word() {
    let temp = tempfile::tempdir().unwrap();

    for event in ["drain", "kill"] {
        let event_of = format!("event={event}");
        let params = [&*event_of, "nodes=2", "keys=300", "callers=4", "every=100ms"];
        let report = run_report(temp.path(), "keyed-failover", "3s", &params);

        let calls = &rows(&report, "Calls")[0];
        assert!(number(calls, "acknowledged") > 600, "{report:#}");
        for column in ["unanswered", "lost", "carried out twice"] {
            assert_eq!(number(calls, column), 0, "{event}, {column}: {report:#}");
        }
        let events = rows(&report, "Events");
        assert!(!events.is_empty() && events.iter().all(|event| number(event, "keys") > 0), "{report:#}");
        if event == "drain" {
            assert_eq!(number(calls, "failed with an error") + number(calls, "lost with a killed node"), 0);
            assert_eq!(report["errors_total"], 0);
        }
    }
}

//! Export to a collector, which is a small server of HTTP in the test.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use rustix::process::Signal;
use serde_json::Value;

use super::{Served, failure};

/// Accepts what a node exports; each request is its path and its body.
fn collector() -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = channel();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                loop {
                    let (mut line, mut length) = (String::new(), 0);
                    stream.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
                    let path = line.split(' ').nth(1)?.to_owned();
                    while line.trim_end() != "" {
                        line.clear();
                        stream.read_line(&mut line).ok()?;
                        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                            length = value.trim_end().parse().ok()?;
                        }
                    }
                    let mut body = vec![0; length];
                    stream.read_exact(&mut body).ok()?;
                    sender.send((path, serde_json::from_slice(&body).unwrap())).ok()?;
                    stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").ok()?;
                }
                #[expect(unreachable_code, reason = "gives the closure its type")]
                Some(())
            });
        }
    });
    (endpoint, received)
}

/// Returns the value of an attribute as text.
fn attribute<'a>(record: &'a Value, key: &str) -> Option<&'a str> {
    let attributes = record["attributes"].as_array()?;
    attributes.iter().find(|attribute| attribute["key"] == key)?["value"]["stringValue"].as_str()
}

fn write_config(dir: &Path, endpoint: &str) {
    fs::create_dir_all(dir.join("site")).unwrap();
    fs::write(dir.join("site/index.html"), "hello").unwrap();
    let text = format!(
        "[node]\nname = \"shop\"\n[log]\nlevel = \"info,rusm::process=debug\"\n[otlp]\nendpoint = \"{endpoint}\"\n\
         [[serve]]\nlisten = \"127.0.0.1:0\"\n\
         [[serve.route]]\npattern = \"GET /*\"\nfolder = \"site\"\n"
    );
    fs::write(dir.join("rusm.toml"), text).unwrap();
}

#[test]
fn metrics_logs_and_spans_of_processes_are_exported_until_the_node_has_ended() {
    let (dir, (endpoint, received)) = (tempfile::tempdir().unwrap(), collector());
    write_config(dir.path(), &endpoint);
    let mut served = Served::start(dir.path(), &["serve"]);
    assert_eq!(served.get("/").0, 200);
    served.signal(Signal::TERM);
    assert_eq!(served.ended(), Some(0));

    let (mut logs, mut spans, mut metrics) = (Vec::new(), Vec::new(), Vec::new());
    // The collector has answered whatever it received before the node ended.
    while let Ok((path, body)) = received.try_recv() {
        let (found, keys) = match path.as_str() {
            "/v1/logs" => (&mut logs, ["resourceLogs", "scopeLogs", "logRecords"]),
            "/v1/traces" => (&mut spans, ["resourceSpans", "scopeSpans", "spans"]),
            "/v1/metrics" => (&mut metrics, ["resourceMetrics", "scopeMetrics", "metrics"]),
            other => panic!("{other}"),
        };
        let resource = &body[keys[0]][0]["resource"];
        assert_eq!(attribute(resource, "service.name"), Some("shop"));
        found.extend(body[keys[0]][0][keys[1]][0][keys[2]].as_array().unwrap().clone());
    }
    let bodies: Vec<&str> = logs.iter().filter_map(|record| record["body"]["stringValue"].as_str()).collect();
    for text in ["node is up", "node has stopped"] {
        assert!(bodies.iter().any(|body| body.starts_with(text)), "{text}: {bodies:#?}");
    }
    let of_process = |span: &Value| span["name"] == "process" && attribute(span, "pid").is_some();
    assert!(spans.iter().any(of_process), "{spans:#?}");

    let metric = |name: &str| metrics.iter().find(|metric| metric["name"] == name);
    let point = |metric: &Value, kind: &str| metric[kind]["dataPoints"][0].clone();
    let requests = metric("http.server.request.duration").unwrap_or_else(|| panic!("{metrics:#?}"));
    assert_eq!((requests["unit"].as_str(), point(requests, "histogram")["count"].as_str()), (Some("s"), Some("1")));
    let spawned = point(metric("rusm_processes_spawned").unwrap(), "sum");
    assert!(spawned["asInt"].as_str().unwrap().parse::<u64>().unwrap() >= 2, "{spawned}");
    assert_eq!(metric("rusm_resident_memory_bytes").unwrap()["unit"], "By");
}

#[test]
fn a_collector_that_is_down_ends_no_node_and_is_logged_once() {
    let dir = tempfile::tempdir().unwrap();
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    write_config(dir.path(), &format!("http://{free}"));
    let mut served = Served::start(dir.path(), &["serve"]);
    let line = served.wait("export fails");
    assert!(line.contains("cannot connect") && line.contains(&free.to_string()), "{line}");
    assert_eq!(served.get("/").0, 200);
    served.signal(Signal::TERM);
    assert_eq!(served.ended(), Some(0));
    let rest: Vec<String> = served.log.iter().filter(|line| line.contains("export fails")).collect();
    // Each of the three signals says it once.
    assert!(rest.len() <= 2, "{rest:#?}");
}

#[test]
fn a_wrong_setting_of_the_export_is_one_line_of_rusm_check() {
    let dir = tempfile::tempdir().unwrap();
    write_config(dir.path(), "collector:4318");
    let (code, line) = failure(dir.path(), &["check", "rusm.toml"]);
    assert_eq!(code, Some(2));
    assert!(line.contains("the OTLP endpoint \"collector:4318\" must be an address such as"), "{line}");
}

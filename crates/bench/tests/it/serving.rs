//! Scenarios of serving with parameters that are not their defaults, and what they leave behind.

use std::time::{Duration, Instant};

use rusm_bench::{Cell, HeadlessOptions, Report, Request, run_headless_on};
use rusm_runtime::{Config, Runtime};

use crate::WARM_UP;

fn run(runtime: &Runtime, scenario: &str, params: &[(&str, &str)]) -> Report {
    let pairs = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let request = Request { scenario: scenario.to_owned(), params: pairs.collect(), ..Request::default() };
    let mut duration = Duration::from_millis(300);
    loop {
        let options = HeadlessOptions { duration, warm_up: WARM_UP, ..HeadlessOptions::new(request.clone()) };
        let report = run_headless_on(runtime, &options).expect("the request is valid and there is room");
        // On a busy machine a short run may end before its first operation.
        if report.ops_total > 0 || report.error.is_some() || duration >= Duration::from_mins(1) {
            assert_eq!((&report.error, report.errors_total, report.dropped_total), (&None, 0, 0), "{report}");
            return report;
        }
        duration *= 4;
    }
}

fn number(report: &Report, table: &str, column: &str) -> f64 {
    let table = report.tables.iter().find(|known| known.title == table).expect("the table is there");
    let column = table.columns.iter().position(|known| known.name == column).expect("the column is there");
    let Cell::Number(number) = table.rows[0][column] else { panic!("{report}") };
    number
}

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start")
}

/// Waits until the runtime has no processes.
fn becomes_empty(runtime: &Runtime) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while runtime.process_count() > 0 {
        assert!(Instant::now() < deadline, "{} processes are left", runtime.process_count());
        std::thread::yield_now();
    }
}

#[test]
fn responses_of_any_size_are_read_whole_and_the_server_counts_the_same() {
    let runtime = runtime();
    for body in ["0", "1", "100KiB"] {
        let report = run(&runtime, "http-throughput", &[("connections", "5"), ("body", body)]);

        let served = number(&report, "The server's own account", "2xx");
        assert!(served >= report.ops_total as f64, "{report}");
        assert!(number(&report, "The server's own account", "other") < 1.0, "{report}");
        becomes_empty(&runtime);
    }
}

#[test]
fn guests_in_three_languages_answer_requests_and_messages() {
    let runtime = runtime();
    for (twin, handler) in [("", Some("rust")), ("", Some("c")), ("-ts", None)] {
        let handler: Vec<_> = handler.map(|language| ("handler", language)).into_iter().collect();
        for instances in ["request", "connection", "pool"] {
            let params = [&[("connections", "3"), ("body", "1000"), ("instances", instances)], &handler[..]].concat();
            run(&runtime, &format!("http-throughput{twin}"), &params);
            becomes_empty(&runtime);
        }
        run(&runtime, &format!("ws-echo{twin}"), &[&[("connections", "3")], &handler[..]].concat());
        becomes_empty(&runtime);
    }
}

#[test]
fn messages_of_any_size_are_echoed() {
    let runtime = runtime();
    for message in ["0", "125", "126", "65536", "1MiB"] {
        run(&runtime, "ws-echo", &[("connections", "3"), ("message", message)]);

        becomes_empty(&runtime);
    }
}

#[test]
fn every_event_reaches_every_stream_whatever_the_window() {
    let runtime = runtime();
    for (streams, window) in [("1", "1"), ("7", "100"), ("30", "2")] {
        let params = [("streams", streams), ("window", window), ("payload", "1000")];
        let report = run(&runtime, "sse-fanout", &params);

        let received = number(&report, "Loss account", "received");
        assert!(received >= report.ops_total as f64, "{report}");
        becomes_empty(&runtime);
    }
}

#[test]
fn every_event_reaches_every_stream_of_a_guest() {
    let runtime = runtime();
    for (streams, window) in [("1", "1"), ("7", "20")] {
        let params = [("streams", streams), ("window", window), ("payload", "1000")];
        let report = run(&runtime, "sse-fanout-ts", &params);

        let received = number(&report, "Loss account", "received");
        assert!(received >= report.ops_total as f64, "{report}");
        becomes_empty(&runtime);
    }
}

#[test]
fn a_storm_holds_a_share_of_its_connections() {
    let runtime = runtime();
    let peak = |hold: &str| {
        let params = [("clients", "4"), ("hold", hold), ("payload", "3000")];
        let report = run(&runtime, "connection-storm", &params);
        becomes_empty(&runtime);
        number(&report, "The server's own account", "open at once, at most")
    };

    let (none, all) = (peak("0"), peak("100"));

    // A connection that its client has left may still be open on the server's side.
    assert!(all >= 8.0 && none < all, "{none} {all}");
}

#[test]
fn held_connections_are_counted_and_all_answer() {
    let runtime = runtime();
    for protocol in ["websocket", "http"] {
        let report = run(&runtime, "connection-scale", &[("connections", "70"), ("protocol", protocol)]);

        let of = |column| number(&report, "Connections held", column);
        assert_eq!((of("target"), of("held"), of("answered 3 pings")), (70.0, 70.0, 70.0), "{report}");
        becomes_empty(&runtime);
    }
}

//! Collectors that are down, slow, or reject what arrives.

use std::fmt::{Debug, Write as _};
use std::net::TcpListener;
use std::sync::Once;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusm_otlp::{Exporter, OtlpConfig, QUEUE_RECORDS_MAX, Signal};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt;

use crate::collector::{Answer, Collector, DEADLINE, OK, config};

/// Lines that exporters of this program have logged.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Lines;

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                write!(self.0, " {field}={value:?}").unwrap();
            }
        }
        if event.metadata().target() == "rusm::otlp" {
            let mut text = Text(event.metadata().level().to_string());
            event.record(&mut text);
            LINES.lock().push(text.0);
        }
    }
}

/// Keeps what exporters log: their threads have the global subscriber.
fn keep_lines() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| registry().with(Lines).init());
}

/// Logs `count` lines that are exported.
fn log(exporter: &Exporter, count: usize) {
    tracing::subscriber::with_default(registry().with(exporter.layer()), || {
        for number in 0..count {
            tracing::info!(number, "line");
        }
    });
}

fn wait(mut is_done: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_done() {
        assert!(Instant::now() < end, "not in time");
        std::thread::yield_now();
    }
}

#[test]
fn records_outlive_a_collector_that_is_down_and_the_log_says_so_once() {
    keep_lines();
    // A port on which nothing listens until later.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let exporter = Exporter::start(&config(&format!("http://{address}"))).unwrap();
    log(&exporter, 1);
    wait(|| exporter.counters(Signal::Logs).failures >= 3);
    let about = || {
        let lines = LINES.lock();
        lines.iter().filter(|line| line.contains(&address.to_string())).cloned().collect::<Vec<_>>()
    };
    assert_eq!(about().len(), 1, "{:?}", about());
    assert!(about()[0].starts_with("WARN") && about()[0].contains("cannot connect"), "{:?}", about());

    let collector = Collector::on(TcpListener::bind(address).unwrap(), |_, _| OK);
    let request = collector.first("/v1/logs");
    assert_eq!(request.body["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap().len(), 1);
    assert!(exporter.stop(DEADLINE));
    let counters = exporter.counters(Signal::Logs);
    assert_eq!((counters.exported, counters.dropped), (1, 0));
    assert_eq!(about().len(), 1, "failures are logged once");
}

#[test]
fn a_batch_is_sent_again_after_503_with_the_pause_that_the_collector_asks_for() {
    let collector = Collector::start(|number, _| match number {
        0 => Answer::Status(503, "retry-after: 1\r\n", ""),
        1 => Answer::Status(429, "", "slow down"),
        _ => OK,
    });
    let exporter = Exporter::start(&OtlpConfig { traces: false, ..collector.config() }).unwrap();
    let before = Instant::now();
    log(&exporter, 1);
    let received = collector.wait(|received| received.len() == 3);
    assert!(before.elapsed() >= Duration::from_secs(1), "Retry-After was respected");
    assert!(received.iter().all(|request| request.body == received[0].body), "the same batch");
    assert!(exporter.stop(DEADLINE));
    let counters = exporter.counters(Signal::Logs);
    assert_eq!((counters.exported, counters.dropped, counters.failures), (1, 0, 2));
}

#[test]
fn what_the_collector_rejects_is_dropped_and_counted_and_the_next_batch_is_sent() {
    keep_lines();
    let collector = Collector::start(|number, _| match number {
        0 => Answer::Status(400, "", "no"),
        1 => {
            Answer::Status(200, "", "{\"partialSuccess\":{\"rejectedLogRecords\":\"1\",\"errorMessage\":\"too old\"}}")
        }
        _ => OK,
    });
    let exporter = Exporter::start(&collector.config()).unwrap();
    for requests in 1..=3 {
        log(&exporter, 1);
        collector.wait(|received| received.len() == requests);
    }
    assert!(exporter.stop(DEADLINE));
    let counters = exporter.counters(Signal::Logs);
    assert_eq!((counters.exported, counters.dropped, counters.failures), (1, 2, 1));
}

#[test]
fn a_silent_collector_stops_neither_the_program_nor_the_end_of_the_exporter() {
    let collector = Collector::start(|_, _| Answer::Silence);
    let exporter = Exporter::start(&collector.config()).unwrap();
    log(&exporter, 1);
    collector.first("/v1/logs");

    // The thread waits for an answer; the queue fills and then drops.
    let count = QUEUE_RECORDS_MAX + 100;
    log(&exporter, count);
    assert_eq!(exporter.counters(Signal::Logs).dropped, 100);
    let before = Instant::now();
    assert!(!exporter.stop(Duration::from_millis(50)), "records were lost");
    assert!(before.elapsed() < DEADLINE);
    assert_eq!(exporter.counters(Signal::Logs).dropped, count as u64 + 1, "all of them are counted");
}

#[test]
fn an_answer_that_does_not_come_in_time_is_a_failure_and_the_batch_is_sent_again() {
    let collector = Collector::start(|number, _| if number == 0 { Answer::Silence } else { OK });
    let exporter = Exporter::start(&OtlpConfig { timeout: Duration::from_millis(50), ..collector.config() }).unwrap();
    log(&exporter, 1);
    let received = collector.wait(|received| received.len() == 2);
    assert_eq!(received[0].body, received[1].body);
    // The time limit is short, so that an answer may be late again.
    wait(|| exporter.counters(Signal::Logs).exported == 1);
    assert!(exporter.counters(Signal::Logs).failures >= 1);
}

//! Metrics of the application: found by name, bounded, and counted without loss.

use std::time::Duration;

use rusm_runtime::metrics::{METRICS_MAX, MetricError, MetricValue, OTHER, SECONDS, SERIES_MAX};
use rusm_runtime::{Config, Runtime, observe};

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start")
}

#[test]
fn metrics_are_counted_by_processes_and_threads_and_read_together() {
    let runtime = runtime();
    let metrics = runtime.metrics();
    let hits = metrics.counter_with("shop_hits", "Hits", ["page", "status"]).unwrap();
    let home = hits.with(["home", "200"]);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (hits, runtime) = (hits.clone(), runtime.metrics());
            std::thread::spawn(move || {
                let own = runtime.counter_with("shop_hits", "Hits", ["page", "status"]).unwrap();
                for _ in 0..1_000 {
                    own.with(["home", "200"]).inc();
                    hits.with(["cart", "500"]).add(2);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!((home.get(), hits.with(["cart", "500"]).get()), (4_000, 8_000));

    runtime.block_on(|ctx| async move {
        let baskets = ctx.metrics().gauge("shop_baskets", "Baskets").unwrap();
        baskets.set(2.5);
        baskets.add(-1.0);
        assert!((baskets.get() - 1.5).abs() < f64::EPSILON);
        let times = ctx.metrics().histogram("shop_seconds", "Times", &[0.01, 0.1]).unwrap();
        for millis in [1, 10, 50, 2_000] {
            times.observe_duration(Duration::from_millis(millis));
        }
        assert_eq!(times.count(), 4);
    });

    let reports = observe::metrics(&runtime);
    let names: Vec<&str> = reports.iter().map(|report| &*report.name).collect();
    assert_eq!(names, ["shop_baskets", "shop_hits", "shop_seconds"]);
    assert_eq!(reports[0].series[0].1, MetricValue::Gauge(1.5));
    let MetricValue::Histogram { sum, buckets } = &reports[2].series[0].1 else { panic!("{reports:?}") };
    assert_eq!(buckets.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [2, 1, 1]);
    assert!((sum - 2.061).abs() < 1e-9 && buckets[2].0.is_infinite());
}

#[test]
fn names_kinds_labels_and_bounds_are_checked_when_given() {
    let runtime = runtime();
    let metrics = runtime.metrics();
    metrics.counter("orders", "Orders").unwrap();
    assert_eq!(metrics.counter_with("a-b", "", []).unwrap_err(), MetricError::Name { name: "a-b".to_owned() });
    for name in ["", "1x", "rusm_x", "http_x", "ü"] {
        assert!(matches!(metrics.gauge(name, ""), Err(MetricError::Name { .. })), "{name}");
    }
    assert!(matches!(metrics.gauge("orders", ""), Err(MetricError::Taken { .. })));
    assert!(matches!(metrics.counter_with("orders", "", ["kind"]), Err(MetricError::Taken { .. })));
    assert!(metrics.counter("orders_total", "the same, with its suffix").is_ok());
    assert_eq!(observe::metrics(&runtime).len(), 1);
    for bounds in [&[][..], &[2.0, 1.0], &[f64::NAN], &[1.0, f64::INFINITY]] {
        assert!(matches!(metrics.histogram("times", "", bounds), Err(MetricError::Bounds { .. })), "{bounds:?}");
    }
    metrics.histogram("times", "", SECONDS).unwrap();
    assert!(matches!(metrics.histogram("times", "", &[1.0]), Err(MetricError::Taken { .. })));
}

#[test]
fn what_would_break_the_text_of_all_metrics_is_refused_or_left_out() {
    let runtime = runtime();
    let metrics = runtime.metrics();
    let orders = metrics.counter("orders", "Two\nlines").unwrap();
    let times = metrics.histogram("times", "", &[1.0]).unwrap();
    metrics.gauge("open_count", "").unwrap();

    assert_eq!(&*observe::metrics(&runtime)[1].help, "Two lines");
    for name in ["orders_created", "times_count", "times_sum", "times_bucket", "times_created"] {
        assert!(matches!(metrics.gauge(name, ""), Err(MetricError::Taken { .. })), "{name}");
    }
    assert!(matches!(metrics.gauge("orders_total", ""), Err(MetricError::Taken { .. })));
    assert!(matches!(metrics.histogram("open", "", &[1.0]), Err(MetricError::Taken { .. })));
    assert!(matches!(metrics.counter_with("a", "", ["x", "x"]), Err(MetricError::Label { .. })));
    assert!(matches!(metrics.histogram_with("a", "", &[1.0], ["le"]), Err(MetricError::Label { .. })));
    assert!(matches!(metrics.gauge_with("a", "", ["__name__"]), Err(MetricError::Name { .. })));
    for value in [f64::NAN, -5.0, 0.5] {
        times.observe(value);
    }
    assert_eq!((orders.get(), times.count()), (0, 1));
}

#[test]
fn label_values_and_metrics_are_bounded() {
    let runtime = runtime();
    let metrics = runtime.metrics();
    let users = metrics.counter_with("users", "By user", ["user"]).unwrap();
    for user in 0..SERIES_MAX + 500 {
        users.with([&user.to_string()]).inc();
    }
    users.with([&"x".repeat(10_000)]).inc();
    users.with(["7"]).inc();
    assert_eq!((users.with([OTHER]).get(), users.with(["7"]).get()), (501, 2));
    assert_eq!(observe::metrics(&runtime)[0].series.len(), SERIES_MAX + 1);

    for number in 1..METRICS_MAX {
        metrics.counter(&format!("metric_{number}"), "").unwrap();
    }
    assert_eq!(metrics.counter("one_too_many", "").unwrap_err(), MetricError::Full);
}

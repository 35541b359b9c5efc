//! Runs every scenario briefly and checks its counts, and that it leaves nothing behind.

use std::time::{Duration, Instant};

use rusm_bench::{HeadlessOptions, Report, Request, catalogue, run_headless_on};
use rusm_runtime::{Config, Runtime, observe};

use crate::WARM_UP;

/// Scenarios that start the program rusm again: `crates/node/tests/cluster.rs` runs them.
const OF_SEVERAL_PROGRAMS: [&str; 2] = ["distributed-fanout", "keyed-failover"];

/// Returns the scenarios that a test can run.
fn scenarios() -> impl Iterator<Item = &'static dyn rusm_bench::Scenario> {
    catalogue().iter().copied().filter(|scenario| !OF_SEVERAL_PROGRAMS.contains(&scenario.card().id))
}

fn runtime() -> Runtime {
    let config = Config { schedulers: 2, ..Config::default() };
    Runtime::start(config).expect("two schedulers start")
}

fn run(runtime: &Runtime, request: &Request) -> Report {
    let takes_turns = catalogue().iter().any(|known| known.card().id == request.scenario && known.takes_turns());
    let mut duration = Duration::from_millis(if takes_turns { 1_000 } else { 300 });
    loop {
        let options = HeadlessOptions { duration, warm_up: WARM_UP, ..HeadlessOptions::new(request.clone()) };
        let report = run_headless_on(runtime, &options).expect("the request is valid and there is room");
        // On a busy machine few turns begin and end in this time, and only a sample of them is timed: repeat for longer
        // until there is one.
        let is_timed = report.latency.as_ref().is_none_or(|latency| latency.distribution.count > 0);
        let is_started = report.open_loop.as_ref().is_none_or(|open| open.lag.count > 0);
        let is_measured = report.ops_total > 0 && is_timed && is_started;
        if is_measured || report.error.is_some() || duration >= Duration::from_mins(1) {
            return report;
        }
        duration *= 4;
    }
}

fn request(scenario: &str, params: &[(&str, &str)]) -> Request {
    let pairs = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Request { scenario: scenario.to_owned(), params: pairs.collect(), ..Request::default() }
}

/// Waits until this number of processes is left: a run is over shortly before the slot of its driver process is free.
fn leaves(runtime: &Runtime, processes: usize) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while runtime.process_count() != processes as u64 {
        assert!(Instant::now() < deadline, "{} processes are left", runtime.process_count());
        std::thread::yield_now();
    }
}

/// Checks what holds for every run.
fn assert_sound(runtime: &Runtime, report: &Report) {
    assert_eq!(report.error, None, "{report}");
    assert_eq!(report.errors_total, 0, "{report}");
    // Some scenarios that compare cases drop operations that are late by a whole tick.
    assert!(report.dropped_total == 0 || report.takes_turns, "{report}");
    assert!(report.ops_total > 0 && report.cpu_ns_per_op.is_some_and(|ns| ns > 0.0), "{report}");
    leaves(runtime, 0);
    let latency = report.latency.as_ref().expect("these scenarios have a latency");
    let seen = &latency.distribution;
    assert!(seen.count > 0 && seen.min_ns > 0, "{report}");
    assert!(seen.p50_ns <= seen.p99_ns && seen.p99_ns <= seen.p999_ns && seen.p999_ns <= seen.max_ns, "{report}");
}

fn every_scenario_does_something_and_leaves_nothing_behind(profile: &str) {
    let runtime = runtime();
    for scenario in scenarios() {
        let report = run(&runtime, &Request { profile: Some(profile.to_owned()), ..request(scenario.card().id, &[]) });

        assert_sound(&runtime, &report);
    }
}

#[test]
fn every_scenario_does_something_and_leaves_nothing_behind_in_the_light_profile() {
    every_scenario_does_something_and_leaves_nothing_behind("light");
}

#[test]
fn every_scenario_does_something_and_leaves_nothing_behind_in_the_balanced_profile() {
    every_scenario_does_something_and_leaves_nothing_behind("balanced");
}

#[test]
fn every_scenario_does_something_and_leaves_nothing_behind_in_the_profile_max() {
    every_scenario_does_something_and_leaves_nothing_behind("max");
}

#[test]
fn every_scenario_keeps_the_schedule_of_an_open_loop() {
    let runtime = runtime();
    for scenario in scenarios().filter(|scenario| !scenario.takes_turns()) {
        let begun = Instant::now();

        let report = run(&runtime, &Request { rate_per_sec: Some(20_000.0), ..request(scenario.card().id, &[]) });

        assert_sound(&runtime, &report);
        let open = report.open_loop.expect("a rate makes an open loop");
        // Operations that the machine delayed before the measurement are done during it.
        let due = open.offered_per_sec * begun.elapsed().as_secs_f64();
        assert!(open.lag.count > 0 && (report.ops_total as f64) < 1.5 * due, "{report}");
    }
}

#[test]
fn guests_take_the_place_of_native_processes() {
    let runtime = runtime();
    let requests = [
        request("ping-pong", &[("body", "module"), ("pairs", "3"), ("payload", "70KiB")]),
        request("parked", &[("body", "module"), ("processes", "1000")]),
        request("topic-herd", &[("publishers", "guests"), ("herd", "100")]),
        request("parked", &[("body", "empty-module"), ("processes", "9000")]),
        request("fairness", &[("body", "module"), ("bystanders", "8")]),
        request("module-storm", &[("memory", "0"), ("burst", "1")]),
        request("module-storm", &[("memory", "17")]),
        request("module-storm", &[("form", "wasip1")]),
        request("fan-in", &[("mailbox", "unbounded")]),
        request("component-storm", &[("memory", "0")]),
        request("component-storm", &[("memory", "17")]),
        request("crypto-ops", &[("language", "rust")]),
        request("crypto-ops", &[("language", "c"), ("request", "bytes"), ("bytes", "1000")]),
    ];
    for request in requests {
        let report = run(&runtime, &request);

        assert_sound(&runtime, &report);
    }
}

#[test]
fn the_store_keeps_what_it_acknowledges_whatever_its_durability() {
    let runtime = runtime();
    for params in [
        [("durability", "immediate"), ("group", "on")],
        [("durability", "immediate"), ("group", "off")],
        [("durability", "eventual"), ("group", "on")],
        [("durability", "none"), ("group", "on")],
    ] {
        let report = run(&runtime, &request("kv-storm", &[&params[..], &[("keys", "50"), ("value", "1KiB")]].concat()));

        assert_sound(&runtime, &report);
        let number = |name: &str| number(&report, name);
        assert!(number("acknowledged") >= report.ops_total as f64 && number("lost") == 0.0, "{report}");
        if params[1].1 == "off" {
            assert!((number("updates/commit") - 1.0).abs() < 1e-9, "{report}");
        }
    }
}

/// Returns a number in the first row of the first table.
fn number(report: &Report, name: &str) -> f64 {
    let table = &report.tables[0];
    let column = table.columns.iter().position(|column| column.name == name);
    let cell = &table.rows[0][column.expect("the column is there")];
    if let rusm_bench::Cell::Number(number) = cell { *number } else { panic!("{name} is {cell:?}") }
}

#[test]
fn a_herd_of_web_socket_clients_comes_and_leaves_with_each_message_once() {
    let runtime = runtime();

    let report = run(&runtime, &request("topic-herd", &[("publishers", "websockets"), ("herd", "50")]));

    assert_sound(&runtime, &report);
    let lost = number(&report, "published") - number(&report, "received");
    assert!(lost == 0.0 && number(&report, "published") >= 50.0, "{report}");
}

#[test]
fn a_topic_on_disk_says_how_many_messages_shared_a_sync() {
    let runtime = runtime();
    for (params, shared) in [
        ([("durability", "immediate"), ("publishers", "1"), ("batch", "1")], Some(1.0)),
        ([("durability", "immediate"), ("publishers", "1"), ("batch", "50")], Some(50.0)),
        ([("durability", "immediate"), ("publishers", "64"), ("batch", "1")], Some(64.0)),
        ([("durability", "none"), ("publishers", "64"), ("batch", "1")], None),
    ] {
        let report = run(&runtime, &request("topic-durable", &params));

        assert_sound(&runtime, &report);
        let number = |name: &str| number(&report, name);
        assert!(number("messages") >= report.ops_total as f64, "{report}");
        // Messages of one commit are at most those that all publishers wait for; acknowledgements may have their own
        // commits.
        if let Some(shared) = shared {
            assert!(number("messages/sync") <= shared && number("messages/commit") <= shared, "{report}");
        }
        assert_eq!(report.tables[1].title, "Loss account", "{report}");
    }
}

#[test]
fn threads_that_are_pinned_do_their_work_all_the_same() {
    let runtime = runtime();
    let requests = [
        request("timer-jitter", &[("pin", "yes"), ("load", "quiet"), ("hz", "1000")]),
        // At these rates some modes would spin for longer than a period.
        request("timer-jitter", &[("load", "quiet"), ("hz", "48000")]),
        request("timer-jitter", &[("load", "quiet"), ("hz", "100000")]),
        request("timer-tasks", &[("pin", "yes"), ("most", "10")]),
        request("ring-contention", &[("pin", "yes"), ("readers", "2"), ("wait", "park-lazy")]),
    ];
    for request in requests {
        let report = run(&runtime, &request);

        assert_sound(&runtime, &report);
    }
}

#[test]
fn cases_that_take_turns_with_other_work_beside_have_a_table_for_each() {
    let runtime = runtime();
    for (scenario, load, beside) in [
        ("ring-size", "both", &[", without background load", ", with two endless loops for each core"][..]),
        ("ring-size", "busy", &[", with two endless loops for each core"]),
        ("timer-jitter", "quiet", &[", without background load"]),
    ] {
        let report = run(&runtime, &request(scenario, &[("load", load)]));

        assert_sound(&runtime, &report);
        assert_eq!(report.tables.len(), beside.len(), "{report}");
        assert!(report.tables.iter().zip(beside).all(|(table, beside)| table.title.ends_with(beside)), "{report}");
    }
}

#[test]
fn a_slow_reader_is_waited_for_evicted_or_moved_on_by_the_policy() {
    let runtime = runtime();
    // In the eviction case the slow reader takes 5 ms for a chunk, several times the time that an evicting ring waits.
    for (policy, slower) in [("lossless", "1000"), ("evict", "4000"), ("lossy", "1000")] {
        let report = run(&runtime, &request("ring-slow", &[("policy", policy), ("slower", slower)]));

        assert_sound(&runtime, &report);
        let (table, [row]) = (&report.tables[0], &report.tables[0].rows[..]) else { panic!("{report}") };
        let cell = |name: &str| {
            let column = table.columns.iter().position(|column| column.name == name);
            &row[column.expect("the column is there")]
        };
        let is_some = |name| matches!(cell(name), rusm_bench::Cell::Number(number) if *number > 0.0);
        assert_eq!((is_some("evicted"), is_some("slow missed")), (policy == "evict", policy == "lossy"), "{report}");
        let waits_for_none = matches!(cell("writer waits for"), rusm_bench::Cell::Text(words) if words == "none");
        assert!(policy != "lossless" || !waits_for_none, "{report}");
    }
}

#[test]
fn without_preemption_bystanders_wait_for_a_whole_second() {
    let runtime = runtime();
    let request = request("fairness", &[("preemption", "off"), ("bystanders", "4")]);
    let options =
        HeadlessOptions { duration: Duration::from_secs(2), warm_up: WARM_UP, ..HeadlessOptions::new(request) };

    let report = run_headless_on(&runtime, &options).expect("the request is valid");

    assert_sound(&runtime, &report);
    let longest = report.tables[0].columns.iter().position(|column| column.name == "longest gap");
    let longest = &report.tables[0].rows[0][longest.expect("the column is there")];
    assert!(matches!(longest, rusm_bench::Cell::Number(ns) if *ns > 5e8), "{report}");
}

#[test]
fn payloads_arrive_as_they_were_sent() {
    let runtime = runtime();
    for (scenario, parameter) in [("ping-pong", "pairs"), ("fan-in", "producers")] {
        for payload in ["1", "17", "4KiB"] {
            let report = run(&runtime, &request(scenario, &[(parameter, "3"), ("payload", payload)]));

            assert_sound(&runtime, &report);
        }
    }
}

#[test]
fn every_crash_is_restarted_and_no_child_is_lost_whatever_the_strategy_and_the_cause() {
    let runtime = runtime();
    for strategy in ["one-for-one", "one-for-all", "rest-for-one"] {
        for cause in ["exit", "panic", "trap"] {
            let before = observe::supervision(&runtime);
            let params = [("supervisors", "3"), ("children", "5"), ("strategy", strategy), ("cause", cause)];

            let report = run(&runtime, &request("fault-recovery", &params));

            assert_sound(&runtime, &report);
            let after = observe::supervision(&runtime);
            let restarts = after.restarts - before.restarts;
            assert!(restarts > 0 && (strategy != "one-for-one" || restarts >= report.ops_total), "{after:?} {report}");
            assert_eq!((after.restarts_failed, after.children_lost, after.gave_up), (0, 0, 0), "{report}");
        }
    }
}

#[test]
fn a_storm_stays_below_its_cap_and_a_batch_of_each_spawner() {
    let runtime = runtime();

    let report = run(&runtime, &request("spawn-storm", &[("spawners", "3"), ("live-cap", "100")]));

    assert_sound(&runtime, &report);
    let (cap, spawners, batch) = (2 * 100, 3, 64);
    assert!(report.processes_peak <= cap + spawners * batch + spawners + 1, "{report}");
}

#[test]
fn a_storm_with_more_spawners_than_its_cap_goes_on() {
    let runtime = runtime();

    let report = run(&runtime, &request("spawn-storm", &[("spawners", "1024"), ("live-cap", "64")]));

    assert_sound(&runtime, &report);
    assert!(report.ops_total > 0, "{report}");
}

#[test]
fn a_burst_bounds_what_is_alive_and_without_one_the_cap_does() {
    let config = Config { schedulers: 1, ..Config::default() };
    let runtime = Runtime::start(config).expect("one scheduler starts");
    let peak = |burst: &str| {
        let params = [("spawners", "1"), ("live-cap", "500"), ("burst", burst)];
        let report = run(&runtime, &Request { profile: Some("max".to_owned()), ..request("spawn-storm", &params) });
        assert_sound(&runtime, &report);
        report.processes_peak
    };

    let (small, none) = (peak("10"), peak("1M"));

    // On one scheduler, children run only while the spawner yields. A count read from another thread may be too high by
    // the number of processes that end meanwhile, hence the margin above 12 and 566.
    assert!(small < 400, "{small}");
    assert!((500..1_000).contains(&none), "{none}");
}

#[test]
fn processes_that_were_there_before_stay_and_are_not_counted_against_the_cap() {
    let runtime = runtime();
    let parked: Vec<_> = (0..500)
        .map(|_| {
            let body = |ctx: rusm_runtime::Context| async move { drop(ctx.receive().await) };
            runtime.spawn(body).expect("there is room")
        })
        .collect();

    let report = run(&runtime, &request("spawn-storm", &[("live-cap", "64")]));

    assert!(report.error.is_none() && report.ops_total > 0, "{report}");
    assert!(parked.iter().all(|pid| runtime.is_alive(*pid)));
    leaves(&runtime, 500);
}

#[test]
fn parked_processes_are_renewed_one_for_one() {
    let runtime = runtime();

    let report = run(&runtime, &request("parked", &[("processes", "2k")]));

    assert_sound(&runtime, &report);
    assert!(report.ops_total > 2_000 && report.processes_peak >= 2_000, "{report}");
}

#[test]
fn more_parked_processes_than_the_node_has_room_for_are_refused_in_one_line() {
    let config = Config { schedulers: 1, process_limit: 5_000, ..Config::default() };
    let runtime = Runtime::start(config).expect("one scheduler starts");

    let report = run(&runtime, &request("parked", &[("processes", "5k")]));

    let error = report.error.expect("5,000 and the spawner are more than the limit");
    assert!(error.starts_with("5000 processes are too many for this node, which has room for 5000"), "{error}");
}

#[test]
fn a_runtime_without_room_is_a_failed_run_and_no_panic() {
    let config = Config { schedulers: 1, process_limit: 100, ..Config::default() };
    let runtime = Runtime::start(config).expect("one scheduler starts");

    let report = run(&runtime, &request("fan-in", &[("producers", "5000")]));

    let error = report.error.expect("5,000 processes are more than the limit");
    assert!(error.contains("process limit"), "{error}");
    leaves(&runtime, 0);
}

//! The engine as used by a console.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rusm_bench::{Engine, Request, SteadyRule};
use rusm_console::{Host, RunSnapshot};
use rusm_protocol::ErrorCode;
use rusm_runtime::{Config, ExitReason, Pid, Runtime, observe};

fn idle_engine() -> (Runtime, Engine) {
    let config = Config { schedulers: 2, ..Config::default() };
    let runtime = Runtime::start(config).expect("two schedulers start");
    let rule = SteadyRule { min: Duration::from_millis(100), max: Duration::from_millis(200) };
    let engine = Engine::with_rule(runtime.clone(), rule).expect("a thread starts");
    (runtime, engine)
}

/// Polls until `wanted` holds, for at most two minutes.
fn see(engine: &Engine, wanted: impl Fn(&RunSnapshot) -> bool) -> RunSnapshot {
    let deadline = Instant::now() + Duration::from_mins(2);
    loop {
        let seen = engine.sample();
        if wanted(&seen) {
            return seen;
        }
        assert!(Instant::now() < deadline, "{seen:?}");
        std::thread::yield_now();
    }
}

/// Waits until no process is left: a run is over shortly before the slot of its driver process is free.
fn see_empty(runtime: &Runtime) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while runtime.process_count() > 0 {
        assert!(Instant::now() < deadline, "{} processes are left", runtime.process_count());
        std::thread::yield_now();
    }
}

#[test]
fn a_node_is_idle_and_balanced_at_first() {
    let (_runtime, engine) = idle_engine();

    let seen = engine.sample();

    assert_eq!((seen.scenario, seen.run_id, seen.ops), (None, 0, 0));
    assert_eq!(seen.profile, "balanced");
    assert_eq!(engine.profiles().len(), 3);
    assert!(engine.scenarios().iter().all(|scenario| scenario.real && scenario.details.len() >= 3));
}

#[test]
fn a_run_warms_up_measures_and_stops_without_a_trace() {
    let (runtime, engine) = idle_engine();

    engine.run("ping-pong", &BTreeMap::new()).expect("it is in the catalogue");
    let warming = see(&engine, |seen| seen.scenario.is_some());
    let measured =
        see(&engine, |seen| seen.ops_measured > 0 && seen.latency_window.count > 0 && seen.latency.count > 0);
    engine.stop();
    let idle = see(&engine, |seen| seen.scenario.is_none());

    assert_eq!((warming.scenario.as_deref(), warming.run_id), (Some("ping-pong"), 1));
    assert!(!measured.warming_up && measured.ops >= measured.ops_measured);
    assert!(idle.ops >= measured.ops && idle.error.is_none());
    see_empty(&runtime);
}

#[test]
fn parked_processes_stay_until_the_run_is_stopped() {
    let (runtime, engine) = idle_engine();

    engine
        .run("parked", &[("processes".to_owned(), "5k".to_owned()), ("renew".to_owned(), "no".to_owned())].into())
        .expect("it is in the catalogue");
    let full = see(&engine, |seen| seen.ops >= 5_000);

    // Plus a spawner, and the driver process of the run.
    assert_eq!((full.ops, full.errors, runtime.process_count()), (5_000, 0, 5_002));
    engine.stop();
    let idle = see(&engine, |seen| seen.scenario.is_none());
    assert_eq!((idle.ops, idle.error), (5_000, None));
    see_empty(&runtime);
}

#[test]
fn parked_processes_end_with_a_spawner_that_somebody_ended() {
    let (runtime, engine) = idle_engine();
    engine
        .run("parked", &[("processes".to_owned(), "5k".to_owned()), ("renew".to_owned(), "no".to_owned())].into())
        .expect("it is in the catalogue");
    see(&engine, |seen| seen.ops >= 5_000);

    runtime.exit(labelled(&runtime, "spawner").expect("it has a label"), ExitReason::Killed);

    let idle = see(&engine, |seen| seen.scenario.is_none());
    assert!(idle.error.is_some_and(|error| error.ends_with("ended during the run: killed")));
    see_empty(&runtime);
}

#[test]
fn a_scenario_that_somebody_ended_leaves_nothing_behind() {
    let (runtime, engine) = idle_engine();
    for (scenario, params) in [
        ("parked", &[("processes", "5k"), ("renew", "no")][..]),
        ("ping-pong", &[("pairs", "50")]),
        ("spawn-storm", &[]),
        ("fault-recovery", &[("supervisors", "4")]),
    ] {
        let params = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        engine.run(scenario, &params).expect("it is in the catalogue");
        see(&engine, |seen| seen.scenario.as_deref() == Some(scenario) && seen.ops > 100);

        runtime.exit(labelled(&runtime, scenario).expect("it has a label"), ExitReason::Killed);

        let idle = see(&engine, |seen| seen.scenario.is_none());
        assert_eq!(idle.error.as_deref(), Some("the scenario failed: killed"), "{scenario}");
        // Workers that were asked to stop end in their next turn.
        see_empty(&runtime);
    }
}

/// Returns the process with this label.
fn labelled(runtime: &Runtime, label: &str) -> Option<Pid> {
    let mut found = None;
    for part in 0..observe::table_parts(runtime) {
        observe::for_each_process(runtime, part, |seen| {
            if observe::names(&seen).1.as_deref() == Some(label) {
                found = Some(seen.pid());
            }
        });
    }
    found
}

#[test]
fn another_run_replaces_the_one_before() {
    let (runtime, engine) = idle_engine();

    engine.run("spawn-storm", &BTreeMap::new()).expect("it is in the catalogue");
    see(&engine, |seen| seen.ops > 0);
    engine.run("fan-in", &[("producers".to_owned(), "2".to_owned())].into()).expect("it is in the catalogue");
    let second = see(&engine, |seen| seen.scenario.as_deref() == Some("fan-in") && seen.ops > 0);

    assert_eq!(second.run_id, 2);
    drop(engine);
    see_empty(&runtime);
}

#[test]
fn a_change_of_profile_restarts_the_run_with_its_parameters() {
    let (_runtime, engine) = idle_engine();

    engine.run("ping-pong", &[("pairs".to_owned(), "3".to_owned())].into()).expect("it is in the catalogue");
    see(&engine, |seen| seen.ops > 0);
    engine.set_profile("max").expect("it is a profile");
    let seen = see(&engine, |seen| seen.run_id == 2 && seen.ops > 0 && seen.peak_concurrent > 0);

    assert_eq!((seen.scenario.as_deref(), seen.profile.as_str()), (Some("ping-pong"), "max"));
    assert!(seen.peak_concurrent >= 7, "{seen:?}");
}

#[test]
fn a_profile_chosen_while_idle_is_for_the_next_run() {
    let (_runtime, engine) = idle_engine();

    engine.set_profile("light").expect("it is a profile");

    assert_eq!((engine.sample().profile.as_str(), engine.sample().run_id), ("light", 0));
}

#[test]
fn refusals_name_what_is_near_and_change_nothing() {
    let (_runtime, engine) = idle_engine();
    let refused = |scenario: &str, params: &[(&str, &str)]| {
        let pairs = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        engine.run(scenario, &pairs.collect()).expect_err("it is wrong")
    };

    let (scenario, parameter, value) =
        (refused("ping-pnog", &[]), refused("ping-pong", &[("pair", "1")]), refused("ping-pong", &[("pairs", "0")]));
    let profile = engine.set_profile("maximum").expect_err("it is wrong");

    assert_eq!(
        (scenario.code, parameter.code, value.code, profile.code),
        (ErrorCode::Unknown, ErrorCode::Unknown, ErrorCode::OutOfRange, ErrorCode::Unknown)
    );
    assert_eq!(scenario.message, r#"unknown scenario "ping-pnog": did you mean "ping-pong"?"#);
    assert_eq!(parameter.message, r#"unknown parameter "pair" of ping-pong: did you mean "pairs"?"#);
    assert_eq!(value.message, r#"pairs of "0" is not in auto, 1–100000"#);
    assert_eq!(profile.message, r#"unknown profile "maximum": did you mean "max"?"#);
    assert_eq!(engine.sample().run_id, 0);
}

#[test]
fn a_hundred_commands_in_a_row_end_in_what_was_asked_last() {
    let (runtime, engine) = idle_engine();

    for round in 0..50 {
        engine
            .run(if round % 2 == 0 { "ping-pong" } else { "fan-in" }, &BTreeMap::new())
            .expect("both are in the catalogue");
        engine.stop();
    }
    engine
        .request(&Request { scenario: "spawn-storm".to_owned(), rate_per_sec: Some(10_000.0), ..Request::default() })
        .expect("it is in the catalogue");
    let seen = see(&engine, |seen| seen.scenario.as_deref() == Some("spawn-storm") && seen.ops > 0);

    assert_eq!(seen.offered_per_sec.to_bits(), 10_000_f64.to_bits());
    engine.stop();
    see(&engine, |seen| seen.scenario.is_none());
    see_empty(&runtime);
}

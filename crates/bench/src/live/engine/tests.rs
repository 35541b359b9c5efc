//! Tests of the engine.

use std::time::Duration;

use rusm_runtime::{Config, Runtime};

use super::*;

#[test]
fn what_could_not_be_started_is_not_wanted_any_longer() {
    let config = Config { schedulers: 1, process_limit: 1, ..Config::default() };
    let runtime = Runtime::start(config).unwrap();
    while runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).is_ok() {}
    let (params, settings) = (BTreeMap::new(), RunSettings::default());
    let wish = Wish { scenario: "ping-pong", params: &params, settings: &settings, profile: Profile::Max };
    let measurement = Measurement::of(&wish, runtime.config(), |_| None).unwrap();
    let shared = Arc::new(EngineShared::default());
    let driver = |seen| Driver {
        handle: runtime.clone(),
        rule: SteadyRule::default(),
        shared: Arc::clone(&shared),
        seen,
        history: None,
        runs: 0,
    };

    shared.set_wanted(shared.lock(), Some(measurement.clone()));
    shared.set_wanted(shared.lock(), Some(measurement.clone()));
    driver(1).carry_out(&measurement);
    assert!(shared.lock().wanted.is_some(), "the newer request is kept");
    driver(2).carry_out(&measurement);

    let state = shared.lock();
    let error = state.last_error.clone().unwrap_or_default();
    assert!(state.wanted.is_none() && error.contains("limit"), "{error}");
}

fn idle_engine() -> (Runtime, Engine) {
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).unwrap();
    let rule = SteadyRule { min: Duration::from_millis(100), max: Duration::from_millis(200) };
    let engine = Engine::with_rule(runtime.clone(), rule).unwrap();
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

/// Waits until a paused run has had the same operations and the same clock for this long.
fn see_still(engine: &Engine, length: Duration) -> RunSnapshot {
    let mut first = see(engine, |seen| seen.paused);
    let mut since = Instant::now();
    loop {
        let is_same = |seen: &RunSnapshot| (seen.ops, seen.run_ms) == (first.ops, first.run_ms);
        let seen = see(engine, |seen| !is_same(seen) || since.elapsed() >= length);
        if is_same(&seen) {
            return seen;
        }
        (first, since) = (seen, Instant::now());
    }
}

#[test]
fn neither_operations_nor_the_clock_go_on_in_a_pause() {
    let pause = Duration::from_millis(300);
    for (scenario, rate_per_sec) in [("ping-pong", None), ("spawn-storm", Some(2_000.0)), ("counter-micro", None)] {
        let (_runtime, engine) = idle_engine();
        let began = Instant::now();
        let request = Request { scenario: scenario.to_owned(), rate_per_sec, ..Request::default() };
        engine.request(&request).unwrap();
        see(&engine, |seen| seen.ops > 0 && !seen.warming_up);

        engine.pause(true).unwrap();
        let paused = see_still(&engine, pause);
        engine.pause(false).unwrap();
        let continued = Instant::now();
        let after = see(&engine, |seen| !seen.paused && seen.ops > paused.ops);

        let run = Duration::from_millis(after.run_ms);
        assert!(run + pause <= began.elapsed(), "{scenario}: {run:?} of {:?}", began.elapsed());
        if let Some(rate) = rate_per_sec {
            // Nothing is made up for: the schedule has moved by the pause.
            let due = rate * continued.elapsed().as_secs_f64() + 16.0;
            assert!(((after.ops - paused.ops) as f64) <= due, "{} of {due}", after.ops - paused.ops);
        }
        engine.pause(true).unwrap();
        engine.stop();
        see(&engine, |seen| seen.scenario.is_none() && !seen.paused);
    }
}

#[test]
fn a_pause_is_refused_without_a_run_and_for_a_load_that_never_yields() {
    let (_runtime, engine) = idle_engine();

    let idle = engine.pause(true).unwrap_err();
    engine.run("fairness", &BTreeMap::new()).unwrap();
    see(&engine, |seen| seen.scenario.is_some());
    let never = engine.pause(true).unwrap_err();
    engine.stop();

    assert_eq!(idle.message, "no scenario runs: there is nothing to pause");
    assert_eq!(never.message, "fairness cannot be paused: a part of its load never yields; stop it");
    assert_eq!((idle.code, never.code), (ErrorCode::Failed, ErrorCode::Failed));
}

//! User-defined scenarios, and the effect of scenarios that misbehave.

use std::future::pending;
use std::time::{Duration, Instant};

use rusm_bench::{
    Card, Params, Plan, Profile, Report, RunContext, RunError, Scenario, ScenarioRun, Verdict, find, run_plan,
};
use rusm_runtime::{Config, Runtime};

use crate::WARM_UP;

#[derive(Clone, Copy, Debug)]
enum Odd {
    WorkerPanics,
    WorkerReturns,
    ScenarioPanics,
    ScenarioReturns,
    Lacks,
    DoesNothing,
    IgnoresTheStop,
}

#[derive(Debug)]
struct OddScenario(Odd);

impl Scenario for OddScenario {
    fn card(&self) -> Card {
        Card { id: "odd", parameters: &[], ..find("ping-pong").expect("it is in the catalogue").card() }
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            match self.0 {
                Odd::WorkerPanics => {
                    let worker = context.spawn_worker(|ctx| async move {
                        drop(ctx.receive().await);
                        panic!("odd worker");
                    })?;
                    context.runtime().try_send(worker, ()).expect("it waits");
                }
                Odd::WorkerReturns => drop(context.spawn_worker(|_| async {})?),
                Odd::ScenarioPanics => panic!("odd scenario"),
                Odd::ScenarioReturns => return Ok(()),
                Odd::Lacks => return Err(RunError::Lacks("needs a second machine".to_owned())),
                Odd::DoesNothing => {}
                Odd::IgnoresTheStop => drop(context.spawn_worker(|_| pending::<()>())?),
            }
            context.stopped().await
        })
    }
}

fn run(scenario: &'static OddScenario) -> Report {
    let config = Config { schedulers: 2, ..Config::default() };
    let runtime = Runtime::start(config).expect("two schedulers start");
    let plan = Plan { scenario, profile: Profile::Max, params: Params::default(), rate: None, seed: 1 };

    // The other scenarios end earlier by themselves; the long limit leaves a stalled machine enough time.
    let lasts = matches!(scenario.0, Odd::DoesNothing | Odd::IgnoresTheStop);
    let duration = if lasts { Duration::from_millis(200) } else { Duration::from_secs(20) };

    let report = run_plan(&runtime, plan, WARM_UP, duration).expect("it starts");

    // The run is over shortly before the slot of its driver process is free.
    let deadline = Instant::now() + Duration::from_mins(1);
    while runtime.process_count() > 0 {
        assert!(Instant::now() < deadline, "{report}");
        std::thread::yield_now();
    }
    assert_eq!(report.verdict, Verdict::Failed, "{report}");
    report
}

fn error(scenario: &'static OddScenario) -> String {
    run(scenario).error.expect("the run failed")
}

#[test]
fn a_worker_that_panics_ends_the_run_with_its_words() {
    let error = error(&OddScenario(Odd::WorkerPanics));

    assert!(error.starts_with("worker <") && error.contains("odd worker"), "{error}");
}

#[test]
fn a_worker_that_returns_too_soon_ends_the_run() {
    let error = error(&OddScenario(Odd::WorkerReturns));

    assert!(error.ends_with("ended during the run: normal") || error.ends_with("noproc"), "{error}");
}

#[test]
fn a_scenario_that_panics_is_a_failed_run() {
    let error = error(&OddScenario(Odd::ScenarioPanics));

    assert!(error.contains("odd scenario"), "{error}");
}

#[test]
fn a_scenario_that_returns_too_soon_is_a_failed_run() {
    assert!(error(&OddScenario(Odd::ScenarioReturns)).starts_with("the scenario ended by itself"));
}

#[test]
fn what_a_machine_lacks_is_said_in_one_line() {
    assert_eq!(error(&OddScenario(Odd::Lacks)), "needs a second machine");
}

#[test]
fn a_run_that_does_nothing_has_failed() {
    assert_eq!(run(&OddScenario(Odd::DoesNothing)).error, None);
}

#[test]
fn a_crew_that_does_not_end_by_itself_is_ended() {
    assert_eq!(run(&OddScenario(Odd::IgnoresTheStop)).error, None);
}

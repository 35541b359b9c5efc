//! Load tests of a server from outside: `rusm loadtest`.
//!
//! ```text
//!   Arrivals: one schedule for all ──▶ connection, a process ── request ──▶ server
//!      next arrival to a free connection ◀── answer ──┘   latency from the intended start, service from the actual one
//! ```
//!
//! A load is a scenario, so warm-up, intervals, percentiles, verdicts and the search for the highest rate work as for
//! all scenarios. Arrivals are assigned to free connections, with at most one in flight per connection. A stalled
//! request occupies one connection, so arrivals wait only while all connections are busy. Their latency starts at the
//! intended time and includes that wait.

mod arrivals;
mod connection;
mod dial;
mod h2;
mod held;
pub(crate) mod http;
mod options;
mod search;
mod socket;
mod sse;
mod tcp;
mod tls;
mod ws;

pub use options::{LoadError, LoadOptions, LoadProtocol};
pub use search::{SearchOptions, find_max};

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusm_protocol::Unit;
use rusm_runtime::Config;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::judge::scenario_system::ScenarioSystem;
use crate::measure::schedule::Rate;
use crate::parameter::Params;
use crate::report::Report;
use crate::report::document::{Document, DocumentKind};
use crate::report::machine::Machine;
use crate::run::headless::RUNS_MAX;
use crate::run::headless::{HeadlessError, check_duration, drive_plan};
use crate::run::plan::Plan;
use crate::run::profile::Profile;
use crate::run::recipe::Recipe;
use crate::scenario::{Scenario, ScenarioRun};

use arrivals::Arrivals;
use connection::{Faults, Worker};

/// A load test with valid options and a server that has answered a probe.
#[derive(Debug)]
pub struct Load {
    options: LoadOptions,
    plan: Plan,
    faults: Faults,
}

impl Load {
    /// Resolves the server's address and sends one probe.
    ///
    /// # Errors
    /// [`LoadError`] if the server cannot be reached or its answer is not as expected.
    pub fn prepare(options: LoadOptions) -> Result<Self, LoadError> {
        let target = options.target()?;
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let reactor = reactor.map_err(|source| LoadError::Reactor { source })?;
        let target = reactor.block_on(connection::probe(target))?;
        let faults = Faults::default();
        // Leaked on purpose: a plan needs a `'static` scenario, and a program makes only one plan per command.
        let scenario: &'static LoadScenario =
            Box::leak(Box::new(LoadScenario { target: Arc::new(target), faults: faults.clone() }));
        let plan = Plan { scenario, profile: Profile::Max, params: Params::default(), rate: None, seed: 1 };
        Ok(Self { options, plan, faults })
    }

    /// Checks the rate, the duration and the number of runs, without contacting the server.
    ///
    /// # Errors
    /// [`HeadlessError`] if one of them is out of range.
    pub fn check(recipe: &Recipe) -> Result<Option<Rate>, HeadlessError> {
        if !(1..=RUNS_MAX).contains(&recipe.runs) {
            return Err(HeadlessError::Runs { runs: recipe.runs });
        }
        check_duration(Duration::from_millis(recipe.duration_ms))?;
        let rate = recipe.rate_per_sec.map(Rate::from_per_sec).transpose();
        rate.map_err(|error| HeadlessError::Request(error.into()))
    }

    /// Runs the load as often as the recipe requests, in an open loop if the recipe has a rate.
    ///
    /// # Errors
    /// [`HeadlessError`] if nothing could be run.
    pub fn run(
        &self,
        recipe: &Recipe,
        runtime: &Config,
        mut seen: impl FnMut(u32, &Report),
    ) -> Result<Document, HeadlessError> {
        let rate = Self::check(recipe)?;
        let recipe = self.recipe(recipe);
        let (machine, options) = (Machine::look(), recipe.options(runtime));
        let mut runs = Vec::new();
        for number in 1..=recipe.runs {
            let report = drive_plan(Plan { rate, ..self.plan.clone() }, &options, |_| ())?;
            let report = Report { params: recipe.params.clone(), ..report };
            seen(number, &report);
            runs.push(report);
        }
        Ok(Document::of(DocumentKind::Loadtest, recipe, machine, runs))
    }

    /// Returns the kinds of failure with their counts, the most frequent first.
    pub fn faults(&self) -> Vec<(String, u64)> {
        self.faults.read()
    }

    /// Creates the system under test for a search for the highest rate.
    pub fn system(&self, recipe: &Recipe, runtime: Config) -> ScenarioSystem<'static> {
        ScenarioSystem::of_plan(self.plan.clone(), self.recipe(recipe), runtime)
    }

    /// Returns the scenario name used in reports.
    pub fn scenario(&self) -> &'static str {
        self.options.protocol.scenario()
    }

    /// Returns the label of the operations.
    pub fn ops_label(&self) -> &'static str {
        self.plan.scenario.card().ops_label
    }

    /// Returns the recipe that repeats this load: the given one with scenario and parameters filled in.
    pub fn recipe(&self, recipe: &Recipe) -> Recipe {
        Recipe { scenario: self.scenario().to_owned(), params: self.options.to_params(), ..recipe.clone() }
    }
}

/// The scenario of a load test; it is not in the catalogue.
#[derive(Debug)]
struct LoadScenario {
    target: Arc<options::Target>,
    faults: Faults,
}

impl Scenario for LoadScenario {
    fn card(&self) -> Card {
        let (ops_label, timed) = match self.target.options.protocol {
            LoadProtocol::Http => ("requests/s", "request"),
            LoadProtocol::Ws => ("messages/s", "echo"),
            LoadProtocol::Sse => ("streams/s", "stream"),
            LoadProtocol::Tcp => ("exchanges/s", "exchange"),
            LoadProtocol::Conn => ("pings/s", "ping"),
        };
        Card {
            id: self.target.options.protocol.scenario(),
            family: Family::Actors,
            label: "Load test",
            description: "Load on a server from outside.",
            details: &[],
            ops_label,
            latency_label: Some("intended start to the last byte"),
            unit: Unit::Count,
            parameters: &[],
            source_file: file!(),
            timed,
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn prepares(&self) -> bool {
        self.target.options.protocol == LoadProtocol::Conn
    }

    fn loads_neighbour(&self) -> bool {
        self.target.address.ip().is_loopback()
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            if self.target.options.protocol == LoadProtocol::Conn {
                return held::run(&self.target, context).await;
            }
            let arrivals = Arc::new(Arrivals::new(context.rate(), Instant::now()));
            for _ in 0..self.target.options.connections {
                let worker = Worker {
                    target: Arc::clone(&self.target),
                    arrivals: Arc::clone(&arrivals),
                    recorder: context.recorder(),
                    meter: Arc::clone(context.meter()),
                    threads: context.schedulers(),
                    stop: context.stop_flag(),
                    faults: self.faults.clone(),
                };
                context.spawn_worker(move |ctx| worker.run(ctx))?;
            }
            context.stopped().await
        })
    }
}

//! A scenario as the system under test of a saturation search.

use std::time::Duration;

use rusm_runtime::Config;

use crate::judge::saturate::{Level, SystemError, SystemUnderTest};
use crate::measure::interval::Interval;
use crate::measure::schedule::Rate;
use crate::parameter::Kind;
use crate::report::Report;
use crate::run::headless::{HeadlessOptions, check};
use crate::run::plan::{Plan, RequestError};
use crate::run::recipe::Recipe;
use crate::run::runner::{OnNewRuntimes, Runner};

/// A scenario as the system under test; each load is a run of its own, usually on a new runtime.
#[derive(Debug)]
pub struct ScenarioSystem<'a> {
    recipe: Recipe,
    runtime: Config,
    /// Parameter that sets the number of workers.
    workers: Option<&'static str>,
    /// Plan of a scenario that is not in the catalogue.
    plan: Option<Plan>,
    runner: Box<dyn Runner + 'a>,
}

impl<'a> ScenarioSystem<'a> {
    /// Creates it from a scenario of the catalogue; `workers` names the parameter that sets the number of workers.
    ///
    /// # Errors
    /// [`RequestError`] if the recipe cannot be run in an open loop.
    pub fn new(recipe: Recipe, runtime: Config, workers: Option<&str>) -> Result<Self, RequestError> {
        Self::with_runner(recipe, runtime, workers, Box::new(OnNewRuntimes))
    }

    /// Does the same as [`new`](Self::new) with another runner.
    pub(crate) fn with_runner(
        recipe: Recipe,
        runtime: Config,
        workers: Option<&str>,
        runner: Box<dyn Runner + 'a>,
    ) -> Result<Self, RequestError> {
        let open = Recipe { rate_per_sec: Some(Rate::MAX_PER_SEC), ..recipe.clone() };
        let plan = Plan::of(&open.request())?;
        let parameters = plan.scenario.card().parameters;
        let auto = parameters.iter().find(|parameter| matches!(parameter.kind, Kind::AutoCount { .. }));
        let named = parameters.iter().find(|parameter| Some(parameter.name) == workers);
        Ok(Self { recipe, runtime, workers: named.or(auto).map(|parameter| parameter.name), plan: None, runner })
    }

    /// Creates it from the plan of a scenario that is not in the catalogue.
    pub(crate) fn of_plan(plan: Plan, recipe: Recipe, runtime: Config) -> Self {
        Self { recipe, runtime, workers: None, plan: Some(plan), runner: Box::new(OnNewRuntimes) }
    }

    /// Checks that the parameter of [`workers`](Self::workers) accepts each of these numbers. This costs nothing;
    /// without it, a search would find out only after all other measurements.
    ///
    /// # Errors
    /// [`RequestError`] for the first number that is not valid.
    pub fn check_workers(&self, counts: &[u64]) -> Result<(), RequestError> {
        counts.iter().try_for_each(|count| Plan::of(&self.closed_recipe(Some(*count)).request()).map(drop))
    }

    /// Returns the parameter that sets the number of workers.
    pub const fn workers(&self) -> Option<&'static str> {
        self.workers
    }

    /// Returns the recipe of a closed loop, with `workers` workers if given.
    fn closed_recipe(&self, workers: Option<u64>) -> Recipe {
        let mut recipe = Recipe { rate_per_sec: None, ..self.recipe.clone() };
        if let (Some(count), Some(name)) = (workers, self.workers) {
            recipe.params.insert(name.to_owned(), count.to_string());
        }
        recipe
    }

    fn run(&mut self, recipe: &Recipe) -> Result<(Report, Vec<Interval>), SystemError> {
        let options: HeadlessOptions = recipe.options(&self.runtime);
        let mut intervals = Vec::new();
        let mut keep = |run: &mut crate::run::execution::Run| {
            let seen = run.sampler.intervals();
            if seen.len() < intervals.len() {
                intervals.clear();
            }
            intervals.extend_from_slice(&seen[intervals.len()..]);
        };
        let plan = if let Some(plan) = &self.plan {
            let rate = recipe.rate_per_sec.map(Rate::from_per_sec).transpose();
            let rate = rate.map_err(|error| SystemError::Failed(error.to_string()))?;
            Plan { rate, ..plan.clone() }
        } else {
            check(&options)?
        };
        let report = self.runner.run(plan, &options, &mut keep)?;
        match &report.error {
            Some(error) => Err(SystemError::Failed(error.clone())),
            None => Ok((report, intervals)),
        }
    }
}

impl SystemUnderTest for ScenarioSystem<'_> {
    fn closed(&mut self, workers: Option<u64>) -> Result<f64, SystemError> {
        let (report, _) = self.run(&self.closed_recipe(workers))?;
        // Use the mean rate and not the median: in a system that answers in bursts, the median is that of the pauses.
        Ok(if report.duration_s > 0.0 { report.ops_total as f64 / report.duration_s } else { 0.0 })
    }

    fn offer(&mut self, per_sec: f64) -> Result<Level, SystemError> {
        // The offered rate must be in the valid range, however slow the scenario is.
        let per_sec = per_sec.clamp(Rate::MIN_PER_SEC, Rate::MAX_PER_SEC);
        let (report, intervals) = self.run(&Recipe { rate_per_sec: Some(per_sec), ..self.recipe.clone() })?;
        Ok(Level::of(&report, &intervals))
    }
}

/// Shortest duration of a ladder level that shows whether a backlog grows.
pub const LEVEL: Duration = Duration::from_secs(6);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_that_takes_no_number_of_workers_is_refused_before_anything_runs() {
        let system = |workers| {
            let recipe = Recipe { scenario: "ping-pong".to_owned(), ..Recipe::default() };
            ScenarioSystem::new(recipe, Config::default(), workers).unwrap()
        };

        let refused = system(Some("placement")).check_workers(&[1, 2]).unwrap_err().to_string();
        assert!(refused.starts_with("placement of \"1\" is not in "), "{refused}");
        let refused = system(Some("pairs")).check_workers(&[1, 1_000_000]).unwrap_err().to_string();
        assert!(refused.starts_with("pairs of \"1000000\" is not in "), "{refused}");
        system(None).check_workers(&[1, 32]).unwrap();
    }
}

//! The trait that every scenario implements.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use rusm_protocol::ScenarioMeta;
use rusm_runtime::Config;

use crate::card::Card;
use crate::context::RunContext;
use crate::parameter::{ParameterError, Params};
use crate::run::error::RunError;

/// Future returned by [`Scenario::run`].
pub type ScenarioRun<'a> = Pin<Box<dyn Future<Output = Result<(), RunError>> + Send + 'a>>;

/// A load on the runtime that is counted and timed.
///
/// ```
/// use rusm_bench::{Card, Scenario, ScenarioRun, RunContext};
///
/// #[derive(Debug)]
/// struct Yields(Card);
///
/// impl Scenario for Yields {
///     fn card(&self) -> Card {
///         self.0
///     }
///
///     fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
///         Box::pin(async move {
///             let (mut recorder, mut pace) = (context.recorder(), context.pace(0, 1, context.duty()));
///             context.spawn_worker(move |ctx| async move {
///                 while let Some(ops) = pace.next_batch(&ctx, 64).await {
///                     for _ in 0..ops {
///                         let stamp = pace.begin(&mut recorder);
///                         ctx.yield_now().await;
///                         recorder.end(stamp);
///                         recorder.count(1);
///                     }
///                 }
///             })?;
///             context.stopped().await?;
///             context.ended().await
///         })
///     }
/// }
/// ```
pub trait Scenario: Send + Sync + fmt::Debug + 'static {
    /// Returns the description of the scenario.
    fn card(&self) -> Card;

    /// Returns true if the scenario compares cases in turn. Its rate then changes by design, so it is not judged by its
    /// steadiness and cannot be offered a rate; its results are in its tables.
    fn takes_turns(&self) -> bool {
        false
    }

    /// Returns true if a run can be paused: all of its load is paced by [`RunContext::pace`], or it takes turns.
    fn pauses(&self) -> bool {
        true
    }

    /// Returns true if the scenario loads another program on this machine. CPU time of other processes then includes
    /// that program's and does not mean that the run was disturbed.
    fn loads_neighbour(&self) -> bool {
        false
    }

    /// Returns true if the scenario needs time for preparation, such as compiling code. The run's clock then starts
    /// when the scenario calls [`RunContext::prepared`].
    fn prepares(&self) -> bool {
        false
    }

    /// Returns the requirement for its default parameters that this machine or this runtime lacks; `None` if the
    /// scenario can run.
    fn lacks(&self, runtime: &Config) -> Option<String> {
        let _ = runtime;
        None
    }

    /// Returns the description for observers of a runtime, without gates. `real` and `real_after_phase` say whether a run
    /// of it would be one: they follow from `lacks`.
    fn meta(&self, runtime: &Config) -> ScenarioMeta {
        let lacks = self.lacks(runtime);
        let real = lacks.is_none();
        ScenarioMeta { real, real_after_phase: u8::from(real), lacks, ..self.card().meta() }
    }

    /// Fills in values that follow from the given ones, such as those of a preset. Given values are not changed.
    fn fill(&self, given: &mut BTreeMap<String, String>) {
        let _ = given;
    }

    /// Checks that parameters that are valid by themselves are valid together.
    ///
    /// # Errors
    /// [`ParameterError::Together`] with the values that are not.
    fn check(&self, params: &Params) -> Result<(), ParameterError> {
        let _ = params;
        Ok(())
    }

    /// Starts the load, waits until the run stops, and ends what it started.
    ///
    /// This is the body of a process. If it returns early or one of its workers ends early, the run ends.
    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a>;
}

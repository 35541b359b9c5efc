//! The trait that every scenario implements.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::card::Card;
use crate::parameter::{ParameterError, Params};
use crate::run::RunError;
use crate::stage::Stage;

/// What [`Scenario::run`] returns.
pub type ScenarioRun<'a> = Pin<Box<dyn Future<Output = Result<(), RunError>> + Send + 'a>>;

/// A load on the runtime that is counted and timed.
///
/// ```
/// use rusm_bench::{Card, Scenario, ScenarioRun, Stage};
///
/// #[derive(Debug)]
/// struct Yields(Card);
///
/// impl Scenario for Yields {
///     fn card(&self) -> Card {
///         self.0
///     }
///
///     fn run<'a>(&'a self, stage: &'a mut Stage) -> ScenarioRun<'a> {
///         Box::pin(async move {
///             let (mut recorder, mut pace) = (stage.recorder(), stage.pace(0, 1, stage.duty()));
///             stage.crew(move |ctx| async move {
///                 while let Some(turn) = pace.turn(&ctx, 64).await {
///                     for _ in 0..turn {
///                         let stamp = pace.begin(&mut recorder);
///                         ctx.yield_now().await;
///                         recorder.end(stamp);
///                         recorder.count(1);
///                     }
///                 }
///             })?;
///             stage.stopped().await?;
///             stage.ended().await
///         })
///     }
/// }
/// ```
pub trait Scenario: Send + Sync + fmt::Debug + 'static {
    /// What it says about itself.
    fn card(&self) -> Card;

    /// Whether it compares cases in turn: its rate moves by design, so it is not judged by its steadiness and cannot be
    /// offered a rate, and what it shows is in its tables.
    fn takes_turns(&self) -> bool {
        false
    }

    /// Whether it loads another program on this machine: the CPU time of others is then that program's too, and no sign that
    /// the run was disturbed.
    fn loads_neighbour(&self) -> bool {
        false
    }

    /// Whether it makes something first that takes its time, such as compiled code: the run's clock then starts when it
    /// says [`Stage::prepared`].
    fn prepares(&self) -> bool {
        false
    }

    /// Fills in what follows from what was given, such as the values of a preset; what was given stays.
    fn fill(&self, given: &mut BTreeMap<String, String>) {
        let _ = given;
    }

    /// Whether parameters that are right by themselves go together.
    ///
    /// # Errors
    /// [`ParameterError::Together`] with the numbers that do not.
    fn check(&self, params: &Params) -> Result<(), ParameterError> {
        let _ = params;
        Ok(())
    }

    /// Starts the load, waits until it is told to stop, and ends what it started.
    ///
    /// This is the body of a process. A scenario that returns early, or whose crew ends early, ends the run.
    fn run<'a>(&'a self, stage: &'a mut Stage) -> ScenarioRun<'a>;
}

//! Start, call, drop: the rate at which instances of a core module are created and dropped.

use rusm_protocol::Unit;

use crate::card::{Card, Family};
use crate::guests::Code;
use crate::scenario::{Scenario, ScenarioRun};
use crate::stage::Stage;
use crate::wasm_storm;

/// The scenario `module-storm`: starts, calls and drops instances of a core module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModuleStorm;

impl Scenario for ModuleStorm {
    fn card(&self) -> Card {
        Card {
            id: "module-storm",
            family: Family::Actors,
            label: "Module storm",
            description: "Instances of a WebAssembly module that are started, called once and dropped.",
            details: &[
                "One operation is a process with an instance of its own: made, its function `run` called, and dropped; \
                 it counts when its place in the engine's pool is free again.",
                "Latency is from the request to the result: from before the spawn call to when the spawner has the \
                 guest's exit reason. A spawner asks for a whole burst and then takes what has come, so most of it is \
                 the rest of the burst; with burst=1 it is one instance alone.",
                "With memory=0 the function does nothing; with more it reads a word that the module brought with it and \
                 writes one, and the pool gives the memory back as it was.",
                "Errors are guests that did not start, or ended otherwise than by returning.",
                "It does not say how long a guest's own work takes, nor how long its module compiles: that is done before \
                 the clock starts.",
            ],
            ops_label: "instances/s",
            latency_label: Some("request to result"),
            unit: Unit::Count,
            parameters: wasm_storm::PARAMETERS,
            source_file: "crates/bench/src/module_storm.rs",
            timed: "instance",
            ops_per_timed: 1,
            sampling: 16,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, stage: &'a mut Stage) -> ScenarioRun<'a> {
        Box::pin(async move {
            let code = match wasm_storm::pages(stage) {
                0 => Code::of(include_str!("guests/instant.wat"), 0),
                pages => Code::of(include_str!("guests/worker.wat"), pages),
            };
            wasm_storm::run(stage, "module-storm", code).await
        })
    }
}

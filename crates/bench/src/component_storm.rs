//! Start, call, drop: the rate at which instances of a component are created and dropped.

use rusm_protocol::Unit;

use crate::card::{Card, Family};
use crate::guests::Code;
use crate::scenario::{Scenario, ScenarioRun};
use crate::stage::Stage;
use crate::wasm_storm;

/// The scenario `component-storm`: starts, calls and drops instances of a component.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComponentStorm;

impl Scenario for ComponentStorm {
    fn card(&self) -> Card {
        Card {
            id: "component-storm",
            family: Family::Actors,
            label: "Component storm",
            description: "Instances of a WebAssembly component that are started, called once and dropped.",
            details: &[
                "One operation is a process with an instance of its own: made, its function `run` called, and dropped; \
                 it counts when its place in the engine's pool is free again.",
                "Latency is from the request to the result, as in module-storm: most of it is the rest of the burst.",
                "The component is one of the world rusm:runtime/actor, and gets its list of arguments. With memory=0 it \
                 is a command of WASI, because a list can only be passed to a component with a memory.",
                "Errors are guests that did not start, or ended otherwise than by returning.",
                "It does not say what a component of a compiler costs: those have larger memories, tables and \
                 imports, and begin with the start of their language.",
            ],
            ops_label: "instances/s",
            latency_label: Some("request to result"),
            unit: Unit::Count,
            parameters: wasm_storm::PARAMETERS,
            source_file: "crates/bench/src/component_storm.rs",
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
                0 => Code::of(include_str!("guests/instant_component.wat"), 0),
                pages => Code::of(include_str!("guests/worker_component.wat"), pages),
            };
            wasm_storm::run(stage, "component-storm", code).await
        })
    }
}

//! Start, call, drop: the rate at which instances of a component are created and dropped.

use rusm_protocol::Unit;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::wasm::guests::Code;
use crate::scenarios::wasm::wasm_storm;

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
                "One operation is a process with its own instance: the instance is created, its function `run` is \
                 called, and it is dropped. It counts when its slot in the engine's pool is free again.",
                "Latency is from the request to the result, as in module-storm. Most of it is the wait for the rest of \
                 the burst.",
                "The component implements the world rusm:runtime/actor and receives its list of arguments. With \
                 memory=0 it is a WASI command, because a list can only be passed to a component with a memory.",
                "Errors are guests that did not start, or that ended in any other way than by returning.",
                "It does not measure components made by a compiler: those have larger memories, more tables and \
                 imports, and start the runtime of their language first.",
                "Goal: at most 1.3 times the CPU time of a plain wasmtime loop that does the same.",
            ],
            ops_label: "instances/s",
            latency_label: Some("request to result"),
            unit: Unit::Count,
            parameters: wasm_storm::PARAMETERS,
            source_file: file!(),
            timed: "instance",
            ops_per_timed: 1,
            sampling: 16,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let code = match wasm_storm::pages(context) {
                0 => Code::of(include_str!("guests/instant_component.wat"), 0),
                pages => Code::of(include_str!("guests/worker_component.wat"), pages),
            };
            wasm_storm::run(context, "component-storm", code).await
        })
    }
}

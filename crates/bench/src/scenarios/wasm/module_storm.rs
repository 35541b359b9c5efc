//! Start, call, drop: the rate at which instances of a core module are created and dropped.

use rusm_protocol::Unit;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::wasm::guests::Code;
use crate::scenarios::wasm::wasm_storm;

const PARAMETERS: &[Parameter] = &[
    wasm_storm::PARAMETERS[0],
    wasm_storm::PARAMETERS[1],
    wasm_storm::PARAMETERS[2],
    wasm_storm::PARAMETERS[3],
    Parameter {
        name: "form",
        description: "Form of the module: a core module, or a program of WASI preview 1.",
        kind: Kind::Choice { words: &["core", "wasip1"] },
    },
];

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
                "One operation is a process with its own instance: the instance is created, its function `run` is \
                 called, and it is dropped. It counts when its slot in the engine's pool is free again.",
                "Latency is from before the spawn call until the spawner has the guest's exit reason. A spawner starts \
                 a whole burst before it collects results, so most of the latency is the rest of the burst. With \
                 burst=1 it is that of one instance.",
                "With memory=0 the function does nothing. Otherwise it reads a word of the module's initial data and \
                 writes one, and the pool then resets the memory.",
                "With form=wasip1 the module is a program of WASI preview 1. Its function `_start` asks for its arguments, \
                 as a C library does, and each instance also has the state of WASI. It needs memory.",
                "Errors are guests that did not start, or that ended in any other way than by returning.",
                "It does not measure a guest's own work or the compilation of the module, which is done before the \
                 clock starts.",
                "Goal: at most 1.3 times the CPU time of a plain wasmtime loop that does the same.",
            ],
            ops_label: "instances/s",
            latency_label: Some("request to result"),
            unit: Unit::Count,
            parameters: PARAMETERS,
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
            let is_wasip1 = context.params().word("form") == "wasip1";
            let code = match wasm_storm::pages(context) {
                pages if is_wasip1 => Code::of(include_str!("guests/command.wat"), pages.max(1)),
                0 => Code::of(include_str!("guests/instant.wat"), 0),
                pages => Code::of(include_str!("guests/worker.wat"), pages),
            };
            wasm_storm::run(context, "module-storm", code).await
        })
    }
}

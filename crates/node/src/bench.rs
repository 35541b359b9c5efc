//! `rusm bench` and `rusm loadtest`: scenarios without a screen, one module per command.

mod ab;
mod child_output;
pub(crate) mod compare;
mod conditions;
mod container;
mod container_parent;
pub(crate) mod history;
pub(crate) mod loadtest;
pub(crate) mod output;
mod parent;
pub(crate) mod recipe;
mod run;
pub(crate) mod saturate;
mod soak;
mod sweep;

use rusm_bench::{card_text, list_json, list_text};
use rusm_runtime::Config;

use crate::bench::output::{print, print_json};
use crate::cli::bench::BenchCommand;
use crate::failure::Failure;

/// Runs the command and returns its exit code.
pub(crate) fn run(command: BenchCommand) -> Result<u8, Failure> {
    if matches!(command, BenchCommand::Run(_)) {
        // One side of a comparison ends with it.
        parent::OF_COMPARISON.follow()?;
    }
    if let Some(code) = container_parent::run(command.container())? {
        return Ok(code);
    }
    match command {
        BenchCommand::List { ids, json } => {
            let cores = Config::default().schedulers;
            let text = match ids.as_slice() {
                _ if json => {
                    print_json(&list_json(cores))?;
                    return Ok(0);
                }
                [] => {
                    format!("{}\n`rusm bench list ID` shows a scenario with its parameters.\n", list_text(cores))
                }
                ids => card_text(ids).map_err(Failure::from)?,
            };
            print(&text)?;
            Ok(0)
        }
        BenchCommand::Run(flags) => run::run(*flags),
        BenchCommand::Compare(flags) => compare::run(&flags),
        BenchCommand::Ab(flags) => ab::run(*flags),
        BenchCommand::History(flags) => history::run(&flags),
        BenchCommand::Sweep(flags) => sweep::run(*flags),
        BenchCommand::Saturate(flags) => saturate::run(*flags),
        BenchCommand::Soak(flags) => soak::run(*flags),
        BenchCommand::ClusterNode(flags) => crate::cluster::serve_node_of_scenario(flags),
    }
}

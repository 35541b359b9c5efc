//! The `rusm` binary: starts a node, observes it, measures it.
//!
//! ```text
//!   flags, RUSM_*, rusm.toml ──▶ settings.rs ──▶ start.rs ──▶ Runtime + Engine of scenarios + Console
//!                                                  │
//!        rusm ──▶ attached.rs: the node, and rusm-top attached to it over its own socket
//!        rusm node ──▶ headless.rs: the node until a signal, then drained
//!        rusm run ──▶ run.rs: guests under a supervisor on such a node, until they end
//!        rusm serve ──▶ serve.rs: servers of HTTP on such a node, until a signal
//!        rusm bench, rusm loadtest ──▶ bench.rs        rusm doctor ──▶ doctor.rs
//!        rusm new, rusm build ──▶ project.rs: a project of a guest
//!        rusm store ──▶ store.rs: the file of a store, without a node
//!        rusm cluster ──▶ cluster.rs: certificates, and requests to a node that has joined others
//!        rusm check, rusm ops ──▶ cli/check.rs, cli/ops.rs: for operating a node
//!        rusm completions, rusm man ──▶ cli/shell.rs: for the user's shell
//! ```
//!
//! This is the composition root: it depends on every crate, and no crate depends on it.

mod attached;
mod bench;
mod cli;
mod cluster;
mod doctor;
mod failure;
mod headless;
mod logging;
mod project;
mod run;
mod serve;
mod settings;
mod signals;
mod start;
mod store;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use rusm_tui::environment;

use crate::cli::{Cli, Command};
use crate::failure::{Failure, system};

/// Counts allocations, for the scenarios that report the allocations of their steps.
#[global_allocator]
static ALLOCATOR: rusm_bench::CountingAllocator = rusm_bench::CountingAllocator;

fn main() -> ExitCode {
    if let Some(code) = rusm_wasm::compile_if_asked() {
        return code;
    }
    rusm_log::ignore_file_size_signal();
    rusm_log::restore_child_signal();
    rusm_log::unblock_signals();
    // Before the command line is parsed: that takes some milliseconds, in which these signals would end a service.
    if Cli::is_service(std::env::args_os().skip(1)) {
        signals::service::ignore_until_started();
    }
    let ended = environment::check_limits().map_err(Failure::Limit).and_then(|()| parse_and_run());
    logging::flush();
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            rusm_log::last_words(format_args!("rusm: {failure}{}", failure.remedy()));
            ExitCode::from(failure.code())
        }
    }
}

fn parse_and_run() -> Result<u8, Failure> {
    match Cli::try_parse() {
        Ok(cli) => run(cli),
        // Help and version are not errors, and go to stdout.
        Err(answer) if !answer.use_stderr() => print_answer(&answer),
        Err(mistake) => Err(Failure::Usage(cli::usage::line(&mistake))),
    }
}

/// Prints help or the version; a closed pipe is not an error.
fn print_answer(answer: &clap::Error) -> Result<u8, Failure> {
    match answer.print().and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(system("write to stdout")(error)),
        _ => Ok(0),
    }
}

fn run(cli: Cli) -> Result<u8, Failure> {
    if cli.starts_threads() {
        doctor::check_threads()?;
    }
    match cli.command {
        None => attached::run(&cli.node),
        Some(Command::Node(flags)) => headless::run(&flags),
        Some(Command::Run(flags)) => run::run(&flags),
        Some(Command::Serve(flags)) => serve::run(&flags),
        Some(Command::New(flags)) => project::create(&flags),
        Some(Command::Build(flags)) => project::build(&flags),
        Some(Command::Bench(command)) => bench::run(command),
        Some(Command::Loadtest(flags)) => bench::loadtest::run(&flags),
        Some(Command::Store(command)) => store::run(command),
        Some(Command::Cluster(command)) => cluster::run(command),
        Some(Command::Doctor { json }) => doctor::run(json),
        Some(Command::Check { file }) => cli::check::run(file),
        Some(Command::Ops(command)) => cli::ops::run(command, Cli::command()),
        Some(Command::Completions { shell }) => cli::shell::completions(Cli::command(), shell),
        Some(Command::Man { command }) => cli::shell::manual(Cli::command(), &command),
    }
}

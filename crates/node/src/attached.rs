//! `rusm` without a command: a node in this terminal, with the observer attached to it over the node's own socket.

use std::io::IsTerminal;

use rusm_runtime::ShutdownReport;
use rusm_tui::connection::Target;
use rusm_tui::{Exit, Options, Source};

use crate::cli::NodeFlags;
use crate::failure::{Failure, system};
use crate::logging;
use crate::settings::{DEFAULT_NAME, Settings};
use crate::signals::{Signals, block_on, drain, start};
use crate::start::{DefaultName, Node};

/// Runs until the user leaves the observer, or until a signal.
pub(crate) fn run(flags: &NodeFlags) -> Result<u8, Failure> {
    let observer = observer("use \"rusm node\" for a node without a screen")?;
    let settings = Settings::read(flags)?;
    logging::start(&settings.log, settings.exporter(DEFAULT_NAME).as_ref(), true)?;
    block_on("start the observer", async {
        let mut signals = Signals::listen().map_err(system("wait for signals"))?;
        let node = start(&mut signals, move || {
            let mut node = Node::start(&settings, DefaultName::Free(DEFAULT_NAME))?;
            node.serve(&settings.app, None)?;
            node.follow_changes(false)?;
            node.set_ready();
            Ok(node)
        })
        .await?;
        let ended = tokio::select! {
            // The observer owns the terminal and restores it first. A signal that the observer does not handle, or does
            // not handle yet, ends the program here.
            biased;
            ended = rusm_tui::run(of_node(observer, &node)) => ended.map(Exit::code),
            ending = signals.next() => Ok(ending.code()),
        };
        signals.discard();
        let shutdown = drain(node, &mut signals).await?;
        report_stuck(&shutdown);
        Ok(ended?)
    })
}

/// Returns the options of an observer in this terminal, read from its own variables. Fails if stdout is not a terminal.
pub(crate) fn observer(remedy: &str) -> Result<Options, Failure> {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::Usage(format!("stdout is not a terminal: {remedy}")));
    }
    rusm_tui::cli::options_of_env().map_err(Failure::Usage)
}

/// Returns the options of an observer of this node.
pub(crate) fn of_node(observer: Options, node: &Node) -> Options {
    Options { source: Source::Node(Target::Unix(node.socket().to_owned())), owns_node: true, ..observer }
}

/// Reports the processes that could not be ended. The observer must have restored the terminal before.
pub(crate) fn report_stuck(shutdown: &ShutdownReport) {
    for pid in &shutdown.stuck {
        rusm_log::last_words(format_args!("rusm: process {pid} was stuck in a poll and was abandoned"));
    }
}

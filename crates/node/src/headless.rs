//! `rusm node`: a node without a screen, until a signal asks it to end.

use crate::cli::NodeFlags;
use crate::failure::{Failure, system};
use crate::logging;
use crate::settings::{DEFAULT_NAME, Settings};
use crate::signals::service::Service;
use crate::signals::{Signals, block_on, drain, start};
use crate::start::{DefaultName, Node};

/// Runs until a signal, drains the node, and returns 0.
pub(crate) fn run(flags: &NodeFlags) -> Result<u8, Failure> {
    let settings = Settings::read(flags)?;
    logging::start(&settings.log, settings.exporter(DEFAULT_NAME).as_ref(), false)?;
    let grace = settings.drain;
    block_on("wait for signals", async {
        // Listen before the node becomes visible: an early signal must also drain it.
        let mut signals = Signals::of_service().map_err(system("wait for signals"))?;
        let mut service = Service::start()?;
        let of = settings.clone();
        let node = start(&mut signals, move || {
            let mut node = Node::start(&of, DefaultName::Fixed(DEFAULT_NAME))?;
            node.serve(&of.app, None)?;
            node.follow_changes(false)?;
            node.set_ready();
            Ok(node)
        })
        .await?;
        tracing::info!(socket = %node.socket().display(), "node is up: watch it with rusm-top");
        if let (Some(address), Some(token)) = (node.console().address(), node.console().token_file()) {
            tracing::info!(%address, token_file = %token.display(), "listens on TCP");
        }
        for url in node.urls() {
            tracing::info!("listening on {url}");
        }
        let processes = settings.app.processes.len();
        if processes != 0 {
            tracing::warn!(
                processes,
                "the [[process]] entries of the configuration are ignored: only rusm run starts them"
            );
        }
        let flags = flags.clone();
        let signal = tokio::select! {
            biased;
            signal = signals.next() => signal.name,
            never = service.attend(&node, move || Ok(Settings::read(&flags)?)) => match never {},
        };
        service.stopping();
        tracing::info!(signal, drain = ?grace, "node drains; a second signal ends it at once");
        let shutdown = drain(node, &mut signals).await?;
        for pid in &shutdown.stuck {
            tracing::warn!(%pid, "process was stuck in a poll and was abandoned");
        }
        tracing::info!(killed = shutdown.killed, "node has stopped");
        Ok(0)
    })
}

//! `rusm run`: runs a user's application of WebAssembly guests, supervised and visible to observers.
//!
//! ```text
//!   app.wasm │ rusm.toml ─▶ plan.rs ─▶ modules.rs: compiled ─▶ guests.rs: supervised ─▶ ended well 0 │ given up 1
//!                                        ▲                         ▲ stop, start anew
//!                               file_watcher.rs: --watch ──────────┘
//! ```
//!
//! Every error in the configuration or the command line is found before the first guest starts, and gives exit code 2.
//! The log goes to stderr, together with everything that guests print; with `--top` the observer uses the terminal
//! instead.

mod exits;
pub(crate) mod file_watcher;
mod guests;
pub(crate) mod modules;
pub(crate) mod plan;
pub(crate) mod source;
pub(crate) mod topics;

use std::future::pending;
use std::sync::Arc;

use rusm_tui::{Exit, Options};
use rusm_wasm::{Wasm, WasmConfig};

use crate::attached::{observer, of_node, report_stuck};
use crate::cli::RunFlags;
use crate::failure::{Failure, system};
use crate::logging;
use crate::run::guests::Guests;
use crate::run::modules::Modules;
use crate::run::plan::Plan;
use crate::signals::service::Service;
use crate::signals::{Signals, TerminationSignal, block_on, drain, start};
use crate::start::{DefaultName, Node, open_store};

/// Reason why the run is over.
enum RunEnd {
    /// All guests have ended.
    Guests,
    Observer(Result<Exit, rusm_tui::Error>),
    Signal(TerminationSignal),
}

/// Runs until the guests have ended, the user leaves the observer, or a signal arrives.
pub(crate) fn run(flags: &RunFlags) -> Result<u8, Failure> {
    let observer =
        if flags.top { Some(observer("--top needs one; without it the log shows how to watch")?) } else { None };
    let plan = Plan::read(flags)?;
    logging::start(&plan.settings.log, plan.settings.exporter(&plan.name).as_ref(), flags.top)?;
    block_on("wait for signals", async {
        // Listen before the node becomes visible: an early signal must also drain it.
        let listen = if flags.top { Signals::listen } else { Signals::of_service };
        let mut signals = listen().map_err(system("wait for signals"))?;
        let mut service = if flags.top { None } else { Some(Service::start()?) };
        let (app, grace) = (Arc::new(plan.settings.app.clone()), plan.settings.drain);
        let (settings, name) = (plan.settings.clone(), plan.name.clone());
        let starting = move || {
            let store = open_store(&settings)?;
            let wasm = Wasm::start(WasmConfig { store: store.clone(), ..settings.app.wasm.clone() })?;
            let modules = Modules::load(&wasm, &settings.app)?;
            Ok((Node::without_scenarios(&settings, DefaultName::Free(&name), store)?, wasm, modules))
        };
        let (mut node, wasm, modules) = start(&mut signals, starting).await?;
        let serving = node.serve(&app, Some(wasm.clone())).and_then(|()| node.follow_changes(flags.watch));
        if let Err(failure) = serving {
            drain(node, &mut signals).await?;
            return Err(failure);
        }
        for url in node.urls() {
            tracing::info!("listening on {url}");
        }
        let socket = node.socket().display();
        let name = node.socket().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        tracing::info!(%socket, "node is up: watch it with rusm-top {name}");
        if let (Some(address), Some(token)) = (node.console().address(), node.console().token_file()) {
            tracing::info!(%address, token_file = %token.display(), "listens on TCP");
        }
        let mut guests = Guests::new(wasm, node.handle().clone(), app, &name, flags.watch);
        let end = match guests.start().await {
            Ok(()) => {
                node.set_ready();
                let flags_again = flags.clone();
                let attended = async {
                    match &mut service {
                        Some(service) => {
                            service.attend(&node, move || Plan::read(&flags_again).map(|plan| plan.settings)).await
                        }
                        None => pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    end = run_until_end(&node, &mut signals, &mut guests, modules, observer, flags.watch) => end,
                    never = attended => match never {},
                }
            }
            Err(failure) => {
                drain(node, &mut signals).await?;
                return Err(failure);
            }
        };
        signals.discard();
        if let Some(service) = &service {
            service.stopping();
        }
        if let RunEnd::Signal(signal) = &end {
            let signal = signal.name;
            tracing::info!(signal, drain = ?grace, "guests are being stopped in reverse order; a second signal ends the node at once");
        }
        let result = guests.result();
        let shutdown = drain(node, &mut signals).await?;
        report_stuck(&shutdown);
        tracing::info!(killed = shutdown.killed, "node has stopped");
        match end {
            RunEnd::Signal(signal) if flags.top => Ok(signal.code()),
            RunEnd::Signal(_) => Ok(0),
            RunEnd::Guests => result.map(|()| 0),
            RunEnd::Observer(ended) => result.and(Ok(ended.map(Exit::code)?)),
        }
    })
}

async fn run_until_end(
    node: &Node,
    signals: &mut Signals,
    guests: &mut Guests,
    modules: Modules,
    observer: Option<Options>,
    watch: bool,
) -> RunEnd {
    let is_seen = observer.is_some();
    let observer = async {
        match observer {
            Some(observer) => rusm_tui::run(of_node(observer, node)).await,
            None => pending().await,
        }
    };
    let until_ended = async {
        if watch {
            guests.restart_on_changes(modules).await;
        }
        guests.ended().await;
        // Keep the observer open: its user may want to see why the guests ended.
        // Servers go on until a signal.
        let is_serving = node.urls().next().is_some();
        if is_seen || is_serving { pending().await } else { RunEnd::Guests }
    };
    tokio::select! {
        biased;
        ended = observer => RunEnd::Observer(ended),
        signal = signals.next() => RunEnd::Signal(signal),
        end = until_ended => end,
    }
}

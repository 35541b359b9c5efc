//! `rusm run`: runs a user's application of WebAssembly guests, supervised and visible to observers.
//!
//! ```text
//!   app.wasm │ rusm.toml ─▶ plan.rs ─▶ modules.rs: compiled ─▶ crew.rs: supervised ─▶ ended well 0 │ given up 1
//!                                        ▲                        ▲ stop, start anew
//!                                  changes.rs: --watch ───────────┘
//! ```
//!
//! Every error in the configuration or the command line is found before the first guest starts, and gives exit code 2.
//! The log goes to stderr, together with everything that guests print; with `--top` the observer uses the terminal
//! instead.

mod changes;
mod crew;
mod ends;
mod modules;
mod plan;
pub(crate) mod source;
pub(crate) mod topics;

use std::future::pending;
use std::sync::Arc;

use rusm_tui::{Exit, Options};
use rusm_wasm::{Wasm, WasmConfig};

use crate::attached::{observer, of_node, tell_stuck};
use crate::cli::RunFlags;
use crate::failure::{Failure, system};
use crate::logging;
use crate::run::crew::Crew;
use crate::run::modules::Modules;
use crate::run::plan::Plan;
use crate::signals::{Ending, Signals, drain, start};
use crate::start::{Node, Unnamed, open_store};

/// Reason why the run is over.
enum Over {
    /// All guests have ended.
    Guests,
    Observer(Result<Exit, rusm_tui::Error>),
    Signal(Ending),
}

/// Runs until the guests have ended, the user leaves the observer, or a signal arrives.
pub(crate) fn run(flags: &RunFlags) -> Result<u8, Failure> {
    let observer =
        if flags.top { Some(observer("--top needs one; without it the log shows how to watch")?) } else { None };
    let plan = Plan::read(flags)?;
    logging::start(&plan.settings.log, flags.top)?;
    let store = open_store(&plan.settings)?;
    let wasm = Wasm::start(WasmConfig { store: store.clone(), ..plan.settings.app.wasm.clone() })?;
    let modules = Modules::load(&wasm, &plan.settings.app)?;
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    reactor.map_err(system("wait for signals"))?.block_on(async {
        // Listen before the node becomes visible: an early signal must also drain it.
        let mut signals = Signals::listen().map_err(system("wait for signals"))?;
        let (app, grace) = (Arc::new(plan.settings.app.clone()), plan.settings.drain);
        let (settings, name, of) = (plan.settings.clone(), plan.name.clone(), store.clone());
        let node = start(&mut signals, move || Node::bare(&settings, Unnamed::Free(&name), of)).await?;
        topics::open(node.handle(), &app.topics, store.as_ref())?;
        drop(store);
        let socket = node.socket().display();
        let name = node.socket().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        tracing::info!(%socket, "node is up: watch it with rusm-top {name}");
        if let (Some(address), Some(token)) = (node.console().address(), node.console().token_file()) {
            tracing::info!(%address, token_file = %token.display(), "listens on TCP");
        }
        let mut crew = Crew::of(wasm, node.handle().clone(), app, &name, flags.watch);
        let over = match crew.start().await {
            Ok(()) => until_over(&node, &mut signals, &mut crew, modules, observer, flags.watch).await,
            Err(failure) => {
                drain(node, &mut signals).await?;
                return Err(failure);
            }
        };
        signals.forget();
        if let Over::Signal(signal) = &over {
            let signal = signal.name;
            tracing::info!(signal, drain = ?grace, "guests are being stopped in reverse order; a second signal ends the node at once");
        }
        let verdict = crew.verdict();
        let shutdown = drain(node, &mut signals).await?;
        tell_stuck(&shutdown);
        tracing::info!(killed = shutdown.killed, "node has stopped");
        match over {
            Over::Signal(signal) if flags.top => Ok(signal.code()),
            Over::Signal(_) => Ok(0),
            Over::Guests => verdict.map(|()| 0),
            Over::Observer(ended) => verdict.and(Ok(ended.map(Exit::code)?)),
        }
    })
}

async fn until_over(
    node: &Node,
    signals: &mut Signals,
    crew: &mut Crew,
    modules: Modules,
    observer: Option<Options>,
    watch: bool,
) -> Over {
    let is_seen = observer.is_some();
    let observer = async {
        match observer {
            Some(observer) => rusm_tui::run(of_node(observer, node)).await,
            None => pending().await,
        }
    };
    let guests = async {
        if watch {
            crew.keep_up_with(modules).await;
        }
        crew.ended().await;
        // Keep the observer open: its user may want to see why the guests ended.
        if is_seen { pending().await } else { Over::Guests }
    };
    tokio::select! {
        biased;
        ended = observer => Over::Observer(ended),
        signal = signals.next() => Over::Signal(signal),
        over = guests => over,
    }
}

//! `rusm serve`: a node that answers HTTP requests with a component, a folder, or the `[[serve]]` entries of a file.
//!
//! ```text
//!   app.wasm │ folder │ rusm.toml ─▶ Sites ─▶ a line for each address ─▶ signal ─▶ drained, 0
//! ```

pub(crate) mod sites;

use std::path::Path;

use crate::bench::output::print;
use crate::cli::{NodeFlags, ObservedFlags, ServeFlags};
use crate::failure::{Failure, system};
use crate::logging;
use crate::run::plan::{is_configuration, node_name, project_name};
use crate::settings::Settings;
use crate::settings::app::stem;
use crate::settings::raw::{RawSetting, RawSettings};
use crate::signals::service::Service;
use crate::signals::{Signals, block_on, drain, start};
use crate::start::{DefaultName, Node, open_store};

/// File to serve if the command line names nothing.
const DEFAULT_FILE: &str = "rusm.toml";

/// Runs until a signal, drains the node, and returns 0.
pub(crate) fn run(flags: &ServeFlags) -> Result<u8, Failure> {
    let (settings, name) = plan(flags)?;
    logging::start(&settings.log, settings.exporter(&name).as_ref(), false)?;
    let grace = settings.drain;
    block_on("wait for signals", async {
        // Listen before the node becomes visible: an early signal must also drain it.
        let mut signals = Signals::of_service().map_err(system("wait for signals"))?;
        let mut service = Service::start()?;
        let (of, watch) = (settings.clone(), flags.watch);
        let starting = move || {
            let store = open_store(&of)?;
            let mut node = Node::without_scenarios(&of, DefaultName::Free(&name), store)?;
            node.serve(&of.app, None)?;
            node.follow_changes(watch)?;
            node.set_ready();
            Ok(node)
        };
        let node = start(&mut signals, starting).await?;
        let socket = node.socket().display();
        let name = node.socket().file_stem().unwrap_or_default().to_string_lossy();
        tracing::info!(%socket, "node is up: watch it with rusm-top {name}");
        announce(node.urls().collect());
        let flags = flags.clone();
        let signal = tokio::select! {
            biased;
            signal = signals.next() => signal.name,
            never = service.attend(&node, move || plan(&flags).map(|(settings, _)| settings)) => match never {},
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

/// Prints the addresses, on a thread of its own: signals do not wait for the reader of stdout. A server serves also if
/// they cannot be printed.
fn announce(urls: Vec<String>) {
    let body = move || {
        if let Err(failure) = urls.iter().try_for_each(|url| print(&format!("listening on {url}"))) {
            tracing::warn!("the addresses were not printed: {failure}");
        }
    };
    if let Err(error) = std::thread::Builder::new().name("rusm-addresses".to_owned()).spawn(body) {
        tracing::warn!(%error, "the addresses were not printed");
    }
}

/// Reads the settings, and the name of the node if they name none.
fn plan(flags: &ServeFlags) -> Result<(Settings, String), Failure> {
    let target = match (&flags.target, &flags.common.config) {
        (Some(target), _) => target.as_path(),
        (None, Some(config)) => return of_file(flags, config),
        (None, None) if Path::new(DEFAULT_FILE).exists() => Path::new(DEFAULT_FILE),
        (None, None) => {
            return Err(Failure::Usage(format!(
                "nothing to serve: there is no {DEFAULT_FILE} here, and no component or folder was given"
            )));
        }
    };
    if is_configuration(target) {
        return of_file(flags, target);
    }
    let mut settings = Settings::read(&NodeFlags::from((ObservedFlags::from(flags), flags.common.clone())))?;
    let raw = |given: Vec<(&'static str, &'static str, &str)>| -> RawSettings {
        given.into_iter().map(|(key, flag, value)| (key.to_owned(), RawSetting::of_text(key, value, flag))).collect()
    };
    settings.app = settings.app.with_single_site(target, &raw(flags.of_site()), &raw(flags.of_route()))?;
    Ok((settings, node_name(&stem(target))))
}

fn of_file(flags: &ServeFlags, file: &Path) -> Result<(Settings, String), Failure> {
    let shown = file.display();
    if flags.common.config.as_ref().is_some_and(|config| config != file) {
        return Err(Failure::Usage(format!("{shown} and --config are two configurations: give only one")));
    }
    if let Some((key, flag, _)) = flags.of_site().into_iter().chain(flags.of_route()).next() {
        return Err(Failure::Usage(format!("{flag} is for a component or a folder: set {key} in {shown}")));
    }
    let mut common = flags.common.clone();
    common.config = Some(file.to_owned());
    let settings = Settings::read(&NodeFlags::from((ObservedFlags::from(flags), common)))?;
    if settings.app.sites.is_empty() {
        return Err(Failure::Usage(format!("{shown} has no [[serve]] entry: there is nothing to serve")));
    }
    Ok((settings, project_name(file)))
}

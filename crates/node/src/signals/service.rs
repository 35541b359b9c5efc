//! A node without a screen as a service: what it tells its service manager, and the signals that do not end it.
//!
//! ```text
//!   node is up ─▶ READY=1      half of WATCHDOG_USEC has passed, a scheduler runs ─▶ WATCHDOG=1
//!   SIGHUP ─▶ log reopened ─▶ settings checked ─▶ level of the log set, certificates, modules and folders read again
//!   SIGUSR1 ─▶ log reopened            drain ─▶ STOPPING=1
//! ```
//!
//! Without a service manager nothing is sent. If standard error is a terminal, SIGHUP says that the terminal is gone, and
//! ends the node.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use rusm_runtime::observe;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, system};
use crate::logging;
use crate::settings::Settings;
use crate::signals::own_thread::OwnThread;
use crate::start::Node;

/// Key of the setting that changes while the node runs.
const LOG_LEVEL: &str = "log.level";

/// Returns true if SIGHUP reloads the settings instead of ending the node.
pub(crate) fn reloads_on_hangup() -> bool {
    !io::stderr().is_terminal()
}

/// Ignores the signals that do not end a service until [`Service::start`] listens to them: modules may be compiled before.
/// Call it before the program starts any thread.
pub(crate) fn ignore_until_started() {
    rusm_log::ignore_service_signals(reloads_on_hangup());
}

/// The service manager that started this program, if one did.
#[derive(Debug)]
struct Manager {
    socket: UnixDatagram,
    /// Time between two signs of life.
    watchdog: Option<Duration>,
}

impl Manager {
    /// Finds the socket in `NOTIFY_SOCKET`: a path, or an abstract name after `@`.
    fn connect(var: impl Fn(&str) -> Option<OsString>) -> io::Result<Option<Self>> {
        let Some(name) = var("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Ok(None) };
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        // A manager that does not read must not block the node.
        socket.set_nonblocking(true)?;
        let number = |name: &str| var(name)?.to_str()?.parse::<u64>().ok();
        let is_meant = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|micros| is_meant && *micros > 0);
        // Twice as often as required, as its manual recommends.
        let watchdog = watchdog.map(|micros| Duration::from_micros(micros) / 2);
        Ok(Some(Self { socket, watchdog }))
    }

    fn tell(&self, state: &str) {
        if let Err(error) = self.socket.send(state.as_bytes()) {
            tracing::debug!(%error, state, "the service manager does not read");
        }
    }
}

/// The service that a node without a screen is.
#[derive(Debug)]
pub(crate) struct Service {
    manager: Option<Manager>,
    hangup: Option<Signal>,
    reopen: Signal,
}

impl Service {
    /// Starts to listen, on the reactor that the caller has entered.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn start() -> Result<Self, Failure> {
        let manager = Manager::connect(|name| std::env::var_os(name)).unwrap_or_else(|error| {
            tracing::warn!(%error, "the service manager is not told anything: NOTIFY_SOCKET cannot be opened");
            None
        });
        let listen = |kind| signal(kind).map_err(system("wait for signals"));
        let hangup = if reloads_on_hangup() { Some(listen(SignalKind::hangup())?) } else { None };
        Ok(Self { manager, hangup, reopen: listen(SignalKind::user_defined1())? })
    }

    fn tell(&self, state: &str) {
        if let Some(manager) = &self.manager {
            manager.tell(state);
        }
    }

    /// Says that the node drains.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Says that the node is up, and then does what the manager and the signals ask for. `read` reads the settings anew, on
    /// a thread of its own: a file that does not answer must not keep signals from ending the program.
    pub(crate) async fn attend<F>(&mut self, node: &Node, read: F) -> Infallible
    where
        F: Fn() -> Result<Settings, Failure> + Send + Sync + 'static,
    {
        let read = Arc::new(read);
        let mut reading: Option<OwnThread<Result<Settings, Failure>>> = None;
        self.tell("READY=1");
        let watchdog = self.manager.as_ref().and_then(|manager| manager.watchdog);
        let mut signs = tokio::time::interval(watchdog.unwrap_or(Duration::MAX / 4));
        signs.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = received(self.hangup.as_mut()), if reading.is_none() => {
                    self.tell("RELOADING=1");
                    let read = Arc::clone(&read);
                    match OwnThread::start("read the settings", move || read()) {
                        Ok(started) => reading = Some(started),
                        Err(failure) => reload(node, Err(failure)),
                    }
                }
                settings = done(reading.as_mut()) => {
                    reading = None;
                    reload(node, settings);
                    self.tell("READY=1");
                }
                () = received(Some(&mut self.reopen)) => reopen_log(),
                _ = signs.tick(), if watchdog.is_some() => {
                    if observe::stuck(node.handle()).len() < node.handle().config().schedulers {
                        self.tell("WATCHDOG=1");
                    }
                }
            }
        }
    }
}

async fn received(signal: Option<&mut Signal>) {
    let Some(signal) = signal else { return std::future::pending().await };
    if signal.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}

async fn done(reading: Option<&mut OwnThread<Result<Settings, Failure>>>) -> Result<Settings, Failure> {
    let Some(reading) = reading else { return std::future::pending().await };
    reading.await?
}

/// Puts the settings into use that can change while the node runs, and names the others.
fn reload(node: &Node, settings: Result<Settings, Failure>) {
    reopen_log();
    let settings = match settings {
        Ok(settings) => settings,
        Err(failure) => {
            tracing::error!("settings are not valid, and the node keeps its own: {failure}");
            return;
        }
    };
    if let Err(error) = logging::replace_filter(&settings.log.level) {
        tracing::error!("the level of the log stays: {error}");
    }
    node.reload();
    tracing::info!(
        level = settings.log.level,
        "settings are valid: log, certificates, and the modules and folders of servers were read again"
    );
    let mut changes = node.given().changes(&settings.given);
    changes.remove(LOG_LEVEL);
    if !changes.is_empty() {
        let changes = changes.into_iter().collect::<Vec<_>>().join(", ");
        tracing::warn!(%changes, "settings that need a restart have changed");
    }
}

fn reopen_log() {
    if let Some(log) = logging::log() {
        log.reopen();
        tracing::info!("opens the log file again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(vars: &[(&str, &str)]) -> Option<Manager> {
        let find = |name: &str| vars.iter().find(|(other, _)| *other == name).map(|(_, value)| OsString::from(value));
        Manager::connect(find).unwrap()
    }

    #[test]
    fn a_manager_gets_datagrams_on_its_path_or_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("rusm-notify-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        let of_path = UnixDatagram::bind(&path).unwrap();
        let of_name = UnixDatagram::bind_addr(&abstract_address).unwrap();

        manager(&[("NOTIFY_SOCKET", path.to_str().unwrap())]).unwrap().tell("READY=1");
        manager(&[("NOTIFY_SOCKET", &format!("@{name}"))]).unwrap().tell("STOPPING=1");

        for (socket, expected) in [(of_path, &b"READY=1"[..]), (of_name, b"STOPPING=1")] {
            let mut bytes = [0; 64];
            let len = socket.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..len], expected);
        }
        assert!(manager(&[]).is_none() && manager(&[("NOTIFY_SOCKET", "")]).is_none());
    }

    #[test]
    fn signs_of_life_come_twice_as_often_as_required_and_only_from_the_main_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let _socket = UnixDatagram::bind(&path).unwrap();
        let own = std::process::id().to_string();
        let of = |pid: &str| {
            let vars = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", pid)];
            manager(&vars).unwrap().watchdog
        };
        assert_eq!((of(&own), of("1")), (Some(Duration::from_millis(1_500)), None));
    }
}

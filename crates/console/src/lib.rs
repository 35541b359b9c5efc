//! The observer endpoint: samples the runtime and streams the samples to attached clients.
//!
//! ```text
//!   runtime ──▶ sampler ──▶ newest sample ──▶ session ──▶ observer      one thread, beside the schedulers
//!   Host   ◀────────── commands ◀──────────── session ◀── observer
//! ```
//!
//! An application calls [`Console::bind`] so that `rusm-top` can observe it:
//!
//! ```no_run
//! use rusm_console::{Console, ConsoleConfig};
//! use rusm_runtime::{Config, Runtime};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let console = Console::bind(&runtime, ConsoleConfig::named("my-app"))?;
//! println!("watch me: rusm-top {}", console.socket().display());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
mod encode;
mod endpoint;
mod host;
mod kill_all;
mod limits;
mod lints;
mod metrics;
mod rate_limit;
mod sampler;
mod serving;
mod session;
mod ticker;
mod view;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

pub use endpoint::private_dir::check_dir;
pub use endpoint::{ConsoleError, runtime_dir};
pub use host::{Host, HostError, NoScenarios, RunSnapshot};
pub use limits::Limits;
pub use lints::{LintLevel, LintLevels};
pub use rusm_protocol::{Lint, LogSnapshot};
use thiserror::Error;
use tokio::sync::watch;

use self::endpoint::UnixEndpoint;
use self::endpoint::handshake::Transport;
use self::endpoint::owned_file::{NameLock, OwnedFile};
use self::serving::Serving;
use rusm_runtime::Handle;

/// Rate at which a node samples its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRate(u8);

/// Error returned for a rate outside 10–60 Hz.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("tick rate of {hz} Hz is not between 10 and 60")]
pub struct TickRateError {
    /// Requested rate, in hertz.
    pub hz: u8,
}

impl TickRate {
    /// 20 Hz.
    pub const DEFAULT: Self = Self(20);

    /// Creates a rate from a number of hertz.
    ///
    /// # Errors
    /// [`TickRateError`] outside 10–60 Hz: a slower display looks frozen, a faster one outruns terminals.
    pub fn from_hz(hz: u8) -> Result<Self, TickRateError> {
        if (10..=60).contains(&hz) { Ok(Self(hz)) } else { Err(TickRateError { hz }) }
    }

    /// Returns the time between two ticks.
    pub fn interval(self) -> Duration {
        Duration::from_secs(1) / u32::from(self.0)
    }
}

/// A function that returns the counters of the program's log.
pub type LogSource = Arc<dyn Fn() -> LogSnapshot + Send + Sync>;

/// Configuration of a [`Console`].
#[derive(Clone)]
pub struct ConsoleConfig {
    /// Name of the node and of its socket: 1 to 64 letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Directory of the socket and of the token files. Default: [`runtime_dir`]. Created with mode 0700.
    pub dir: PathBuf,
    /// Loopback address to listen on in addition to the Unix socket. Default: none. Port 0 selects a free port.
    pub listen: Option<SocketAddr>,
    /// Sampling rate of the counters. Default 20 Hz. A higher rate is smoother and costs more; see `observer_overhead`.
    pub tick: TickRate,
    /// Limits on the requests of clients. Default: [`Limits::default`].
    pub limits: Limits,
    /// Lints that are reported to observers. Default: all.
    pub lints: LintLevels,
    /// Host that runs scenarios. Default: [`NoScenarios`].
    pub host: Arc<dyn Host>,
    /// Source of the log counters that observers see, called once per tick. Default: none.
    pub log: Option<LogSource>,
    /// Version shown to observers. Default: the version of this crate.
    pub version: String,
}

impl ConsoleConfig {
    /// Returns the default configuration for a node with this name.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            dir: runtime_dir(),
            listen: None,
            tick: TickRate::DEFAULT,
            limits: Limits::default(),
            lints: LintLevels::default(),
            host: Arc::new(NoScenarios),
            log: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl std::fmt::Debug for ConsoleConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleConfig").field("name", &self.name).field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// An open console. Dropping it closes all connections of observers and removes its socket and token files.
#[derive(Debug)]
pub struct Console {
    socket: PathBuf,
    address: Option<SocketAddr>,
    token_file: Option<PathBuf>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    /// Removed on drop, while the listeners are still open: until then, a successor can bind neither name nor port.
    files: Vec<OwnedFile>,
    /// Released on drop, after the listeners are closed.
    _lock: NameLock,
}

impl Console {
    /// Opens the endpoint and starts the thread that samples and serves.
    ///
    /// # Errors
    /// [`ConsoleError`]; its text says what to do.
    pub fn bind(runtime: &Handle, config: ConsoleConfig) -> Result<Self, ConsoleError> {
        endpoint::check_name(&config.name)?;
        let dir = endpoint::private_dir::private_dir(&config.dir)?;
        let UnixEndpoint { lock, socket: own_socket, listener: unix } = endpoint::bind_unix(&dir, &config.name)?;
        let socket = own_socket.path().to_owned();
        let mut files = vec![own_socket];
        let (mut tcp, mut address, mut token_file) = (None, None, None);
        if let Some(asked) = config.listen {
            let listener = endpoint::bind_tcp(asked)?;
            let bound = listener.local_addr().unwrap_or(asked);
            let (tokens, token_files) = endpoint::write_tokens(&dir, bound)?;
            token_file = token_files.first().map(|file| file.path().to_owned());
            files.extend(token_files);
            tcp = Some((listener, Transport::Tcp { port: bound.port(), tokens }));
            address = Some(bound);
        }
        let (stop, stopping) = watch::channel(false);
        let (tell, started) = mpsc::sync_channel(1);
        let (runtime, listeners) = (runtime.clone(), 1 + u32::from(tcp.is_some()));
        // Create and drop the reactor on its own thread: the caller may already be inside a tokio runtime.
        let body = move || match Serving::open(unix, tcp, config.tick.interval()) {
            // Count the free descriptors last: the console has opened everything that it needs by then.
            Ok(serving) => match endpoint::descriptors::fit(config.limits, listeners) {
                Ok(limits) => {
                    drop(tell.send(Ok(())));
                    serving.run(runtime, ConsoleConfig { limits, ..config }, stopping);
                }
                Err(error) => drop(tell.send(Err(error))),
            },
            Err(source) => drop(tell.send(Err(thread_error("start", source)))),
        };
        let thread = std::thread::Builder::new().name("rusm-console".to_owned()).spawn(body);
        let thread = Some(thread.map_err(|source| thread_error("start", source))?);
        let console = Self { socket, address, token_file, stop, thread, files, _lock: lock };
        match started.recv() {
            Ok(Err(error)) => Err(error),
            Ok(Ok(())) | Err(mpsc::RecvError) => Ok(console),
        }
    }

    /// Returns the path of the Unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the TCP address, if the console listens on one.
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the path of the file with the token for control over TCP.
    pub fn token_file(&self) -> Option<&Path> {
        self.token_file.as_deref()
    }
}

fn thread_error(what: &'static str, source: std::io::Error) -> ConsoleError {
    ConsoleError::System { what, path: "the console's thread".to_owned(), source }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.files.clear();
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of the thread.
            drop(thread.join());
        }
    }
}

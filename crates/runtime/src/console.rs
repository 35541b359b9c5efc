//! The observer endpoint: samples the runtime and streams what it sees to whoever attaches.
//!
//! ```text
//!   runtime ──▶ sampler ──▶ newest sample ──▶ session ──▶ observer      one thread, beside the schedulers
//!   Host   ◀────────── commands ◀──────────── session ◀── observer
//! ```
//!
//! [`Console::bind`] is all that an application needs to be watched by `rusm-top`:
//!
//! ```no_run
//! use rusm_runtime::console::{Console, ConsoleConfig};
//! use rusm_runtime::{Config, Runtime};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let console = Console::bind(&runtime, ConsoleConfig::named("my-app"))?;
//! println!("watch me: rusm-top {}", console.socket().display());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod allowance;
mod budget;
mod descriptors;
mod doors;
mod encode;
mod endpoint;
mod engines;
mod filter;
mod handshake;
mod host;
mod kill_all;
mod limits;
mod lints;
mod metrics;
mod node;
mod owned_file;
mod private_dir;
mod ranking;
mod sampler;
mod serving;
mod session;
mod sort_key;
mod stores;
mod table;
mod ticker;
mod time;
mod topics;
mod tree;
mod window;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

pub use endpoint::{ConsoleError, runtime_dir};
pub use host::{Host, HostError, NoScenarios, RunSnapshot};
pub use limits::Limits;
pub use lints::{LintLevel, LintLevels};
pub use private_dir::check_dir;
pub use rusm_protocol::{Lint, LogSnapshot};
use thiserror::Error;
use tokio::sync::watch;

use self::endpoint::UnixEndpoint;
use self::handshake::Door;
use self::owned_file::{NameLock, OwnedFile};
use self::serving::Serving;
use crate::Handle;

/// How often a node samples its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRate(u8);

/// The rate is outside 10–60 Hz.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("tick rate of {hz} Hz is not between 10 and 60")]
pub struct TickRateError {
    /// The rate asked for.
    pub hz: u8,
}

impl TickRate {
    /// 20 Hz.
    pub const DEFAULT: Self = Self(20);

    /// A rate in hertz.
    ///
    /// # Errors
    /// [`TickRateError`] outside 10–60 Hz: slower looks dead, faster outruns terminals.
    pub fn from_hz(hz: u8) -> Result<Self, TickRateError> {
        if (10..=60).contains(&hz) { Ok(Self(hz)) } else { Err(TickRateError { hz }) }
    }

    /// The time between two ticks.
    pub fn interval(self) -> Duration {
        Duration::from_secs(1) / u32::from(self.0)
    }
}

/// A function that returns the counters of the program's log.
pub type LogSource = Arc<dyn Fn() -> LogSnapshot + Send + Sync>;

/// How a node can be observed.
#[derive(Clone)]
pub struct ConsoleConfig {
    /// The node's name, which is also its socket's: 1 to 64 letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// The directory of the socket and of token files. Default: [`runtime_dir`]. Created with mode 0700.
    pub dir: PathBuf,
    /// A loopback address to listen on besides the Unix socket. Default: none. Port 0 takes a free one.
    pub listen: Option<SocketAddr>,
    /// How often counters are sampled. Default 20 Hz. More is smoother and costs more; see `observer_overhead`.
    pub tick: TickRate,
    /// What clients may ask for. Default: [`Limits::default`].
    pub limits: Limits,
    /// Which lints observers are warned of. Default: all of them.
    pub lints: LintLevels,
    /// Who runs scenarios. Default: [`NoScenarios`].
    pub host: Arc<dyn Host>,
    /// Reads the counters of the program's log, to show them to observers; called once a tick. Default: none.
    pub log: Option<LogSource>,
    /// The version shown to observers. Default: this crate's.
    pub version: String,
}

impl ConsoleConfig {
    /// The defaults for a node of this name.
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

/// An open console; dropping it ends every observer's connection and removes its socket and token files.
#[derive(Debug)]
pub struct Console {
    socket: PathBuf,
    address: Option<SocketAddr>,
    token_file: Option<PathBuf>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    /// Removed on drop, while the listeners are still open: a successor can bind neither the name nor the port before.
    files: Vec<OwnedFile>,
    /// Released on drop, after the listeners are closed.
    _lock: NameLock,
}

impl Console {
    /// Opens the endpoint and starts the thread that samples and serves.
    ///
    /// # Errors
    /// [`ConsoleError`], whose text says what to do.
    pub fn bind(runtime: &Handle, config: ConsoleConfig) -> Result<Self, ConsoleError> {
        endpoint::check_name(&config.name)?;
        let dir = private_dir::private_dir(&config.dir)?;
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
            tcp = Some((listener, Door::Tcp { port: bound.port(), tokens }));
            address = Some(bound);
        }
        let (stop, stopping) = watch::channel(false);
        let (tell, started) = mpsc::sync_channel(1);
        let (runtime, listeners) = (runtime.clone(), 1 + u32::from(tcp.is_some()));
        // The reactor lives and dies on its own thread: whoever binds a console may be inside one of tokio's already.
        let body = move || match Serving::open(unix, tcp, config.tick.interval()) {
            // Counted last, when all that the console itself needs is open.
            Ok(serving) => match descriptors::fit(config.limits, listeners) {
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

    /// The Unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The TCP address, if the console listens on one.
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The file with the token for control over TCP.
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
            // A panic there was reported by the panic hook.
            drop(thread.join());
        }
    }
}

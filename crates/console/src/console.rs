//! An open console: binds its addresses, and starts the thread that samples and serves.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;

use rusm_runtime::Handle;
use tokio::sync::watch;

use crate::config::ConsoleConfig;
use crate::endpoint::error::ConsoleError;
use crate::endpoint::handshake::Transport;
use crate::endpoint::owned_file::{NameLock, OwnedFile};
use crate::endpoint::{self, UnixEndpoint};
use crate::serving::Serving;
use crate::serving::metrics_reader::{MetricsReader, metrics_reader};

/// An open console. Dropping it closes all connections of observers and removes its socket and token files.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_console as console; }
/// use rusm::console::{Console, ConsoleConfig};
/// use rusm::{Config, Runtime};
///
/// # let directory = tempfile::tempdir()?;
/// let runtime = Runtime::start(Config::default())?;
/// let config = ConsoleConfig::named("shop");
/// # // The folder for sockets is made with mode 0700.
/// # let config = ConsoleConfig { dir: directory.path().join("sockets"), ..config };
/// let console = Console::bind(&runtime, config)?;
/// // From now on, `rusm-top shop` shows what runs here.
/// assert!(console.socket().ends_with("shop.sock"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the console closes when it is dropped"]
pub struct Console {
    socket: PathBuf,
    address: Option<SocketAddr>,
    token_file: Option<PathBuf>,
    metrics: MetricsReader,
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
        let (metrics, requests) = metrics_reader();
        let (tell, started) = mpsc::sync_channel(1);
        let (runtime, listeners) = (runtime.clone(), 1 + u32::from(tcp.is_some()));
        // Create and drop the reactor on its own thread: the caller may already be inside a tokio runtime.
        let body = move || match Serving::open(unix, tcp, config.tick.interval(), requests) {
            // Count the free descriptors last: the console has opened everything that it needs by then.
            Ok(serving) => match endpoint::descriptors::fit(config.limits, listeners, config.reserved_files) {
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
        let console = Self { socket, address, token_file, metrics, stop, thread, files, _lock: lock };
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

    /// Returns a reader of the metrics, for an exporter.
    pub fn metrics(&self) -> MetricsReader {
        self.metrics.clone()
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

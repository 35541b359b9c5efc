//! Configuration of a console: names, rates, and the limits beyond which clients are refused, slowed down or
//! disconnected.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusm_protocol::{LogLine, LogSnapshot};
use thiserror::Error;

use crate::endpoint::private_dir::runtime_dir;
use crate::host::{Host, NoScenarios};
use crate::lints::levels::LintLevels;
use crate::lints::thresholds::LintThresholds;
use crate::serving::readiness::Readiness;

/// Rate at which a node samples its counters.
///
/// ```
/// # mod rusm { pub use rusm_console as console; }
/// use rusm::console::TickRate;
///
/// assert_eq!(TickRate::from_hz(50)?.interval().as_millis(), 20);
/// assert!(TickRate::from_hz(1).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

/// A function that replaces the filter of the program's log, until the program ends. Its error is a line for the client.
pub type LogFilter = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The newest lines of the program's log. Called on the console's thread, and only while a client reads lines.
pub trait LogLines: Send + Sync {
    /// Returns the number of lines kept since the program started.
    fn noted(&self) -> u64;

    /// Returns that number, and the newest lines, oldest first, at most `len`.
    fn newest(&self, len: usize) -> (u64, Vec<LogLine>);
}

/// Returns the directory of sockets where a variable says so, or the usual one.
fn socket_dir(variable: Option<OsString>) -> PathBuf {
    variable.filter(|dir| !dir.is_empty()).map_or_else(runtime_dir, PathBuf::from)
}

/// Configuration of a [`Console`](crate::Console).
///
/// ```
/// # mod rusm { pub use rusm_console as console; }
/// use rusm::console::{ConsoleConfig, TickRate};
///
/// let config = ConsoleConfig {
///     listen: Some(([127, 0, 0, 1], 4000).into()), // WebSockets, /healthz, /readyz and /metrics
///     tick: TickRate::from_hz(20)?,
///     read_only: true,
///     ..ConsoleConfig::named("shop")
/// };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ConsoleConfig {
    /// Name of the node and of its socket: 1 to 64 letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Directory of the socket and of the token files. Default: `$RUSM_SOCKET_DIR`, in which rusm-top looks too, else
    /// [`runtime_dir`]. Created with mode 0700.
    pub dir: PathBuf,
    /// Loopback address to listen on in addition to the Unix socket. Default: none. Port 0 selects a free port.
    pub listen: Option<SocketAddr>,
    /// Sampling rate of the counters. Default 20 Hz. A higher rate is smoother and costs more; see `observer_overhead`.
    pub tick: TickRate,
    /// Limits on the requests of clients. Default: [`Limits::default`].
    pub limits: Limits,
    /// Lints that are reported to observers. Default: all.
    pub lints: LintLevels,
    /// Values from which lints are reported. Default: [`LintThresholds::DEFAULT`].
    pub lint_thresholds: LintThresholds,
    /// The past that is kept for observers. Default: fifteen minutes in at most 32 MiB.
    pub recorder: RecorderConfig,
    /// Host that runs scenarios. Default: [`NoScenarios`].
    pub host: Arc<dyn Host>,
    /// Source of the log counters that observers see, called once per tick. Default: none.
    pub log: Option<LogSource>,
    /// Source of the log lines that observers with the control role may read. Default: none.
    pub log_lines: Option<Arc<dyn LogLines>>,
    /// Replaces the filter of the log for clients with the control role. Default: none.
    pub log_filter: Option<LogFilter>,
    /// Answer of `GET /readyz`. Default: ready.
    pub readiness: Readiness,
    /// True if no client may change the node, whatever its token. Default: false.
    pub read_only: bool,
    /// Number of files and sockets that the program opens after the console: fewer observers may attach if the limit on
    /// open files is low. Default: 0.
    pub reserved_files: u32,
    /// Version shown to observers. Default: the version of this crate.
    pub version: String,
}

impl ConsoleConfig {
    /// Returns the default configuration for a node with this name.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            dir: socket_dir(std::env::var_os("RUSM_SOCKET_DIR")),
            listen: None,
            tick: TickRate::DEFAULT,
            limits: Limits::default(),
            lints: LintLevels::default(),
            lint_thresholds: LintThresholds::DEFAULT,
            recorder: RecorderConfig::default(),
            host: Arc::new(NoScenarios),
            log: None,
            log_lines: None,
            log_filter: None,
            readiness: Readiness::default(),
            read_only: false,
            reserved_files: 0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl std::fmt::Debug for ConsoleConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleConfig").field("name", &self.name).field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// Configuration of the flight recorder, which keeps what observers would have seen over the last minutes.
///
/// ```
/// # mod rusm { pub use rusm_console as console; }
/// use std::time::Duration;
///
/// use rusm::console::{ConsoleConfig, RecorderConfig};
///
/// let recorder = RecorderConfig { span: Duration::from_mins(60), ..RecorderConfig::default() };
/// let config = ConsoleConfig { recorder, ..ConsoleConfig::named("shop") };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecorderConfig {
    /// Time that is kept. Default 15 min; zero turns the recorder off.
    pub span: Duration,
    /// Memory that it may take, in bytes. Default 32 MiB. If it is used up, the oldest instants are dropped first.
    pub memory_bytes: usize,
}

impl Default for RecorderConfig {
    fn default() -> Self {
        Self { span: Duration::from_mins(15), memory_bytes: 32 << 20 }
    }
}

impl RecorderConfig {
    /// Returns true if anything is recorded.
    pub const fn is_on(&self) -> bool {
        !self.span.is_zero() && self.memory_bytes > 0
    }
}

/// Limits on every connection. The defaults are meant for production; tests shorten the times.
///
/// ```
/// # mod rusm { pub use rusm_console as console; }
/// use rusm::console::{ConsoleConfig, Limits};
///
/// let limits = Limits { clients: 4, commands_per_sec: 5, ..Limits::default() };
/// let config = ConsoleConfig { limits, ..ConsoleConfig::named("shop") };
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Number of observers that may be attached at once. Default 32. Each costs up to 0.5 MiB, a file descriptor and
    /// its share of the console's time. A limit on open files (`ulimit -n`) that leaves less room reduces it.
    pub clients: u32,
    /// Number of pending handshakes of one listener, Unix or TCP. Default 64. Beyond it, the oldest is closed.
    pub handshakes: u32,
    /// Time limit for a whole handshake. Default 5 s.
    pub handshake: Duration,
    /// Connections per second that each listener accepts. Default 200. Further connections wait.
    pub connections_per_sec: u32,
    /// Commands per second, also the size of a burst. Default 20. Further commands are answered with an error.
    pub commands_per_sec: u32,
    /// WebSocket messages per second, including pings. Default 200. A client that sends more is disconnected.
    pub messages_per_sec: u32,
    /// Bytes per second read from a client. Default 256 KiB. Further bytes wait in the client's own socket.
    pub bytes_per_sec: u32,
    /// Time limit for a write, after which the connection is closed. Default 5 s.
    pub write: Duration,
    /// Interval at which a quiet connection is pinged. Default 15 s.
    pub ping_every: Duration,
    /// Time without any sign of life after which a connection is closed as dead. Default 45 s.
    pub dead_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 32,
            handshakes: 64,
            handshake: Duration::from_secs(5),
            connections_per_sec: 200,
            commands_per_sec: 20,
            messages_per_sec: 200,
            bytes_per_sec: 256 * 1024,
            write: Duration::from_secs(5),
            ping_every: Duration::from_secs(15),
            dead_after: Duration::from_secs(45),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_where_the_variable_of_the_observer_says() {
        assert_eq!(socket_dir(Some("/run/shop".into())), PathBuf::from("/run/shop"));
        assert_eq!((socket_dir(None), socket_dir(Some(OsString::new()))), (runtime_dir(), runtime_dir()));
    }
}

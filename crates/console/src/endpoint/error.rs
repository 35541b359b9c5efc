//! Errors of opening the console.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use rusm_text::escaped;
use thiserror::Error;

/// Length of the longest path that fits into a socket address, excluding the terminating zero byte.
pub(super) const SOCKET_PATH_MAX_BYTES: usize =
    if cfg!(any(target_os = "linux", target_os = "android")) { 107 } else { 103 };

/// Error returned when the console cannot be opened.
#[derive(Debug, Error)]
pub enum ConsoleError {
    /// A running node uses this socket: choose another name, or stop that node.
    #[error("socket {} is in use by a running node: choose another name with --name, or stop that node", escaped(path.display()))]
    SocketInUse {
        /// The socket.
        path: PathBuf,
    },
    /// Another process holds this socket but accepts no connections, for example because it is stopped: end it, or
    /// choose another name.
    #[error(
        "socket {} is held by another process, which does not answer: end that process, or choose another name with --name",
        escaped(path.display())
    )]
    SocketSilent {
        /// The socket.
        path: PathBuf,
    },
    /// Another user could enter or replace the directory, and so read the traffic: correct it, or choose another
    /// directory.
    #[error("directory {} {}", escaped(path.display()), escaped(fault))]
    UnsafeDirectory {
        /// The directory.
        path: PathBuf,
        /// The fault, and how to correct it.
        fault: String,
    },
    /// The path is longer than a socket address allows: choose a shorter directory or name.
    #[error(
        "socket path of {bytes} bytes is over the limit of {SOCKET_PATH_MAX_BYTES}: \
         set {variable} to a shorter directory or choose a shorter name ({})",
        escaped(path.display())
    )]
    PathTooLong {
        /// The socket.
        path: PathBuf,
        /// Bytes of its path.
        bytes: usize,
        /// The environment variable that sets the directory.
        variable: &'static str,
    },
    /// The path exists and is not a socket; it is left untouched.
    #[error("{} exists and is not a socket: move it away or choose another path", escaped(path.display()))]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The name is not valid; it must be usable as a file name.
    #[error("node name {name:?} must be 1 to 64 letters, digits, '-', '_' or '.', and start with a letter or digit")]
    Name {
        /// The name asked for.
        name: String,
    },
    /// Another program listens on the address: choose another port.
    #[error("address {address} is in use: choose another port with --listen")]
    AddressInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The address is not loopback, so that anyone on the network could try tokens and read the traffic.
    #[error(
        "address {address} is neither 127.0.0.1 nor [::1]: listen on one of them and forward the same port with ssh -L"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The limit on open files leaves no descriptor for an observer: raise it.
    #[error(
        "the limit of {max} open files leaves no descriptor for an observer: raise it with ulimit -n to {least} for one, or to \
         {enough} for {clients}"
    )]
    NoDescriptors {
        /// The limit.
        max: u64,
        /// The smallest limit that suffices for one observer.
        least: u64,
        /// The smallest limit that suffices for all observers.
        enough: u64,
        /// The number of observers that may be attached at once.
        clients: u32,
    },
    /// An operation on a file, a socket or a thread failed.
    #[error("cannot {what} {}: {source}", escaped(path))]
    System {
        /// The operation.
        what: &'static str,
        /// Its target.
        path: String,
        /// Error returned by the operating system.
        source: io::Error,
    },
}

pub(crate) fn system(what: &'static str, path: impl std::fmt::Display) -> impl FnOnce(io::Error) -> ConsoleError {
    let path = path.to_string();
    move |source| ConsoleError::System { what, path, source }
}

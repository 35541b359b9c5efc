//! Addresses at which observers reach the node: a Unix socket and, if configured, loopback TCP with tokens in files.
//!
//! ```text
//!   NAME.lock locked ──▶ NAME.sock probed ──▶ absent, stale: bound        answers, silent: refused
//! ```
//!
//! Only the holder of the lock changes the socket of that name, so two nodes that find the same stale socket cannot
//! both replace it.

pub(crate) mod descriptors;
pub(crate) mod error;
pub(crate) mod handshake;
pub(crate) mod listeners;
pub(crate) mod on_behalf;
pub(crate) mod owned_file;
pub(crate) mod private_dir;

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use super::endpoint::error::{ConsoleError, SOCKET_PATH_MAX_BYTES, system};
use super::endpoint::handshake::Tokens;
use super::endpoint::owned_file::{NameLock, OwnedFile};
use super::endpoint::private_dir::variable;

/// Longest time for which a full connection queue counts as a burst.
const PROBE_MAX: Duration = Duration::from_millis(500);
/// Time between two attempts to connect to a full queue.
const PROBE_PAUSE: Duration = Duration::from_millis(20);

/// Checks that `name` is a valid name of a node.
///
/// # Errors
/// [`ConsoleError::Name`] if it is not usable as the name of a socket.
pub fn check_name(name: &str) -> Result<(), ConsoleError> {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let good = (1..=64).contains(&name.len())
        && name.chars().all(letters)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if good { Ok(()) } else { Err(ConsoleError::Name { name: name.to_owned() }) }
}

/// A bound Unix socket with the files that belong to it.
#[derive(Debug)]
pub(super) struct UnixEndpoint {
    pub(super) listener: UnixListener,
    pub(super) socket: OwnedFile,
    pub(super) lock: NameLock,
}

/// Binds the Unix socket `dir/name.sock`, replacing one that a dead node left behind.
pub(super) fn bind_unix(dir: &Path, name: &str) -> Result<UnixEndpoint, ConsoleError> {
    let path = &dir.join(format!("{name}.sock"));
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_PATH_MAX_BYTES {
        return Err(ConsoleError::PathTooLong { path: path.to_owned(), bytes, variable: variable(dir) });
    }
    let lock_path = dir.join(format!("{name}.lock"));
    let lock = NameLock::acquire(&lock_path).map_err(system("lock", lock_path.display()))?;
    let holder = probe(path).map_err(system("probe socket", path.display()));
    let Some(lock) = lock else {
        return Err(match holder {
            Ok(Holder::Silent) => ConsoleError::SocketSilent { path: path.to_owned() },
            // A node locks its name before it binds the socket, and keeps the lock briefly after closing the socket.
            _ => ConsoleError::SocketInUse { path: path.to_owned() },
        });
    };
    match holder? {
        Holder::Nobody => {}
        Holder::Dead => fs::remove_file(path).map_err(system("remove stale socket", path.display()))?,
        Holder::Alive => return Err(ConsoleError::SocketInUse { path: path.to_owned() }),
        Holder::Silent => return Err(ConsoleError::SocketSilent { path: path.to_owned() }),
        Holder::NotASocket => return Err(ConsoleError::NotASocket { path: path.to_owned() }),
    }
    let listener = UnixListener::bind(path).map_err(system("open socket", path.display()))?;
    let socket = OwnedFile::of_socket(path.to_owned()).map_err(system("open socket", path.display()))?;
    listener.set_nonblocking(true).map_err(system("open socket", path.display()))?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(system("protect socket", path.display()))?;
    Ok(UnixEndpoint { listener, socket, lock })
}

/// State of the process that holds a socket's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// The path does not exist.
    Nobody,
    /// The process that bound the socket has closed it or died.
    Dead,
    /// A process accepts connections.
    Alive,
    /// A process holds the socket, and its queue of connections stays full.
    Silent,
    /// The path is not a socket.
    NotASocket,
}

/// Connects to the socket without blocking: a blocking connect to a full queue would wait without a deadline.
fn probe(path: &Path) -> io::Result<Holder> {
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => return Ok(Holder::NotASocket),
        _ => {}
    }
    let address = SocketAddrUnix::new(path)?;
    let deadline = Instant::now() + PROBE_MAX;
    loop {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        return match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Holder::Alive),
            Err(Errno::CONNREFUSED) => Ok(Holder::Dead),
            Err(Errno::NOENT) => Ok(Holder::Nobody),
            Err(Errno::AGAIN) if Instant::now() >= deadline => Ok(Holder::Silent),
            // A burst of observers can fill the queue of a live node briefly.
            Err(Errno::AGAIN | Errno::INTR) => {
                std::thread::park_timeout(PROBE_PAUSE);
                continue;
            }
            Err(error) => Err(error.into()),
        };
    }
}

/// Checks that a console may listen on an address: on loopback only.
///
/// # Errors
/// [`ConsoleError::NotLoopback`] for any other address.
pub fn check_listen(address: SocketAddr) -> Result<(), ConsoleError> {
    // Observers may not use the other addresses of 127.0.0.0/8 in `Host`.
    let is_loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address.ip());
    if is_loopback { Ok(()) } else { Err(ConsoleError::NotLoopback { address }) }
}

/// Opens the TCP port, on loopback only.
pub(super) fn bind_tcp(address: SocketAddr) -> Result<TcpListener, ConsoleError> {
    check_listen(address)?;
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => ConsoleError::AddressInUse { address },
        _ => system("listen on", address)(error),
    })
}

/// Writes new tokens to `tcp-PORT.token` (control) and `tcp-PORT.observe.token`; `tcp6-…` for an IPv6 address.
pub(super) fn write_tokens(dir: &Path, address: SocketAddr) -> Result<(Tokens, Vec<OwnedFile>), ConsoleError> {
    let tokens = Tokens { control: random_token()?, observe: random_token()? };
    let (family, port) = (if address.is_ipv6() { "tcp6" } else { "tcp" }, address.port());
    let control = dir.join(format!("{family}-{port}.token"));
    let observe = dir.join(format!("{family}-{port}.observe.token"));
    let files = vec![write_secret(&control, &tokens.control)?, write_secret(&observe, &tokens.observe)?];
    Ok((tokens, files))
}

/// Returns 256 random bits in hexadecimal.
fn random_token() -> Result<String, ConsoleError> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(|error| system("read", "random numbers")(io::Error::other(error)))?;
    let hexadecimal = |bits: &[u8]| {
        bits.iter().fold(String::with_capacity(64), |text, byte| {
            let digit = |bits: u8| char::from_digit(u32::from(bits), 16).unwrap_or_default();
            text + digit(byte >> 4).encode_utf8(&mut [0; 4]) + digit(byte & 15).encode_utf8(&mut [0; 4])
        })
    };
    Ok(hexadecimal(&bits))
}

fn write_secret(path: &Path, secret: &str) -> Result<OwnedFile, ConsoleError> {
    // The directory is private and the port is bound, so an existing file was left by a dead node.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(system("replace", path.display())(error));
        }
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(system("create", path.display()))?;
    file.write_all(format!("{secret}\n").as_bytes()).map_err(system("write", path.display()))?;
    OwnedFile::of(path.to_owned(), file).map_err(system("create", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_path_that_is_too_long_is_told_with_its_length_and_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let name = |bytes: usize| "x".repeat(bytes - dir.path().as_os_str().len() - "/.sock".len());

        let error = bind_unix(dir.path(), &name(SOCKET_PATH_MAX_BYTES + 1)).unwrap_err().to_string();

        let start = format!(
            "socket path of {} bytes is over the limit of {SOCKET_PATH_MAX_BYTES}: ",
            SOCKET_PATH_MAX_BYTES + 1
        );
        assert!(error.starts_with(&start), "{error}");
        assert!(error.contains("set RUSM_SOCKET_DIR to a shorter directory or choose a shorter name"), "{error}");
        assert!(bind_unix(dir.path(), &name(SOCKET_PATH_MAX_BYTES)).is_ok(), "the longest path works");
    }

    #[test]
    fn names_that_could_leave_the_directory_are_refused() {
        for bad in ["", "../x", "a/b", ".hidden", "a b", &"x".repeat(65)] {
            assert!(matches!(check_name(bad), Err(ConsoleError::Name { .. })), "{bad:?}");
        }
        assert!(check_name("node-1.test").is_ok());
    }

    #[test]
    fn tokens_lie_in_files_that_only_the_owner_reads_and_go_with_the_node() {
        let dir = tempfile::tempdir().unwrap();

        let (tokens, files) = write_tokens(dir.path(), "127.0.0.1:4000".parse().unwrap()).unwrap();
        drop(write_tokens(dir.path(), "[::1]:4000".parse().unwrap()).unwrap());
        let path = dir.path().join("tcp-4000.token");

        assert_eq!(fs::read_to_string(&path).unwrap().trim(), tokens.control);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(tokens.control.len(), 64);
        drop(files);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let bind = || bind_unix(dir.path(), "node");
        drop(UnixListener::bind(dir.path().join("node.sock")).unwrap());

        let bound = bind().unwrap();
        assert!(matches!(bind(), Err(ConsoleError::SocketInUse { .. })));
        drop(bound);

        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let _without_a_lock = UnixListener::bind(dir.path().join("node.sock")).unwrap();
        assert!(matches!(bind(), Err(ConsoleError::SocketInUse { .. })));
    }

    #[test]
    fn of_many_nodes_that_find_one_stale_socket_exactly_one_binds_it() {
        for _ in 0..100 {
            let dir = tempfile::tempdir().unwrap();
            drop(UnixListener::bind(dir.path().join("node.sock")).unwrap());
            let start = std::sync::Barrier::new(4);

            let bound: Vec<_> = std::thread::scope(|scope| {
                let bind = || {
                    start.wait();
                    bind_unix(dir.path(), "node")
                };
                let nodes: Vec<_> = (0..4).map(|_| scope.spawn(bind)).collect();
                nodes.into_iter().map(|node| node.join().unwrap()).collect()
            });

            assert_eq!(bound.iter().filter(|bound| bound.is_ok()).count(), 1);
            let refused = bound.iter().filter_map(|bound| bound.as_ref().err());
            for error in refused {
                assert!(matches!(error, ConsoleError::SocketInUse { .. }), "{error}");
            }
        }
    }

    #[test]
    fn a_holder_that_accepts_no_connections_is_told_within_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.sock");
        let address = SocketAddrUnix::new(&path).unwrap();
        let silent = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&silent, &address).unwrap();
        rustix::net::listen(&silent, 0).unwrap();
        let queued: Vec<_> = std::iter::from_fn(|| {
            let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
            rustix::io::ioctl_fionbio(&socket, true).unwrap();
            rustix::net::connect(&socket, &address).ok().map(|()| socket)
        })
        .collect();
        assert!(!queued.is_empty());

        let error = bind_unix(dir.path(), "node").unwrap_err();

        assert!(matches!(error, ConsoleError::SocketSilent { .. }), "{error}");
        assert!(path.exists() && !dir.path().join("node.lock").exists());
    }

    #[test]
    fn a_file_in_the_way_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.sock");
        fs::write(&path, "mine").unwrap();

        assert!(matches!(bind_unix(dir.path(), "node"), Err(ConsoleError::NotASocket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}

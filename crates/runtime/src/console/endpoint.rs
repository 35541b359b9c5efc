//! Where observers find the node: a Unix socket, and loopback TCP when asked for, with its tokens in files.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::handshake::Tokens;

/// Why the console could not be opened.
#[derive(Debug, Error)]
pub enum ConsoleError {
    /// Another node has this socket: choose another name, or stop that node.
    #[error("socket {path} is in use by a running node: choose another name with --name, or stop that node")]
    SocketInUse {
        /// The socket.
        path: PathBuf,
    },
    /// Whoever else may enter the directory could read what is sent: correct it, or choose another.
    #[error("directory {path} {fault}")]
    UnsafeDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        fault: String,
    },
    /// The operating system has no room for such a path: choose a shorter directory or name.
    #[error(
        "socket path of {bytes} bytes is over the limit of {SOCKET_PATH_MAX_BYTES}: \
         set {variable} to a shorter directory or choose a shorter name ({path})"
    )]
    PathTooLong {
        /// The socket.
        path: PathBuf,
        /// Bytes of its path.
        bytes: usize,
        /// What chooses the directory.
        variable: &'static str,
    },
    /// The path is no socket, and is left alone.
    #[error("{path} exists and is no socket: move it away or choose another path")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The name becomes a file name.
    #[error("node name {name:?} must be 1 to 64 letters, digits, '-', '_' or '.', and start with a letter or digit")]
    Name {
        /// The name asked for.
        name: String,
    },
    /// Another program listens there: choose another port.
    #[error("address {address} is in use: choose another port with --listen")]
    AddressInUse {
        /// The address.
        address: SocketAddr,
    },
    /// Anyone on the network could try tokens, and read what is sent.
    #[error(
        "address {address} is neither 127.0.0.1 nor [::1]: listen on one of them and let ssh -L reach it, by the same port"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// A file, a socket or a thread was refused.
    #[error("cannot {what} {path}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: String,
        /// Why not.
        source: io::Error,
    },
}

fn system(what: &'static str, path: impl std::fmt::Display) -> impl FnOnce(io::Error) -> ConsoleError {
    let path = path.to_string();
    move |source| ConsoleError::System { what, path, source }
}

/// The longest path that fits into a socket's address, whose last byte is a zero.
const SOCKET_PATH_MAX_BYTES: usize = if cfg!(any(target_os = "linux", target_os = "android")) { 107 } else { 103 };

/// The variable that chose this directory, or can choose another.
fn variable(dir: &Path) -> &'static str {
    if dir == runtime_dir() { "XDG_RUNTIME_DIR" } else { "RUSM_SOCKET_DIR" }
}

/// The directory of this user's sockets and tokens: `$XDG_RUNTIME_DIR/rusm` if that is an absolute path, else `/tmp/rusm-UID`.
pub fn runtime_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute()) {
        Some(dir) => dir.join("rusm"),
        None => PathBuf::from(format!("/tmp/rusm-{}", rustix::process::getuid().as_raw())),
    }
}

/// Whether `name` can name a node.
pub(super) fn check_name(name: &str) -> Result<(), ConsoleError> {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let good = (1..=64).contains(&name.len())
        && name.chars().all(letters)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if good { Ok(()) } else { Err(ConsoleError::Name { name: name.to_owned() }) }
}

/// Makes the directory, or checks that it belongs to us alone.
pub(super) fn private_dir(path: &Path) -> Result<(), ConsoleError> {
    match DirBuilder::new().mode(0o700).recursive(true).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(system("create directory", path.display())(error)),
    }
    let meta = fs::symlink_metadata(path).map_err(system("read directory", path.display()))?;
    match fault_of(&meta, path, rustix::process::getuid().as_raw()) {
        Some(fault) => Err(ConsoleError::UnsafeDirectory { path: path.to_owned(), fault }),
        None => Ok(()),
    }
}

/// Why somebody else than `user` could look into this directory, if it is one.
fn fault_of(meta: &fs::Metadata, path: &Path, user: u32) -> Option<String> {
    let elsewhere = format!("set {} to another directory", variable(path));
    let (owner, mode) = (meta.uid(), meta.mode() & 0o7777);
    if meta.is_symlink() {
        let to = fs::canonicalize(path).map_or_else(|_| "nowhere".to_owned(), |to| to.display().to_string());
        return Some(format!("is a symbolic link to {to}, which others could turn: remove it or {elsewhere}"));
    }
    if !meta.is_dir() {
        return Some(format!("is a file: move it away or {elsewhere}"));
    }
    if owner != user {
        return Some(format!("belongs to user {owner} and not to you, user {user}: {elsewhere}"));
    }
    (mode.trailing_zeros() < 6)
        .then(|| format!("may be entered by others (mode {mode:04o}): change it with chmod 700 or {elsewhere}"))
}

/// A file that goes when the node goes.
#[derive(Debug)]
pub(super) struct OwnFile(pub(super) PathBuf);

impl Drop for OwnFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "cannot remove file");
        }
    }
}

/// Opens the Unix socket; one that a dead node left behind is replaced.
pub(super) fn bind_unix(path: &Path) -> Result<(UnixListener, OwnFile), ConsoleError> {
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_PATH_MAX_BYTES {
        let variable = path.parent().map_or("RUSM_SOCKET_DIR", variable);
        return Err(ConsoleError::PathTooLong { path: path.to_owned(), bytes, variable });
    }
    if let Ok(meta) = fs::symlink_metadata(path) {
        if !meta.file_type().is_socket() {
            return Err(ConsoleError::NotASocket { path: path.to_owned() });
        }
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(system("remove stale socket", path.display()))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) => return Err(ConsoleError::SocketInUse { path: path.to_owned() }),
            Err(error) => return Err(system("probe socket", path.display())(error)),
        }
    }
    let listener = UnixListener::bind(path).map_err(system("open socket", path.display()))?;
    let own = OwnFile(path.to_owned());
    listener.set_nonblocking(true).map_err(system("open socket", path.display()))?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(system("protect socket", path.display()))?;
    Ok((listener, own))
}

/// Opens the TCP port, on loopback only.
pub(super) fn bind_tcp(address: SocketAddr) -> Result<TcpListener, ConsoleError> {
    // Others of 127.0.0.0/8 are no names that an observer may call the node by.
    if ![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address.ip()) {
        return Err(ConsoleError::NotLoopback { address });
    }
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => ConsoleError::AddressInUse { address },
        _ => system("listen on", address)(error),
    })
}

/// Writes new tokens into `tcp-PORT.token` (control) and `tcp-PORT.observe.token`; `tcp6-…` for an address of IPv6.
pub(super) fn write_tokens(dir: &Path, address: SocketAddr) -> Result<(Tokens, Vec<OwnFile>), ConsoleError> {
    let tokens = Tokens { control: random_token()?, observe: random_token()? };
    let (family, port) = (if address.is_ipv6() { "tcp6" } else { "tcp" }, address.port());
    let control = dir.join(format!("{family}-{port}.token"));
    let observe = dir.join(format!("{family}-{port}.observe.token"));
    let files = vec![write_secret(&control, &tokens.control)?, write_secret(&observe, &tokens.observe)?];
    Ok((tokens, files))
}

/// 256 random bits in hexadecimal.
fn random_token() -> Result<String, ConsoleError> {
    let mut bits = [0; 32];
    let mut filled = 0;
    while filled < bits.len() {
        let read = rustix::rand::getrandom(&mut bits[filled..], rustix::rand::GetRandomFlags::empty());
        filled += read.map_err(|error| system("read", "random numbers")(error.into()))?;
    }
    let hexadecimal = |bits: &[u8]| {
        bits.iter().fold(String::with_capacity(64), |text, byte| {
            let digit = |bits: u8| char::from_digit(u32::from(bits), 16).unwrap_or_default();
            text + digit(byte >> 4).encode_utf8(&mut [0; 4]) + digit(byte & 15).encode_utf8(&mut [0; 4])
        })
    };
    Ok(hexadecimal(&bits))
}

fn write_secret(path: &Path, secret: &str) -> Result<OwnFile, ConsoleError> {
    // The directory is ours alone and the port is bound, so an old file is a dead node's.
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
    Ok(OwnFile(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_open_to_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();

        assert!(matches!(private_dir(&open), Err(ConsoleError::UnsafeDirectory { .. })));
        assert!(private_dir(&dir.path().join("new")).is_ok());
    }

    #[test]
    fn what_is_wrong_with_a_directory_is_told_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let [real, link, dangling, file, open] =
            ["real", "link", "dangling", "file", "open"].map(|name| dir.path().join(name));
        fs::create_dir(&real).unwrap();
        fs::set_permissions(&real, Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        std::os::unix::fs::symlink(dir.path().join("gone"), &dangling).unwrap();
        fs::write(&file, "mine").unwrap();
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o750)).unwrap();
        let set = "set RUSM_SOCKET_DIR to another directory";
        let real_path = fs::canonicalize(&real).unwrap().display().to_string();

        for (path, fault) in [
            (&link, format!("is a symbolic link to {real_path}, which others could turn: remove it or {set}")),
            (&dangling, format!("is a symbolic link to nowhere, which others could turn: remove it or {set}")),
            (&file, format!("is a file: move it away or {set}")),
            (&open, format!("may be entered by others (mode 0750): change it with chmod 700 or {set}")),
        ] {
            let error = private_dir(path).unwrap_err().to_string();
            assert_eq!(error, format!("directory {} {fault}", path.display()));
        }
        let meta = fs::symlink_metadata(&real).unwrap();
        let (owner, other) = (meta.uid(), meta.uid() + 1);
        assert_eq!(fault_of(&meta, &real, owner), None);
        assert_eq!(
            fault_of(&meta, &real, other),
            Some(format!("belongs to user {owner} and not to you, user {other}: {set}"))
        );
    }

    #[test]
    fn a_socket_path_that_is_too_long_is_told_with_its_length_and_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let name = |bytes: usize| dir.path().join("x".repeat(bytes - dir.path().as_os_str().len() - 1));

        let error = bind_unix(&name(SOCKET_PATH_MAX_BYTES + 1)).unwrap_err().to_string();

        let start = format!(
            "socket path of {} bytes is over the limit of {SOCKET_PATH_MAX_BYTES}: ",
            SOCKET_PATH_MAX_BYTES + 1
        );
        assert!(error.starts_with(&start), "{error}");
        assert!(error.contains("set RUSM_SOCKET_DIR to a shorter directory or choose a shorter name"), "{error}");
        assert!(bind_unix(&name(SOCKET_PATH_MAX_BYTES)).is_ok(), "the longest path works");
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
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(tokens.control.len(), 64);
        drop(files);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.sock");
        drop(UnixListener::bind(&path).unwrap());

        let (_listener, _own) = bind_unix(&path).unwrap();

        assert!(matches!(bind_unix(&path), Err(ConsoleError::SocketInUse { .. })));
    }

    #[test]
    fn a_file_in_the_way_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.sock");
        fs::write(&path, "mine").unwrap();

        assert!(matches!(bind_unix(&path), Err(ConsoleError::NotASocket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}

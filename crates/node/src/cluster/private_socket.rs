//! Sockets of the cluster in the folder of sockets, for the programs of the same user, and of root, and their lines.

use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Instant;

use rusm_console::OwnedFile;
use rustix::net::sockopt::socket_peercred;
use rustix::process::getuid;

/// Binds a socket that only this user can connect to. The caller must own the name: a socket that has it is removed. Drop the
/// listener after the file, so that no other file has its inode.
pub(super) fn bind(path: &Path) -> io::Result<(UnixListener, OwnedFile)> {
    // Binding fails if something else has the name.
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok((listener, OwnedFile::of_socket(path.to_owned())?))
}

/// Returns true if the client is of this user, or of root: a folder that others may enter by now does not let them in.
pub(super) fn is_trusted(client: impl AsFd) -> bool {
    socket_peercred(client).is_ok_and(|peer| peer.uid == getuid() || peer.uid.is_root())
}

/// Reads a line until an instant, however small its pieces are, and stops at a piece that exceeds `bytes_max`.
pub(super) fn read_line(stream: &mut UnixStream, bytes_max: usize, until: Instant) -> io::Result<String> {
    let (mut line, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let read = stream.read(&mut piece)?;
        line.extend_from_slice(&piece[..read]);
        if read == 0 || piece[..read].contains(&b'\n') || line.len() >= bytes_max {
            return Ok(String::from_utf8_lossy(&line).trim().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_for_this_user_alone_and_takes_the_place_of_an_older_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b@a.sock");
        drop(UnixListener::bind(&path).unwrap());

        let (listener, owned) = bind(&path).unwrap();

        let file = dir.path().join("letter");
        fs::write(&file, "dear").unwrap();
        assert_eq!(bind(&file).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&file).unwrap(), "dear");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let _client = UnixStream::connect(&path).unwrap();
        assert!(is_trusted(listener.accept().unwrap().0));

        // A successor has taken the name.
        let (successor, its_own) = bind(&path).unwrap();
        drop(owned);
        assert!(path.exists());
        drop(its_own);
        assert!(!path.exists());
        drop((listener, successor));
    }
}

//! Sockets of the cluster in the folder of sockets, for the programs of the same user, and of root.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::net::sockopt::socket_peercred;
use rustix::process::getuid;

/// Binds a socket that only this user can connect to. The caller must own the name: a socket that has it is removed.
pub(super) fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
        // Binding fails: nothing but an earlier socket is removed.
        Ok(_) | Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Returns true if the client is of this user, or of root: a folder that others may enter by now does not let them in.
pub(super) fn is_trusted(client: impl AsFd) -> bool {
    socket_peercred(client).is_ok_and(|peer| peer.uid == getuid() || peer.uid.is_root())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_is_for_this_user_alone_and_takes_the_place_of_an_older_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b@a.sock");
        drop(UnixListener::bind(&path).unwrap());

        let listener = bind(&path).unwrap();

        let file = dir.path().join("letter");
        fs::write(&file, "dear").unwrap();
        assert_eq!(bind(&file).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&file).unwrap(), "dear");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let _client = UnixStream::connect(&path).unwrap();
        assert!(is_trusted(listener.accept().unwrap().0));
    }
}

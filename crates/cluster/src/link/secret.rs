//! The secret that nodes without certificates share on this machine. It keeps programs of other users out.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::settings::SECRET_PREFIX;

/// Name of the file.
const FILE: &str = "cluster.secret";
/// Length of a secret, in bytes.
const SECRET_BYTES: usize = 32;
/// Permissions of the group and of other users.
const OTHERS: u32 = 0o077;
/// Maximum length of the file, in bytes.
const FILE_BYTES_MAX: u64 = 256;

/// Returns the file with the secret of the nodes that share a folder, which only this user can access. The first node makes
/// it.
///
/// # Errors
/// The error of the system; or a file that others can read, or one that is too long.
pub fn secret_file(dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join(FILE);
    if let Ok(found) = fs::symlink_metadata(&path) {
        let is_closed_to_others = found.mode() & OTHERS == 0;
        let is_own = found.uid() == rustix::process::geteuid().as_raw() && is_closed_to_others;
        if is_own && found.is_file() && found.len() <= FILE_BYTES_MAX {
            return Ok(path);
        }
        let why = "is not a file of this user alone with one line: remove it, and a new one is created";
        return Err(io::Error::other(format!("{FILE} {why}")));
    }
    let mut secret = [[0; SECRET_BYTES / 2]; 2];
    for half in &mut secret {
        getrandom::fill(half).map_err(io::Error::other)?;
    }
    let [first, second] = secret.map(u128::from_le_bytes);
    let line = format!("{SECRET_PREFIX}{first:032x}{second:032x}\n");
    // Written under another name first: a node that starts meanwhile must not read a part of it.
    let draft = dir.join(format!("{FILE}.{}", std::process::id()));
    drop(fs::remove_file(&draft));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let linked = file.write_all(line.as_bytes()).and_then(|()| fs::hard_link(&draft, &path));
    drop(fs::remove_file(&draft));
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn all_nodes_of_a_folder_have_one_secret_that_only_its_user_can_read() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());

        let path = secret_file(dir.path()).unwrap();
        let line = fs::read_to_string(&path).unwrap();
        assert_eq!(
            (secret_file(dir.path()).unwrap(), fs::read_to_string(&path).unwrap()),
            (path.clone(), line.clone())
        );
        assert_eq!(line.len(), SECRET_PREFIX.len() + 2 * SECRET_BYTES + 1);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_ne!(fs::read_to_string(secret_file(other.path()).unwrap()).unwrap(), line);
    }

    #[test]
    fn a_secret_that_others_can_read_or_that_is_no_short_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = secret_file(dir.path()).unwrap();

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(secret_file(dir.path()).unwrap_err().to_string().contains("remove it"));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(secret_file(dir.path()).is_err());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "x".repeat(300)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(secret_file(dir.path()).is_err());
    }
}

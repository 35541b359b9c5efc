//! The directories that a node writes to.

use std::fs;
use std::path::{Path, PathBuf};

use rusm_console::{check_dir, runtime_dir};
use rustix::fs::{Access, access, statvfs};

use crate::doctor::check::Check;
use crate::settings::app::default_cache_dir;
use crate::settings::size::format_bytes;

/// Free space for compiled code that makes a cache worthwhile: enough for dozens of large guests.
const CACHE_ENOUGH_BYTES: u64 = 256 << 20;

pub(super) fn checks() -> Vec<Check> {
    vec![sockets(), cache()]
}

fn sockets() -> Check {
    let dir = runtime_dir();
    Check::of(
        "sockets",
        socket_dir_works(&dir),
        dir.display().to_string(),
        "observers attach here; the directory must belong to you alone (mode 0700)",
        format!("chmod 700 {dir}, or export XDG_RUNTIME_DIR=$(mktemp -d)", dir = dir.display()),
    )
    .vital()
}

/// Returns true if a node could create its socket there; a node creates the directory if that does not exist.
fn socket_dir_works(dir: &Path) -> bool {
    let could_be_created = || dir.parent().is_some_and(|parent| access(parent, Access::WRITE_OK).is_ok());
    check_dir(dir).is_ok() && (dir.is_dir() || could_be_created())
}

fn cache() -> Check {
    let means = "rusm run keeps compiled guests here; without it, each start compiles them again";
    let remedy = "export XDG_CACHE_HOME=DIR, or set engine.cache in rusm.toml";
    let Some(dir) = default_cache_dir() else {
        return Check::of("cache", false, "none: neither XDG_CACHE_HOME nor HOME is set", means, remedy);
    };
    let there = existing(&dir);
    let free = statvfs(&there).map_or(0, |about| about.f_bavail.saturating_mul(about.f_frsize));
    let kind = file_system(&there).unwrap_or_else(|| "an unknown file system".to_owned());
    let is_writable = access(&there, Access::WRITE_OK).is_ok();
    let state = if is_writable { format!("{} free", format_bytes(free)) } else { "not writable".to_owned() };
    let is_far = ["nfs", "cifs", "smb", "fuse", "9p"].iter().any(|far| kind.starts_with(far));
    let good = is_writable && free >= CACHE_ENOUGH_BYTES && !is_far;
    Check::of("cache", good, format!("{} on {kind}, {state}", dir.display()), means, remedy)
}

/// Returns the directory, or its nearest ancestor that exists.
fn existing(dir: &Path) -> PathBuf {
    dir.ancestors().find(|dir| dir.is_dir()).map_or_else(|| PathBuf::from("/"), Path::to_owned)
}

/// Returns the type of the file system: the mount point with the longest matching prefix decides.
fn file_system(dir: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounted = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let around = mounted.filter(|(point, _)| dir.starts_with(point));
    around.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_for_sockets_belongs_to_one_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let set = |mode| fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();

        set(0o755);
        assert!(!socket_dir_works(dir.path()));
        set(0o700);
        assert!(socket_dir_works(dir.path()) && socket_dir_works(&dir.path().join("missing")));
        assert!(!socket_dir_works(&dir.path().join("missing/too")));
    }

    #[test]
    fn the_file_system_of_a_directory_that_is_not_there_yet_is_that_of_the_one_above() {
        assert_eq!(existing(Path::new("/proc/self/gone/further")).as_path(), Path::new("/proc/self"));
        assert_eq!(file_system(Path::new("/proc/self")).as_deref(), Some("proc"));
    }
}

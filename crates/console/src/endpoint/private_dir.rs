//! The directory of sockets and token files: its default, and checks that no other user can enter or replace it.
//!
//! ```text
//!   /  run  user  1000  rusm      each one above: owned by root or this user, and not writable by others unless sticky
//!                        │
//!                        └─ the directory itself: owned by this user, mode 0700, no symbolic link
//! ```
//!
//! A writable directory above would allow another user to rename this one and put their own in its place.
//!
//! A console creates the directory before it opens its socket and writes its token. `rusm doctor` only checks it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use crate::endpoint::error::{ConsoleError, system};

/// Maximum number of symbolic links in a path, as in Linux.
const LINKS_MAX: u32 = 40;

/// Returns the directory of this user's sockets and tokens: `$XDG_RUNTIME_DIR/rusm` if that is an absolute path, else
/// `/tmp/rusm-UID`.
pub fn runtime_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute()) {
        Some(dir) => dir.join("rusm"),
        None => PathBuf::from(format!("/tmp/rusm-{}", rustix::process::getuid().as_raw())),
    }
}

/// Creates the directory, or checks that only this user can enter it and only this user or root can replace it.
///
/// Returns the path without trailing slashes: with one, the system would follow a symbolic link.
pub(crate) fn private_dir(path: &Path) -> Result<PathBuf, ConsoleError> {
    // Check before creating, so that nothing is created where other users can write.
    check_dir(path)?;
    let path: PathBuf = path.components().collect();
    match DirBuilder::new().mode(0o700).recursive(true).create(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(system("create directory", path.display())(error)),
    }
    // Another process may have replaced it since the first check.
    check_dir(&path)?;
    Ok(path)
}

/// Checks that a node could keep its socket in this directory, which may not exist yet. Creates nothing.
///
/// # Errors
/// [`ConsoleError::UnsafeDirectory`] if another user can enter or replace it, and an error of the system if it cannot be
/// examined.
pub fn check_dir(path: &Path) -> Result<(), ConsoleError> {
    let path: PathBuf = path.components().collect();
    let user = rustix::process::getuid().as_raw();
    check_above(&path, user)?;
    let meta = match fs::symlink_metadata(&path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system("examine directory", path.display())(error)),
    };
    match fault_of(&meta, &path, user) {
        Some(fault) => Err(ConsoleError::UnsafeDirectory { path, fault }),
        None => Ok(()),
    }
}

/// Returns the environment variable that set this directory, or that can set another.
pub(crate) fn variable(dir: &Path) -> &'static str {
    if dir == runtime_dir() { "XDG_RUNTIME_DIR" } else { "RUSM_SOCKET_DIR" }
}

/// Returns why a user other than `user` could enter this directory, or why it is not a directory.
fn fault_of(meta: &Metadata, path: &Path, user: u32) -> Option<String> {
    let elsewhere = format!("set {} to another directory", variable(path));
    let (owner, mode) = (meta.uid(), meta.mode() & 0o7777);
    if meta.is_symlink() {
        let to = fs::canonicalize(path).map_or_else(|_| "nowhere".to_owned(), |to| to.display().to_string());
        return Some(format!("is a symbolic link to {to}, which other users could redirect: remove it or {elsewhere}"));
    }
    if !meta.is_dir() {
        return Some(format!("is a file: move it away or {elsewhere}"));
    }
    if owner != user {
        return Some(format!("belongs to user {owner} and not to you, user {user}: {elsewhere}"));
    }
    (mode.trailing_zeros() < 6)
        .then(|| format!("can be entered by other users (mode {mode:04o}): change it with chmod 700 or {elsewhere}"))
}

/// Checks each directory above `path`, and those above the targets of symbolic links in it.
fn check_above(path: &Path, user: u32) -> Result<(), ConsoleError> {
    let variable = variable(path);
    let mut checked = PathBuf::from("/");
    let mut links = 0;
    let absolute = std::path::absolute(path).map_err(system("read directory", path.display()))?;
    let mut left = reversed(&absolute).into_iter().skip(1).collect::<Vec<_>>();
    check_one(&checked, user, variable)?;
    while let Some(name) = left.pop() {
        if name == ".." {
            checked.pop();
            continue;
        }
        let next = checked.join(&name);
        let Some(meta) = check_one(&next, user, variable)? else { return Ok(()) };
        if !meta.is_symlink() {
            checked = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            let fault =
                format!("leads through more than {LINKS_MAX} symbolic links: set {variable} to another directory");
            return Err(ConsoleError::UnsafeDirectory { path: path.to_owned(), fault });
        }
        let target = fs::read_link(&next).map_err(system("read symbolic link", next.display()))?;
        if target.is_absolute() {
            checked = PathBuf::from("/");
        }
        left.extend(reversed(&target));
    }
    Ok(())
}

/// Returns the names of a path, the last one first; `..` is kept.
fn reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(|part| part.as_os_str().to_owned()).collect()
}

/// Checks one directory above, or a symbolic link to one; returns `None` if it does not exist yet.
fn check_one(path: &Path, user: u32, variable: &str) -> Result<Option<Metadata>, ConsoleError> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(system("read directory", path.display())(error)),
    };
    match fault_above(&meta, user) {
        None => Ok(Some(meta)),
        Some(fault) => {
            let fault = format!("{fault} set {variable} to another directory");
            Err(ConsoleError::UnsafeDirectory { path: path.to_owned(), fault })
        }
    }
}

/// Returns why a user other than `user` and root could replace entries of this directory, or this link.
fn fault_above(meta: &Metadata, user: u32) -> Option<String> {
    let (owner, mode) = (meta.uid(), meta.mode() & 0o7777);
    if owner != user && owner != 0 {
        return Some(format!(
            "is on the path to the sockets and belongs to user {owner}, neither to root nor to you, user {user}:"
        ));
    }
    // The mode of a symbolic link is meaningless; only its owner and the owner of its directory can change it.
    let is_open = mode & 0o022 != 0 && mode & 0o1000 == 0;
    (!meta.is_symlink() && is_open).then(|| {
        format!(
            "is on the path to the sockets and is writable by other users (mode {mode:04o}): run chmod go-w on it or"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn dir_of_mode(path: &Path, mode: u32) {
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn refusal(path: &Path) -> String {
        private_dir(path).unwrap_err().to_string()
    }

    #[test]
    fn a_directory_open_to_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        dir_of_mode(&open, 0o755);

        assert!(matches!(private_dir(&open), Err(ConsoleError::UnsafeDirectory { .. })));
        assert!(private_dir(&dir.path().join("new")).is_ok());
    }

    #[test]
    fn what_is_wrong_with_a_directory_is_told_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let [real, link, dangling, file, open] =
            ["real", "link", "dangling", "file", "open"].map(|name| dir.path().join(name));
        dir_of_mode(&real, 0o700);
        symlink(&real, &link).unwrap();
        symlink(dir.path().join("gone"), &dangling).unwrap();
        fs::write(&file, "mine").unwrap();
        dir_of_mode(&open, 0o750);
        let set = "set RUSM_SOCKET_DIR to another directory";
        let real_path = fs::canonicalize(&real).unwrap().display().to_string();

        for (path, fault) in [
            (&link, format!("is a symbolic link to {real_path}, which other users could redirect: remove it or {set}")),
            (&dangling, format!("is a symbolic link to nowhere, which other users could redirect: remove it or {set}")),
            (&file, format!("is a file: move it away or {set}")),
            (&open, format!("can be entered by other users (mode 0750): change it with chmod 700 or {set}")),
        ] {
            assert_eq!(refusal(path), format!("directory {} {fault}", path.display()));
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
    fn a_symbolic_link_is_seen_through_a_trailing_slash() {
        let dir = tempfile::tempdir().unwrap();
        let [real, link] = ["real", "link"].map(|name| dir.path().join(name));
        dir_of_mode(&real, 0o700);
        symlink(&real, &link).unwrap();

        for end in ["/", "//", "/.", "/./"] {
            let path = PathBuf::from(format!("{}{end}", link.display()));
            assert!(refusal(&path).contains("is a symbolic link to"), "{end}");
        }
        assert_eq!(private_dir(&PathBuf::from(format!("{}/", real.display()))).unwrap(), real);
    }

    #[test]
    fn a_directory_above_that_others_may_write_to_is_refused_unless_it_is_sticky() {
        let dir = tempfile::tempdir().unwrap();
        for (mode, is_refused) in [(0o777, true), (0o775, true), (0o757, true), (0o1777, false), (0o755, false)] {
            let above = dir.path().join(format!("{mode:o}"));
            dir_of_mode(&above, mode);
            for below in ["rusm", "deep/er/rusm"] {
                let found = private_dir(&above.join(below));

                assert_eq!(found.is_err(), is_refused, "{mode:o}: {found:?}");
                assert_eq!(above.join(below).exists(), !is_refused, "{mode:o}");
                if let Err(error) = found {
                    let line = error.to_string();
                    let start =
                        format!("directory {} is on the path to the sockets and is writable by", above.display());
                    assert!(line.starts_with(&start) && line.contains(&format!("(mode {mode:04o})")), "{line}");
                }
            }
        }
    }

    #[test]
    fn a_symbolic_link_above_is_followed_and_its_target_checked() {
        let dir = tempfile::tempdir().unwrap();
        let [open, closed, to_open, to_closed, again] =
            ["open", "closed", "to_open", "to_closed", "again"].map(|name| dir.path().join(name));
        dir_of_mode(&open, 0o777);
        dir_of_mode(&closed, 0o700);
        dir_of_mode(&open.join("below"), 0o700);
        symlink("open/below", &to_open).unwrap();
        symlink("./closed/../closed", &to_closed).unwrap();
        symlink(&again, &again).unwrap();

        assert!(private_dir(&to_closed.join("rusm")).is_ok());
        assert!(refusal(&to_open.join("rusm")).contains("is writable by other users (mode 0777)"));
        assert!(refusal(&again.join("rusm")).contains("more than 40 symbolic links"));
    }

    #[test]
    fn a_directory_above_belongs_to_root_or_to_this_user() {
        let dir = tempfile::tempdir().unwrap();
        let meta = fs::symlink_metadata(dir.path()).unwrap();

        assert_eq!(fault_above(&meta, meta.uid()), None);
        assert_eq!(fault_above(&fs::symlink_metadata("/").unwrap(), 12345), None);
        assert_eq!(fault_above(&meta, meta.uid() + 1).is_some(), meta.uid() != 0);
    }
}

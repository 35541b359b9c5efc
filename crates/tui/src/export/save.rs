//! Saves what the user asked to keep: in the current folder, or in the state folder if that is not writable.

use std::env;
use std::fs;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Creates a file that only its user can read: what a node shows may be confidential.
///
/// # Errors
/// Returns the error of the file system, also if the file exists.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Writes a file and returns its path.
///
/// # Errors
/// A line that says why neither folder could be written.
pub(crate) fn save(name: &str, text: &str) -> Result<String, String> {
    let here = env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    save_in(&[Some(here), state_folder()].into_iter().flatten().collect::<Vec<_>>(), name, text)
}

fn save_in(folders: &[PathBuf], name: &str, text: &str) -> Result<String, String> {
    let mut why = "no folder to write to".to_owned();
    for folder in folders {
        match write(folder, name, text) {
            Ok(path) => return Ok(path.display().to_string()),
            Err(error) => why = format!("cannot save {name} in {}: {error}", folder.display()),
        }
    }
    Err(why)
}

fn write(folder: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join(name);
    rusm_text::write_file(&path, text).map(|()| path)
}

/// Returns `$XDG_STATE_HOME/rusm`, with `~/.local/state` as the default of the variable.
fn state_folder() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").filter(|path| path.is_absolute());
    Some(state.or_else(|| Some(set("HOME")?.join(".local/state")))?.join("rusm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_saved_in_the_first_folder_that_can_be_written() {
        let folder = env::temp_dir().join(format!("rusm-save-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), "x").unwrap();
        let folders = [folder.join("file"), folder.join("state/rusm")];

        let saved = save_in(&folders, "a.json", "{}").unwrap();
        let refused = save_in(&folders[..1], "a.json", "{}").unwrap_err();

        assert_eq!(
            (saved.as_str(), fs::read_to_string(&saved).unwrap().as_str()),
            (folders[1].join("a.json").to_str().unwrap(), "{}")
        );
        assert!(refused.starts_with("cannot save a.json in ") && !refused.contains('\n'), "{refused}");
        assert_eq!(fs::read_dir(&folders[1]).unwrap().count(), 1, "no partial file is left");
        fs::remove_dir_all(&folder).unwrap();
    }
}

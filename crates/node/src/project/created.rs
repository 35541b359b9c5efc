//! The files and folders that a command has created, which are removed if it fails half-way.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, system};

/// Files and folders created until now, without those that existed before.
#[derive(Debug, Default)]
pub(crate) struct Created {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Created {
    /// Writes files, each with its path in a folder, and creates the folders that they need.
    ///
    /// # Errors
    /// The error of the first file or folder that was not created; then all others are removed again.
    pub(crate) fn write(folder: &Path, files: &[(&str, String)]) -> Result<(), Failure> {
        let mut created = Self::default();
        let written = files.iter().try_for_each(|(file, text)| created.file(&folder.join(file), text));
        if written.is_err() {
            created.remove();
        }
        written
    }

    fn file(&mut self, path: &Path, text: &str) -> Result<(), Failure> {
        if let Some(parent) = path.parent() {
            self.folder(parent).map_err(system(format!("create {}", parent.display())))?;
        }
        let written = File::create_new(path).and_then(|mut file| {
            self.files.push(path.to_owned());
            file.write_all(text.as_bytes())
        });
        written.map_err(system(format!("write {}", path.display())))
    }

    fn folder(&mut self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.folder(parent)?;
        }
        fs::create_dir(path)?;
        self.folders.push(path.to_owned());
        Ok(())
    }

    /// Removes everything again. What cannot be removed stays: the error that led here is the one to report.
    fn remove(&self) {
        for file in &self.files {
            drop(fs::remove_file(file));
        }
        for folder in self.folders.iter().rev() {
            drop(fs::remove_dir(folder));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_created_before_an_error_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("old")).unwrap();
        fs::write(dir.path().join("old/file"), "old").unwrap();
        let text = |path| (path, String::new());

        let error = Created::write(dir.path(), &[text("a/b/c"), text("old/d"), text("old/file")]).unwrap_err();

        assert!(error.to_string().contains("old/file"), "{error}");
        assert!(!dir.path().join("a").exists() && !dir.path().join("old/d").exists());
        assert_eq!(fs::read_to_string(dir.path().join("old/file")).unwrap(), "old");
        Created::write(dir.path(), &[text("a/b/c")]).unwrap();
        assert!(dir.path().join("a/b/c").exists());
    }
}

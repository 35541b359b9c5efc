//! The secret of a run: no other program of this machine joins its nodes.

use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rusm_cluster::link::secret_file;

/// A file with a secret, in a folder of its own. Both are removed when it is dropped.
#[derive(Debug)]
pub(super) struct RunSecret {
    dir: PathBuf,
    file: PathBuf,
}

impl RunSecret {
    pub(super) fn create() -> Result<Self, String> {
        Self::create_in(&std::env::temp_dir()).map_err(|error| format!("cannot create the secret of the run: {error}"))
    }

    fn create_in(parent: &Path) -> io::Result<Self> {
        let number = RandomState::new().build_hasher().finish();
        let dir = parent.join(format!("rusm-bench-{number:016x}"));
        DirBuilder::new().mode(0o700).create(&dir)?;
        match secret_file(&dir) {
            Ok(file) => Ok(Self { dir, file }),
            Err(error) => {
                drop(fs::remove_dir_all(&dir));
                Err(error)
            }
        }
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for RunSecret {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.dir));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secrets_of_two_runs_differ_and_are_gone_with_them() {
        let parent = tempfile::tempdir().unwrap();
        let [one, two] = [(); 2].map(|()| RunSecret::create_in(parent.path()).unwrap());

        assert_ne!(fs::read(one.file()).unwrap(), fs::read(two.file()).unwrap());
        drop((one, two));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}

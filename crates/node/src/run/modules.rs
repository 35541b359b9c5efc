//! The modules of an application: compiled at the start, and again when their files change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusm_wasm::Wasm;

use crate::run::file_watcher::FileWatcher;
use crate::run::source::{self, SourceError};
use crate::settings::app::{App, stem};

/// Interval at which the files are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(150);

/// Paths of the modules, by the names under which guests know them.
#[derive(Debug)]
pub(crate) struct Modules {
    paths: BTreeMap<String, PathBuf>,
    watcher: FileWatcher,
}

impl Modules {
    /// Compiles all modules.
    ///
    /// # Errors
    /// Returns an error for the first file that is not a module, that cannot run here, or that has the name of another
    /// module.
    pub(crate) fn load(wasm: &Wasm, app: &App) -> Result<Self, SourceError> {
        let mut paths = app.modules.clone();
        for process in &app.processes {
            let path = &process.module;
            let taken = paths.insert(module_name(app, path), path.clone()).filter(|taken| taken != path);
            if let Some(taken) = taken {
                let why = format!("{} has the same name: give each a name in [modules]", taken.display());
                return Err(SourceError::Unfit { path: path.clone(), why });
            }
        }
        let modules = Self::compiled(paths, |name, path| compile(wasm, name, path))?;
        let is_http = |path: &&PathBuf| wasm.module(&module_name(app, path)).is_some_and(|module| module.is_http());
        match app.processes.iter().map(|process| &process.module).find(is_http) {
            None => Ok(modules),
            Some(path) => {
                let why = "it answers requests of wasi:http: use rusm serve, or name it in [[serve.route]]".to_owned();
                Err(SourceError::Unfit { path: path.clone(), why })
            }
        }
    }

    /// Compiles the files. Their state is recorded before, so a file that is written during compilation counts as
    /// changed.
    fn compiled(
        paths: BTreeMap<String, PathBuf>,
        mut compile: impl FnMut(&str, &Path) -> Result<(), SourceError>,
    ) -> Result<Self, SourceError> {
        let watcher = FileWatcher::new(paths.values().cloned());
        for (name, path) in &paths {
            compile(name, path)?;
        }
        Ok(Self { paths, watcher })
    }

    /// Waits until a file has changed and is completely written; returns the modules in it, by name and path.
    pub(crate) async fn changed(&mut self) -> Vec<(String, PathBuf)> {
        let mut polls = tokio::time::interval(POLL_INTERVAL);
        polls.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            polls.tick().await;
            let changed = self.watcher.poll();
            if !changed.is_empty() {
                let of = self.paths.iter().filter(|(_, path)| changed.contains(path));
                return of.map(|(name, path)| (name.clone(), path.clone())).collect();
            }
        }
    }
}

/// Returns the name of a module of the application: its name in `[modules]`, or the name of its file.
pub(crate) fn module_name(app: &App, path: &Path) -> String {
    let named = app.modules.iter().find(|(_, module)| *module == path);
    named.map_or_else(|| stem(path), |(name, _)| name.clone())
}

/// Compiles a module; later spawns of this name use the new code.
pub(crate) fn compile(wasm: &Wasm, name: &str, path: &Path) -> Result<(), SourceError> {
    let bytes = source::read(path)?;
    let module = wasm.load(name, &bytes).map_err(|error| source::load_error(path, error))?;
    tracing::debug!(module = name, kind = module.kind(), path = %path.display(), "module is compiled");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_written_while_all_are_compiled_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second] = ["first.wasm", "second.wasm"].map(|name| dir.path().join(name));
        for path in [&first, &second] {
            std::fs::write(path, "1").unwrap();
        }
        let paths = BTreeMap::from([("first".to_owned(), first.clone()), ("second".to_owned(), second)]);
        // While the second file is compiled, the first one, which was read before, is written again.
        let write = |name: &str, _: &Path| {
            if name == "second" {
                std::fs::write(&first, "22").unwrap();
            }
            Ok(())
        };

        let mut modules = Modules::compiled(paths, write).unwrap();

        let changed = tokio::time::timeout(Duration::from_mins(1), modules.changed()).await;
        assert_eq!(changed.unwrap(), [("first".to_owned(), first.clone())]);
    }
}

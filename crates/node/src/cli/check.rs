//! `rusm check`: reads a configuration as a start or a reload would, and says whether it is valid.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusm_console::check_listen;
use rusm_store::{Store, StoreConfig};
use rusm_text::escaped;
use rusm_wasm::{Wasm, WasmConfig};

use super::shell::print;
use super::{CommonFlags, NodeFlags, ObservedFlags};
use crate::cluster;
use crate::failure::{Failure, system};
use crate::run::modules::Modules;
use crate::run::topics;
use crate::serve::sites::Sites;
use crate::settings::app::App;
use crate::settings::{DEFAULT_NAME, Settings};

/// Checks a file, and the files that it names.
///
/// # Errors
/// [`Failure`] with the setting or the file that a start would refuse.
pub(crate) fn run(file: PathBuf) -> Result<u8, Failure> {
    let shown = file.display().to_string();
    let common = CommonFlags { config: Some(file), ..CommonFlags::default() };
    let settings = Settings::read(&NodeFlags::from((ObservedFlags::default(), common)))?;
    let (processes, sites) = (settings.app.processes.len(), settings.app.sites.len());
    // Modules that import the store need one, and this program must not open the one of a node.
    let scratch = match &settings.store {
        Some(_) => Some(Scratch::create().map_err(system("create a temporary folder"))?),
        None => None,
    };
    let store = scratch.as_ref().map(Scratch::store).transpose()?;
    let of_file = |failure: Failure| Failure::Usage(format!("{shown}: {failure}"));
    if let Some(address) = settings.listen {
        check_listen(address).map_err(|error| of_file(Failure::Usage(error.to_string())))?;
    }
    if let Some(cluster) = &settings.cluster {
        cluster::check(settings.name.as_deref().unwrap_or(DEFAULT_NAME), cluster).map_err(of_file)?;
    }
    for (key, path) in
        [("store.path", settings.store.as_ref().map(|store| &store.path)), ("log.file", settings.log.file.as_ref())]
    {
        path.map_or(Ok(()), |path| has_folder(key, path)).map_err(of_file)?;
    }
    if let Some(store) = &settings.store {
        check_store(&store.path).map_err(of_file)?;
    }
    if let Some(file) = &settings.log.file {
        check_log(file, settings.log.rotation.is_some()).map_err(of_file)?;
    }
    let app = Arc::new(settings.app);
    topics::check(&app.topics, settings.store.is_some()).map_err(of_file)?;
    if processes + sites + app.modules.len() > 0 {
        check(&app, store).map_err(of_file)?;
    }
    print(format!("{} is valid: {processes} [[process]], {sites} [[serve]]\n", escaped(&shown)).as_bytes())
}

/// Checks that the folder of a file is there, which a start does not create.
fn has_folder(key: &str, path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    if folder.is_dir() {
        return Ok(());
    }
    let (path, folder) = (path.display().to_string(), folder.display().to_string());
    Err(Failure::Usage(format!("{key} is {}, and there is no folder {}", escaped(&path), escaped(&folder))))
}

/// Checks that a file that is there is a store, without opening it as one: a node may have it open.
fn check_store(path: &Path) -> Result<(), Failure> {
    const START: &[u8] = b"redb";
    let mut start = [0; START.len()];
    let refused = |why: &str| Err(Failure::Usage(format!("store.path is {}, which {why}", escaped(path.display()))));
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => refused("is not a regular file"),
        Ok(_) => match File::open(path).and_then(|mut file| file.read_exact(&mut start)) {
            Ok(()) if start == START => Ok(()),
            // The start of a node would fail for the same reason, or as another user it would not.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
            _ => refused("is not a store"),
        },
        // It is created.
        Err(_) => Ok(()),
    }
}

/// Checks that what has the name of the log's file can be one.
fn check_log(path: &Path, is_rotated: bool) -> Result<(), Failure> {
    let why = match fs::metadata(path) {
        Ok(found) if found.is_dir() => "is a folder",
        Ok(found) if is_rotated && !found.is_file() => "is not a regular file: leave out log.max_bytes",
        _ => return Ok(()),
    };
    Err(Failure::Usage(format!("log.file is {}, which {why}", escaped(path.display()))))
}

/// Checks what a start does with an application before it runs.
fn check(app: &Arc<App>, store: Option<Store>) -> Result<(), Failure> {
    let wasm = Wasm::start(WasmConfig { store, ..app.wasm.clone() })?;
    Modules::load(&wasm, app)?;
    Ok(Sites::check(app, wasm)?)
}

/// A folder for as long as this value exists.
struct Scratch(PathBuf);

impl Scratch {
    fn create() -> std::io::Result<Self> {
        let name = format!("rusm-check-{}", std::process::id());
        // An interrupted check may have left its folder. In a container, the next one often has the same process id.
        let mut unused = (0..).map(|number| std::env::temp_dir().join(format!("{name}-{number}")));
        loop {
            let path = unused.next().unwrap_or_default();
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return created.map(|()| Self(path)),
            }
        }
    }

    fn store(&self) -> Result<Store, Failure> {
        Ok(Store::open(Path::join(&self.0, "store"), StoreConfig::default())?)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It is in the folder for temporary files.
        drop(fs::remove_dir_all(&self.0));
    }
}

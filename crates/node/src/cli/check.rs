//! `rusm check`: reads a configuration as a start or a reload would, and says whether it is valid.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::shell::print;
use super::{CommonFlags, NodeFlags, ObservedFlags};
use crate::failure::{Failure, system};
use crate::settings::Settings;
use crate::settings::app::App;
use crate::settings::serve::Target;

/// Checks a file, and the files that it names.
///
/// # Errors
/// [`Failure`] with the setting that is not valid, or the file that cannot be read.
pub(crate) fn run(file: PathBuf) -> Result<u8, Failure> {
    let shown = file.display().to_string();
    let common = CommonFlags { config: Some(file), ..CommonFlags::default() };
    let settings = Settings::read(&NodeFlags::from((ObservedFlags::default(), common)))?;
    for path in files_of(&settings.app) {
        File::open(path).map_err(system(format!("read {}, which {shown} names", path.display())))?;
    }
    let App { processes, sites, .. } = &settings.app;
    let (processes, sites) = (processes.len(), sites.len());
    print(format!("{shown} is valid: {processes} [[process]], {sites} [[serve]]\n").as_bytes())
}

fn files_of(app: &App) -> impl Iterator<Item = &Path> {
    let processes = app.processes.iter().map(|process| process.module.as_path());
    let modules = app.modules.values().map(PathBuf::as_path);
    let certificates = app.sites.iter().filter_map(|site| site.tls.as_ref());
    let certificates = certificates.flat_map(|tls| [tls.certificate.as_path(), tls.key.as_path()]);
    let targets = app.sites.iter().flat_map(|site| &site.routes).map(|route| match &route.target {
        Target::Folder(path) => path.as_path(),
        Target::Guest(guest) => guest.module.as_path(),
    });
    processes.chain(modules).chain(certificates).chain(targets)
}

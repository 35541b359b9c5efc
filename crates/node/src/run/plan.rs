//! Interprets the command line of `rusm run`: an application from a file, or a single guest.

use std::path::Path;

use crate::cli::{NodeFlags, RunFlags};
use crate::failure::Failure;
use crate::settings::app::stem;
use crate::settings::raw::{RawSetting, RawSettings};
use crate::settings::{DEFAULT_NAME, Settings};

/// File to run if the command line names none.
const DEFAULT_FILE: &str = "rusm.toml";

/// The settings and the node name of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    /// Name of the node if the settings name none.
    pub(crate) name: String,
}

impl Plan {
    /// Reads the settings and the application.
    pub(crate) fn read(flags: &RunFlags) -> Result<Self, Failure> {
        match &flags.file {
            Some(file) if is_configuration(file) => Self::of_file(flags, file),
            Some(module) => Self::of_module(flags, module),
            None => match &flags.common.config {
                Some(file) => Self::of_file(flags, file),
                None if Path::new(DEFAULT_FILE).exists() => Self::of_file(flags, Path::new(DEFAULT_FILE)),
                None => Err(Failure::Usage(format!(
                    "nothing to run: there is no {DEFAULT_FILE} here, and no FILE was given"
                ))),
            },
        }
    }

    fn of_file(flags: &RunFlags, file: &Path) -> Result<Self, Failure> {
        let shown = file.display();
        if flags.common.config.as_ref().is_some_and(|config| config != file) {
            return Err(Failure::Usage(format!("{shown} and --config are two configurations: give only one")));
        }
        if let Some((key, flag, _)) = flags.guest.given().next() {
            return Err(Failure::Usage(format!("{flag} is for a module: set {key} in {shown}")));
        }
        if !flags.args.is_empty() {
            return Err(Failure::Usage(format!("arguments are for a module: set process.args in {shown}")));
        }
        let mut common = flags.common.clone();
        common.config = Some(file.to_owned());
        let settings = Settings::read(&NodeFlags::from((flags.observed.clone(), common)))?;
        if settings.app.processes.is_empty() {
            return Err(Failure::Usage(format!("{shown} has no [[process]] entry: there is nothing to run")));
        }
        Ok(Self { settings, name: project_name(file) })
    }

    fn of_module(flags: &RunFlags, module: &Path) -> Result<Self, Failure> {
        let mut settings = Settings::read(&NodeFlags::from((flags.observed.clone(), flags.common.clone())))?;
        let given: RawSettings = flags
            .guest
            .given()
            .map(|(key, flag, value)| (key.to_owned(), RawSetting::of_text(key, value, flag)))
            .collect();
        let name = stem(module);
        settings.app = settings.app.with_single_guest(module, &name, &flags.args, &given)?;
        Ok(Self { settings, name: node_name(&name) })
    }
}

pub(crate) fn is_configuration(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"))
}

/// Returns the name of the node of a configuration: the name of its folder, or of a file that is not `rusm.toml`.
pub(crate) fn project_name(file: &Path) -> String {
    let full = file.canonicalize().or_else(|_| std::path::absolute(file)).unwrap_or_else(|_| file.to_owned());
    let folder = full.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    node_name(&if full.ends_with(DEFAULT_FILE) { folder.unwrap_or_default() } else { stem(file) })
}

/// Removes from a module's name the characters that a node's name may not have.
pub(crate) fn node_name(module: &str) -> String {
    let kept = module.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c));
    let name: String = kept.skip_while(|c| !c.is_ascii_alphanumeric()).take(40).collect();
    if name.is_empty() { DEFAULT_NAME.to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_called_like_the_folder_of_its_configuration_or_like_a_file_with_a_name_of_its_own() {
        let files = ["/srv/shop.v2/rusm.toml", "/srv/shop/till.toml", "/rusm.toml", "/srv/日本/rusm.toml"];
        assert_eq!(files.map(|file| project_name(Path::new(file))), ["shop.v2", "till", "rusm", "rusm"]);
    }

    #[test]
    fn a_node_is_called_like_its_module_as_far_as_that_is_a_name() {
        assert_eq!(["counter", "-a b/c", "__x", "日本", ""].map(node_name), ["counter", "abc", "x", "rusm", "rusm"]);
    }
}

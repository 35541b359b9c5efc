//! The config file of the observer, `$XDG_CONFIG_HOME/rusm/top.toml`.
//!
//! ```text
//!   flag ──▶ variable ──▶ file ──▶ default          the first that is given wins
//! ```
//!
//! Every option of the command line that makes sense in a file is a key of the same name, and its value passes the same
//! check. An unknown key is an error that names the nearest one: a setting that does nothing is worse than none.

pub mod columns;
mod template;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Command};
use rusm_text::suggestion;
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::cli::arguments::{NOT_IN_FILE, known_options, one_line, plain_command};
use crate::model::input::key_name;
use crate::model::input::keymap::{KeyChange, KeyMap};
use crate::model::input::keys::Context;
use crate::model::palette::{self, Palette, Role, parse_style};

pub use template::template;

/// Maximum size of the file, in bytes.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// The contents of a config file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Values of options as the command line would have them, by the id of the option.
    pub(crate) values: Vec<(String, String)>,
    /// Keys of the bindings.
    pub(crate) keys: KeyMap,
    /// Themes of the user, by name.
    pub(crate) themes: BTreeMap<String, Palette>,
}

/// Error of a config file.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// A line of the file is wrong.
    #[error("{}, line {line}: {what}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, counted from 1.
        line: usize,
        /// The mistake and its correction.
        what: String,
    },
    /// The file exists already.
    #[error("{} exists already: --force replaces it", path.display())]
    Exists {
        /// Path of the file.
        path: PathBuf,
    },
    /// Neither `XDG_CONFIG_HOME` nor `HOME` is set.
    #[error("no place for a config file: set HOME, XDG_CONFIG_HOME or RUSM_TOP_CONFIG")]
    NoPlace,
}

/// Position and description of an error in a text.
type Fault = (Range<usize>, String);

impl Config {
    /// Reads the named file, or the usual one if it exists.
    ///
    /// # Errors
    /// If a named file cannot be read, or if a line is wrong.
    pub fn load(named: Option<&Path>) -> Result<Self, ConfigError> {
        let Some(path) = named.map(Path::to_owned).or_else(usual_path) else { return Ok(Self::default()) };
        match rusm_text::read_file(&path, FILE_MAX_BYTES) {
            Ok(text) => Self::parse(&text).map_err(|(line, what)| ConfigError::Line { path, line, what }),
            Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ConfigError::Read { path, source }),
        }
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// Returns the number of the wrong line, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        Self::read(text).map_err(|(span, what)| {
            let before = text.get(..span.start).unwrap_or_default();
            (before.matches('\n').count() + 1, what)
        })
    }

    fn read(text: &str) -> Result<Self, Fault> {
        let table = DeTable::parse(text).map_err(|error| {
            let what = error.message().lines().next().unwrap_or_default().to_owned();
            (error.span().unwrap_or(0..0), what)
        })?;
        let mut config = Self::default();
        let command = plain_command();
        let known = known_options(&command);
        let mut theme = None;
        for (key, value) in table.get_ref() {
            let name = key.get_ref().as_ref();
            match name {
                "keys" => config.keys = keys(value)?,
                "themes" => config.themes = themes(value)?,
                name if known.contains(&name) => {
                    let given = option(&command, name, value)?;
                    if name == "theme" {
                        theme = Some((value.span(), given.clone()));
                    }
                    config.values.push((name.to_owned(), given));
                }
                name if NOT_IN_FILE.contains(&name) => {
                    return Err((key.span(), format!("{name} belongs on the command line, not in a file")));
                }
                name => {
                    let known = known.into_iter().chain(["keys", "themes"]).collect::<Vec<_>>();
                    return Err((key.span(), format!("unknown key {name:?}: {}", suggestion(name, known))));
                }
            }
        }
        match theme {
            Some((span, name)) => config.palette(&name).map(|_| config).map_err(|what| (span, what)),
            None => Ok(config),
        }
    }

    /// Returns a theme by its name; `None` for the one that follows the terminal.
    ///
    /// # Errors
    /// Names the nearest theme.
    pub(crate) fn palette(&self, name: &str) -> Result<Option<Palette>, String> {
        if name == palette::DEFAULT_THEME {
            return Ok(None);
        }
        let own = self.themes.get(name).copied();
        own.or_else(|| palette::by_name(name)).map(Some).ok_or_else(|| {
            let built_in = palette::BUILT_IN.iter().map(|(name, _)| *name);
            let own = self.themes.keys().map(String::as_str);
            let known: Vec<&str> = std::iter::once(palette::DEFAULT_THEME).chain(built_in).chain(own).collect();
            format!("unknown theme {name:?}: {}", suggestion(name, known))
        })
    }
}

/// Returns the usual place of the file; `None` if no home is known.
pub fn usual_path() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let configs = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(configs.join("rusm").join("top.toml"))
}

/// Checks the value of an option as the command line would, and returns it as its text.
fn option(command: &Command, name: &str, value: &Spanned<DeValue<'_>>) -> Result<String, Fault> {
    let fault = |what: String| (value.span(), what);
    let argument = command.get_arguments().find(|argument| argument.get_id() == name);
    let is_flag = argument.is_some_and(|argument| matches!(argument.get_action(), ArgAction::SetTrue));
    let given = match value.get_ref() {
        DeValue::Boolean(flag) if is_flag => return Ok(flag.to_string()),
        _ if is_flag => return Err(fault(format!("{name} must be true or false"))),
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.as_str().replace('_', ""),
        DeValue::Float(number) => number.as_str().replace('_', ""),
        DeValue::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(|item| item.get_ref().as_str()).collect();
            items.ok_or_else(|| fault(format!("{name} must be a list of strings")))?.join(",")
        }
        _ => return Err(fault(format!("{name} must be a string or a number"))),
    };
    let is_positional = argument.is_some_and(clap::Arg::is_positional);
    let word = if is_positional { given.clone() } else { format!("--{}={given}", name.replace('_', "-")) };
    let parsed = command.clone().try_get_matches_from(["rusm-top".to_owned(), word]);
    parsed.map(|_| given).map_err(|error| fault(one_line(&error)))
}

/// Reads `[keys]` and `[keys.CONTEXT]`.
fn keys(value: &Spanned<DeValue<'_>>) -> Result<KeyMap, Fault> {
    let mut spans = Vec::new();
    let mut changes = Vec::new();
    let mut add = |context: Option<Context>, action: &str, span: Range<usize>, value: &Spanned<DeValue<'_>>| {
        changes.push(KeyChange { context, action: action.to_owned(), keys: key_list(action, value)? });
        spans.push(span);
        Ok::<(), Fault>(())
    };
    for (name, value) in table(value, "keys")? {
        if !value.get_ref().is_table() {
            add(None, name.get_ref().as_ref(), name.span(), value)?;
            continue;
        }
        let id = name.get_ref().as_ref();
        let context = Context::from_id(id).ok_or_else(|| {
            let known: Vec<String> = Context::ALL.iter().map(|context| context.id()).collect();
            (name.span(), format!("unknown place {id:?} of keys: {}", suggestion(id, &known)))
        })?;
        for (action, value) in table(value, id)? {
            add(Some(context), action.get_ref().as_ref(), action.span(), value)?;
        }
    }
    KeyMap::with(&changes).map_err(|(at, error)| (spans.get(at).cloned().unwrap_or(0..0), error.to_string()))
}

fn key_list(action: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<crate::model::input::key::Key>, Fault> {
    let Some(items) = value.get_ref().as_array() else {
        return Err((value.span(), format!("{action} must be a list of keys, such as [\"q\", \"ctrl-c\"]")));
    };
    let key = |item: &Spanned<DeValue<'_>>| match item.get_ref().as_str() {
        Some(name) => key_name::parse(name).map_err(|what| (item.span(), what)),
        None => Err((item.span(), format!("{action} must be a list of keys, each a string"))),
    };
    items.iter().map(key).collect()
}

/// Reads `[themes.NAME]`.
fn themes(value: &Spanned<DeValue<'_>>) -> Result<BTreeMap<String, Palette>, Fault> {
    let mut themes = BTreeMap::new();
    for (name, value) in table(value, "themes")? {
        let id = name.get_ref().as_ref();
        if id == palette::DEFAULT_THEME || palette::by_name(id).is_some() {
            return Err((name.span(), format!("the theme {id:?} is built in: choose another name")));
        }
        themes.insert(id.to_owned(), theme(value)?);
    }
    Ok(themes)
}

fn theme(value: &Spanned<DeValue<'_>>) -> Result<Palette, Fault> {
    let mut palette = Palette::default();
    let roles = table(value, "a theme")?;
    let text = |name: &str, value: &Spanned<DeValue<'_>>| match value.get_ref().as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err((value.span(), format!("{name} must be a string"))),
    };
    // The base first: the table of roles is not ordered.
    for (name, value) in roles.iter().filter(|(name, _)| name.get_ref() == "base") {
        let base = text(name.get_ref(), value)?;
        let known = palette::BUILT_IN.map(|(name, _)| name);
        palette = palette::by_name(&base)
            .ok_or_else(|| (value.span(), format!("unknown theme {base:?}: {}", suggestion(&base, known))))?;
    }
    for (name, value) in roles.iter().filter(|(name, _)| name.get_ref() != "base") {
        let id = name.get_ref().as_ref();
        let role = Role::ALL.into_iter().find(|role| role.id() == id).ok_or_else(|| {
            let known: Vec<&str> = Role::ALL.iter().map(|role| role.id()).chain(["base"]).collect();
            (name.span(), format!("unknown role {id:?}: {}", suggestion(id, known)))
        })?;
        palette.set(role, parse_style(&text(id, value)?).map_err(|what| (value.span(), what))?);
    }
    Ok(palette)
}

fn table<'a, 'i>(value: &'a Spanned<DeValue<'i>>, name: &str) -> Result<&'a DeTable<'i>, Fault> {
    value.get_ref().as_table().ok_or_else(|| (value.span(), format!("{name} must be a section of its own")))
}

#[cfg(test)]
mod tests;

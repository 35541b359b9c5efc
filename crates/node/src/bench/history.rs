//! `rusm bench history`: shows the results of earlier runs.

use std::env;
use std::path::PathBuf;

use rusm_bench::{Document, Entry, History, LoadProtocol, find, history_text};

use crate::bench::compare::json;
use crate::bench::output::print_either;
use crate::cli::bench::{HistoryFlags, KeepFlags};
use crate::failure::Failure;

pub(super) fn run(flags: &HistoryFlags) -> Result<u8, Failure> {
    if let Some(id) = &flags.id
        && !LoadProtocol::ALL.into_iter().any(|protocol| protocol.scenario() == id)
    {
        find(id)?;
    }
    let path = path().ok_or_else(|| Failure::Usage("no history: neither XDG_DATA_HOME nor HOME is set".to_owned()))?;
    let entries = if path.exists() { History::open(&path)?.entries(flags.id.as_deref())? } else { Vec::new() };
    let as_json = flags.json.then(|| json(&entries)).transpose()?;
    print_either(as_json, || history_text(&entries, flags.last))?;
    Ok(0)
}

/// Stores a report in the history. If that fails, the user still gets the figures, and a line on stderr.
pub(crate) fn keep(document: &Document, flags: &KeepFlags) {
    keep_entry(&Entry::of(document), flags);
}

/// Stores an entry that does not come from a report.
pub(crate) fn keep_entry(entry: &Entry, flags: &KeepFlags) {
    let Some(path) = path().filter(|_| !flags.no_history) else {
        return;
    };
    if let Err(error) = History::open(&path).and_then(|history| history.add(entry)) {
        rusm_log::last_words(format_args!("rusm: cannot save the report in the history: {error}"));
    }
}

/// Returns `$XDG_DATA_HOME/rusm/history.redb`, with `~/.local/share` as the default of the variable.
pub(crate) fn path() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(set("HOME")?.join(".local/share")))?;
    Some(data.join("rusm/history.redb"))
}

//! Reads the bytes of a module: binary as it is, text translated.

use std::fs;
use std::path::{Path, PathBuf};

use rusm_wasm::ModuleError;
use thiserror::Error;

use crate::settings::size::format_bytes;

/// Maximum size of a file that is read as a module, besides a quarter of the memory.
const FILE_MAX_BYTES: u64 = 1 << 30;
/// Maximum size of a file in the text format. Its translation takes several times as much memory.
const TEXT_MAX_BYTES: u64 = 4 << 20;
/// Maximum length of the reason why a module is refused.
const WHY_BYTES_MAX: usize = 2048;

/// Error for a file that is not a module that can run here, in one line.
#[derive(Debug, Error)]
pub(crate) enum SourceError {
    #[error("cannot read {path}: {source}{}", build_first(path, source))]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot run {path}: {why}")]
    Unfit { path: PathBuf, why: String },
}

/// Returns a hint for a module that is not there.
fn build_first(path: &Path, error: &std::io::Error) -> &'static str {
    let is_missing = error.kind() == std::io::ErrorKind::NotFound && path.extension().is_some_and(|end| end == "wasm");
    if is_missing { " (`rusm build` builds the guest of a project)" } else { "" }
}

/// Reads a module.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, SourceError> {
    let cannot_read = |source| SourceError::Read { path: path.to_owned(), source };
    let unfit = |why: String| SourceError::Unfit { path: path.to_owned(), why };
    let metadata = fs::metadata(path).map_err(cannot_read)?;
    if metadata.is_dir() {
        return Err(unfit("it is a directory: name a .wasm, .wat or .toml file".to_owned()));
    }
    if !metadata.is_file() {
        return Err(unfit("it is not a regular file".to_owned()));
    }
    let too_long = |kind: &str, max_bytes| {
        let (bytes, max_bytes) = (format_bytes(metadata.len()), format_bytes(max_bytes));
        Err(unfit(format!("its size is {bytes}, and the maximum of {kind} is {max_bytes}")))
    };
    let max_bytes = FILE_MAX_BYTES.min(rusm_runtime::defaults::mailbox_total_bytes());
    if metadata.len() > max_bytes {
        return too_long("a module", max_bytes);
    }
    let bytes = rusm_text::read_regular(path, max_bytes).map_err(cannot_read)?;
    if !is_text(path, &bytes) {
        return Ok(bytes);
    }
    if metadata.len() > TEXT_MAX_BYTES {
        return too_long("a text", TEXT_MAX_BYTES);
    }
    translate(&bytes).map_err(unfit)
}

/// Returns true if the file is meant to be in the text format.
fn is_text(path: &Path, bytes: &[u8]) -> bool {
    let is_wat = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("wat"));
    let start = bytes.trim_ascii_start();
    !bytes.starts_with(b"\0asm") && (is_wat || start.starts_with(b"(") || start.starts_with(b";;"))
}

fn translate(text: &[u8]) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(text).map_err(|error| format!("its text is not UTF-8: {error}"))?;
    wat::parse_str(text).map_err(|error| location_first(&error.to_string()))
}

/// Returns the parser's message and its `line:column`, without the excerpt of the line.
fn location_first(message: &str) -> String {
    let mut lines = message.lines();
    let what = lines.next().unwrap_or("it is not the text of a module");
    let location = lines
        .find_map(|line| line.trim().strip_prefix("-->"))
        .map(|location| location.trim().trim_start_matches("<anon>:"));
    match location {
        Some(location) => format!("{what}, at {location}"),
        None => what.to_owned(),
    }
}

/// Returns how to provide a missing import, based on the engine's name for it.
fn remedy(why: &str) -> Option<&'static str> {
    if why.contains("rusm:store/kv") || why.contains("`rusm::kv_") {
        Some("a store: set store.path or RUSM_STORE")
    } else if why.contains("rusm:runtime/topics") || why.contains("`rusm::topic_") {
        Some("topics: name them in [topics] of rusm.toml")
    } else {
        None
    }
}

/// Turns an error of the engine, which names the module, into an error that names the file.
pub(crate) fn load_error(path: &Path, error: ModuleError) -> SourceError {
    let why = match error {
        ModuleError::Read { error, .. } => return SourceError::Read { path: path.to_owned(), source: error },
        ModuleError::Invalid { why, .. } => format!("it is not valid WebAssembly: {why}"),
        ModuleError::Compile { why, .. } => format!("it cannot be compiled: {why}"),
        ModuleError::Imports { why, .. } => match remedy(&why) {
            Some(remedy) => format!("it imports what this node does not have ({remedy}): {why}"),
            None => format!("it imports what this node does not have: {why}"),
        },
        ModuleError::NoEntry { why, .. } => format!("it {why}"),
    };
    // The names in it are the module's, of any length.
    let why = rusm_text::escaped(why.replace('\n', " ")).within(WHY_BYTES_MAX).to_string();
    SourceError::Unfit { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_in_text_is_told_with_its_place() {
        assert_eq!(translate(b"(module\n  (fnc))").unwrap_err(), "expected valid module field, at 2:4");
        assert!(translate(b"(module \xff)").unwrap_err().starts_with("its text is not UTF-8"));
        assert!(translate(b"").unwrap_err().lines().count() == 1);
    }
}

//! Saves the chosen columns of the process table in the config file, and leaves every other byte of it as it is.

use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use rusm_protocol::Column;
use toml::de::DeTable;

use super::{ConfigError, FILE_MAX_BYTES};

/// Writes the columns as `key` into the file, which is created if it does not exist. No columns remove the key.
///
/// # Errors
/// If the file cannot be read or written, or is not valid TOML.
pub fn save(path: &Path, key: &str, columns: &[Column]) -> Result<(), ConfigError> {
    let text = match rusm_text::read_file(path, FILE_MAX_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|source| ConfigError::Read { path: path.to_owned(), source })?,
    };
    let changed = with_columns(&text, key, columns).map_err(|(line, what)| {
        let path = path.to_owned();
        ConfigError::Line { path, line, what }
    })?;
    write(path, &changed).map_err(|source| ConfigError::Write { path: path.to_owned(), source })
}

/// Returns the text of a file with other columns.
fn with_columns(text: &str, key: &str, columns: &[Column]) -> Result<String, (usize, String)> {
    let table = DeTable::parse(text).map_err(|error| {
        let before = text.get(..error.span().unwrap_or(0..0).start).unwrap_or_default();
        (before.matches('\n').count() + 1, error.message().lines().next().unwrap_or_default().to_owned())
    })?;
    let words: Vec<String> = columns.iter().map(|column| format!("{:?}", column.word())).collect();
    let list = format!("[{}]", words.join(", "));
    let old: Option<Range<usize>> = table.get_ref().get(key).map(toml::Spanned::span);
    Ok(match old {
        Some(span) if columns.is_empty() => without(text, key, &span),
        None if columns.is_empty() => text.to_owned(),
        Some(span) => format!("{}{list}{}", &text[..span.start], &text[span.end..]),
        // At the head: after the first section, a key would belong to the section.
        None => format!("{key} = {list}\n{text}"),
    })
}

/// Returns the text without the key that has its value at `span`, and without the rest of its lines.
fn without(text: &str, key: &str, span: &Range<usize>) -> String {
    let start = text[..span.start].rfind(key).unwrap_or(span.start);
    let start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[span.end..].find('\n').map_or(text.len(), |at| span.end + at + 1);
    format!("{}{}", &text[..start], &text[end..])
}

/// Replaces a file in one step, so that a crash leaves the old one or the new one.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // A link stays a link: many keep their files elsewhere.
    let path = fs::canonicalize(path).unwrap_or_else(|_new| path.to_owned());
    let beside = path.with_extension(format!("toml.{}", std::process::id()));
    let written = fs::File::create(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&beside, &path));
    if replaced.is_err() {
        fs::remove_file(&beside).ok();
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::config::Config;

    #[test]
    fn only_the_columns_of_a_file_change() {
        let columns = [Column::Pid, Column::MemoryBytes];
        let changed = |text: &str| with_columns(text, "columns", &columns).unwrap();

        assert_eq!(changed(""), "columns = [\"pid\", \"memory_bytes\"]\n");
        assert_eq!(
            changed("# mine\nfps = 3\n[keys]\nquit = [\"Q\"]\n"),
            "columns = [\"pid\", \"memory_bytes\"]\n# mine\nfps = 3\n[keys]\nquit = [\"Q\"]\n"
        );
        assert_eq!(
            changed("fps = 3 # slow\ncolumns = [\n  \"name\",\n] # wide\n[keys]\n"),
            "fps = 3 # slow\ncolumns = [\"pid\", \"memory_bytes\"] # wide\n[keys]\n"
        );
        assert_eq!(with_columns("a =", "columns", &columns).unwrap_err().0, 1);
        assert_eq!(
            with_columns("a = 1", "guest_columns", &columns).unwrap(),
            "guest_columns = [\"pid\", \"memory_bytes\"]\na = 1"
        );
        let removed = |text: &str| with_columns(text, "columns", &[]).unwrap();
        assert_eq!(removed("fps = 3\ncolumns = [\n  \"name\",\n] # wide\n[keys]\n"), "fps = 3\n[keys]\n");
        assert_eq!(removed("fps = 3\n"), "fps = 3\n");
    }

    #[test]
    fn a_saved_file_is_read_again_and_a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.toml"), folder.path().join("rusm/top.toml"));
        fs::write(&real, "fps = 7\n").unwrap();
        fs::create_dir(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();

        save(&link, "columns", &[Column::Name]).unwrap();
        save(&folder.path().join("new/top.toml"), "columns", &[Column::Name]).unwrap();

        assert_eq!(fs::read_to_string(&real).unwrap(), "columns = [\"name\"]\nfps = 7\n");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let config = Config::load(Some(&link)).unwrap();
        assert!(config.values.contains(&("columns".to_owned(), "name".to_owned())), "{config:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no temporary file is left");
    }
}

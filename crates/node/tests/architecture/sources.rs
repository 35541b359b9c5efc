//! Checks of the sources, without comments and without the contents of strings.

use std::path::Path;

use crate::crates::root;

/// A file of the workspace.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path below the folder of the crates, for example `runtime/src/mailbox/gate.rs`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Words that must not occur.
#[derive(Debug)]
pub(crate) struct Words<'a>(pub(crate) &'a [&'a str]);

/// An item that may live as long as the program.
#[derive(Debug)]
pub(crate) struct Static {
    pub(crate) file: &'static str,
    pub(crate) name: &'static str,
    /// Reason for the item, for readers of the list.
    #[expect(dead_code, reason = "for readers of the list")]
    pub(crate) why: &'static str,
}

/// Returns the Rust files at or below some paths in `crates`, sorted.
pub(crate) fn read(paths: &[&str]) -> Vec<Source> {
    let crates = root().join("crates");
    let mut sources = Vec::new();
    for path in paths {
        collect(&crates, &crates.join(path), &mut sources);
    }
    assert!(!sources.is_empty(), "no source files at {paths:?}");
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// Returns all Rust files of the crates, including their tests.
pub(crate) fn workspace_sources() -> Vec<Source> {
    read(&[""])
}

fn collect(crates: &Path, path: &Path, sources: &mut Vec<Source>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            collect(crates, &entry.unwrap().path(), sources);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        let name = path.strip_prefix(crates).unwrap().to_string_lossy().into_owned();
        sources.push(Source { path: name, text: std::fs::read_to_string(path).unwrap() });
    }
}

/// Returns the lines that name one of the words.
pub(crate) fn naming(sources: &[Source], words: &Words<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        for (number, line) in (1..).zip(code(&source.text).lines()) {
            found.extend(
                words
                    .0
                    .iter()
                    .filter(|word| names(line, word))
                    .map(|word| format!("{}:{number} names {word}", source.path)),
            );
        }
    }
    found
}

/// Returns the `static` items that are not in the list.
pub(crate) fn unexpected_statics(sources: &[Source], known: &[Static]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let code = code(&source.text);
        let mut words = code.split(|c: char| !is_word(c) && c != '\'').filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            let Some(name) = (word == "static").then(|| words.find(|word| *word != "mut")).flatten() else { continue };
            if !known.iter().any(|known| known.file == source.path && known.name == name) {
                found.push(format!("{} has the static {name}", source.path));
            }
        }
    }
    found
}

/// Returns the files with unsafe code that do not announce it at the top.
pub(crate) fn unexpected_unsafe(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| {
            let code = code(&source.text);
            let announced = code.lines().any(|line| line.starts_with("#![expect(unsafe_code, reason = "));
            code.lines().any(|line| names(line, "unsafe")) && !announced || names(&code, "#[expect(unsafe_code")
        })
        .map(|source| format!("{} has unsafe code that its head does not announce", source.path))
        .collect()
}

/// Returns the files that are too long.
pub(crate) fn long_files(sources: &[Source], lines_max: usize) -> Vec<String> {
    let counts = sources.iter().map(|source| (&source.path, source.text.lines().count()));
    let long = counts.filter(|(_, lines)| *lines > lines_max);
    long.map(|(path, lines)| format!("{path} has {lines} lines, over {lines_max}")).collect()
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns true if `text` has `word`, but not as a part of a longer word.
fn names(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let longer = before.is_some_and(is_word) && word.starts_with(is_word)
            || after.is_some_and(is_word) && word.ends_with(is_word);
        !longer
    })
}

/// Returns the source without comments and without the contents of strings and characters; line numbers stay the same.
pub(crate) fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| string(rest)).or_else(|| character(rest));
        let length = skipped.unwrap_or_else(|| {
            // Copy a whole word at once, so that the `r` of `for "x"` does not start a raw string.
            rest.find(|c| !is_word(c)).filter(|length| *length > 0).unwrap_or_else(|| first.len_utf8())
        });
        if skipped.is_some() {
            out.push(' ');
            out.extend(rest[..length].chars().filter(|c| *c == '\n'));
        } else {
            out.push_str(&rest[..length]);
        }
        rest = &rest[length..];
    }
    out
}

/// Returns the length of the comment that `text` starts with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let mut depth = 0;
    let mut at = 0;
    while text.starts_with("/*") {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 || at >= text.len() {
            return Some(at);
        }
    }
    None
}

/// Returns the length of the string literal that `text` starts with.
fn string(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        text.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with('"') || prefix.ends_with('r') && rest.starts_with('#'))
    })?;
    let body = &text[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = body.find(|c| c != '#')?;
        let inside = body[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        return inside.find(&end).map(|at| prefix.len() + hashes + 1 + at + end.len());
    }
    let mut escaped = false;
    for (at, c) in body.char_indices().skip(1) {
        match c {
            '"' if !escaped => return Some(prefix.len() + at + 1),
            _ => escaped = c == '\\' && !escaped,
        }
    }
    None
}

/// Returns the length of the character literal that `text` starts with; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.char_indices();
    (chars.next()?.1 == '\'').then_some(())?;
    match chars.next()?.1 {
        '\\' => text[3..].find('\'').map(|at| 3 + at + 1),
        _ => chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1),
    }
}

//! Properties of the source code: dependencies and words that must not appear.

use std::fs;
use std::path::{Path, PathBuf};

use rusm_tui::model::input::{keys, questions};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the Rust files below a folder, and the file of the same name beside it.
fn sources(module: &str) -> Vec<(PathBuf, String)> {
    let mut files = vec![root().join(format!("src/{module}.rs"))];
    collect(&root().join("src").join(module), &mut files);
    assert!(files.len() > 3, "{module} has files");
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(&path).expect("a source can be read"))).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Returns the lines of a source that are code: no comments and no tests.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let end = text.find("#[cfg(test)]").unwrap_or(text.len());
    text[..end].lines().filter(|line| !line.trim_start().starts_with("//"))
}

fn offenders(module: &str, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in sources(module) {
        if path.ends_with("tests.rs") {
            continue;
        }
        for line in code(&text).filter(|line| words.iter().any(|word| line.contains(word))) {
            found.push(format!("{}: {}", path.display(), line.trim()));
        }
    }
    found
}

#[test]
fn the_model_names_no_terminal_no_socket_and_no_clock() {
    let words = ["ratatui", "crossterm", "tokio", "tungstenite", "Instant", "SystemTime", "std::io", "std::env"];

    assert_eq!(offenders("model", &words), Vec::<String>::new());
}

#[test]
fn the_views_change_nothing_and_wait_for_nothing() {
    let words = ["&mut Model", "tokio", "crossterm", "Instant", "std::io", "async "];

    assert_eq!(offenders("view", &words), Vec::<String>::new());
}

#[test]
fn the_observer_depends_on_the_protocol_the_log_and_text_alone() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();

    // Tests may depend on a node; the program may not.
    let program = manifest.split("[dev-dependencies]").next().unwrap();
    let rusm: Vec<&str> = program.lines().filter(|line| line.starts_with("rusm-")).collect();

    assert_eq!(rusm, ["rusm-log", "rusm-protocol", "rusm-text"].map(|name| format!("{name}.workspace = true")));
}

#[test]
fn a_file_holds_one_idea() {
    let mut files = vec![];
    collect(&root().join("src"), &mut files);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        assert!(text.starts_with("//!"), "{} says what it is for", path.display());
        // All synthetic data stays in one file, regardless of its length.
        assert!(lines <= 430 || path.ends_with("demo.rs"), "{} has {lines} lines", path.display());
    }
}

/// Set `RUSM_BLESS=1` to write the tables into the README.
#[test]
fn the_readme_lists_the_keys_and_the_questions_that_there_are() {
    let path = root().join("README.md");
    let mut readme = fs::read_to_string(&path).unwrap();
    let mut expected = readme.clone();
    for (name, table) in [("keys", keys::markdown()), ("questions", questions::markdown())] {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n"));
        let (head, rest) = expected.split_once(&begin).unwrap();
        let (_, tail) = rest.split_once(&end).unwrap();
        expected = format!("{head}{begin}{table}{end}{tail}");
    }
    if std::env::var_os("RUSM_BLESS").is_some() {
        fs::write(&path, &expected).unwrap();
        readme = expected.clone();
    }

    assert_eq!(readme, expected, "run this test with RUSM_BLESS=1");
}

#[test]
fn the_tests_that_the_page_about_the_observer_names_exist() {
    let crates = root().join("..");
    let page = fs::read_to_string(crates.join("../docs/observer.md")).unwrap();
    let mut files = vec![];
    for entry in fs::read_dir(&crates).unwrap().flatten() {
        for folder in ["src", "tests"].map(|folder| entry.path().join(folder)) {
            if folder.is_dir() {
                collect(&folder, &mut files);
            }
        }
    }
    let sources: Vec<String> = files.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();

    let words = page.split('`').skip(1).step_by(2);
    let is_test = |word: &&str| word.matches('_').count() > 2 && !word.contains(|c: char| c.is_uppercase() || c == '/');
    let missing: Vec<&str> = words
        .filter(is_test)
        .filter(|name| !sources.iter().any(|source| source.contains(&format!("fn {name}("))))
        .collect();

    assert_eq!(missing, Vec::<&str>::new());
}

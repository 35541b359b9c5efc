//! Checks the documents as far as a program can: the files that they name, their links, the messages that they show,
//! and the settings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rusm_protocol::{decode_client, decode_server};

/// The documents outside of `docs`.
const DOCUMENTS: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "crates/tui/README.md",
    "examples/README.md",
    "tests/hostile/README.md",
];

/// Maximum sizes of documents that must stay short, in bytes.
const SIZES_MAX: [(&str, usize); 2] = [("README.md", 8 * 1024), ("ARCHITECTURE.md", 12 * 1024)];

/// Possible beginnings of a path in a document.
const ROOTS: [&str; 5] = ["crates/", "docs/", "examples/", "src/", ".ci/"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Returns the paths of all documents: the listed ones and every Markdown file below `docs`.
fn documents() -> Vec<String> {
    let mut paths: Vec<String> = DOCUMENTS.map(str::to_owned).to_vec();
    for folder in ["docs", "docs/decisions", "docs/guide"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if Path::new(&name).extension().is_some_and(|extension| extension == "md") {
                paths.push(format!("{folder}/{name}"));
            }
        }
    }
    paths.sort();
    paths
}

/// Returns the texts in backticks of a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns the paths in a document that do not exist. A bare file name is resolved next to the path before it.
fn dead_paths(root: &Path, text: &str) -> Vec<String> {
    let mut dead = Vec::new();
    let mut folder = PathBuf::new();
    for name in text.lines().flat_map(quoted).filter(|name| !name.contains([' ', '*', '{'])) {
        let rooted = ROOTS.iter().any(|start| name.starts_with(start));
        let path = if rooted { PathBuf::from(name) } else { folder.join(name) };
        if rooted {
            folder = path.parent().map(Path::to_owned).unwrap_or_default();
        }
        if (rooted || path.extension().is_some_and(|extension| extension == "rs")) && !root.join(&path).exists() {
            dead.push(name.to_owned());
        }
    }
    dead
}

/// Returns the targets of relative links in a document that do not exist in `folder`.
fn dead_links<'a>(folder: &Path, text: &'a str) -> Vec<&'a str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let files =
        targets.filter(|target| !target.contains("://")).map(|target| target.split('#').next().unwrap_or(target));
    files.filter(|file| !file.is_empty() && !folder.join(file).exists()).collect()
}

/// Returns the JSON examples of a document, each with the heading above it.
fn examples(text: &str) -> Vec<(&str, &str)> {
    let mut heading = "";
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("### ") {
            heading = name;
        } else if line == "```json" {
            found.extend(lines.next().map(|example| (heading, example)));
        }
    }
    found
}

#[test]
fn the_page_of_lints_has_every_lint_and_what_to_do_about_it() {
    let page = document("docs/lints.md");
    for lint in rusm_protocol::Lint::ALL {
        assert!(page.contains(&format!("| `{}` |", lint.id())), "{lint:?}");
        let advice: String = page.chars().filter(|c| *c != '`').collect();
        assert!(advice.contains(lint.advice()), "{lint:?}");
    }
}

/// Returns the variables that the observer reads.
fn observer_variables() -> BTreeSet<String> {
    let sources = ["crates/tui/src/cli/arguments.rs", "crates/tui/src/main.rs"].map(document).concat();
    sources.split('"').filter(|text| text.starts_with("RUSM_TOP_")).map(ToOwned::to_owned).collect()
}

/// Returns the fault of an example under `heading`, if it has one.
fn fault(heading: &str, example: &str) -> Option<String> {
    let value: serde_json::Value = match serde_json::from_str(example) {
        Ok(value) => value,
        Err(error) => return Some(format!("{heading}: {error}")),
    };
    if value["type"] != heading {
        return Some(format!("{heading}: the example is a {}", value["type"]));
    }
    let (client, server) = (decode_client(example), decode_server(example));
    if let (Err(client), Err(server)) = (&client, &server) {
        return Some(format!("{heading}: {client}; {server}"));
    }
    // A decoded and re-encoded message has every field, so a missing or invented field in the example shows here.
    let read = [client.map(serde_json::to_value).ok(), server.map(serde_json::to_value).ok()];
    let again: Vec<serde_json::Value> = read.into_iter().flatten().map(Result::unwrap).collect();
    (!again.contains(&value)).then(|| format!("{heading}: reads as {}", again[0]))
}

#[test]
fn the_files_that_the_documents_name_exist() {
    for path in documents() {
        let base = if path.starts_with("crates/tui") { root().join("crates/tui") } else { root() };

        assert_eq!(dead_paths(&base, &document(&path)), [""; 0], "{path}");
    }
}

#[test]
fn the_links_of_the_documents_lead_somewhere() {
    for path in documents() {
        let folder = root().join(Path::new(&path).parent().unwrap());

        assert_eq!(dead_links(&folder, &document(&path)), [""; 0], "{path}");
    }
}

#[test]
fn a_link_that_leads_nowhere_is_seen() {
    let planted = "[a](README.md), [b](docs/gone.md#part), [c](#here), [d](https://example.org/gone.md)";

    assert_eq!(dead_links(&root(), planted), ["docs/gone.md"]);
}

#[test]
fn the_index_names_every_document() {
    let index = document("docs/README.md");
    let decisions = document("docs/decisions/README.md");
    let guide = document("docs/guide/README.md");
    for path in documents() {
        if let Some(name) = path.strip_prefix("docs/guide/") {
            assert!(name == "README.md" || guide.contains(&format!("]({name})")), "{path}");
            continue;
        }
        let named = match (path.strip_prefix("docs/decisions/"), path.strip_prefix("docs/")) {
            (Some("README.md"), _) | (None, Some("README.md")) => true,
            (Some(name), _) => decisions.contains(&format!("]({name})")),
            (None, Some(name)) => index.contains(&format!("]({name})")),
            (None, None) => index.contains(&format!("](../{path})")),
        };
        assert!(named, "{path}");
    }
}

#[test]
fn the_readme_and_the_architecture_stay_short() {
    for (path, size_max) in SIZES_MAX {
        let size = document(path).len();

        assert!(size <= size_max, "{path} has {size} bytes, over {size_max}");
    }
}

#[test]
fn a_file_that_is_not_there_is_seen() {
    let planted =
        "See `crates/node/src/main.rs`, `cli.rs` and `gone.rs`, or `docs/gone.md`; `a.b` and `x y.rs` are not files.";

    assert_eq!(dead_paths(&root(), planted), ["gone.rs", "docs/gone.md"]);
}

#[test]
fn every_example_of_the_protocol_is_the_message_that_it_says() {
    let text = document("docs/protocol.md");
    let examples = examples(&text);

    let shown: BTreeSet<&str> = examples.iter().map(|(heading, _)| *heading).collect();
    let faults: Vec<String> = examples.iter().filter_map(|(heading, example)| fault(heading, example)).collect();

    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    let client = [
        "causes",
        "cluster",
        "cpu",
        "detail",
        "engines",
        "history",
        "inspect",
        "kill",
        "kill_all",
        "past",
        "pause",
        "report",
        "restart_child",
        "results",
        "run",
        "schedulers",
        "serve",
        "set_log_filter",
        "set_observer_detail",
        "set_resource_profile",
        "stop",
        "stores",
        "time",
        "topics",
        "trace",
        "tree",
        "view",
        "waits",
        "watch",
    ];
    let server = ["ack", "error", "events", "hello", "inspection", "killed", "process", "rows", "tick"];
    assert_eq!(shown, client.into_iter().chain(server).collect());
}

/// Returns the paths and texts of all test files, without the folders `tests` and `it`: `wasm/semantics/bonds.rs`.
fn test_files() -> Vec<(String, String)> {
    let (mut files, mut folders) = (Vec::new(), vec![root().join("crates")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root().join("crates")).unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") && name.contains("/tests/") {
                let short: Vec<&str> = name.split('/').filter(|part| !["tests", "it"].contains(part)).collect();
                files.push((short.join("/"), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files
}

/// Returns the tests that a document names as `crate/file.rs::test` and that do not exist.
fn missing_tests(text: &str, files: &[(String, String)]) -> Vec<String> {
    let is_missing = |(file, test): (&str, &str)| {
        let is_there = |text: &str| text.contains(&format!("fn {test}(")) || text.contains(&format!("    {test},"));
        !files.iter().any(|(path, text)| path == file && is_there(text))
    };
    let named = text
        .lines()
        .flat_map(quoted)
        .filter_map(|name| name.split_once(".rs::").map(|(file, test)| (name, file, test)));
    named
        .filter(|(_, file, test)| is_missing((&format!("{file}.rs"), test)))
        .map(|(name, ..)| name.to_owned())
        .collect()
}

#[test]
fn every_guarantee_names_tests_that_exist() {
    let tests = test_files();
    for page in ["docs/semantics.md", "docs/security.md"] {
        assert_eq!(missing_tests(&document(page), &tests), Vec::<String>::new(), "{page}");
    }
    assert_eq!(missing_tests("`runtime/bonds.rs::no_such_test`", &tests), ["runtime/bonds.rs::no_such_test"]);
}

#[test]
fn an_example_that_is_wrong_is_seen() {
    let faults = [
        fault("stop", r#"{"type":"stop""#),
        fault("stop", r#"{"type":"watch","frame_hz":4.0}"#),
        fault("run", r#"{"type":"run"}"#),
        fault("stop", r#"{"type":"stop","now":true}"#),
        fault("tick", r#"{"type":"tick","frame":{}}"#),
    ];

    assert!(faults.iter().all(Option::is_some), "{faults:?}");
    assert_eq!(fault("stop", r#"{"type":"stop"}"#), None);
}

#[test]
fn the_reference_lists_every_setting_and_the_page_of_examples_every_binary() {
    let (reference, page) = (document("docs/reference.md"), document("examples/README.md"));
    let settings = document("crates/node/src/settings/layers.rs");
    let keys = settings.lines().filter_map(|line| {
        let (key, rest) = line.trim().strip_prefix("(\"")?.split_once("\", \"")?;
        key.contains('.').then_some((key, rest.strip_suffix("\"),")?))
    });
    let missing: Vec<_> =
        keys.clone().filter(|(key, variable)| !reference.contains(&format!("| `{key}` | `{variable}` |"))).collect();

    assert!(keys.count() >= 12, "the list has moved");
    assert_eq!(missing, []);
    for example in ["hello", "ping_pong", "tcp_echo", "lost_update", "durable_orders", "observe_your_own_app"] {
        assert!(page.contains(&format!("-p rusm-examples --bin {example}")), "{example}");
    }
}

/// Returns the keys in the first column of a page's tables.
fn keys_of(page: &str) -> BTreeSet<&str> {
    page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |")).map(|(key, _)| key).collect()
}

/// Returns the names of the fields of a struct in a source file.
fn fields<'a>(source: &'a str, name: &str) -> Vec<&'a str> {
    let (_, body) = source.split_once(&format!("struct {name} {{\n")).unwrap();
    let lines = body.lines().map(str::trim).take_while(|line| *line != "}");
    lines
        .filter_map(|line| line.split_once(": "))
        .map(|(field, _)| field)
        .filter(|field| !field.contains(['/', '$']))
        .collect()
}

#[test]
fn the_page_of_applications_has_every_key_and_no_other() {
    let (page, source) = (document("docs/run.md"), document("crates/node/src/settings/app.rs"));
    let of_guests = document("crates/node/src/settings/limits.rs");
    let sections = [
        ("process", "ProcessSection"),
        ("profile.NAME", "ProfileSection"),
        ("supervisor", "SupervisorSection"),
        ("limits", "LimitsSection"),
        ("engine", "EngineSection"),
    ];
    let mut known = BTreeSet::from(["modules.NAME".to_owned(), "topics.NAME".to_owned()]);
    for (section, name) in sections {
        let limits =
            if source.contains(&format!("    struct {name} {{")) { fields(&of_guests, "$name") } else { vec![] };
        known.extend(fields(&source, name).into_iter().chain(limits).map(|field| format!("{section}.{field}")));
    }
    let shown: BTreeSet<&str> = keys_of(&page).into_iter().filter(|key| key.contains('.')).collect();

    assert!(known.len() >= 20, "the list has moved: {known:?}");
    assert_eq!(shown, known.iter().map(String::as_str).collect());
}

#[test]
fn the_page_of_servers_has_every_key_and_no_other() {
    let (page, source) = (document("docs/serve-command.md"), document("crates/node/src/settings/serve.rs"));
    let of_guests = document("crates/node/src/settings/limits.rs");
    let (_, macro_call) = source.split_once("\nserve_limits! {\n").unwrap();
    let limits = macro_call.lines().map_while(|line| line.trim().split_once(": ")).map(|(field, _)| field);
    let mut known: BTreeSet<String> = limits.map(|field| format!("serve.limits.{field}")).collect();
    known.extend(fields(&source, "ServeSection").iter().map(|field| format!("serve.{field}")));
    let of_route = fields(&source, "RouteSection").into_iter().chain(fields(&of_guests, "$name"));
    known.extend(of_route.map(|field| format!("serve.route.{field}")));
    let rates = document("crates/node/src/settings/serve/rates.rs");
    known.extend(fields(&rates, "RateSection").iter().map(|field| format!("serve.rate.{field}")));
    let shown: BTreeSet<&str> = keys_of(&page).into_iter().filter(|key| key.contains('.')).collect();

    assert!(known.len() >= 30, "the list has moved: {known:?}");
    assert_eq!(shown, known.iter().map(String::as_str).collect());
}

#[test]
fn the_variables_of_the_observer_are_in_the_reference() {
    let reference = document("docs/reference.md");
    let read = observer_variables();

    assert!(read.len() >= 6, "the variables are read in another file");
    for variable in read {
        assert!(reference.contains(&format!("`{variable}`")), "{variable}");
    }
}

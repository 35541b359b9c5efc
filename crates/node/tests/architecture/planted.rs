//! Every check, applied to a planted violation.

use crate::crates::{ALL_KINDS, Dependencies, Tree, dependencies, unexpected_dependencies};
use crate::cycles::{CycleLimit, WideFolder, long_cycles, wide_folders};
use crate::sources::{Source, Static, Words, code, long_files, naming, unexpected_statics, unexpected_unsafe};

fn source(path: &str, text: &str) -> [Source; 1] {
    [Source { path: path.to_owned(), text: text.to_owned() }]
}

#[test]
fn an_arrow_that_the_picture_does_not_have_is_seen_however_it_is_written() {
    let allowed = Dependencies { from: "tui", to: &["rusm-protocol"] };
    let manifests = [
        "[dependencies]\nrusm-protocol.workspace = true\nrusm-runtime.workspace = true",
        "[dependencies]\nrt = { package = \"rusm-runtime\", path = \"../runtime\" }",
        "[target.'cfg(unix)'.dependencies.rusm-runtime]\npath = \"../runtime\"",
        "[build-dependencies]\nrusm-runtime = { path = \"../runtime\" }",
    ];

    for manifest in manifests {
        assert_eq!(unexpected_dependencies(&allowed, manifest), ["tui depends on rusm-runtime"], "{manifest}");
    }
    assert_eq!(unexpected_dependencies(&allowed, "[dev-dependencies]\nrusm-runtime.workspace = true"), [""; 0]);
}

#[test]
fn whoever_depends_on_the_node_is_seen_in_every_kind_of_dependency() {
    for kind in ALL_KINDS {
        let manifest = format!("[{kind}]\nrusm-node.workspace = true");

        assert!(dependencies(&manifest, &ALL_KINDS).contains("rusm-node"), "{kind}");
    }
}

#[test]
fn a_package_that_must_not_be_built_is_seen_in_the_tree() {
    let tree = Tree::of("rusm-tui v0.1.0 (/x/crates/tui)\nrusm-protocol v0.1.0\nwasmtime v48.0.8\nbytes v1.12.0 (*)\n");

    assert_eq!(tree.containing(&["wasmtime", "tungstenite"]), ["wasmtime"]);
    assert_eq!(tree.beyond(&["rusm-tui", "rusm-protocol", "bytes"]), ["wasmtime"]);
    assert_eq!(tree.ours().into_iter().collect::<Vec<_>>(), ["rusm-protocol", "rusm-tui"]);
}

#[test]
fn a_forbidden_word_is_seen_in_code_and_not_in_prose() {
    let planted = "//! No Instant here.\nfn a() { \"Instant\"; }\nuse std::time::Instant;\nstruct Instantly;\n";

    let found = naming(&source("protocol/src/frame.rs", planted), &Words(&["Instant", "std::net"]));

    assert_eq!(found, ["protocol/src/frame.rs:3 names Instant"]);
}

#[test]
fn a_view_that_takes_the_model_to_change_it_is_seen() {
    let planted = "pub fn draw(model: &mut Model, area: Rect) {}";

    let found = naming(&source("tui/src/view/node.rs", planted), &Words(&["&mut Model"]));

    assert_eq!(found, ["tui/src/view/node.rs:1 names &mut Model"]);
}

#[test]
fn a_static_is_seen_wherever_it_stands_and_a_lifetime_is_none() {
    let planted = "fn f() -> &'static str { static COUNT: AtomicU64 = AtomicU64::new(0); \"\" }\n\
                   thread_local! { static SEAT: Cell<u8> = const { Cell::new(0) }; }\nstatic mut OLD: u8 = 0;";
    let known = [Static { file: "runtime/src/gate.rs", name: "SEAT", why: "planted" }];

    let found = unexpected_statics(&source("runtime/src/gate.rs", planted), &known);

    assert_eq!(found, ["runtime/src/gate.rs has the static COUNT", "runtime/src/gate.rs has the static OLD"]);
}

#[test]
fn unsafe_code_without_its_announcement_is_seen() {
    let announced = "//! A file.\n\n#![expect(unsafe_code, reason = \"because\")]\nfn f() { unsafe { g() } }";
    let hidden = "#[expect(unsafe_code, reason = \"here\")]\nfn f() { unsafe { g() } }";
    let prose = "//! Nothing unsafe.\nfn f() { \"unsafe\"; }";

    let seen = |text| unexpected_unsafe(&source("runtime/src/x.rs", text)).len();

    assert_eq!([announced, prose, hidden, "unsafe impl Send for X {}"].map(seen), [0, 0, 1, 1]);
}

#[test]
fn a_file_that_grew_too_long_is_seen() {
    let planted = source("runtime/src/gate.rs", &"\n".repeat(701));

    assert_eq!(long_files(&planted, 700), ["runtime/src/gate.rs has 701 lines, over 700"]);
    assert_eq!(long_files(&planted, 701), [""; 0]);
}

fn sources(files: &[(&str, &str)]) -> Vec<Source> {
    files.iter().flat_map(|(path, text)| source(path, text)).collect()
}

#[test]
fn files_that_import_each_other_are_seen_however_the_paths_are_written() {
    let back = [
        "use crate::ring::turn::Turn;",
        "use super::turn;",
        "use crate::{ring::{turn::{self, Turn}}, timer};",
        "fn f() -> u8 { crate::ring::turn::now() }",
        "fn f() { let t: super::turn::Turn; }",
        "use crate::ring::Turn;",
        "use crate::ring::Turned as Other;",
        "fn f() { use crate::ring; ring::turn::now(); }",
    ];
    for back in back {
        let files = sources(&[
            ("runtime/src/lib.rs", "mod ring;\npub use ring::Turn;"),
            (
                "runtime/src/ring.rs",
                "//! Rings.\nmod slot;\nmod turn;\npub(crate) use self::turn::{Turn, Turn as Turned};",
            ),
            ("runtime/src/ring/turn.rs", "use super::slot::Slot;\npub struct Turn(Slot);"),
            ("runtime/src/ring/slot.rs", &format!("{back}\npub struct Slot;")),
        ]);

        let expected =
            "runtime has an import cycle of 2 files, over 1: runtime/src/ring/slot.rs, runtime/src/ring/turn.rs";
        assert_eq!(long_cycles(&files, &[CycleLimit { krate: "runtime", files: 1 }]), [expected], "{back}");
        assert_eq!(long_cycles(&files, &[CycleLimit { krate: "runtime", files: 2 }]), [""; 0], "{back}");
    }
}

#[test]
fn imports_of_tests_and_of_a_root_that_only_declares_are_no_cycle() {
    let files = sources(&[
        ("tui/src/view.rs", "mod rows;\npub(crate) use rows::Rows;\n#[cfg(test)]\nmod tests;"),
        (
            "tui/src/view/rows.rs",
            "use super::paint;\nuse std::fmt;\npub struct Rows;\n#[cfg(test)]\nmod tests { use crate::run; }",
        ),
        ("tui/src/view/paint.rs", "// use super::rows::Rows;\nfn f() { \"super::rows\"; }"),
        ("tui/src/view/tests.rs", "use super::rows;"),
        ("tui/src/run.rs", "use crate::view::Rows;\nfn run() {}"),
    ]);
    let root_with_code = sources(&[
        ("tui/src/view.rs", "mod rows;\npub use rows::Rows;\npub struct Area;"),
        ("tui/src/view/rows.rs", "use super::Area;\npub struct Rows;"),
    ]);

    assert_eq!(long_cycles(&files, &[]), [""; 0]);
    assert_eq!(long_cycles(&root_with_code, &[]).len(), 1);
}

#[test]
fn a_folder_that_grew_too_wide_is_seen_and_so_is_an_exception_that_is_no_longer_needed() {
    let names = ["lib", "a", "a/b", "a/c", "a/d", "e"].map(|name| (format!("text/src/{name}.rs"), ""));
    let files = sources(&names.each_ref().map(|(path, text)| (path.as_str(), *text)));
    let exception = |entries| [WideFolder { path: "text/src/a", entries }];

    assert_eq!(wide_folders(&files, 2, &[]), ["text/src/a has 3 entries, over 2"]);
    assert_eq!(wide_folders(&files, 2, &exception(3)), [""; 0]);
    assert_eq!(wide_folders(&files, 2, &exception(4)), ["text/src/a has 3 entries: lower its exception of 4"]);
    assert_eq!(wide_folders(&files, 1, &exception(3)), ["text/src has 2 entries, over 1"]);
}

#[test]
fn only_code_is_left_of_a_source() {
    let text = "a /* b /* c */ d\n */ e // f\ng \"h \\\" i\" j r#\"k \" l\"# m 'n' '\\'' 'o: loop {} b\"p\" for \"q\"";

    let left = code(text);

    assert_eq!(left.split_whitespace().collect::<Vec<_>>().join(" "), "a e g j m 'o: loop {} for");
    assert_eq!(left.lines().count(), text.lines().count());
}

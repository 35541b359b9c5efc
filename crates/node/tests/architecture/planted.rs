//! Every check, applied to a planted violation.

use crate::crates::{ALL_KINDS, Arrow, Tree, dependencies, strange_arrows};
use crate::sources::{Source, Static, Words, code, long_files, naming, strange_statics, unexpected_unsafe};

fn source(path: &str, text: &str) -> [Source; 1] {
    [Source { path: path.to_owned(), text: text.to_owned() }]
}

#[test]
fn an_arrow_that_the_picture_does_not_have_is_seen_however_it_is_written() {
    let arrow = Arrow { from: "tui", to: &["rusm-protocol"] };
    let manifests = [
        "[dependencies]\nrusm-protocol.workspace = true\nrusm-runtime.workspace = true",
        "[dependencies]\nrt = { package = \"rusm-runtime\", path = \"../runtime\" }",
        "[target.'cfg(unix)'.dependencies.rusm-runtime]\npath = \"../runtime\"",
        "[build-dependencies]\nrusm-runtime = { path = \"../runtime\" }",
    ];

    for manifest in manifests {
        assert_eq!(strange_arrows(&arrow, manifest), ["tui depends on rusm-runtime"], "{manifest}");
    }
    assert_eq!(strange_arrows(&arrow, "[dev-dependencies]\nrusm-runtime.workspace = true"), [""; 0]);
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

    let found = strange_statics(&source("runtime/src/gate.rs", planted), &known);

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
    let planted = source("runtime/src/gate.rs", &"\n".repeat(501));

    assert_eq!(long_files(&planted, 500), ["runtime/src/gate.rs has 501 lines, over 500"]);
    assert_eq!(long_files(&planted, 501), [""; 0]);
}

#[test]
fn only_code_is_left_of_a_source() {
    let text = "a /* b /* c */ d\n */ e // f\ng \"h \\\" i\" j r#\"k \" l\"# m 'n' '\\'' 'o: loop {} b\"p\" for \"q\"";

    let left = code(text);

    assert_eq!(left.split_whitespace().collect::<Vec<_>>().join(" "), "a e g j m 'o: loop {} for");
    assert_eq!(left.lines().count(), text.lines().count());
}

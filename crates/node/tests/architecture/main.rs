//! Properties of absence, checked in the manifests, in the output of `cargo tree` and in the sources themselves.
//!
//! ```text
//!   protocol ◀── tui ◀───────┐
//!      ▲  ▲                  │
//!      │  └─── bench ◀────── node
//!      │         │            │          examples ──▶ runtime
//!      └╌╌╌ runtime ◀─────────┘          (dashed: only with the feature `console`)
//!   text ◀── log ◀── tui, node          (text: also by protocol, runtime, bench, tui and node)
//! ```
//!
//! Every check is a function from text to the violations in it. [`planted`] proves that each of them finds one.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod crates;
mod planted;
mod sources;

use std::collections::BTreeSet;

use crates::{Arrow, manifest, strange_arrows, tree};
use sources::{Static, Words, long_files, naming, read, strange_statics, unexpected_unsafe, workspace_sources};

/// The dependencies allowed between the crates of the workspace.
const ARROWS: [Arrow; 13] = [
    Arrow { from: "text", to: &[] },
    Arrow { from: "log", to: &["rusm-text"] },
    Arrow { from: "protocol", to: &["rusm-text"] },
    Arrow { from: "runtime", to: &["rusm-protocol", "rusm-text"] },
    Arrow { from: "bench", to: &["rusm-protocol", "rusm-runtime", "rusm-text"] },
    Arrow { from: "tui", to: &["rusm-log", "rusm-protocol", "rusm-text"] },
    Arrow {
        from: "node",
        to: &[
            "rusm-bench",
            "rusm-console",
            "rusm-log",
            "rusm-protocol",
            "rusm-runtime",
            "rusm-store",
            "rusm-text",
            "rusm-tui",
            "rusm-wasm",
        ],
    },
    Arrow { from: "benches", to: &["rusm-console", "rusm-protocol", "rusm-runtime", "rusm-store", "rusm-wasm"] },
    Arrow { from: "rusm", to: &["rusm-console", "rusm-runtime", "rusm-store", "rusm-wasm"] },
    Arrow { from: "examples", to: &["rusm"] },
];

/// Packages that the core of the runtime must not use.
const OBSERVING: [&str; 4] = ["rusm-protocol", "tokio-tungstenite", "tungstenite", "prometheus-client"];

/// All items of the runtime and the protocol that live as long as the program.
const STATICS: [Static; 8] = [
    Static { file: "runtime/src/panics.rs", name: "PLACE", why: "where this thread panicked last" },
    Static { file: "runtime/src/panics.rs", name: "IS_QUIET", why: "panics that the hook does not print" },
    Static { file: "runtime/src/panics.rs", name: "HOOK", why: "the standard library has one panic hook" },
    Static { file: "runtime/src/realtime.rs", name: "POLICIES", why: "the kernel's settings of this thread" },
    Static { file: "runtime/src/scheduler.rs", name: "LOCAL", why: "the scheduler of this thread" },
    Static { file: "runtime/src/ticker/clock.rs", name: "SLACKS", why: "the kernel's settings of this thread" },
    Static { file: "wasm/src/spare.rs", name: "SPARE", why: "an unused block of memory of this thread" },
    Static { file: "runtime/src/waker.rs", name: "WAKER", why: "a table of functions, never written" },
];

/// Maximum number of lines of a file.
const LINES_MAX: usize = 500;

fn none(violations: &[String]) {
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

#[test]
fn the_arrows_between_the_crates_are_those_of_the_picture() {
    none(&ARROWS.iter().flat_map(|arrow| strange_arrows(arrow, &manifest(arrow.from))).collect::<Vec<_>>());
}

#[test]
fn nobody_depends_on_the_node() {
    for arrow in ARROWS.iter().filter(|arrow| arrow.from != "node") {
        assert!(!crates::dependencies(&manifest(arrow.from), &crates::ALL_KINDS).contains("rusm-node"), "{arrow:?}");
    }
}

#[test]
fn the_protocol_stands_on_serde_and_thiserror_alone() {
    let direct = tree(&["-p", "rusm-protocol", "--depth", "1"]);
    let all = tree(&["-p", "rusm-protocol"]);

    none(&direct.beyond(&["rusm-protocol", "rusm-text", "serde", "serde_json", "thiserror"]));
    none(&all.containing(&["tokio", "mio", "futures-core", "bytes"]));
}

#[test]
fn the_protocol_has_neither_clocks_nor_sockets() {
    let words = ["Instant", "SystemTime", "std::net", "std::os", "tokio", "async"];

    none(&naming(&read(&["protocol/src"]), &Words(&words)));
}

#[test]
fn the_core_of_the_runtime_is_built_without_what_observes_it() {
    let tree = tree(&["-p", "rusm-runtime"]);

    none(&tree.containing(&[&OBSERVING[..], &["redb", "serde", "wasmtime"]].concat()));
}

#[test]
fn the_console_brings_no_wasm() {
    let tree = tree(&["-p", "rusm-console"]);

    assert!(OBSERVING.iter().all(|name| tree.0.contains(*name)), "the console names the wire: {tree:?}");
    none(&tree.containing(&["redb", "wasmtime"]));
}

#[test]
fn the_store_brings_neither_wasm_nor_the_wire() {
    none(&tree(&["-p", "rusm-store"]).containing(&[&OBSERVING[..], &["wasmtime"]].concat()));
}

#[test]
fn guests_bring_a_store_only_where_it_is_asked_for() {
    none(&tree(&["-p", "rusm-wasm"]).containing(&[&OBSERVING[..], &["redb"]].concat()));
}

#[test]
fn the_observer_is_built_without_the_runtime_and_without_wasm() {
    let tree = tree(&["-p", "rusm-tui"]);

    assert_eq!(tree.ours(), BTreeSet::from(["rusm-log", "rusm-protocol", "rusm-text", "rusm-tui"]));
    none(&tree.containing(&["wasmtime"]));
}

#[test]
fn the_bench_is_built_on_the_runtime_and_the_protocol() {
    let ours = ["rusm-bench", "rusm-console", "rusm-protocol", "rusm-runtime", "rusm-store", "rusm-text", "rusm-wasm"];
    assert_eq!(tree(&["-p", "rusm-bench"]).ours(), BTreeSet::from(ours));
}

#[test]
fn the_model_of_the_observer_draws_nothing_and_its_views_change_nothing() {
    none(&naming(&read(&["tui/src/model.rs", "tui/src/model"]), &Words(&["ratatui", "crossterm"])));
    none(&naming(&read(&["tui/src/view.rs", "tui/src/view"]), &Words(&["&mut Model"])));
}

#[test]
fn two_runtimes_share_nothing_but_the_panic_hook() {
    none(&strange_statics(&read(&["runtime/src", "store/src", "wasm/src", "console/src", "protocol/src"]), &STATICS));
}

#[test]
fn unsafe_code_is_announced_at_the_head_of_its_file() {
    none(&unexpected_unsafe(&workspace_sources()));
}

#[test]
fn a_file_holds_one_idea() {
    none(&long_files(&workspace_sources(), LINES_MAX));
}

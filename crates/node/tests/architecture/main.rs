//! Forbidden properties, checked in the manifests, in the output of `cargo tree` and in the sources themselves.
//!
//! ```text
//!   protocol ◀── tui ◀──────────────────────────── node
//!      ▲  ▲                                         │
//!      │  └─────────── bench ◀──────────────────────┤      examples ──▶ rusm ──▶ console, runtime, store, wasm
//!      │                 │                          │
//!   console ──▶ runtime ◀┴─ store ◀╌ wasm ╌▶ serve ──▶ runtime      (dashed: with the features `store` and `http` of wasm)
//!   bench, node ──▶ serve;  cluster ──▶ runtime
//!   text ◀── log ◀── tui, node;  text ◀── otlp ◀── rusm, node     (text: also by most others)
//! ```
//!
//! Every check is a function from text to the violations in it. [`planted`] proves that each of them finds one.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod crates;
mod cycles;
mod planted;
mod sources;

use std::collections::BTreeSet;

use crate::cycles::{CycleLimit, WideFolder, long_cycles, wide_folders};
use crates::{Dependencies, manifest, tree, unexpected_dependencies};
use sources::{Static, Words, long_files, naming, read, unexpected_statics, unexpected_unsafe, workspace_sources};

/// The dependencies allowed between the crates of the workspace.
const DEPENDENCIES: [Dependencies; 17] = [
    Dependencies { from: "macros", to: &[] },
    Dependencies { from: "text", to: &[] },
    Dependencies { from: "log", to: &["rusm-text"] },
    Dependencies { from: "otlp", to: &["rusm-text"] },
    Dependencies { from: "protocol", to: &["rusm-text"] },
    Dependencies { from: "runtime", to: &["rusm-text"] },
    Dependencies { from: "store", to: &["rusm-runtime", "rusm-text"] },
    Dependencies { from: "wasm", to: &["rusm-runtime", "rusm-serve", "rusm-store", "rusm-text"] },
    Dependencies { from: "serve", to: &["rusm-runtime", "rusm-text"] },
    Dependencies { from: "cluster", to: &["rusm-runtime", "rusm-text"] },
    Dependencies { from: "console", to: &["rusm-protocol", "rusm-runtime", "rusm-text"] },
    Dependencies {
        from: "bench",
        to: &[
            "rusm-cluster",
            "rusm-console",
            "rusm-protocol",
            "rusm-runtime",
            "rusm-serve",
            "rusm-store",
            "rusm-text",
            "rusm-wasm",
        ],
    },
    Dependencies { from: "tui", to: &["rusm-log", "rusm-protocol", "rusm-text"] },
    Dependencies {
        from: "node",
        to: &[
            "rusm-bench",
            "rusm-cluster",
            "rusm-console",
            "rusm-log",
            "rusm-otlp",
            "rusm-protocol",
            "rusm-runtime",
            "rusm-serve",
            "rusm-store",
            "rusm-text",
            "rusm-tui",
            "rusm-wasm",
        ],
    },
    Dependencies {
        from: "rusm",
        to: &[
            "rusm-cluster",
            "rusm-console",
            "rusm-macros",
            "rusm-otlp",
            "rusm-runtime",
            "rusm-serve",
            "rusm-store",
            "rusm-wasm",
        ],
    },
    Dependencies { from: "benches", to: &["rusm-console", "rusm-protocol", "rusm-runtime", "rusm-store", "rusm-wasm"] },
    Dependencies { from: "examples", to: &["rusm"] },
];

/// Packages that the core of the runtime must not use.
const OBSERVING: [&str; 4] = ["rusm-protocol", "tokio-tungstenite", "tungstenite", "prometheus-client"];

/// All items of the runtime and the protocol that live as long as the program.
const STATICS: [Static; 13] = [
    Static {
        file: "runtime/src/runtime/panics.rs",
        name: "LAST_PANIC_LOCATION",
        why: "where this thread panicked last",
    },
    Static { file: "runtime/src/runtime/panics.rs", name: "IS_SILENCED", why: "panics that the hook does not print" },
    Static {
        file: "runtime/src/runtime/panics.rs",
        name: "IS_OF_PROCESS",
        why: "whether this thread runs code of a process",
    },
    Static {
        file: "runtime/src/runtime/panics.rs",
        name: "PANIC_LINES",
        why: "the number of lines about panics outside of the body of a process, whichever runtime they belong to",
    },
    Static { file: "runtime/src/runtime/panic_hook.rs", name: "HOOK", why: "the standard library has one panic hook" },
    Static {
        file: "runtime/src/runtime/directory.rs",
        name: "RUNTIMES",
        why: "a reply that is dropped on any thread finds its runtime, and no other",
    },
    Static { file: "runtime/src/runtime/shared.rs", name: "NEXT_NUMBER", why: "the numbers of that list" },
    Static { file: "runtime/src/time/realtime.rs", name: "POLICIES", why: "the kernel's settings of this thread" },
    Static { file: "runtime/src/runtime/held_wakes.rs", name: "HELD", why: "the wakes that this thread holds back" },
    Static { file: "runtime/src/scheduler/local.rs", name: "LOCAL", why: "the scheduler of this thread" },
    Static { file: "runtime/src/time/ticker/clock.rs", name: "SLACKS", why: "the kernel's settings of this thread" },
    Static {
        file: "wasm/src/engine/pooled_future.rs",
        name: "BLOCK_POOL",
        why: "an unused block of memory of this thread",
    },
    Static { file: "runtime/src/process/waker.rs", name: "WAKER", why: "a table of functions, never written" },
];

/// Maximum number of lines of a file.
const LINES_MAX: usize = 700;

/// Number of files in the largest import cycle of each crate that still contains one. A number may only fall. The aim
/// is 12.
const CYCLES: [CycleLimit; 3] = [
    CycleLimit { krate: "runtime", files: 3 },
    CycleLimit { krate: "store", files: 2 },
    CycleLimit { krate: "wasm", files: 5 },
];

/// Maximum number of entries of a folder of sources.
const ENTRIES_MAX: usize = 15;

/// Folders of sources that still have more entries. A number may only fall.
const WIDE_FOLDERS: [WideFolder; 0] = [];

fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

#[test]
fn the_arrows_between_the_crates_are_those_of_the_picture() {
    assert_none(
        &DEPENDENCIES
            .iter()
            .flat_map(|allowed| unexpected_dependencies(allowed, &manifest(allowed.from)))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn nobody_depends_on_the_node() {
    for allowed in DEPENDENCIES.iter().filter(|allowed| allowed.from != "node") {
        assert!(
            !crates::dependencies(&manifest(allowed.from), &crates::ALL_KINDS).contains("rusm-node"),
            "{allowed:?}"
        );
    }
}

#[test]
fn the_protocol_stands_on_serde_and_thiserror_alone() {
    let direct = tree(&["-p", "rusm-protocol", "--depth", "1"]);
    let all = tree(&["-p", "rusm-protocol"]);

    assert_none(&direct.beyond(&["rusm-protocol", "rusm-text", "serde", "serde_json", "thiserror"]));
    assert_none(&all.containing(&["tokio", "mio", "futures-core", "bytes"]));
}

#[test]
fn the_protocol_has_neither_clocks_nor_sockets() {
    let words = ["Instant", "SystemTime", "std::net", "std::os", "tokio", "async"];

    assert_none(&naming(&read(&["protocol/src"]), &Words(&words)));
}

#[test]
fn the_core_of_the_runtime_is_built_without_what_observes_it() {
    let tree = tree(&["-p", "rusm-runtime"]);

    assert_none(&tree.containing(&[&OBSERVING[..], &["redb", "serde", "wasmtime"]].concat()));
}

#[test]
fn the_console_brings_no_wasm() {
    let tree = tree(&["-p", "rusm-console"]);

    assert!(OBSERVING.iter().all(|name| tree.0.contains(*name)), "the console names the wire: {tree:?}");
    assert_none(&tree.containing(&["redb", "wasmtime"]));
}

#[test]
fn the_store_brings_neither_wasm_nor_the_wire() {
    assert_none(&tree(&["-p", "rusm-store"]).containing(&[&OBSERVING[..], &["wasmtime"]].concat()));
}

#[test]
fn guests_bring_a_store_and_a_server_only_where_they_are_asked_for() {
    assert_none(&tree(&["-p", "rusm-wasm"]).containing(&[&OBSERVING[..], &["redb", "rusm-serve"]].concat()));
}

#[test]
fn the_cluster_brings_its_transport_only_where_it_is_asked_for() {
    let tree = tree(&["-p", "rusm-cluster"]);

    assert_none(&tree.containing(&[&OBSERVING[..], &["redb", "wasmtime", "zenoh"]].concat()));
}

#[test]
fn the_observer_is_built_without_the_runtime_and_without_wasm() {
    let tree = tree(&["-p", "rusm-tui"]);

    assert_eq!(tree.ours(), BTreeSet::from(["rusm-log", "rusm-protocol", "rusm-text", "rusm-tui"]));
    assert_none(&tree.containing(&["wasmtime"]));
}

#[test]
fn the_bench_is_built_on_the_runtime_and_the_protocol() {
    let ours = [
        "rusm-bench",
        "rusm-console",
        "rusm-protocol",
        "rusm-runtime",
        "rusm-serve",
        "rusm-store",
        "rusm-text",
        "rusm-wasm",
    ];
    assert_eq!(tree(&["-p", "rusm-bench"]).ours(), BTreeSet::from(ours));
}

#[test]
fn the_model_of_the_observer_draws_nothing_and_its_views_change_nothing() {
    assert_none(&naming(&read(&["tui/src/model.rs", "tui/src/model"]), &Words(&["ratatui", "crossterm"])));
    assert_none(&naming(&read(&["tui/src/view.rs", "tui/src/view"]), &Words(&["&mut Model"])));
}

#[test]
fn two_runtimes_share_nothing_but_the_panic_hook_and_their_numbers() {
    assert_none(&unexpected_statics(
        &read(&["runtime/src", "store/src", "wasm/src", "console/src", "protocol/src"]),
        &STATICS,
    ));
}

#[test]
fn unsafe_code_is_announced_at_the_head_of_its_file() {
    assert_none(&unexpected_unsafe(&workspace_sources()));
}

#[test]
fn a_file_holds_one_idea() {
    assert_none(&long_files(&workspace_sources(), LINES_MAX));
}

#[test]
fn the_files_of_a_crate_import_each_other_in_one_direction() {
    assert_none(&long_cycles(&workspace_sources(), &CYCLES));
}

#[test]
fn a_folder_of_sources_has_few_entries() {
    assert_none(&wide_folders(&workspace_sources(), ENTRIES_MAX, &WIDE_FOLDERS));
}

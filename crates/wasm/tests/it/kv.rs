//! The store in guests: what they may use, the results of calls, and its absence on a node without a store.

use rusm_runtime::ExitReason;
use rusm_runtime::observe::{EventKind, events};
use rusm_store::{Store, StoreConfig};
use rusm_wasm::{Capability, GuestOptions, Profiles, WasmConfig};

use crate::guests::Node;

struct Fixture {
    node: Node,
    store: Store,
    _directory: tempfile::TempDir,
}

/// Starts a node with a store, and with a profile that may use two of its buckets.
fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("a.redb"), StoreConfig::default()).unwrap();
    let mut profiles = Profiles::default();
    profiles.set("keeper", [Capability::Kv, Capability::Spawn].into_iter().collect());
    profiles.set_buckets("keeper", ["books", "cache/*"]);
    profiles.set("bucketless", [Capability::Kv].into_iter().collect());
    let node = Node::start(WasmConfig { capacity: 16, profiles, store: Some(store.clone()), ..WasmConfig::default() });
    Fixture { node, store, _directory: directory }
}

/// A core module with the imports of the store, `books` at 0, `key` at 16, `value` at 32; errors and items that become
/// its reason are read to 64.
fn keeper(run: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(module
        (import "rusm" "self" (func $self (result i64)))
        (import "rusm" "exit" (func $exit (param i64 i32 i32 i32) (result i32)))
        (import "rusm" "item_len" (func $item_len (result i32)))
        (import "rusm" "item_read" (func $item_read (param i32 i32 i32) (result i32)))
        (import "rusm" "item_tag" (func $item_tag (result i64)))
        (import "rusm" "error_read" (func $error_read (param i32 i32) (result i32)))
        (import "rusm" "kv_get" (func $get (param i32 i32 i32 i32) (result i32)))
        (import "rusm" "kv_put" (func $put (param i32 i32 i32 i32 i32 i32 i64) (result i32)))
        (import "rusm" "kv_delete" (func $delete (param i32 i32 i32 i32) (result i32)))
        (import "rusm" "kv_compare_and_set" (func $set (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
        (import "rusm" "kv_scan" (func $scan (param i32 i32 i32 i32 i32 i32 i32) (result i32)))
        (import "rusm" "kv_commit" (func $commit (param i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 2048) "{STEPS}")
        (data (i32.const 0) "books") (data (i32.const 8) "cache/a") (data (i32.const 16) "key")
        (data (i32.const 24) "others") (data (i32.const 32) "value")
        (data (i32.const 40) "topic/t")
        (func $expect (param $is i32) (param $due i32)
            (if (i32.ne (local.get $is) (local.get $due)) (then (call $words) unreachable)))
        (func $words (drop (call $exit (call $self) (i32.const 4) (i32.const 64) (call $error_read (i32.const 64) (i32.const 500)))))
        (func $item (drop (call $exit (call $self) (i32.const 4) (i32.const 64) (call $item_read (i32.const 64) (i32.const 500) (i32.const 0)))))
        (func (export "run") {run}))"#
    ))
    .unwrap()
}

/// Steps of a commit: `books` has no `a`, `books` has `key` with `value`; put `v` to `a`, put it to `b` of `cache/a`
/// for a minute, delete `key`. The first step without the second (18 bytes) is also valid, and so is the fourth with
/// the bytes after it.
const STEPS: &str = concat!(
    r"\00\05\00\00\00\01\00\00\00\00\00\00\00booksa",
    r"\01\05\00\00\00\03\00\00\00\05\00\00\00bookskeyvalue",
    r"\03\05\00\00\00\01\00\00\00\01\00\00\00booksav",
    r"\04\07\00\00\00\01\00\00\00\01\00\00\00\60\ea\00\00\00\00\00\00cache/abv",
    r"\02\05\00\00\00\03\00\00\00\00\00\00\00bookskey",
);
/// Length of these steps, in bytes.
const STEPS_BYTES: usize = 19 + 26 + 20 + 30 + 21;

/// Positions and lengths of `books` and of `key`.
const BOOKS: &str = "(i32.const 0) (i32.const 5) (i32.const 16) (i32.const 3)";
const VALUE: &str = "(i32.const 32) (i32.const 5)";
const NONE: &str = "(i32.const 0) (i32.const -1)";

#[test]
fn a_guest_reads_what_it_wrote_and_so_does_everybody() {
    let Fixture { node, store, _directory } = fixture();
    let run = format!(
        r"(call $expect (call $get {BOOKS}) (i32.const 0))
        (call $expect (call $put {BOOKS} {VALUE} (i64.const -1)) (i32.const 0))
        (call $expect (call $set {BOOKS} {NONE} {VALUE}) (i32.const 0))
        (call $expect (call $set {BOOKS} {VALUE} (i32.const 32) (i32.const 3)) (i32.const 1))
        (call $expect (call $put (i32.const 8) (i32.const 7) (i32.const 16) (i32.const 3) {VALUE} (i64.const 60000)) (i32.const 0))
        (call $expect (call $delete (i32.const 8) (i32.const 7) (i32.const 16) (i32.const 2)) (i32.const 0))
        (call $expect (call $get {BOOKS}) (i32.const 1))
        (call $item)"
    );

    assert_eq!(node.end_of(&keeper(&run), &GuestOptions::default().profile("keeper")).to_string(), "val");

    let books = store.bucket("books").unwrap();
    assert_eq!(books.get("key").wait().unwrap().as_deref(), Some(&b"val"[..]));
    let cached = store.bucket("cache/a").unwrap().scan("", "", 9).wait().unwrap().rows;
    assert!(cached.len() == 1 && cached[0].expiry_ms > 0);
}

#[test]
fn a_commit_does_all_of_its_steps_or_none() {
    let Fixture { node, store, _directory } = fixture();
    let end =
        |run: &str, profile: &str| node.end_of(&keeper(run), &GuestOptions::default().profile(profile)).to_string();
    let commit = |bytes: usize, due: i32| {
        format!("(call $expect (call $commit (i32.const 2048) (i32.const {bytes})) (i32.const {due}))")
    };
    let all = commit(STEPS_BYTES, 1);
    let books = store.bucket("books").unwrap();

    // The second of its expectations does not hold.
    assert_eq!(end(&commit(STEPS_BYTES, 0), "keeper"), "normal");
    assert_eq!(store.report().buckets.iter().map(|bucket| bucket.keys).sum::<u64>(), 0);

    books.put("key", "value").wait().unwrap();
    assert_eq!(end(&all, "keeper"), "normal");
    assert_eq!(books.get("key").wait().unwrap(), None);
    assert_eq!(books.get("a").wait().unwrap().as_deref(), Some(&b"v"[..]));
    let cached = store.bucket("cache/a").unwrap().scan("", "", 9).wait().unwrap().rows;
    assert!(cached.len() == 1 && cached[0].expiry_ms > 0);

    assert_eq!(end(&all, "sandboxed"), "denied: kv");
    assert_eq!(end(&all, "bucketless"), "denied: bucket \"books\"");
    assert_eq!(end(&commit(STEPS_BYTES - 1, 1), "keeper"), "these 115 bytes contain a step that is not valid");
    assert_eq!(end(&commit(0, 1), "keeper"), "normal", "no expectations and no changes");
    // Steps of 13 bytes that delete a key with an empty name.
    let many = "(drop (memory.grow (i32.const 4))) (memory.fill (i32.const 4096) (i32.const 0) (i32.const 200000))";
    let too_many = format!("{many} (call $expect (call $commit (i32.const 4096) (i32.const 195000)) (i32.const 0))");
    assert_eq!(end(&too_many, "keeper"), "10001 expectations in a commit are more than 10000");
}

#[test]
fn a_page_of_rows_comes_with_its_lengths() {
    let Fixture { node, store, _directory } = fixture();
    let books = store.bucket("books").unwrap();
    for key in ["key-1", "key-2", "other"] {
        books.put(key, "v").wait().unwrap();
    }
    let run = format!(
        r"(call $expect (call $scan {BOOKS} (i32.const 0) (i32.const 0) (i32.const 1)) (i32.const 1))
        (call $expect (i32.wrap_i64 (call $item_tag)) (i32.const 1))
        (call $expect (call $scan {BOOKS} (i32.const 0) (i32.const 0) (i32.const 9)) (i32.const 2))
        (call $expect (i32.wrap_i64 (call $item_tag)) (i32.const 0))
        (call $expect (call $item_len) (i32.const 28))
        (call $item)"
    );

    let end = node.end_of(&keeper(&run), &GuestOptions::default().profile("keeper"));

    let ExitReason::Other(rows) = &end else { panic!("{end}") };
    assert_eq!(rows.text(), "\u{5}\0\0\0\u{1}\0\0\0key-1v\u{5}\0\0\0\u{1}\0\0\0key-2v");
}

#[test]
fn a_guest_is_refused_the_store_and_each_bucket_that_it_was_not_granted() {
    let Fixture { node, store, _directory } = fixture();
    let books = format!("(call $expect (call $get {BOOKS}) (i32.const 0))");
    let others = "(call $expect (call $get (i32.const 24) (i32.const 6) (i32.const 16) (i32.const 3)) (i32.const 0))";
    let end =
        |run: &str, profile: &str| node.end_of(&keeper(run), &GuestOptions::default().profile(profile)).to_string();

    assert_eq!(end(&books, "sandboxed"), "denied: kv");
    assert_eq!(end(&books, "bucketless"), "denied: bucket \"books\"");
    assert_eq!(end(others, "keeper"), "denied: bucket \"others\"");
    assert_eq!(end(&books, "keeper"), "normal");
    assert_eq!(end(others, "trusted"), "normal");
    // No profile grants the buckets of topics.
    let topic = "(call $expect (call $get (i32.const 40) (i32.const 7) (i32.const 16) (i32.const 3)) (i32.const 0))";
    assert_eq!(end(topic, "trusted"), "denied: bucket \"topic/t\"");

    let is_refusal = |kind: &EventKind| matches!(kind, EventKind::Refused { capability: "kv", .. });
    assert_eq!(events(&node.runtime, 0, 100).iter().filter(|event| is_refusal(&event.kind)).count(), 4);
    assert!(store.report().buckets.iter().all(|bucket| bucket.keys == 0));
}

#[test]
fn what_makes_no_sense_is_said_in_words() {
    let Fixture { node, store, _directory } = fixture();
    let end = |run: String| node.end_of(&keeper(&run), &GuestOptions::default().profile("trusted")).to_string();

    assert_eq!(
        end("(call $expect (call $delete (i32.const 0) (i32.const 5) (i32.const 16) (i32.const 0)) (i32.const 0))"
            .into()),
        "a key of 0 bytes is not between 1 and 4096"
    );
    assert_eq!(
        end(format!("(call $expect (call $scan {BOOKS} (i32.const 0) (i32.const 0) (i32.const 1001)) (i32.const 0))")),
        "a limit of 1001 rows is not between 1 and 1000"
    );
    assert!(
        end(format!("(call $expect (call $put {BOOKS} (i32.const 0) (i32.const 70000) (i64.const -1)) (i32.const 0))"))
            .contains("70000 bytes at 0 lie outside")
    );
    store.close();
    assert_eq!(
        end(format!("(call $expect (call $put {BOOKS} {VALUE} (i64.const -1)) (i32.const -9))")),
        "the store is closed"
    );
}

/// Deletes `key` from `books`, and ends with an error if that is refused.
fn component() -> Vec<u8> {
    wat::parse_str(
        r#"(component
        (import "rusm:store/kv@0.1.0" (instance $kv
            (type $error (variant (case "denied" string) (case "invalid" string) (case "limit" string) (case "failed" string)))
            (export "error" (type $e (eq $error)))
            (export "delete" (func (param "bucket" string) (param "key" (list u8)) (result (result bool (error $e)))))))
        (core module $memory
            (memory (export "memory") 1)
            (data (i32.const 64) "books") (data (i32.const 72) "key")
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024))
        (core instance $memory (instantiate $memory))
        (core module $m
            (import "m" "memory" (memory 1))
            (import "kv" "delete" (func $delete (param i32 i32 i32 i32 i32)))
            (func (export "run") (param $args i32) (param $count i32) (result i32)
                (call $delete (i32.const 64) (i32.const 5) (i32.const 72) (i32.const 3) (i32.const 128))
                (if (i32.load8_u (i32.const 128)) (then
                    (i32.store (i32.const 16) (i32.const 1))
                    (i32.store (i32.const 20) (i32.load (i32.const 136)))
                    (i32.store (i32.const 24) (i32.load (i32.const 140)))))
                (i32.const 16)))
        (alias export $kv "delete" (func $delete))
        (core func $delete' (canon lower (func $delete) (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
        (core instance $i (instantiate $m
            (with "m" (instance $memory))
            (with "kv" (instance (export "delete" (func $delete'))))))
        (func (export "run") (param "args" (list string)) (result (result (error string)))
            (canon lift (core func $i "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc")))))"#,
    )
    .unwrap()
}

#[test]
fn a_component_uses_the_store_by_its_interface() {
    let Fixture { node, store, _directory } = fixture();
    let books = store.bucket("books").unwrap();
    books.put("key", "value").wait().unwrap();

    assert_eq!(node.end_of(&component(), &GuestOptions::default()).to_string(), "kv");
    assert!(books.get("key").wait().unwrap().is_some());
    assert_eq!(node.end_of(&component(), &GuestOptions::default().profile("keeper")).to_string(), "normal");
    assert_eq!(books.get("key").wait().unwrap(), None);
}

#[test]
fn without_a_store_what_imports_it_is_not_loaded() {
    let node = Node::small();
    let refused = |bytes: &[u8]| node.wasm.load("guest", bytes).map(|_| ()).unwrap_err().to_string();

    assert!(refused(&keeper("")).contains("kv_get"), "{}", refused(&keeper("")));
    assert!(refused(&component()).contains("rusm:store/kv"), "{}", refused(&component()));
}

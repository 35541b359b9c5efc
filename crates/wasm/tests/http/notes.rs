//! A component of `wasi:http` that uses `wasi:keyvalue`, `wasi:config` and `wasi:logging`.

#![cfg(feature = "store")]

use std::fmt::Write;

use rusm_runtime::observe;
use rusm_serve::Limits;
use rusm_store::{Store, StoreConfig};
use rusm_wasm::{Capability, GuestOptions, InstanceReuse, Profiles, WasmConfig};
use tempfile::TempDir;

use crate::{Node, node_of};

/// A node whose component may use the bucket `notes`.
fn node(dir: &TempDir, profile: &'static str) -> (Node, Store) {
    let store = Store::open(dir.path().join("store"), StoreConfig::default()).unwrap();
    let mut profiles = Profiles::default();
    for (name, bucket) in [("writer", "notes"), ("stranger", "other")] {
        profiles.set(name, [Capability::Kv].into_iter().collect());
        profiles.set_buckets(name, ["notes"]);
        profiles.set_config(name, [("bucket", bucket), ("greeting", "hello")]);
    }
    profiles.set_config("sandboxed", [("bucket", "notes")]);
    let config = WasmConfig { capacity: 8, profiles, store: Some(store.clone()), ..WasmConfig::default() };
    let options = GuestOptions::default().profile(profile);
    (node_of("wasi/notes.wasm", config, Limits::default(), options, InstanceReuse::Request), store)
}

impl Node {
    fn say(&self, line: &str, body: &str) -> (u16, String) {
        let head = format!("{line} HTTP/1.1\r\ncontent-length: {}", body.len());
        let answer = self.ask(&head, body.as_bytes());
        (answer.status, answer.text().to_owned())
    }
}

fn ok(text: &str) -> (u16, String) {
    (200, text.to_owned())
}

#[test]
fn values_are_rows_of_a_bucket_of_the_store() {
    let dir = TempDir::new().unwrap();
    let (node, store) = node(&dir, "writer");

    assert_eq!(node.say("PUT /first", "one"), ok("kept\n"));
    assert_eq!(node.say("GET /first", ""), ok("one\n"));
    assert_eq!(node.say("PUT /?a=1&b=2", ""), ok("2 notes\n"));
    assert_eq!(node.say("GET /", ""), ok("a\nb\nfirst\n"));
    assert_eq!(node.say("DELETE /?a&b&c", ""), ok("2 of 3 notes\n"));
    assert_eq!([node.say("DELETE /first", ""), node.say("DELETE /first", "")], [ok("true\n"), ok("false\n")]);
    assert_eq!([node.say("POST /n", ""), node.say("POST /n", "")], [ok("1\n"), ok("2\n")]);
    let stored = store.bucket("notes").unwrap().get("n").wait().unwrap();
    assert_eq!(stored.as_deref(), Some(&b"2"[..]));
    assert_eq!(node.say("PUT /word", "text").0, 200);
    assert_eq!(node.say("POST /word", ""), (500, "the value is not a number, or the sum is too large\n".to_owned()));
}

#[test]
fn many_keys_come_in_pages() {
    let dir = TempDir::new().unwrap();
    let (node, _store) = node(&dir, "writer");
    let pairs: Vec<String> = (0..2_345).map(|number| format!("k{number:04}=1")).collect();
    for some in pairs.chunks(400) {
        assert_eq!(node.say(&format!("PUT /?{}", some.join("&")), "").0, 200);
    }

    let (status, keys) = node.say("GET /", "");

    let mut expected = String::new();
    for number in 0..2_345 {
        writeln!(expected, "k{number:04}").unwrap();
    }
    assert!(status == 200 && keys == expected, "{} keys", keys.lines().count());
}

#[test]
fn a_profile_grants_buckets_and_has_the_configuration() {
    let dir = TempDir::new().unwrap();
    let denied = (403, "the bucket is not granted\n".to_owned());
    {
        let (node, _store) = node(&dir, "stranger");
        assert_eq!(node.say("GET /", ""), denied, "another bucket");
        let [engine] = observe::engines(&node.runtime).try_into().unwrap();
        assert_eq!(engine.refusals_total, [("kv", 1)]);
    }
    {
        let (node, _store) = node(&dir, "sandboxed");
        assert_eq!(node.say("GET /", ""), denied, "without the capability");
    }
    let (node, _store) = node(&dir, "writer");
    assert_eq!(node.say("GET /config", ""), ok("bucket = notes\ngreeting = hello\n"));
}

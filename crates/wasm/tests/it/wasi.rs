//! WASI functions that need a capability: sockets and random bytes.

use rusm_runtime::observe::{EventKind, events, schedulers};
use rusm_wasm::{Capability, Folder, GuestOptions, Profiles, WasmConfig};

use crate::guests::Node;

/// Starts a node with a profile without any capability.
fn fixture() -> Node {
    let mut profiles = Profiles::default();
    profiles.set("nothing", std::iter::empty::<Capability>().collect());
    Node::start(WasmConfig { capacity: 8, profiles, ..WasmConfig::default() })
}

fn refused(node: &Node) -> Vec<&'static str> {
    let capability = |kind| if let EventKind::Refused { capability, .. } = kind { Some(capability) } else { None };
    events(&node.runtime, 0, 100).into_iter().filter_map(|event| capability(event.kind)).collect()
}

/// Writes this number of newlines at once, and ends with the error number.
fn writes_lines(bytes: u32) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 40)
        (func (export "_start")
            (memory.fill (i32.const 16) (i32.const 10) (i32.const {bytes}))
            (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const {bytes}))
            (call $exit (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#
    ))
    .unwrap()
}

#[test]
fn a_long_write_lets_others_run_in_between_and_one_beyond_the_bound_fails() {
    let node = fixture();
    let polls = |guest: &[u8]| {
        let before: u64 = schedulers(&node.runtime).iter().map(|scheduler| scheduler.polls).sum();
        let end = node.end_of(guest, &GuestOptions::default()).to_string();
        (schedulers(&node.runtime).iter().map(|scheduler| scheduler.polls).sum::<u64>() - before, end)
    };

    let (short, long, beyond) =
        (polls(&writes_lines(100)), polls(&writes_lines(1 << 19)), polls(&writes_lines(2 << 20)));

    assert_eq!([short.1.as_str(), long.1.as_str(), beyond.1.as_str()], ["normal", "normal", "exit(48)"]);
    assert!(long.0 >= short.0 + 16, "{long:?} {short:?}");
}

/// Waits for this number of clocks at once, and ends with the error number.
fn polls_clocks(clocks: u32) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(module
        (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 100)
        (func (export "_start")
            (call $exit (call $poll (i32.const 16) (i32.const 3000000) (i32.const {clocks}) (i32.const 8)))))"#
    ))
    .unwrap()
}

#[test]
fn a_guest_opens_files_and_folders_but_no_pipe() {
    let granted = tempfile::tempdir().unwrap();
    std::fs::write(granted.path().join("file"), "text").unwrap();
    std::os::unix::fs::symlink("pipe", granted.path().join("link")).unwrap();
    let pipe = granted.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let mut profiles = Profiles::default();
    profiles.set("reader", std::iter::empty::<Capability>().collect());
    let folder = Folder { path: granted.path().into(), guest_path: "/".to_owned(), is_writable: false };
    profiles.set_folders("reader", [folder]);
    let node = Node::start(WasmConfig { capacity: 8, profiles, ..WasmConfig::default() });
    // Follows links, asks for all rights, and ends with the error number.
    let opens = |name: &str| {
        let guest = format!(
            r#"(module
            (import "wasi_snapshot_preview1" "path_open"
                (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory (export "memory") 1) (data (i32.const 0) "{name}")
            (func (export "_start") (call $exit (call $open (i32.const 3) (i32.const 1) (i32.const 0) (i32.const {})
                (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)))))"#,
            name.len()
        );
        node.end_of(&wat::parse_str(guest).unwrap(), &GuestOptions::default().profile("reader")).to_string()
    };

    assert_eq!(
        ["file", ".", "pipe", "link", "absent"].map(opens),
        ["normal", "normal", "exit(2)", "exit(2)", "exit(44)"]
    );
}

#[test]
fn an_exit_code_is_any_number() {
    let node = fixture();
    let end = |code: i32| {
        let guest = format!(
            r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32))) (memory (export "memory") 1)
            (func (export "_start") (call $exit (i32.const {code}))))"#
        );
        node.end_of(&wat::parse_str(guest).unwrap(), &GuestOptions::default()).to_string()
    };

    assert_eq!([0, 1, 126, 255, -1].map(end), ["normal", "exit(1)", "exit(126)", "exit(255)", "exit(-1)"]);
}

#[test]
fn a_poll_of_too_many_subscriptions_fails() {
    let node = fixture();
    let end = |clocks| node.end_of(&polls_clocks(clocks), &GuestOptions::default()).to_string();

    assert_eq!([end(1_000), end(20_000)], ["normal", "exit(48)"]);
}

/// Creates a socket of each kind. Ends normally if both succeed, otherwise with the error codes of both.
fn sockets() -> Vec<u8> {
    let codes = "(enum \"unknown\" \"access-denied\" \"not-supported\" \"invalid-argument\" \"out-of-memory\" \"timeout\" \
        \"concurrency-conflict\" \"not-in-progress\" \"would-block\" \"invalid-state\" \"new-socket-limit\" \
        \"address-not-bindable\" \"address-in-use\" \"remote-unreachable\" \"connection-refused\" \"connection-reset\" \
        \"connection-aborted\" \"datagram-too-large\" \"name-unresolvable\" \"temporary-resolver-failure\" \
        \"permanent-resolver-failure\")";
    let creates = |kind: &str| {
        format!(
            r#"(import "wasi:sockets/{kind}@0.2.0" (instance ${kind} (export "{kind}-socket" (type (sub resource)))))
            (alias export ${kind} "{kind}-socket" (type ${kind}-socket))
            (import "wasi:sockets/{kind}-create-socket@0.2.0" (instance ${kind}-create
                (alias outer 1 ${kind}-socket (type $socket')) (export "{kind}-socket" (type $socket (eq $socket')))
                (alias outer 1 $code (type $code')) (export "error-code" (type $code (eq $code')))
                (alias outer 1 $family (type $family')) (export "ip-address-family" (type $family (eq $family')))
                (export "create-{kind}-socket" (func (param "address-family" $family)
                    (result (result (own $socket) (error $code)))))))
            (alias export ${kind}-create "create-{kind}-socket" (func $create-{kind}))
            (core func $create-{kind}' (canon lower (func $create-{kind}) (memory (core memory $memory "memory"))))"#
        )
    };
    wat::parse_str(format!(
        r#"(component
        (import "wasi:sockets/network@0.2.0" (instance $network
            (type $code' {codes}) (export "error-code" (type (eq $code')))
            (type $family' (enum "ipv4" "ipv6")) (export "ip-address-family" (type (eq $family')))))
        (alias export $network "error-code" (type $code))
        (alias export $network "ip-address-family" (type $family))
        (core module $memory (memory (export "memory") 1)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024))
        (core instance $memory (instantiate $memory))
        {tcp} {udp}
        (core module $m
            (import "s" "memory" (memory 1))
            (import "s" "tcp" (func $tcp (param i32 i32)))
            (import "s" "udp" (func $udp (param i32 i32)))
            ;; 0 for a socket, else its error code as a letter.
            (func $told (param $at i32) (result i32)
                (if (result i32) (i32.load8_u (local.get $at))
                    (then (i32.add (i32.const 97) (i32.load8_u offset=4 (local.get $at)))) (else (i32.const 0))))
            (func (export "run") (param i32 i32) (result i32)
                (call $tcp (i32.const 0) (i32.const 64))
                (call $udp (i32.const 0) (i32.const 80))
                (i32.store8 (i32.const 32) (call $told (i32.const 64)))
                (i32.store8 (i32.const 33) (call $told (i32.const 80)))
                ;; The result: an error with the two letters, if there are any.
                (i32.store8 (i32.const 16) (i32.ne (i32.const 0) (i32.load16_u (i32.const 32))))
                (i32.store (i32.const 20) (i32.const 32))
                (i32.store (i32.const 24) (i32.const 2))
                (i32.const 16)))
        (core instance $i (instantiate $m (with "s" (instance
            (export "memory" (memory $memory "memory")) (export "tcp" (func $create-tcp')) (export "udp" (func $create-udp'))))))
        (func (export "run") (param "args" (list string)) (result (result (error string)))
            (canon lift (core func $i "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc")))))"#,
        tcp = creates("tcp"),
        udp = creates("udp"),
    ))
    .unwrap()
}

#[test]
fn sockets_are_for_those_who_were_granted_the_network() {
    let node = fixture();

    assert_eq!(node.end_of(&sockets(), &GuestOptions::default().profile("network")).to_string(), "normal");
    // `b` is the second code: access denied.
    assert_eq!(node.end_of(&sockets(), &GuestOptions::default()).to_string(), "bb");
    assert_eq!(refused(&node), ["network", "network"]);
}

/// Requests this many random bytes at `place`; ends with the error number, plus 64 if the last eight bytes of the
/// memory are not zero.
fn fills(place: u32, bytes: u32) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(module
        (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 2)
        (func (export "_start")
            (call $exit (i32.add
                (call $random (i32.const {place}) (i32.const {bytes}))
                (i32.and (i32.const 64) (i32.sub (i32.const 0) (i64.ne (i64.const 0) (i64.load (i32.const 131064)))))))))"#
    ))
    .unwrap()
}

#[test]
fn random_bytes_of_wasi_need_their_capability_and_may_be_many() {
    let node = fixture();
    let end = |guest: &[u8], profile: &str| node.end_of(guest, &GuestOptions::default().profile(profile)).to_string();

    assert_eq!(end(&fills(8, 131_064), "sandboxed"), "exit(64)", "to the last byte");
    assert_eq!(end(&fills(8, 131_065), "sandboxed"), "exit(21)", "one byte outside is a fault");
    assert_eq!(end(&fills(131_073, 0), "sandboxed"), "exit(21)");
    assert_eq!(end(&fills(u32::MAX, u32::MAX), "sandboxed"), "exit(21)");
    assert_eq!(end(&fills(0, 8), "nothing"), "exit(2)", "access");
    assert_eq!(refused(&node), ["random"]);
}

/// A component that requests random numbers or a number of random bytes.
fn random(call: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(component
        (import "wasi:random/random@0.2.0" (instance $random
            (export "get-random-u64" (func (result u64)))
            (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
        (alias export $random "get-random-u64" (func $number))
        (alias export $random "get-random-bytes" (func $bytes))
        (core module $memory (memory (export "memory") 4)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024))
        (core instance $memory (instantiate $memory))
        (core func $number' (canon lower (func $number)))
        (core func $bytes' (canon lower (func $bytes) (memory (core memory $memory "memory"))
            (realloc (core func $memory "realloc"))))
        (core module $m
            (import "r" "number" (func $number (result i64)))
            (import "r" "bytes" (func $bytes (param i64 i32)))
            (func (export "run") (param i32 i32) (result i32) {call} (i32.const 16)))
        (core instance $i (instantiate $m (with "r" (instance
            (export "number" (func $number')) (export "bytes" (func $bytes'))))))
        (func (export "run") (param "args" (list string)) (result (result (error string)))
            (canon lift (core func $i "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc")))))"#
    ))
    .unwrap()
}

#[test]
fn a_component_gets_random_bytes_up_to_a_bound_and_traps_without_the_capability() {
    let node = fixture();
    let number = random("(if (i64.eq (call $number) (call $number)) (then unreachable))");
    let bytes = |count: u32| random(&format!("(call $bytes (i64.const {count}) (i32.const 512))"));
    let end = |guest: &[u8], profile: &str| node.end_of(guest, &GuestOptions::default().profile(profile)).to_string();

    assert_eq!(end(&number, "sandboxed"), "normal");
    assert_eq!(end(&bytes(65_536), "sandboxed"), "normal");
    assert_eq!(end(&bytes(65_537), "sandboxed"), "trap: requested len 65537 exceeds limit 65536");
    assert_eq!(end(&number, "nothing"), "trap: denied: random");
    assert_eq!(end(&bytes(1), "nothing"), "trap: denied: random");
    assert_eq!(refused(&node), ["random", "random"]);
}

/// A command that sets a text of this many bytes in requests of its own, and fails unless each setter returns `expected`.
#[cfg(feature = "http")]
fn requests_with_texts(bytes: u32, expected: u32) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(component
        (import "wasi:http/types@0.2.0" (instance $types
            (export "fields" (type $fields (sub resource)))
            (export "outgoing-request" (type $request (sub resource)))
            (type $method' (variant (case "get") (case "head") (case "post") (case "put") (case "delete")
                (case "connect") (case "options") (case "trace") (case "patch") (case "other" string)))
            (export "method" (type $method (eq $method')))
            (export "[constructor]fields" (func (result (own $fields))))
            (export "[constructor]outgoing-request" (func (param "headers" (own $fields)) (result (own $request))))
            (export "[method]outgoing-request.set-method"
                (func (param "self" (borrow $request)) (param "method" $method) (result (result))))
            (export "[method]outgoing-request.set-path-with-query"
                (func (param "self" (borrow $request)) (param "path-with-query" (option string)) (result (result))))
            (export "[method]outgoing-request.set-authority"
                (func (param "self" (borrow $request)) (param "authority" (option string)) (result (result))))))
        (alias export $types "[constructor]fields" (func $fields))
        (alias export $types "[constructor]outgoing-request" (func $request))
        (alias export $types "[method]outgoing-request.set-method" (func $method))
        (alias export $types "[method]outgoing-request.set-path-with-query" (func $path))
        (alias export $types "[method]outgoing-request.set-authority" (func $authority))
        (core module $memory (memory (export "memory") 1))
        (core instance $memory (instantiate $memory))
        (core func $fields' (canon lower (func $fields)))
        (core func $request' (canon lower (func $request)))
        (core func $method' (canon lower (func $method) (memory (core memory $memory "memory"))))
        (core func $path' (canon lower (func $path) (memory (core memory $memory "memory"))))
        (core func $authority' (canon lower (func $authority) (memory (core memory $memory "memory"))))
        (core module $m
            (import "h" "memory" (memory 1))
            (import "h" "fields" (func $fields (result i32)))
            (import "h" "request" (func $request (param i32) (result i32)))
            (import "h" "method" (func $method (param i32 i32 i32 i32) (result i32)))
            (import "h" "path" (func $path (param i32 i32 i32 i32) (result i32)))
            (import "h" "authority" (func $authority (param i32 i32 i32 i32) (result i32)))
            (func (export "run") (result i32)
                (local $it i32)
                (memory.fill (i32.const 0) (i32.const 65) (i32.const 65536))
                (local.set $it (call $request (call $fields)))
                (if (i32.ne (i32.const {expected}) (call $method (local.get $it) (i32.const 9) (i32.const 0) (i32.const {bytes})))
                    (then unreachable))
                (if (i32.ne (i32.const {expected}) (call $authority (local.get $it) (i32.const 1) (i32.const 0) (i32.const {bytes})))
                    (then unreachable))
                ;; A path begins with a slash.
                (i32.store8 (i32.const 0) (i32.const 47))
                (if (i32.ne (i32.const {expected}) (call $path (local.get $it) (i32.const 1) (i32.const 0) (i32.const {bytes})))
                    (then unreachable))
                (i32.const 0)))
        (core instance $i (instantiate $m (with "h" (instance
            (export "memory" (memory $memory "memory")) (export "fields" (func $fields'))
            (export "request" (func $request')) (export "method" (func $method'))
            (export "path" (func $path')) (export "authority" (func $authority'))))))
        (func $run (result (result)) (canon lift (core func $i "run")))
        (instance $r (export "run" (func $run)))
        (export "wasi:cli/run@0.2.0" (instance $r)))"#
    ))
    .unwrap()
}

/// The node keeps them, so they would use its memory without end.
#[cfg(feature = "http")]
#[test]
fn texts_of_a_request_have_a_bound() {
    let node = fixture();

    for (bytes, expected) in [(64, 0), (9000, 1)] {
        let command = requests_with_texts(bytes, expected);
        assert_eq!(node.end_of(&command, &GuestOptions::default()).to_string(), "normal", "{bytes} bytes");
    }
}

//! Guests that one node starts on another, over a network in memory.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusm_cluster::node::Node;
use rusm_cluster::{BootId, Config as NodeConfig, MemoryNetwork};
use rusm_runtime::remote::{Decoder, Encoder, Exports, Portable};
use rusm_runtime::{Config, Context, Down, ExitReason, Runtime};
use rusm_wasm::{
    Capability, GuestCode, GuestOptions, Profiles, RemoteGuestError, RemoteGuests, SANDBOXED, Wasm, WasmConfig,
};

const SOON: Duration = Duration::from_mins(1);
/// A guest that ends at once, and one that traps.
const ENDS: &str = r#"(module (func (export "run")))"#;
const TRAPS: &str = r#"(module (func (export "run") unreachable))"#;
const NO_ARGS: [&str; 0] = [];

/// A component that sends to guessed processes of the first other node, and traps if it may.
const GUESSES: &str = r#"(component
  (import "rusm:runtime/types@0.1.0" (instance $types
    (type $pid' (record (field "node" u32) (field "slot" u32) (field "generation" u32)))
    (export "pid" (type $pid (eq $pid')))
    (type $reason' (variant (case "normal") (case "shutdown") (case "shutdown-with" string) (case "killed")
      (case "no-process") (case "no-connection") (case "panic" string) (case "other" string)))
    (export "exit-reason" (type $reason (eq $reason')))
    (type $error' (variant (case "denied" string) (case "no-process") (case "mailbox-full") (case "timed-out")
      (case "callee-exited" $reason) (case "no-such" string) (case "taken" string) (case "limit" string)
      (case "invalid" string)))
    (export "error" (type $error (eq $error')))))
  (alias export $types "pid" (type $pid))
  (alias export $types "error" (type $error))
  (import "rusm:runtime/process@0.1.0" (instance $process
    (export "pid" (type $p (eq $pid)))
    (export "error" (type $e (eq $error)))
    (export "send" (func (param "to" $p) (param "tag" u64) (param "body" (list u8)) (result (result (error $e)))))))
  (core module $memory
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 8192))
  (core instance $memory (instantiate $memory))
  (alias core export $memory "memory" (core memory $m))
  (alias core export $memory "realloc" (core func $realloc))
  (alias export $process "send" (func $send))
  (core func $send' (canon lower (func $send) (memory $m) (realloc $realloc)))
  (core module $guest
    (import "node" "send" (func $send (param i32 i32 i32 i64 i32 i32 i32)))
    (import "node" "memory" (memory 1))
    (func (export "run") (param i32 i32) (result i32)
      (local $slot i32)
      (local.set $slot (i32.const 1))
      (loop $again
        (call $send (i32.const 1) (local.get $slot) (i32.const 1) (i64.const 0) (i32.const 0) (i32.const 4) (i32.const 512))
        (if (i32.eqz (i32.load8_u (i32.const 512))) (then unreachable))
        (local.set $slot (i32.add (local.get $slot) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $slot) (i32.const 32))))
      i32.const 1024))
  (core instance $guest (instantiate $guest (with "node" (instance
    (export "send" (func $send'))
    (export "memory" (memory $m))))))
  (func (export "run") (param "args" (list string)) (result (result (error string)))
    (canon lift (core func $guest "run") (memory $m) (realloc $realloc))))"#;
/// A core module that traps unless its group has one member, which is a process.
const COUNTS: &str = r#"(module
  (import "rusm" "members" (func $members (param i32 i32) (result i32)))
  (import "rusm" "item_len" (func $len (result i32)))
  (import "rusm" "item_read" (func $read (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "group")
  (func (export "run")
    (if (i32.ne (call $members (i32.const 0) (i32.const 5)) (i32.const 1)) (then unreachable))
    (if (i32.ne (call $len) (i32.const 8)) (then unreachable))
    (drop (call $read (i32.const 16) (i32.const 8) (i32.const 0)))
    (if (i64.eqz (i64.load (i32.const 16))) (then unreachable))))"#;

struct Member {
    guests: RemoteGuests,
    wasm: Wasm,
    _node: Node,
    runtime: Runtime,
}

fn start(network: &MemoryNetwork, name: &str, guests: RemoteGuests, exports: Exports) -> Member {
    let runtime = Runtime::start(Config { schedulers: 1, exports, ..Config::default() }).unwrap();
    let mut profiles = Profiles::default();
    for (name, capability) in [("sends", Capability::Send), ("groups", Capability::Groups)] {
        profiles.set(name, [capability].into_iter().collect());
    }
    let wasm = Wasm::start(WasmConfig { capacity: 10, profiles, ..WasmConfig::default() }).unwrap();
    guests.attach(&wasm);
    let link = Arc::new(network.join(name.parse().unwrap()));
    // The two nodes have started at different times.
    let boot = BootId(name.bytes().map(u128::from).sum());
    let node = Node::start(&runtime, link, boot, NodeConfig::default()).unwrap();
    Member { guests, wasm, _node: node, runtime }
}

/// Two nodes, of which `a` has these exports.
fn two_with(profile: &str, of_a: impl FnOnce(&RemoteGuests) -> Exports) -> (Member, Member) {
    let network = MemoryNetwork::new();
    let (at_a, at_b) = (RemoteGuests::default(), RemoteGuests::with_profile(profile));
    let (of_a, of_b) = (of_a(&at_a), at_b.export(Exports::default()));
    let (a, b) = (start(&network, "a", at_a, of_a), start(&network, "b", at_b, of_b));
    let until = Instant::now() + SOON;
    while a.runtime.node_named("b").is_none() || b.runtime.node_named("a").is_none() {
        assert!(Instant::now() < until, "the nodes are not connected");
        std::thread::yield_now();
    }
    (a, b)
}

fn two(profile: &str) -> (Member, Member) {
    two_with(profile, |guests| guests.export(Exports::default()))
}

fn bytes(text: &str) -> Bytes {
    wat::parse_str(text).unwrap().into()
}

fn code(text: &str) -> GuestCode {
    GuestCode::new(bytes(text)).unwrap()
}

/// Runs a process of a node, and returns its result.
fn ask<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    member: &Member,
    body: impl FnOnce(Context, RemoteGuests) -> F + Send + 'static,
) -> T {
    let (give, take) = channel();
    let guests = member.guests.clone();
    let run = move |ctx: Context| {
        let body = body(ctx, guests);
        async move { give.send(body.await).unwrap() }
    };
    member.runtime.spawn(run).unwrap();
    take.recv_timeout(SOON).unwrap()
}

/// Runs a guest with a profile; returns why it ended.
fn end_of(member: &Member, guest: &str, profile: &str) -> ExitReason {
    let module = member.wasm.load("guest", &bytes(guest)).unwrap();
    let options = GuestOptions::default().profile(profile).monitored();
    let wasm = member.wasm.clone();
    ask(member, move |ctx, _| async move {
        wasm.spawn_from(&ctx, &module, &options).unwrap();
        ctx.receive_of::<Down>().await.reason
    })
}

#[test]
fn a_guest_without_the_capability_sends_to_no_process_of_another_node_that_it_guesses() {
    let (a, b) = two(SANDBOXED);
    let silent: Vec<_> = (0..8).map(|_| b.runtime.spawn(|_| std::future::pending::<()>()).unwrap()).collect();
    assert!(silent.iter().any(|pid| (1..32).contains(&pid.slot())), "the guest guesses well: {silent:?}");

    assert_eq!(end_of(&a, GUESSES, SANDBOXED), ExitReason::Normal);
    assert!(matches!(end_of(&a, GUESSES, "sends"), ExitReason::Other(_)), "it may, so it traps");
}

#[test]
fn a_core_module_knows_the_members_of_a_group_on_its_own_node() {
    let (a, b) = two(SANDBOXED);
    for member in [&a, &b] {
        let joins = |ctx: Context| async move {
            ctx.join("group").unwrap();
            std::future::pending::<()>().await;
        };
        member.runtime.spawn(joins).unwrap();
    }
    let until = Instant::now() + SOON;
    while a.runtime.members("group").len() != 2 {
        assert!(Instant::now() < until, "the groups are not the same");
        std::thread::yield_now();
    }

    assert_eq!(end_of(&a, COUNTS, "groups"), ExitReason::Normal);
}

#[test]
fn the_code_of_a_guest_travels_once_to_each_node() {
    let (a, b) = two(SANDBOXED);
    let (ends, traps) = (code(ENDS), code(TRAPS));

    for guest in [ends.clone(), ends.clone(), traps.clone(), ends, traps] {
        let pid =
            ask(&a, move |ctx, guests| async move { guests.spawn_on(&ctx, "b", &guest, ["--from", "7"], SOON).await });
        assert_eq!(pid.unwrap().node(), a.runtime.node_named("b").unwrap());
    }

    assert_eq!((b.guests.received_total(), b.wasm.stats().modules), (2, 2));
    assert_eq!((b.wasm.stats().started_total, a.wasm.stats().started_total), (5, 0));
}

#[test]
fn many_that_start_a_new_guest_at_once_all_have_it() {
    let (a, b) = two(SANDBOXED);
    let ends = code(ENDS);
    let (give, take) = channel();

    for _ in 0..8 {
        let (guests, ends, give) = (a.guests.clone(), ends.clone(), give.clone());
        let body = move |ctx: Context| async move {
            give.send(guests.spawn_on(&ctx, "b", &ends, NO_ARGS, SOON).await.map(drop)).unwrap();
        };
        a.runtime.spawn(body).unwrap();
    }

    drop(give);
    assert_eq!(take.iter().collect::<Vec<_>>(), vec![Ok(()); 8]);
    assert_eq!((b.wasm.stats().started_total, b.wasm.stats().modules), (8, 1));
}

#[test]
fn a_guest_of_another_node_is_watched_like_a_local_process() {
    let (a, _b) = two(SANDBOXED);
    let traps = code(TRAPS);

    let reason = ask(&a, |ctx, guests| async move {
        let pid = guests.spawn_on(&ctx, "b", &traps, NO_ARGS, SOON).await.unwrap();
        ctx.monitor(pid);
        ctx.receive_of::<Down>().await.reason
    });

    // It may have ended before the monitor.
    assert!(matches!(reason, ExitReason::Other(_) | ExitReason::NoProcess), "{reason}");
}

#[test]
fn code_that_is_not_valid_is_refused_and_not_kept() {
    let (a, b) = two(SANDBOXED);
    let broken = GuestCode::new(Bytes::from_static(b"\0asm no code")).unwrap();

    let refused = ask(&a, |ctx, guests| async move { guests.spawn_on(&ctx, "b", &broken, NO_ARGS, SOON).await });

    assert!(
        matches!(&refused, Err(RemoteGuestError::Refused(why)) if why.contains("is not valid WebAssembly")),
        "{refused:?}"
    );
    assert_eq!((b.wasm.stats().modules, b.wasm.stats().started_total), (0, 0));
}

/// The answer of a starter, as its bytes are on the wire.
struct Answer(u8, String);

impl Portable for Answer {
    fn encode(&self, to: &mut Encoder<'_>) {
        (self.0, self.1.clone()).encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let kind = u8::decode(from)?;
        Some(Self(kind, if kind == 3 { String::decode(from)? } else { String::new() }))
    }
}

#[test]
fn a_node_that_sends_other_code_than_it_has_announced_is_refused() {
    type Start = (Bytes, Vec<String>, Option<Bytes>);
    let (a, b) = two_with(SANDBOXED, |_| Exports::default().call::<Start, Answer>("rusm/guest"));
    let hash = Bytes::copy_from_slice(code(ENDS).sha256());

    for (hash, wanted) in [(hash, "does not have the hash"), (Bytes::from_static(b"short"), "not one of SHA-256")] {
        let request: Start = (hash, Vec::new(), Some(bytes(TRAPS)));
        let Answer(kind, why) = ask(&a, move |ctx, _| async move {
            let starter = ctx.spawn_on("b", "rusm/guest", Bytes::new()).await.unwrap();
            ctx.call::<Start, Answer>(starter, request, SOON).await.unwrap()
        });
        assert!(kind == 3 && why.contains(wanted), "{kind}: {why}");
    }
    assert_eq!((b.wasm.stats().modules, b.wasm.stats().started_total), (0, 0));
}

#[test]
fn the_node_of_the_guest_decides_about_its_profile() {
    let (a, b) = two("unknown");
    let ends = code(ENDS);

    let refused = ask(&a, move |ctx, guests| async move { guests.spawn_on(&ctx, "b", &ends, NO_ARGS, SOON).await });

    assert!(matches!(&refused, Err(RemoteGuestError::Refused(why)) if why.contains("unknown")), "{refused:?}");
    assert_eq!(b.wasm.stats().started_total, 0);
}

#[test]
fn code_that_is_too_long_is_an_error_before_it_is_sent() {
    let long = Bytes::from(vec![0; rusm_wasm::REMOTE_CODE_BYTES_MAX + 1]);

    assert_eq!(GuestCode::new(long).unwrap_err(), RemoteGuestError::Length { bytes: (32 << 20) + 1 });
}

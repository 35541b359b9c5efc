//! Capabilities of guests.

use bytes::Bytes;
use rusm_runtime::observe::{EventKind, events};
use rusm_runtime::{Context, Down, ExitReason, Message, MonitorRef};
use rusm_wasm::{Capability, GuestOptions, Profiles, WasmConfig};

use crate::guests::{Node, number, raw, raw_with};

/// Ends with the status of a call as its reason.
fn status_of(call: &str) -> Vec<u8> {
    let run = format!(
        r"(i32.store8 (i32.const 40) (i32.const 45))
        (i32.store8 (i32.const 41) (i32.sub (i32.const 48) (i32.wrap_i64 (i64.extend_i32_s {call}))))
        (drop (call $exit (call $self) (i32.const 4) (i32.const 40) (i32.const 2)))"
    );
    raw_with(r#"(data (i32.const 0) "name")"#, "", &run)
}

const REGISTER: &str = "(call $register (i32.const 0) (i32.const 4))";
const SPAWN: &str = "(i32.wrap_i64 (call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))";
const DIGEST: &str = "(i32.and (i32.const 0) (call $digest (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 64)))";

#[test]
fn a_sandboxed_guest_is_refused_and_observers_hear_of_it() {
    let node = Node::small();

    assert_eq!(node.end_of(&status_of(REGISTER), &GuestOptions::default()).to_string(), "-1");
    assert_eq!(node.end_of(&status_of(SPAWN), &GuestOptions::default()).to_string(), "-1");
    assert_eq!(node.end_of(&status_of(DIGEST), &GuestOptions::default()).to_string(), "-0");

    let refused: Vec<_> = events(&node.runtime, 0, 100)
        .into_iter()
        .filter_map(
            |event| if let EventKind::Refused { capability, .. } = event.kind { Some(capability) } else { None },
        )
        .collect();
    assert_eq!(refused, ["names", "spawn"]);
}

#[test]
fn a_profile_grants_and_one_of_ones_own_grants_what_it_says() {
    let mut profiles = Profiles::default();
    profiles.set("nameless", [Capability::Spawn].into_iter().collect());
    let node = Node::start(WasmConfig { capacity: 8, profiles, ..WasmConfig::default() });

    assert_eq!(node.end_of(&status_of(REGISTER), &GuestOptions::default().profile("trusted")).to_string(), "-0");
    assert_eq!(node.end_of(&status_of(REGISTER), &GuestOptions::default().profile("nameless")).to_string(), "-1");
    assert_eq!(node.end_of(&status_of(DIGEST), &GuestOptions::default().profile("nameless")).to_string(), "-0");
}

async fn reason_of(ctx: &Context, watch: MonitorRef) -> String {
    let of_it = |message: &Message| message.downcast_ref::<Down>().is_some_and(|down| down.reference == watch);
    ctx.receive_match(of_it).await.downcast::<Down>().unwrap().reason.to_string()
}

#[test]
fn a_link_with_others_is_for_those_who_may_end_them() {
    let node = Node::small();
    // Links itself to the pid that it receives. If an exit signal follows at once, its reason is used; otherwise the
    // guest traps.
    let links = raw(
        "",
        r"(drop (call $trap_exits (i32.const 1)))
        (drop (call $receive (i64.const -1)))
        (drop (call $item_read (i32.const 0) (i32.const 8) (i32.const 0)))
        (call $link (i64.load (i32.const 0)))
        (if (i32.eq (call $receive (i64.const 0)) (i32.const 2)) (then
            (local.set $n (call $item_read (i32.const 0) (call $item_len) (i32.const 0)))
            (drop (call $exit (call $self) (i32.const 4) (i32.const 0) (local.get $n)))
            (drop (call $trap_exits (i32.const 0)))
            (drop (call $exit (call $self) (i32.const 4) (i32.const 0) (local.get $n)))))
        unreachable",
    );
    let module = node.load("links", &links);
    let ends_with = |profile: &'static str| {
        let module = module.clone();
        node.inside(move |wasm, ctx| async move {
            let other = ctx.spawn(|ctx| async move { drop(ctx.receive().await) });
            let watch = ctx.monitor(other);
            let guest = GuestOptions::default().profile(profile).monitored();
            let (guest, own) = wasm.spawn_from(&ctx, &module, &guest).unwrap();
            let pid = Bytes::copy_from_slice(&number(other).to_le_bytes());
            ctx.send(guest, pid).await;
            let reason = reason_of(&ctx, own.unwrap()).await;
            if profile == "sandboxed" {
                // The link did not end the other process, so it ends normally with this message.
                drop(ctx.try_send(other, ()));
            }
            (reason, reason_of(&ctx, watch).await)
        })
    };

    assert_eq!(ends_with("sandboxed"), ("denied: exit-others".to_owned(), "normal".to_owned()));
    assert_eq!(ends_with("trusted"), ("trap: unreachable".to_owned(), "trap: unreachable".to_owned()));
}

#[test]
fn a_guest_grants_no_more_than_it_has() {
    let mut profiles = Profiles::default();
    profiles.set("starter", [Capability::Spawn].into_iter().collect());
    let node = Node::start(WasmConfig { capacity: 8, profiles, ..WasmConfig::default() });
    // Spawns itself with the profile `trusted` and an argument; the child tries to register, and its end becomes the
    // reason.
    let starter = raw_with(
        r#"(data (i32.const 0) "name") (data (i32.const 16) "trusted")"#,
        "",
        r"(if (call $arg_count) (then
            (if (i32.eq (call $register (i32.const 0) (i32.const 4)) (i32.const -1)) (then unreachable))
            (return)))
        (local.set $pid (call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 16) (i32.const 7) (i32.const 2)))
        (drop (call $receive (i64.const -1)))
        (drop (call $item_read (i32.const 0) (i32.const 100) (i32.const 0)))
        (drop (call $exit (call $self) (i32.const 4) (i32.const 0) (call $item_len)))",
    );

    assert_eq!(node.end_of(&starter, &GuestOptions::default().profile("starter")).to_string(), "trap: unreachable");
}

#[test]
fn a_guest_ends_only_itself_and_its_children_without_the_capability() {
    let node = Node::small();
    let victim = node.load("victim", &raw("", "(drop (call $receive (i64.const -1)))"));
    let victim = node.spawn(&victim, &GuestOptions::default());
    let pid = crate::guests::number(victim);
    let kill = format!("(call $exit (i64.const {pid}) (i32.const 3) (i32.const 0) (i32.const 0))");

    assert_eq!(node.end_of(&status_of(&kill), &GuestOptions::default().profile("network")).to_string(), "-1");
    assert!(node.runtime.is_alive(victim));
    let watch = node.runtime.watch(victim);
    assert_eq!(node.end_of(&status_of(&kill), &GuestOptions::default().profile("trusted")).to_string(), "-0");

    assert_eq!(watch.wait(), ExitReason::Killed);
}

#[test]
fn an_unknown_profile_is_an_error_that_names_the_known() {
    let node = Node::small();
    let module = node.load("noop", &raw("", ""));

    let error = node.wasm.spawn(&node.runtime, &module, &GuestOptions::default().profile("rooot")).unwrap_err();

    assert_eq!(error.to_string(), "unknown profile \"rooot\"; expected one of network, sandboxed, trusted");
}

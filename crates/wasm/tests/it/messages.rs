//! Messages and calls between native processes and guests.

use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::{CallError, Config, ExitReason, Runtime, TaggedBytes, observe};
use rusm_wasm::{GuestOptions, Wasm, WasmConfig};

use crate::guests::{Node, echo, number, raw, raw_with};

const LONG: Duration = Duration::from_mins(1);

#[test]
fn bytes_come_back_whole_and_with_their_tag() {
    let node = Node::small();
    let echo = node.load("echo", &echo());
    let echo = node.spawn(&echo, &GuestOptions::default());

    let answers = node.inside(move |_, ctx| async move {
        let mut long = number(ctx.pid()).to_le_bytes().to_vec();
        long.resize(40_000, 7);
        let short = Bytes::from(long[..8].to_vec());
        ctx.send(echo, short.clone()).await;
        ctx.send(echo, TaggedBytes { tag: u64::MAX, body: Bytes::from(long.clone()) }).await;
        let first = ctx.receive_of::<Bytes>().await;
        let second = ctx.receive_of::<TaggedBytes>().await;
        (first == short, second.tag, second.body == long)
    });

    assert_eq!(answers, (true, u64::MAX, true));
}

#[test]
fn bytes_of_every_length_pass_in_their_order_from_guest_to_guest_and_on_to_a_native_process() {
    let node = Node::small();
    // Removes the pid at the start of each message and forwards the rest to that process.
    let relay = raw(
        "",
        r"(loop $again
            (drop (call $receive (i64.const -1)))
            (local.set $n (call $item_read (i32.const 0) (call $item_len) (i32.const 0)))
            (drop (call $send (i64.load (i32.const 0)) (call $item_tag) (i32.const 8) (i32.sub (local.get $n) (i32.const 8))))
            (br $again))",
    );
    let relay = node.load("relay", &relay);
    let network = GuestOptions::default().profile("network");
    let (first, second) = (node.spawn(&relay, &network), node.spawn(&relay, &network));

    node.inside(move |_, ctx| async move {
        let long = Bytes::from(vec![7; 1_000]);
        let payloads = || (0..48_u8).flat_map(|len| [(0..len).collect(), long.clone()]);
        let way = [number(second).to_le_bytes(), number(ctx.pid()).to_le_bytes()].concat();
        for payload in payloads() {
            let body = Bytes::from([&way, &payload[..]].concat());
            ctx.send(first, body.clone()).await;
            ctx.send(first, TaggedBytes { tag: 7, body }).await;
        }
        for payload in payloads() {
            assert_eq!(ctx.receive().await.downcast::<Bytes>().unwrap(), payload);
            let tagged = ctx.receive().await.downcast::<TaggedBytes>().unwrap();
            assert_eq!(tagged, TaggedBytes { tag: 7, body: payload });
        }
    });
}

#[test]
fn a_guest_waits_for_room_at_another_and_loses_nothing() {
    let runtime = Runtime::start(Config { schedulers: 2, mailbox_capacity: 16, ..Config::default() }).unwrap();
    let node = Node { runtime, wasm: Wasm::start(WasmConfig { capacity: 8, ..WasmConfig::default() }).unwrap() };
    // Starts to read when a process is registered as `go`, and expects a hundred numbers in order.
    let reader = raw_with(
        r#"(data (i32.const 100) "go")"#,
        "(local $i i64)",
        r"(drop (call $receive (i64.const -1)))
        (drop (call $item_read (i32.const 0) (i32.const 8) (i32.const 0)))
        (loop $wait (call $yield) (br_if $wait (i64.eqz (call $whereis (i32.const 100) (i32.const 2)))))
        (loop $again
            (drop (call $receive_tagged (i64.rem_u (local.get $i) (i64.const 3)) (i64.const -1)))
            (drop (call $item_read (i32.const 8) (i32.const 8) (i32.const 0)))
            (if (i64.ne (i64.load (i32.const 8)) (local.get $i)) (then unreachable))
            (local.set $i (i64.add (local.get $i) (i64.const 1)))
            (br_if $again (i64.ne (local.get $i) (i64.const 100))))
        (drop (call $send (i64.load (i32.const 0)) (i64.const 0) (i32.const 8) (i32.const 8)))",
    );
    let writer = raw(
        "(local $i i64)",
        r"(drop (call $receive (i64.const -1)))
        (drop (call $item_read (i32.const 0) (i32.const 8) (i32.const 0)))
        (loop $again
            (i64.store (i32.const 8) (local.get $i))
            (drop (call $send (i64.load (i32.const 0)) (i64.rem_u (local.get $i) (i64.const 3)) (i32.const 8) (i32.const 8)))
            (local.set $i (i64.add (local.get $i) (i64.const 1)))
            (br_if $again (i64.ne (local.get $i) (i64.const 100))))",
    );
    let (reader, writer) = (node.load("reader", &reader), node.load("writer", &writer));
    let trusted = GuestOptions::default().profile("trusted");
    let (reader, writer) = (node.spawn(&reader, &trusted), node.spawn(&writer, &trusted));

    let last = node.inside(move |_, ctx| async move {
        ctx.send(reader, Bytes::copy_from_slice(&number(ctx.pid()).to_le_bytes())).await;
        while observe::process_in_slot(&ctx.runtime(), reader.slot()).is_none_or(|seen| seen.mailbox_len() != 0) {
            ctx.yield_now().await;
        }
        ctx.send(writer, Bytes::copy_from_slice(&number(reader).to_le_bytes())).await;
        while observe::process_in_slot(&ctx.runtime(), reader.slot()).is_none_or(|seen| seen.mailbox_len() < 16) {
            ctx.yield_now().await;
        }
        ctx.register("go").unwrap();
        ctx.receive_of::<Bytes>().await
    });

    assert_eq!(last[..], 99_u64.to_le_bytes());
}

#[test]
fn a_native_process_calls_a_guest_and_hears_of_its_end() {
    let node = Node::small();
    let echo = node.load("echo", &echo());
    let once = node.load("once", &raw("", "(drop (call $receive (i64.const -1)))"));
    let (echo, once) = (node.spawn(&echo, &GuestOptions::default()), node.spawn(&once, &GuestOptions::default()));

    let (answer, ended, gone) = node.inside(move |_, ctx| async move {
        let answer: Result<Bytes, _> = ctx.call(echo, Bytes::from_static(b"as it was"), LONG).await;
        let ended: Result<Bytes, _> = ctx.call(once, TaggedBytes::default(), LONG).await;
        let gone: Result<Bytes, _> = ctx.call(once, Bytes::new(), LONG).await;
        (answer, ended, gone)
    });

    assert_eq!(answer, Ok(Bytes::from_static(b"as it was")));
    assert!(matches!(ended, Err(CallError::Ended { .. })), "{ended:?}");
    assert!(matches!(gone, Err(CallError::NoProcess { .. })), "{gone:?}");
}

#[test]
fn a_guest_calls_a_native_process_and_another_guest() {
    let node = Node::small();
    // The first number is the process to call; the reply, preceded by the status, goes to the process of the second
    // number.
    let caller = raw(
        "",
        r"(drop (call $receive (i64.const -1)))
        (drop (call $item_read (i32.const 0) (i32.const 16) (i32.const 0)))
        (i32.store (i32.const 100) (call $call (i64.load (i32.const 0)) (i64.const 5) (i32.const 8) (i32.const 8) (i64.const 60000)))
        (local.set $n (call $item_read (i32.const 104) (i32.const 100) (i32.const 0)))
        (drop (call $send (i64.load (i32.const 8)) (i64.const 0) (i32.const 100) (i32.add (i32.const 4) (local.get $n))))",
    );
    let (caller, echo) = (node.load("caller", &caller), node.load("echo", &echo()));
    let echo = node.spawn(&echo, &GuestOptions::default());
    // It calls processes that it only knows by the pids in a message.
    let network = GuestOptions::default().profile("network");

    let (by_guest, by_native) = node.inside(move |wasm, ctx| async move {
        let own = number(ctx.pid());
        let message = |callee: i64| Bytes::from([callee.to_le_bytes(), own.to_le_bytes()].concat());
        let (first, _) = wasm.spawn_from(&ctx, &caller, &network).unwrap();
        ctx.send(first, message(number(echo))).await;
        let by_guest = ctx.receive_of::<Bytes>().await;
        let (second, _) = wasm.spawn_from(&ctx, &caller, &network).unwrap();
        ctx.send(second, message(own)).await;
        let request = ctx.receive_of::<rusm_runtime::Request<TaggedBytes, Bytes>>().await;
        assert_eq!((request.request.tag, &request.request.body[..]), (5, &own.to_le_bytes()[..]));
        assert!(request.reply.send(&ctx, Bytes::from_static(b"native")).is_none());
        (by_guest, ctx.receive_of::<Bytes>().await)
    });

    assert_eq!((by_guest.len(), &by_guest[..4]), (12, &[0; 4][..]));
    assert_eq!(&by_native[..], b"\0\0\0\0native");
}

#[test]
fn a_guest_calls_another_process_before_it_replies_to_its_own_caller() {
    let node = Node::small();
    let middle = raw(
        "",
        r"(drop (call $receive (i64.const -1)))
        (drop (call $item_read (i32.const 0) (i32.const 8) (i32.const 0)))
        (drop (call $call (i64.load (i32.const 0)) (i64.const 0) (i32.const 0) (i32.const 8) (i64.const 60000)))
        (local.set $n (call $item_read (i32.const 0) (i32.const 100) (i32.const 0)))
        (drop (call $reply (call $item_reply) (i32.const 0) (local.get $n)))",
    );
    let middle = node.load("middle", &middle);

    let reply = node.inside(move |wasm, ctx| async move {
        let middle = wasm.spawn_from(&ctx, &middle, &GuestOptions::default().profile("network")).unwrap().0;
        let last = ctx.spawn(|ctx| async move {
            let request = ctx.receive_of::<rusm_runtime::Request<Bytes, Bytes>>().await;
            request.reply.send(&ctx, Bytes::from_static(b"from the last"));
        });
        let request = Bytes::from(number(last).to_le_bytes().to_vec());
        ctx.call::<Bytes, Bytes>(middle, request, LONG).await
    });

    assert_eq!(reply.as_deref(), Ok(&b"from the last"[..]));
}

#[test]
fn a_guest_selects_by_tag_and_the_others_keep_their_order() {
    let node = Node::small();
    // Takes the message with tag 9 first, then all others in order; sends their tags to the process named in the
    // message with tag 9.
    let picky = raw(
        "(local $i i32)",
        r"(drop (call $receive_tagged (i64.const 9) (i64.const -1)))
        (drop (call $item_read (i32.const 0) (i32.const 8) (i32.const 0)))
        (local.set $i (i32.const 8))
        (loop $again
            (if (call $receive (i64.const 0)) (then
                (i32.store8 (local.get $i) (i32.wrap_i64 (call $item_tag)))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br $again))))
        (drop (call $send (i64.load (i32.const 0)) (i64.const 0) (i32.const 8) (i32.sub (local.get $i) (i32.const 8))))",
    );
    let picky = node.load("picky", &picky);
    let picky = node.spawn(&picky, &GuestOptions::default());

    let order = node.inside(move |_, ctx| async move {
        for tag in [1, 2, 9, 3] {
            let body = Bytes::copy_from_slice(&number(ctx.pid()).to_le_bytes());
            ctx.send(picky, TaggedBytes { tag, body }).await;
        }
        ctx.receive_of::<Bytes>().await
    });

    assert_eq!(&order[..2], &[1, 2]);
    assert!(order[2..].is_empty() || order[2..] == [3], "{order:?}");
}

#[test]
fn what_is_no_bytes_is_named_and_not_lost() {
    let node = Node::small();
    let curious = raw(
        "",
        r"(if (i32.ne (call $receive (i64.const -1)) (i32.const 6)) (then unreachable))
        (drop (call $item_read (i32.const 0) (i32.const 100) (i32.const 0)))
        (drop (call $exit (call $self) (i32.const 4) (i32.const 0) (call $item_len)))",
    );
    let curious = node.load("curious", &curious);
    let pid = node.spawn(&curious, &GuestOptions::default());
    let watch = node.runtime.watch(pid);

    node.runtime.try_send(pid, 42_u16).unwrap();

    assert_eq!(watch.wait().to_string(), "u16");
}

#[test]
fn arguments_arrive_and_a_label_is_shown() {
    let node = Node::small();
    let named = raw(
        "",
        r"(if (i32.ne (call $arg_count) (i32.const 2)) (then unreachable))
        (drop (call $arg_read (i32.const 1) (i32.const 0) (i32.const 100)))
        (call $label (i32.const 0) (call $arg_len (i32.const 1)))
        (drop (call $receive (i64.const -1)))",
    );
    let named = node.load("named", &named);

    let pid = node.spawn(&named, &GuestOptions::default().args(["one", "zwei"]));

    node.until("the label is there", |node| {
        rusm_runtime::observe::process(&node.runtime, pid).is_some_and(|seen| seen.label.as_deref() == Some("zwei"))
    });
}

#[test]
fn what_constructs_a_module_runs_before_it() {
    let node = Node::small();
    let module = |initialize: &str| {
        wat::parse_str(format!(
            r#"(module (global $ready (mut i32) (i32.const 0)) {initialize}
            (func (export "run") (if (i32.eqz (global.get $ready)) (then unreachable))))"#
        ))
        .unwrap()
    };
    let constructs = module(r#"(func (export "_initialize") (global.set $ready (i32.const 1)))"#);
    let fails = module(r#"(func (export "_initialize") (drop (i32.div_u (i32.const 1) (i32.const 0))))"#);

    assert_eq!(node.end_of(&constructs, &GuestOptions::default()), ExitReason::Normal);
    assert_eq!(node.end_of(&fails, &GuestOptions::default()).to_string(), "trap: integer division by zero");
    assert_eq!(node.end_of(&module(""), &GuestOptions::default()).to_string(), "trap: unreachable");
}

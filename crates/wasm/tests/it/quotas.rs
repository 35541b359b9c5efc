//! Limits on what a guest sends: to which processes, and the number of bytes not received yet.

use bytes::Bytes;
use rusm_runtime::{CallError, Config, ExitReason, Pid, Runtime, TaggedBytes, observe};
use rusm_wasm::{Capabilities, Capability, GuestLimits, GuestOptions, Profiles, Wasm, WasmConfig};

use crate::facts::fact;
use crate::guests::{Node, echo, number, raw, raw_with};

/// Starts a node on which guests of the profile `sender` may send to every process, but do little else.
fn node(sent_max_bytes: u64, mailbox_total_bytes: u64) -> Node {
    let runtime = Runtime::start(Config { schedulers: 2, mailbox_total_bytes, ..Config::default() }).unwrap();
    let mut profiles = Profiles::default();
    profiles.set("sender", [Capability::Send, Capability::Timers].into_iter().collect());
    profiles.set("starter", [Capability::Send, Capability::Spawn].into_iter().collect::<Capabilities>());
    let config = WasmConfig { capacity: 64, profiles, sent_max_bytes, ..WasmConfig::default() };
    Node { runtime, wasm: Wasm::start(config).unwrap() }
}

/// Waits for a pid, sends messages of 1 KiB to that process until one is refused, and then waits forever.
fn flooder() -> Vec<u8> {
    raw(
        "",
        "(drop (call $receive (i64.const -1)))
        (drop (call $item_read (i32.const 0) (i32.const 8) (i32.const 0)))
        (loop $again (br_if $again (i32.eqz (call $try_send (i64.load (i32.const 0)) (i64.const 0) (i32.const 0) (i32.const 1024)))))
        (drop (call $receive_tagged (i64.const 1) (i64.const -1)))",
    )
}

fn told(pid: Pid) -> Bytes {
    Bytes::copy_from_slice(&number(pid).to_le_bytes())
}

fn mailbox_bytes(node: &Node, pid: Pid) -> u64 {
    observe::process_in_slot(&node.runtime, pid.slot()).map_or(0, |seen| seen.mailbox_bytes() - 64 * seen.mailbox_len())
}

#[test]
fn a_guest_has_so_many_bytes_in_mailboxes_and_no_more_however_many_receivers_there_are() {
    let node = node(64 * 1024, 1 << 30);
    let (flooder, idle) = (
        node.load("flooder", &flooder()),
        node.load("idle", &raw("", "(drop (call $receive_tagged (i64.const 1) (i64.const -1)))")),
    );
    let victims: Vec<Pid> = (0..8).map(|_| node.spawn(&idle, &GuestOptions::default())).collect();
    let sender = node.spawn(&flooder, &GuestOptions::default().profile("sender"));

    node.runtime.try_send(sender, told(victims[0])).unwrap();

    node.until("the flooder is refused", |node| mailbox_bytes(node, victims[0]) == 64 * 1024);
    assert_eq!(fact(&node.runtime, sender, "sent_bytes"), 64 * 1024);
    // Messages that are dropped with their receiver no longer count.
    node.runtime.exit(victims[0], ExitReason::Killed);
    node.until("the quota is given back", |node| fact(&node.runtime, sender, "sent_bytes") == 0);
}

#[test]
fn a_guest_that_waits_for_its_quota_goes_on_when_its_messages_are_received() {
    let node = node(4 * 1024, 1 << 30);
    // Sends 100 messages of 1 KiB with their number as the tag.
    let sender = raw(
        "(local $i i64)",
        "(drop (call $receive (i64.const -1)))
        (drop (call $item_read (i32.const 0) (i32.const 8) (i32.const 0)))
        (loop $again
            (local.set $i (i64.add (local.get $i) (i64.const 1)))
            (drop (call $send (i64.load (i32.const 0)) (local.get $i) (i32.const 0) (i32.const 1024)))
            (br_if $again (i64.lt_u (local.get $i) (i64.const 100))))",
    );
    let sender = node.load("sender", &sender);

    let ended = node.inside(move |wasm, ctx| async move {
        let guest = GuestOptions::default().profile("sender").monitored();
        let (pid, _) = wasm.spawn_from(&ctx, &sender, &guest).unwrap();
        ctx.send(pid, told(ctx.pid())).await;
        while observe::process_in_slot(&ctx.runtime(), ctx.pid().slot()).is_none_or(|seen| seen.mailbox_len() < 4) {
            ctx.yield_now().await;
        }
        for tag in 1..=100 {
            let message = ctx.receive_of::<TaggedBytes>().await;
            assert_eq!((message.tag, message.body.len()), (tag, 1024));
        }
        ctx.receive_of::<rusm_runtime::Down>().await.reason
    });

    assert_eq!(ended, ExitReason::Normal);
}

#[test]
fn guests_that_a_guest_starts_share_its_quota() {
    let node = node(32 * 1024, 1 << 30);
    // Starts eight children, which send to their parent until they are refused.
    let starter = raw_with(
        "",
        "(local $i i32)",
        "(if (call $arg_count) (then
            (loop $again (br_if $again (i32.eqz (call $try_send (call $parent) (i64.const 0) (i32.const 0) (i32.const 1024)))))
            (drop (call $receive (i64.const -1)))))
        (loop $again
            (drop (call $spawn (i32.const 0) (i32.const 0) (i32.const 100) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $again (i32.lt_s (local.get $i) (i32.const 8))))
        (drop (call $receive_tagged (i64.const 1) (i64.const -1)))",
    );
    let starter = node.load("starter", &starter);

    let parent = node.spawn(&starter, &GuestOptions::default().profile("starter"));

    node.until("all children wait", |node| node.wasm.stats().live == 9 && mailbox_bytes(node, parent) >= 32 * 1024);
    // Each of two schedulers may exceed the limit by one message.
    assert!(mailbox_bytes(&node, parent) <= 34 * 1024);
}

#[test]
fn all_guests_together_have_half_of_what_mailboxes_may_hold() {
    let total = 256 * 1024;
    let node = node(1 << 30, total);
    let (flooder, idle) = (
        node.load("flooder", &flooder()),
        node.load("idle", &raw("", "(drop (call $receive_tagged (i64.const 1) (i64.const -1)))")),
    );
    let victims: Vec<Pid> = (0..4).map(|_| node.spawn(&idle, &GuestOptions::default())).collect();
    let senders: Vec<Pid> =
        victims.iter().map(|_| node.spawn(&flooder, &GuestOptions::default().profile("sender"))).collect();

    for (sender, victim) in senders.iter().zip(&victims) {
        node.runtime.try_send(*sender, told(*victim)).unwrap();
    }

    let held = |node: &Node| victims.iter().map(|pid| mailbox_bytes(node, *pid)).sum::<u64>();
    node.until("half is taken", |node| held(node) >= total / 2);
    assert!(held(&node) <= total / 2 + 2 * 1024);
    // The other half remains for native processes.
    let native = node.runtime.spawn(|_| std::future::pending::<()>()).unwrap();
    for _ in 0..64 {
        node.runtime.try_send(native, vec![0_u8; 1024]).unwrap();
    }
}

#[test]
fn without_the_capability_a_guest_sends_only_to_processes_that_gave_it_their_address() {
    let node = node(1 << 20, 1 << 30);
    // Tries every way to send to the pid in its first message, and reports the number of denials to the sender.
    let prober = raw(
        "(local $denied i32) (local $to i64)",
        "(drop (call $receive (i64.const -1)))
        (drop (call $item_read (i32.const 0) (i32.const 16) (i32.const 0)))
        (local.set $to (i64.load (i32.const 0)))
        (local.set $denied (i32.add (local.get $denied) (i32.eq (i32.const -1) (call $send (local.get $to) (i64.const 0) (i32.const 0) (i32.const 8)))))
        (local.set $denied (i32.add (local.get $denied) (i32.eq (i32.const -1) (call $try_send (local.get $to) (i64.const 0) (i32.const 0) (i32.const 8)))))
        (local.set $denied (i32.add (local.get $denied) (i32.eq (i32.const -1) (call $call (local.get $to) (i64.const 0) (i32.const 0) (i32.const 8) (i64.const 1)))))
        (local.set $denied (i32.add (local.get $denied) (i64.eq (i64.const -1) (call $send_after (local.get $to) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 8)))))
        (local.set $denied (i32.add (local.get $denied) (i64.eq (i64.const -1) (call $send_every (local.get $to) (i64.const 100000) (i64.const 0) (i32.const 0) (i32.const 8)))))
        (i32.store (i32.const 16) (local.get $denied))
        (drop (call $send (i64.load (i32.const 8)) (i64.const 0) (i32.const 16) (i32.const 4)))",
    );
    let prober = node.load("prober", &prober);
    let stranger = node.runtime.spawn(|_| std::future::pending::<()>()).unwrap();
    let denied = |to: Pid, profile: &'static str| {
        let prober = prober.clone();
        node.inside(move |wasm, ctx| async move {
            let pid = wasm.spawn(&ctx.runtime(), &prober, &GuestOptions::default().profile(profile)).unwrap();
            ctx.send(pid, Bytes::from([number(to).to_le_bytes(), number(ctx.pid()).to_le_bytes()].concat())).await;
            let answer = ctx.receive_of::<Bytes>().await;
            u32::from_le_bytes(answer[..].try_into().unwrap())
        })
    };

    assert_eq!(denied(stranger, "sandboxed"), 5);
    assert_eq!(denied(stranger, "sender"), 0);
}

#[test]
fn a_refused_link_and_the_end_of_a_stranger_give_no_address() {
    let node = node(1 << 20, 1 << 30);
    // Links to the first pid in its first message and monitors the third one, takes both signals, and reports the answer of
    // `send` to the first one.
    let prober = raw(
        "",
        "(drop (call $receive (i64.const -1)))
        (drop (call $item_read (i32.const 0) (i32.const 24) (i32.const 0)))
        (drop (call $trap_exits (i32.const 1)))
        (call $link (i64.load (i32.const 0)))
        (drop (call $receive (i64.const -1)))
        (drop (call $monitor (i64.load (i32.const 16))))
        (drop (call $receive (i64.const -1)))
        (i32.store (i32.const 24) (call $send (i64.load (i32.const 0)) (i64.const 0) (i32.const 0) (i32.const 8)))
        (drop (call $send (i64.load (i32.const 8)) (i64.const 0) (i32.const 24) (i32.const 4)))",
    );
    let prober = node.load("prober", &prober);
    let stranger = node.runtime.spawn(|_| std::future::pending::<()>()).unwrap();
    let ended = node.runtime.spawn(|_| async {}).unwrap();
    node.runtime.wait(ended);

    let answer = node.inside(move |wasm, ctx| async move {
        let pid = wasm.spawn(&ctx.runtime(), &prober, &GuestOptions::default().profile("sandboxed")).unwrap();
        let pids = [stranger, ctx.pid(), ended].map(|pid| number(pid).to_le_bytes());
        ctx.send(pid, Bytes::from(pids.concat())).await;
        let answer = ctx.receive_of::<Bytes>().await;
        i32::from_le_bytes(answer[..].try_into().unwrap())
    });

    assert_eq!(answer, -1);
}

#[test]
fn a_message_introduces_its_sender_however_often_they_talk_and_whoever_else_sends() {
    let node = node(1 << 20, 1 << 30);
    let echo = node.load("echo", &echo());
    let sandboxed: Vec<Pid> = (0..4).map(|_| node.spawn(&echo, &GuestOptions::default())).collect();

    node.inside(move |_, ctx| async move {
        for round in 0..200_usize {
            let to = sandboxed[round % sandboxed.len()];
            let body = Bytes::from([&number(ctx.pid()).to_le_bytes()[..], &vec![7; round]].concat());
            ctx.send(to, body.clone()).await;
            assert_eq!(ctx.receive_of::<Bytes>().await, body);
        }
        // A call needs no address: its reply takes a path of its own.
        let reply: Result<Bytes, CallError> =
            ctx.call(sandboxed[0], Bytes::from_static(b"hello"), std::time::Duration::from_mins(1)).await;
        assert_eq!(reply.unwrap(), "hello");
    });
}

#[test]
fn a_guest_may_have_a_mailbox_of_its_own_size() {
    let node = node(1 << 20, 1 << 30);
    let idle = node.load("idle", &raw("", "(drop (call $receive_tagged (i64.const 1) (i64.const -1)))"));
    let limits = GuestLimits { mailbox_capacity: Some(3), ..GuestLimits::default() };

    let pid = node.spawn(&idle, &GuestOptions::default().limits(limits));

    for _ in 0..3 {
        node.runtime.try_send(pid, Bytes::new()).unwrap();
    }
    let refused = node.runtime.try_send(pid, Bytes::new()).unwrap_err().to_string();
    assert_eq!(refused, format!("mailbox of {pid} is full (3 messages)"));
}

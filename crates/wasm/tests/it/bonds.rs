//! Ends, links, monitors, kills and supervisors.

use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::supervisor::{Strategy, Supervisor};
use rusm_runtime::{Config, Down, Exit, ExitReason, Handle, Runtime};
use rusm_wasm::{GuestOptions, Trap, Wasm, WasmConfig};

use crate::facts::{SLICES, fact};
use crate::guests::{Node, echo, raw, raw_with, spin};

#[test]
fn a_guest_ends_with_normal_when_it_returns() {
    assert_eq!(Node::small().end_of(&raw("", ""), &GuestOptions::default()), ExitReason::Normal);
}

#[test]
fn a_trap_is_a_reason_with_code_and_named_functions() {
    let node = Node::small();
    let traps = [
        ("unreachable", "unreachable"),
        ("(drop (i32.div_u (i32.const 1) (i32.const 0)))", "integer division by zero"),
        ("(drop (i32.load (i32.const -8)))", "memory out of bounds"),
        ("(call $deeper)", "stack overflow"),
        ("(call_indirect (i32.const 3))", "indirect call to null"),
    ];
    for (instructions, code) in traps {
        let module = raw_with("(table 10 funcref) (func $deeper (call $deeper))", "", instructions);

        let reason = node.end_of(&module, &GuestOptions::default());

        assert_eq!(reason, ExitReason::other(format_args!("trap: {code}")));
        let ExitReason::Other(detail) = reason else { unreachable!() };
        let trap = detail.value::<Trap>().unwrap();
        assert_eq!(trap.code, code);
        if code == "stack overflow" {
            assert_eq!(trap.backtrace[0], "deeper");
        }
    }
    let counted = node.wasm.stats().traps_total;
    assert_eq!(counted.iter().map(|(_, traps)| traps).sum::<u64>(), 5, "{counted:?}");
}

#[test]
fn a_guest_exits_with_a_reason_of_its_own() {
    let node = Node::small();
    let exits = |reason: i32| {
        let run =
            format!("(drop (call $exit (call $self) (i32.const {reason}) (i32.const 0) (i32.const 4))) unreachable");
        raw_with(r#"(data (i32.const 0) "full")"#, "", &run)
    };

    let ends: Vec<String> =
        (1..5).map(|reason| node.end_of(&exits(reason), &GuestOptions::default()).to_string()).collect();

    assert_eq!(ends, ["shutdown", "shutdown: full", "killed", "full"]);
}

#[test]
fn a_kill_reaches_a_guest_in_a_tight_loop_and_one_that_waits() {
    let node = Node::small();
    let (spin, echo) = (node.load("spin", &spin()), node.load("echo", &echo()));

    for (module, is_spinning) in [(spin, true), (echo, false)] {
        let pids: Vec<_> = (0..8).map(|_| node.spawn(&module, &GuestOptions::default())).collect();
        let watches: Vec<_> = pids.iter().map(|pid| node.runtime.watch(*pid)).collect();
        node.until("all of them have run", |node| {
            pids.iter().all(|pid| fact(&node.runtime, *pid, if is_spinning { SLICES } else { "host_calls_total" }) > 0)
        });
        for pid in pids {
            node.runtime.exit(pid, ExitReason::Killed);
        }

        assert!(watches.into_iter().all(|watch| watch.wait() == ExitReason::Killed));
    }
    node.until("all room is free again", |node| node.wasm.stats().live == 0);
}

#[test]
fn guests_in_tight_loops_leave_time_for_others() {
    let node = Node::small();
    let (spin, echo) = (node.load("spin", &spin()), node.load("echo", &echo()));
    let spinners: Vec<_> = (0..6).map(|_| node.spawn(&spin, &GuestOptions::default())).collect();
    let echo = node.spawn(&echo, &GuestOptions::default());

    let answers = node.inside(move |_, ctx| async move {
        let mut answers = 0;
        for _ in 0..20 {
            let answer: Result<Bytes, _> = ctx.call(echo, Bytes::from_static(b"x"), Duration::from_mins(1)).await;
            answers += u32::from(answer.is_ok());
        }
        answers
    });

    assert_eq!(answers, 20);
    for pid in spinners {
        node.until("it was taken off its core", |node| fact(&node.runtime, pid, SLICES) > 0);
        node.runtime.exit(pid, ExitReason::Killed);
    }
}

#[test]
fn a_timer_waits_for_few_slices_of_guests_in_tight_loops() {
    // There is only one scheduler: while it sleeps, nothing takes its guests off their core.
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    let node = Node { runtime, wasm: Wasm::start(WasmConfig { capacity: 8, ..WasmConfig::default() }).unwrap() };
    let (spin, handle) = (node.load("spin", &spin()), Handle::clone(&node.runtime));

    let slept = node.inside(move |wasm, ctx| async move {
        let mut slices: Vec<u64> = Vec::new();
        for _ in 0..8 {
            // Start new guests in each round: the scheduler does not know yet that their polls are long.
            let start = |_| wasm.spawn_from(&ctx, &spin, &GuestOptions::default()).unwrap().0;
            let spinners: Vec<_> = (0..2).map(start).collect();
            ctx.sleep(Duration::from_micros(1)).await;
            slices.push(spinners.iter().map(|pid| fact(&handle, *pid, SLICES)).sum());
            for pid in spinners {
                ctx.exit(pid, ExitReason::Killed);
            }
        }
        // The median, because a pause of the machine makes one of the rounds wait for longer.
        slices.sort_unstable();
        slices[4]
    });

    assert!(slept <= 8, "{slept}");
}

#[test]
fn a_link_carries_a_trap_and_a_monitor_sees_it() {
    let node = Node::small();
    let trap = node.load("trap", &raw("", "(drop (call $receive (i64.const -1))) unreachable"));

    let (exit, down, pid) = node.inside(move |wasm, ctx| async move {
        ctx.trap_exits(true);
        let (pid, _) = wasm.spawn_from(&ctx, &trap, &GuestOptions::default().linked().monitored()).unwrap();
        ctx.send(pid, Bytes::new()).await;
        (ctx.receive_of::<Exit>().await, ctx.receive_of::<Down>().await, pid)
    });

    let reason = ExitReason::other("trap: unreachable");
    assert_eq!((exit, down.pid, down.reason), (Exit { from: pid, reason: reason.clone() }, pid, reason));
}

#[test]
fn the_reason_of_a_watched_guest_is_known_however_soon_it_ends() {
    let node = Node::small();
    let shut =
        node.load("shut", &raw("", "(drop (call $exit (call $self) (i32.const 1) (i32.const 0) (i32.const 0)))"));

    let reasons = node.inside(move |wasm, ctx| async move {
        let mut reasons = Vec::new();
        for _ in 0..200 {
            let (_, end) = wasm.spawn_watched(&ctx, &shut, &GuestOptions::default()).unwrap();
            reasons.push(end.await);
        }
        reasons
    });

    assert!(reasons.iter().all(|reason| *reason == ExitReason::Shutdown), "{reasons:?}");
}

#[test]
fn a_guest_links_monitors_and_traps_exits() {
    let node = Node::small();
    // Spawns itself with an argument; the child traps. Both signals must arrive, the exit signal first or last, and the
    // text of the last one becomes the reason.
    let parent = raw_with(
        r#"(data (i32.const 0) "child") "#,
        "(local $signals i32)",
        r"(if (call $arg_count) (then unreachable))
        (drop (call $trap_exits (i32.const 1)))
        (local.set $pid (call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 5) (i32.const 0) (i32.const 0) (i32.const 3)))
        (if (i64.le_s (local.get $pid) (i64.const 0)) (then (return)))
        (loop $again
            (local.set $n (call $receive (i64.const -1)))
            (if (i64.ne (call $item_pid) (local.get $pid)) (then (return)))
            (local.set $signals (i32.or (local.get $signals) (i32.shl (i32.const 1) (local.get $n))))
            (br_if $again (i32.ne (local.get $signals) (i32.const 12))))
        (drop (call $item_read (i32.const 0) (i32.const 100) (i32.const 0)))
        (drop (call $trap_exits (i32.const 0)))
        (drop (call $exit (call $self) (i32.const 4) (i32.const 0) (call $item_len)))",
    );

    let reason = node.end_of(&parent, &GuestOptions::default().profile("trusted"));

    assert_eq!(reason.to_string(), "trap: unreachable");
}

#[test]
fn a_supervisor_restarts_a_guest_that_traps() {
    let node = Node::small();
    let fragile = node.load("fragile", &raw("", "(drop (call $receive (i64.const -1))) unreachable"));
    let child = node.wasm.child("fragile", &fragile, GuestOptions::default().name("fragile"));
    let tree = Supervisor::new(Strategy::OneForOne).intensity(5, Duration::from_mins(1)).child(child);

    let (first, second) = node.inside(move |_, ctx| async move {
        let supervisor = tree.start_link(&ctx).await.unwrap();
        let first = ctx.whereis("fragile").unwrap();
        ctx.send(first, Bytes::new()).await;
        let second = loop {
            match ctx.whereis("fragile") {
                Some(pid) if pid != first => break pid,
                _ => ctx.yield_now().await,
            }
        };
        assert_eq!(supervisor.count_children(&ctx).await.unwrap().active, 1);
        (first, second)
    });

    assert_ne!(first, second);
}

#[test]
fn a_name_that_is_taken_starts_nobody() {
    let node = Node::small();
    let echo = node.load("echo", &echo());
    let first = node.spawn(&echo, &GuestOptions::default().name("echo"));

    let refused = node.wasm.spawn(&node.runtime, &echo, &GuestOptions::default().name("echo")).unwrap_err();

    assert_eq!(refused.to_string(), format!("name \"echo\" is taken by {first}"));
    node.until("the second is gone", |node| node.wasm.stats().live == 1);
}

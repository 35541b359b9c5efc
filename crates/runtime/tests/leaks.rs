//! Processes that end leave nothing: heap, table, names and timers are the same before and after many crashes (sentence
//! 13).
//!
//! `RUSM_CYCLES=1000000` makes the runs long; the default suits a debug build.

#![expect(unsafe_code, reason = "a counting allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::pending;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor};
use rusm_runtime::{Caller, Config, Context, Down, Exit, ExitReason, Request, Runtime, observe};

struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Serialises the tests: the count covers the whole program.
static ALONE: Mutex<()> = Mutex::new(());

// SAFETY: every call is forwarded unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allowed growth of the heap: pools that fill, buffers of the test harness.
const SLACK_BYTES: usize = 512 * 1024;

/// Allowed growth of the process table, in parts: the free lists of two schedulers vary over time. A slot lost in each
/// cycle would take more parts than that, even in the shortest run.
const SLACK_PARTS: usize = 2;

fn cycles() -> u64 {
    std::env::var("RUSM_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

type Cycle = for<'a> fn(&'a Context, u64) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Returns the name of the process in cycle `number`.
fn name_of(number: u64) -> String {
    format!("name {number}")
}

/// Runs `cycle` many times, and checks that they leave no more than a first run of a tenth as many.
fn is_flat(cycle: Cycle) {
    leaves_nothing(|times| {
        Box::new(move |ctx| {
            Box::pin(async move {
                ctx.trap_exits(true);
                for number in 0..times {
                    cycle(&ctx, number).await;
                }
            })
        })
    });
}

type Body = Box<dyn FnOnce(Context) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Does what [`is_flat`] does, for a process body that runs a number of cycles itself.
fn leaves_nothing(cycles_of: impl Fn(u64) -> Body) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start");
    let run = |times: u64| {
        let conductor = runtime.spawn(cycles_of(times)).expect("there is room");
        runtime.wait(conductor);
        let until = Instant::now() + Duration::from_mins(2);
        while runtime.process_count() > 0 {
            assert!(Instant::now() < until, "all processes end");
            std::thread::yield_now();
        }
        assert_eq!(observe::timers(&runtime).pending, 0);
        assert_eq!((0..times).find(|number| runtime.whereis(&name_of(*number)).is_some()), None);
    };
    run(cycles() / 10);
    let (before, parts) = (LIVE_BYTES.load(Ordering::Relaxed), observe::table_parts(&runtime));
    run(cycles());
    let parts = observe::table_parts(&runtime) - parts;
    assert!(parts <= SLACK_PARTS, "{parts} parts of the table more");
    let grown = LIVE_BYTES.load(Ordering::Relaxed).saturating_sub(before);
    assert!(grown < SLACK_BYTES, "{grown} bytes more after {} cycles", cycles());
}

/// Ends the process of cycle `number` by a panic, an error or normally, in turn.
fn end(number: u64) -> ExitReason {
    match number % 3 {
        0 => panic!("a panic in turn"),
        1 => ExitReason::other(number),
        _ => ExitReason::Normal,
    }
}

#[test]
fn spawning_linking_and_exiting_leaves_nothing() {
    is_flat(|ctx, number| {
        Box::pin(async move {
            let child = ctx.spawn_link(move |_| async move { end(number) }).unwrap();
            assert_eq!(ctx.receive_of::<Exit>().await.from, child);
        })
    });
}

#[test]
fn monitors_names_and_labels_of_the_dead_leave_nothing() {
    is_flat(|ctx, number| {
        Box::pin(async move {
            let name = name_of(number);
            let own = name.clone();
            let body = move |ctx: Context| async move {
                ctx.register(&own).unwrap();
                ctx.set_label(own.as_str());
                ctx.send_after(ctx.pid(), Duration::from_hours(1), [0_u8; 100]);
                ctx.monitor(ctx.pid());
                ctx.receive().await;
                end(number)
            };
            let (child, reference) = ctx.spawn_monitor(body).unwrap();
            ctx.send(child, vec![0_u8; 100]).await;
            ctx.send(child, "left in the mailbox").await;
            assert_eq!(ctx.receive_of::<Down>().await.reference, reference);
            assert_eq!(ctx.whereis(&name), None);
        })
    });
}

#[test]
fn processes_killed_in_the_middle_of_things_leave_nothing() {
    is_flat(|ctx, number| {
        Box::pin(async move {
            let (me, held) = (ctx.pid(), vec![number; 16]);
            let body = move |ctx: Context| async move {
                ctx.link(me);
                ctx.send(me, ()).await;
                pending::<()>().await;
                drop(held);
            };
            let child = ctx.spawn(body);
            ctx.receive_of::<()>().await;
            ctx.exit(child, ExitReason::Killed);
            assert_eq!(ctx.receive_of::<Exit>().await, Exit { from: child, reason: ExitReason::Killed });
        })
    });
}

#[test]
fn crashes_and_restarts_under_a_supervisor_leave_nothing() {
    leaves_nothing(|times| {
        Box::new(move |ctx| {
            Box::pin(async move {
                let (conductor, starts) = (ctx.pid(), Arc::new(AtomicU64::new(0)));
                let body = move |ctx: Context| {
                    let starts = Arc::clone(&starts);
                    async move {
                        let number = starts.fetch_add(1, Ordering::Relaxed);
                        if number == times {
                            ctx.send(conductor, ()).await;
                            return pending().await;
                        }
                        ctx.register(&name_of(number)).unwrap();
                        ctx.send_after(ctx.pid(), Duration::from_hours(1), [0_u8; 100]);
                        ctx.monitor(conductor);
                        end(number)
                    }
                };
                // A restart intensity that is never exceeded.
                let supervisor = Supervisor::new(Strategy::OneForOne).intensity(100_000, Duration::from_millis(1));
                supervisor.child(ChildSpec::new("child", body)).start_link(&ctx).await.unwrap();
                ctx.receive_of::<()>().await;
            })
        })
    });
}

#[test]
fn requests_from_outside_leave_nothing_with_whom_they_ask() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start");
    let server = runtime
        .spawn(|ctx| async move {
            loop {
                let Request { request, reply } = ctx.receive_of::<Request<u64, u64>>().await;
                reply.send(&ctx, request);
            }
        })
        .expect("there is room");
    let reactor = tokio::runtime::Builder::new_current_thread().build().expect("a reactor");
    let ask = |times: u64| {
        reactor.block_on(async {
            for number in 0..times {
                assert_eq!(runtime.request(server, number).await, Ok(number));
            }
        });
    };
    ask(cycles() / 10);
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    ask(cycles());
    let grown = LIVE_BYTES.load(Ordering::Relaxed).saturating_sub(before);
    // Message nodes are kept for reuse, up to 16 MiB. Leaked watchers of the server's end would add twice as much.
    let nodes = 64 * cycles() as usize;
    assert!(grown < nodes + SLACK_BYTES, "{grown} bytes more after {} requests", cycles());
}

#[cfg(feature = "wasm")]
#[test]
fn guests_that_trap_return_or_are_killed_leave_nothing() {
    use rusm_runtime::wasm::{Guest, Wasm, WasmConfig};

    let wasm = Wasm::start(WasmConfig { capacity: 16, ..WasmConfig::default() }).expect("the engine starts");
    let text = |then: &str| {
        format!(
            r#"(module (import "rusm" "self" (func $self (result i64)))
            (import "rusm" "register" (func $register (param i32 i32) (result i32)))
            (import "rusm" "send" (func $send (param i64 i64 i32 i32) (result i32)))
            (import "rusm" "send_after" (func $after (param i64 i64 i64 i32 i32) (result i64)))
            (import "rusm" "monitor" (func $monitor (param i64) (result i64)))
            (memory (export "memory") 1) (data (i32.const 0) "name 0")
            (func (export "run") (if (call $register (i32.const 0) (i32.const 6)) (then (loop $lost (br $lost))))
                (drop (call $send (call $self) (i64.const 0) (i32.const 0) (i32.const 100)))
                (drop (call $after (i64.const 3600000) (call $self) (i64.const 0) (i32.const 0) (i32.const 100)))
                (drop (call $monitor (call $self)))
                {then}))"#
        )
    };
    let module = |name: &str, then: &str| {
        wasm.load(name, &wat::parse_str(text(then)).expect("it is a module")).expect("it is a guest")
    };
    let modules = [module("traps", "unreachable"), module("returns", ""), module("spins", "(loop $on (br $on))")];
    leaves_nothing(|times| {
        let (wasm, modules) = (wasm.clone(), modules.clone());
        Box::new(move |ctx| {
            Box::pin(async move {
                // A tenth of the cycles, because each spinning guest takes two ticks. Fewer than 2,000 guests would not
                // fill the buffers of recent events and traps.
                for number in 0..(times / 10).max(2_000) {
                    let guest = Guest::default().profile("trusted").monitored();
                    let spins = number % 50 == 0;
                    let module = if spins { &modules[2] } else { &modules[number as usize % 2] };
                    let (pid, _) = wasm.spawn_from(&ctx, module, &guest).expect("there is room");
                    if spins {
                        ctx.yield_now().await;
                        ctx.exit(pid, ExitReason::Killed);
                    }
                    let ended = ctx.receive_of::<Down>().await.reason;
                    assert_eq!(ended == ExitReason::Killed, spins, "{ended}");
                }
            })
        })
    });
    assert_eq!(wasm.stats().live, 0);
}

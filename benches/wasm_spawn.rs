//! Cost of a guest compared with bare wasmtime at the same settings, and with a native process: starts, messages, calls
//! into the node, and kills.
//!
//! Rounds of both alternate on one core (except for kills). CPU time of the whole program is compared, because other
//! programs use the machine, too:
//! `cargo run --release -p rusm-benches --bin wasm_spawn`
//!
//! An argument chooses a part: `starts`, `messages`, `calls` or `kills`.

use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use rusm_benches::{cpu_ns, median};
use rusm_runtime::{Config, Context, Down, ExitReason, Pid, Runtime};
use rusm_wasm::{GuestError, GuestOptions, Module, Wasm, WasmConfig};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use wasmtime::{Caller, Linker, Store, StoreLimits, StoreLimitsBuilder, component};

type Failure = Box<dyn std::error::Error>;

const ROUNDS: usize = 9;
const SPAWNS: u32 = 20_000;
const MESSAGES: u32 = 100_000;
const HOST_CALLS: u64 = 2_000_000;
const KILLS: usize = 50;
/// Maximum number of instances, which is also how many a storm keeps in the caches.
const CAPACITY: u32 = 64;

const EMPTY: &str = r#"(module (func (export "run")))"#;
const PAGE: &str = r#"(module (memory (export "memory") 1) (data (i32.const 1024) "some data")
    (func (export "run") (i32.store (i32.const 2048) (i32.load (i32.const 1024)))))"#;
const COMPONENT: &str = r#"(component
    (core module $m (memory (export "memory") 1) (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
        (func (export "run") (param i32 i32) (result i32) i32.const 16))
    (core instance $i (instantiate $m))
    (func (export "run") (param "args" (list string)) (result (result (error string)))
        (canon lift (core func $i "run") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))"#;
/// Forwards each message: its sender, the remaining number of hops, and the process that receives the last one.
const PING: &str = r#"(module
    (import "rusm" "self" (func $self (result i64)))
    (import "rusm" "receive" (func $receive (param i64) (result i32)))
    (import "rusm" "item_read" (func $item_read (param i32 i32 i32) (result i32)))
    (import "rusm" "send" (func $send (param i64 i64 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "run") (local $own i64) (local $to i64)
        (local.set $own (call $self))
        (loop $again
            (drop (call $receive (i64.const -1)))
            (drop (call $item_read (i32.const 0) (i32.const 24) (i32.const 0)))
            (local.set $to (select (i64.load (i32.const 16)) (i64.load (i32.const 0)) (i64.eqz (i64.load (i32.const 8)))))
            (i64.store (i32.const 0) (local.get $own))
            (i64.store (i32.const 8) (i64.sub (i64.load (i32.const 8)) (i64.const 1)))
            (drop (call $send (local.get $to) (i64.const 0) (i32.const 0) (i32.const 24)))
            (br $again))))"#;
/// Waits in a loop and does nothing else.
const WAIT: &str = r#"(module (import "bare" "wait" (func $wait))
    (func (export "run") (loop $again (call $wait) (br $again))))"#;
const PARKED: &str = r#"(module (import "rusm" "receive" (func $receive (param i64) (result i32))) (memory (export "memory") 1)
    (func (export "run") (drop (call $receive (i64.const -1)))))"#;
const SPIN: &str = r#"(module (func (export "run") (loop $again (br $again))))"#;
const CALLS: &str = r#"(module (import "rusm" "self" (func $self (result i64))) (memory (export "memory") 1)
    (func (export "run") (local $n i64)
        (local.set $n (i64.const 2000000))
        (loop $again (drop (call $self)) (br_if $again (i64.ne (i64.const 0) (local.tee $n (i64.sub (local.get $n) (i64.const 1))))))))"#;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let (mut future, mut cx) = (pin!(future), TaskContext::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
    }
}

struct Bench {
    runtime: Runtime,
    wasm: Wasm,
}

impl Bench {
    /// Runs code in a process; returns the CPU nanoseconds that passed and the code's result.
    fn timed<F: Future<Output = f64> + Send + 'static>(
        &self,
        code: impl FnOnce(Wasm, Context) -> F,
    ) -> Result<(f64, f64), Failure> {
        let (give, take) = std::sync::mpsc::channel();
        let wasm = self.wasm.clone();
        let before = cpu_ns();
        self.runtime.spawn(|ctx| {
            let code = code(wasm, ctx);
            async move { give.send(code.await).unwrap_or(()) }
        })?;
        let said = take.recv()?;
        Ok((cpu_ns() - before, said))
    }

    fn spawns(&self, module: &Module) -> Result<f64, Failure> {
        let module = module.clone();
        let (ns, _) = self.timed(move |wasm, ctx| async move {
            let guest = GuestOptions::default();
            let mut started = 0;
            while started < SPAWNS {
                match wasm.spawn_from(&ctx, &module, &guest) {
                    Ok(_) => started += 1,
                    Err(GuestError::Capacity { .. }) => ctx.yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
            while wasm.stats().live != 0 {
                ctx.yield_now().await;
            }
            0.0
        })?;
        Ok(ns / f64::from(SPAWNS))
    }

    /// Returns the CPU nanoseconds of a guest from its start to its end.
    fn until_end(&self, module: &Module, guest: &GuestOptions) -> Result<f64, Failure> {
        let before = cpu_ns();
        let pid = self.wasm.spawn(&self.runtime, module, guest)?;
        drop(self.runtime.wait(pid));
        Ok(cpu_ns() - before)
    }

    /// Makes two processes send a message back and forth; the message starts at `first` and ends at this process.
    /// Returns the CPU nanoseconds per message.
    fn ping_pong<M: Send + 'static>(
        &self,
        first: Pid,
        message: impl FnOnce(Pid) -> M + Send + 'static,
    ) -> Result<f64, Failure> {
        let (ns, _) = self.timed(move |_, ctx| async move {
            ctx.send(first, message(ctx.pid())).await;
            drop(ctx.receive().await);
            0.0
        })?;
        Ok(ns / f64::from(MESSAGES))
    }

    /// Kills guests that wait for a message. Returns the CPU nanoseconds per kill, and the nanoseconds from the exit
    /// signal to the down message.
    fn kills(&self, module: &Module) -> Result<(f64, f64), Failure> {
        let module = module.clone();
        let (_, cpu_ns_each) = self.timed(move |wasm, ctx| async move {
            let parked = parked(&wasm, &ctx, &module, KILLS).await;
            let before = cpu_ns();
            for pid in &parked {
                ctx.exit(*pid, ExitReason::Killed);
            }
            while wasm.stats().live != 0 {
                ctx.yield_now().await;
            }
            (cpu_ns() - before) / KILLS as f64
        })?;
        let module = self.wasm.module("parked").ok_or("no module")?;
        let (_, alone_ns) = self.timed(move |wasm, ctx| async move {
            let mut nanoseconds = Vec::new();
            for _ in 0..KILLS {
                let pid = parked(&wasm, &ctx, &module, 1).await[0];
                ctx.monitor(pid);
                let before = Instant::now();
                ctx.exit(pid, ExitReason::Killed);
                drop(ctx.receive_of::<Down>().await);
                nanoseconds.push(before.elapsed().as_nanos() as f64);
            }
            median(nanoseconds)
        })?;
        Ok((cpu_ns_each, alone_ns))
    }

    /// Kills guests in an endless loop from outside. Returns the time from each exit signal until the end is known, in
    /// milliseconds; an epoch is one millisecond.
    fn kills_spinning(&self, module: &Module) -> Result<Vec<f64>, Failure> {
        let kill = |_| {
            let pid = self.wasm.spawn(&self.runtime, module, &GuestOptions::default())?;
            let watch = self.runtime.watch(pid);
            // Wait until the guest has been taken off its scheduler at least once.
            let ticks = self.wasm.stats().ticks_total;
            while self.wasm.stats().ticks_total < ticks + 3 {
                std::thread::yield_now();
            }
            let before = Instant::now();
            self.runtime.exit(pid, ExitReason::Killed);
            watch.wait();
            Ok(before.elapsed().as_secs_f64() * 1e3)
        };
        (0..4 * KILLS).map(kill).collect()
    }
}

/// Starts guests and lets them run until they wait.
async fn parked(wasm: &Wasm, ctx: &Context, module: &Module, count: usize) -> Vec<Pid> {
    let start = |_| wasm.spawn_from(ctx, module, &GuestOptions::default()).expect("there is room").0;
    let parked = (0..count).map(start).collect();
    // There is only one scheduler, so all of them have run before this process continues.
    for _ in 0..10 {
        ctx.yield_now().await;
    }
    parked
}

fn message(from: Pid, left: u64, boss: Pid) -> Bytes {
    let number = |pid: Pid| (u64::from(pid.generation()) << 32) | u64::from(pid.slot());
    [number(from), left, number(boss)].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>().into()
}

/// The message of [`PING`], for native processes.
struct Ball {
    from: Pid,
    left: u64,
    boss: Pid,
}

/// Native counterpart of [`PING`].
async fn ping(ctx: Context) {
    loop {
        let Ok(Ball { from, left, boss }) = ctx.receive().await.downcast() else { continue };
        let to = if left == 0 { boss } else { from };
        ctx.send(to, Ball { from: ctx.pid(), left: left.wrapping_sub(1), boss }).await;
    }
}

fn bare(wasm: &Wasm, spawn: impl Fn(&mut Store<StoreLimits>)) -> f64 {
    let before = cpu_ns();
    for _ in 0..SPAWNS {
        let mut store = Store::new(wasm.engine(), StoreLimitsBuilder::new().memory_size(16 << 20).build());
        store.limiter(|limits| limits);
        store.set_epoch_deadline(1_000_000);
        store.epoch_deadline_async_yield_and_update(1);
        spawn(&mut store);
    }
    (cpu_ns() - before) / f64::from(SPAWNS)
}

fn bare_module(wasm: &Wasm, text: &str) -> Result<impl Fn() -> f64, Failure> {
    let module = wasmtime::Module::new(wasm.engine(), wat::parse_str(text)?)?;
    let pre = Linker::new(wasm.engine()).instantiate_pre(&module)?;
    let wasm = wasm.clone();
    Ok(move || {
        bare(&wasm, |store| {
            block_on(async {
                let instance = pre.instantiate_async(&mut *store).await.expect("the bare module starts");
                let run = instance.get_typed_func::<(), ()>(&mut *store, "run").expect("run is there");
                run.call_async(store, ()).await.expect("run returns");
            });
        })
    })
}

fn bare_component(wasm: &Wasm, text: &str) -> Result<impl Fn() -> f64, Failure> {
    let component = component::Component::new(wasm.engine(), wat::parse_str(text)?)?;
    let pre = component::Linker::new(wasm.engine()).instantiate_pre(&component)?;
    let run = component.get_export_index(None, "run").ok_or("no run")?;
    let wasm = wasm.clone();
    Ok(move || {
        bare(&wasm, |store| {
            block_on(async {
                let instance = pre.instantiate_async(&mut *store).await.expect("the bare component starts");
                let run = instance.get_typed_func::<(&[String],), (Result<(), String>,)>(&mut *store, run);
                drop(run.expect("run is there").call_async(store, (&[],)).await.expect("run returns"));
            });
        })
    })
}

/// A future that is pending once.
struct Once(bool);

impl Future for Once {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Returns the cost of leaving a waiting guest and resuming it, for two alternating guests of bare wasmtime. This is
/// the minimum that a message between guests costs on top of one between native processes.
fn bare_switches(wasm: &Wasm) -> Result<f64, Failure> {
    let module = wasmtime::Module::new(wasm.engine(), wat::parse_str(WAIT)?)?;
    let mut linker = Linker::new(wasm.engine());
    linker.func_wrap_async("bare", "wait", |_: Caller<'_, ()>, (): ()| Box::new(Once(false)))?;
    let pre = linker.instantiate_pre(&module)?;
    let guest = || {
        let (pre, mut store) = (pre.clone(), Store::new(wasm.engine(), ()));
        store.set_epoch_deadline(1_000_000);
        Box::pin(async move {
            let instance = pre.instantiate_async(&mut store).await?;
            instance.get_typed_func::<(), ()>(&mut store, "run")?.call_async(&mut store, ()).await
        })
    };
    let (mut guests, mut cx) = ([guest(), guest()], TaskContext::from_waker(Waker::noop()));
    let before = cpu_ns();
    for turn in 0..MESSAGES as usize {
        if let Poll::Ready(ended) = guests[turn % 2].as_mut().poll(&mut cx) {
            ended?;
        }
    }
    Ok((cpu_ns() - before) / f64::from(MESSAGES))
}

#[expect(clippy::print_stdout, reason = "prints figures for people")]
fn compare(name: &str, unit: &str, theirs: Vec<f64>, ours: Vec<f64>) {
    let (theirs, ours) = (median(theirs), median(ours));
    println!("{name:30} {theirs:9.1} {ours:9.1} {unit:12} {:5.2}x", ours / theirs);
}

#[expect(clippy::print_stdout, reason = "prints figures for people")]
fn show(name: &str, unit: &str, figures: Vec<f64>) {
    println!("{name:30} {:9} {:9.1} {unit}", "", median(figures));
}

fn starts(bench: &Bench) -> Result<(), Failure> {
    for (name, text) in [("module, no memory", EMPTY), ("module, one page", PAGE), ("component, one page", COMPONENT)] {
        let module = bench.wasm.load(name, &wat::parse_str(text)?)?;
        let bare: Box<dyn Fn() -> f64> = if text.starts_with("(component") {
            Box::new(bare_component(&bench.wasm, text)?)
        } else {
            Box::new(bare_module(&bench.wasm, text)?)
        };
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            theirs.push(bare());
            ours.push(bench.spawns(&module)?);
        }
        compare(name, "ns/start", theirs, ours);
    }
    Ok(())
}

fn messages(bench: &Bench) -> Result<(), Failure> {
    let module = bench.wasm.load("ping", &wat::parse_str(PING)?)?;
    let guest = || bench.wasm.spawn(&bench.runtime, &module, &GuestOptions::default());
    let guests = [guest()?, guest()?];
    let natives = [bench.runtime.spawn(ping)?, bench.runtime.spawn(ping)?];
    let (mut by_native, mut by_guest, mut switches) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        switches.push(bare_switches(&bench.wasm)?);
        let ([one, two], [first, second], left) = (natives, guests, MESSAGES.into());
        by_native.push(bench.ping_pong(one, move |boss| Ball { from: two, left, boss })?);
        by_guest.push(bench.ping_pong(first, move |boss| message(second, left, boss))?);
    }
    show("a bare guest waits and goes on", "ns", switches);
    compare("ping-pong, native : module", "ns/message", by_native, by_guest);
    for pid in guests.into_iter().chain(natives) {
        bench.runtime.exit(pid, ExitReason::Killed);
    }
    for language in ["c", "rust"] {
        let path = format!("{}/../examples/guests/prebuilt/{language}/ping_pong.wasm", env!("CARGO_MANIFEST_DIR"));
        let module = bench.wasm.load_file(language, Path::new(&path))?;
        let mut figures = Vec::new();
        for _ in 0..ROUNDS {
            let guest = GuestOptions::default().args([(MESSAGES / 2).to_string()]).profile("trusted");
            figures.push(bench.until_end(&module, &guest)? / f64::from(MESSAGES));
        }
        show(&format!("ping-pong, component, {language}"), "ns/message", figures);
    }
    Ok(())
}

fn calls(bench: &Bench) -> Result<(), Failure> {
    let module = bench.wasm.load("calls", &wat::parse_str(CALLS)?)?;
    let mut calls = Vec::new();
    for _ in 0..ROUNDS {
        calls.push(bench.until_end(&module, &GuestOptions::default())? / HOST_CALLS as f64);
    }
    show("call into the node", "ns/call", calls);
    Ok(())
}

fn kills(bench: &Bench) -> Result<(), Failure> {
    let module = bench.wasm.load("parked", &wat::parse_str(PARKED)?)?;
    let (mut each, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (cpu_ns_each, alone_ns) = bench.kills(&module)?;
        each.push(cpu_ns_each);
        alone.push(alone_ns);
    }
    show("kill of a parked guest", "ns CPU", each);
    show("the same, to the news of it", "ns", alone);
    let spinning = bench.kills_spinning(&bench.wasm.load("spin", &wat::parse_str(SPIN)?)?)?;
    let longest = spinning.iter().copied().fold(0.0, f64::max);
    show("kill in an endless loop", &format!("ms, {longest:.1} the longest; an epoch is 1 ms"), spinning);
    Ok(())
}

type Part = fn(&Bench) -> Result<(), Failure>;

/// Runs a part with all its threads on one core: on two cores, the load of other programs may change the result by a
/// third.
fn on_one_core(part: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let (all, mut one) = (sched_getaffinity(None)?, CpuSet::new());
    one.set(sched_getcpu());
    sched_setaffinity(None, &one)?;
    part()?;
    Ok(sched_setaffinity(None, &all)?)
}

fn run(part: Part) -> Result<(), Failure> {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() })?;
    let wasm = Wasm::start(WasmConfig { capacity: CAPACITY, ..WasmConfig::default() })?;
    part(&Bench { runtime, wasm })
}

fn main() -> Result<(), Failure> {
    let only = std::env::args().nth(1);
    let is_asked_for = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let parts: [(&str, Part); 3] = [("starts", starts), ("messages", messages), ("calls", calls)];
    for (name, part) in parts {
        if is_asked_for(name) {
            on_one_core(|| run(part))?;
        }
    }
    // The killing thread needs a core of its own: on the guest's core it would run only when the guest's time slice
    // ends.
    if is_asked_for("kills") { run(kills) } else { Ok(()) }
}

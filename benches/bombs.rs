//! Wake-up delay of a process next to hostile guests: three guests of each kind at a time, for some seconds.
//!
//! `cargo run --release -p rusm-benches --bin bombs [SECONDS] [NAME]`
//!
//! The neighbour is a native process that repeatedly sleeps for 2 ms. An operating-system thread does the same and
//! shows the delay of the machine itself. The exit code is 1 if the 99th percentile of a neighbour is above 20 ms.

#![expect(clippy::print_stdout, reason = "the table is the result")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rusm_runtime::{Config, Context, Down, Handle, Runtime};
use rusm_wasm::{GuestOptions, Module, Wasm, WasmConfig};

#[path = "../crates/wasm/tests/it/guests.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "test helpers, of which this program uses the import table")]
mod guests;

/// Number of hostile guests at a time.
const GUESTS: usize = 3;
const CAPACITY: u32 = 1000;
const PERIOD: Duration = Duration::from_millis(2);
const LATENESS_MAX: Duration = Duration::from_millis(20);

/// A hostile guest: its name, additional locals, and its instructions.
type Bomb = (&'static str, &'static str, &'static str);

/// Grows the memory to 16 MiB.
const GROW: &str = "(drop (memory.grow (i32.const 255)))";

const BOMBS: &[Bomb] = &[
    ("loops", "", "(loop $again (br $again))"),
    ("fills memory", "", "(loop $again (memory.fill (i32.const 0) (i32.const 7) (i32.const 16777216)) (br $again))"),
    ("copies memory", "", "(loop $again (memory.copy (i32.const 0) (i32.const 8388608) (i32.const 8388608)) (br $again))"),
    ("grows memory", "", "(loop $again (drop (memory.grow (i32.const 1))) (br $again))"),
    ("traps", "", "unreachable"),
    ("returns", "", ""),
    (
        "spawns",
        "",
        "(loop $again
            (local.set $pid (call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                (i32.const 0)))
            (br $again))",
    ),
    (
        "forks",
        "",
        "(drop (call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
        (drop (call $spawn (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
        (memory.fill (i32.const 0) (i32.const 7) (i32.const 60000))",
    ),
    (
        "sets timers beyond its limit",
        "",
        "(loop $again
            (drop (call $send_after (call $self) (i64.const 3600000) (i64.const 0) (i32.const 0) (i32.const 0)))
            (br $again))",
    ),
    (
        "sets timers",
        "",
        "(loop $burst
            (local.set $n (i32.const 65536))
            (loop $again
                (drop (call $send_after (call $self) (i64.const 5) (i64.const 0) (i32.const 0) (i32.const 0)))
                (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (loop $take (br_if $take (call $receive (i64.const 50))))
            (br $burst))",
    ),
    (
        "sets intervals",
        "",
        "(local.set $n (i32.const 65536))
        (loop $again
            (drop (call $send_every (call $self) (i64.const 1) (i64.const 0) (i32.const 0) (i32.const 0)))
            (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (loop $take (br_if $take (call $receive (i64.const 50))))",
    ),
    (
        "floods all mailboxes",
        "(local $slot i64)",
        "(loop $again
            (local.set $slot (i64.rem_u (i64.add (local.get $slot) (i64.const 1)) (i64.const 64)))
            (drop (call $try_send (i64.or (local.get $slot) (i64.const 0x100000000)) (i64.const 0) (i32.const 0)
                (i32.const 60000)))
            (br $again))",
    ),
    (
        "sends itself large messages",
        "",
        "(loop $again
            (drop (call $try_send (call $self) (i64.const 0) (i32.const 0) (i32.const 1000000)))
            (drop (call $receive (i64.const 0)))
            (br $again))",
    ),
    ("logs", "", "(loop $again (call $log (i32.const 2) (i32.const 0) (i32.const 60000)) (br $again))"),
    ("labels itself", "", "(loop $again (call $label (i32.const 0) (i32.const 200)) (br $again))"),
    ("yields", "", "(loop $again (call $yield) (br $again))"),
    ("sleeps for nothing", "", "(loop $again (call $sleep (i64.const 0)) (br $again))"),
    ("digests", "", "(loop $again (drop (call $digest (i32.const 2) (i32.const 0) (i32.const 500000) (i32.const 0))) (br $again))"),
    ("takes random bytes", "", "(loop $again (drop (call $random (i32.const 0) (i32.const 16000000))) (br $again))"),
    (
        "registers and joins",
        "",
        "(loop $again
            (drop (call $register (i32.const 0) (i32.const 100))) (drop (call $join (i32.const 0) (i32.const 100)))
            (drop (call $members (i32.const 0) (i32.const 100))) (drop (call $unregister (i32.const 0) (i32.const 100)))
            (br $again))",
    ),
    (
        "links and exits others",
        "(local $slot i64)",
        "(loop $again
            (local.set $slot (i64.rem_u (i64.add (local.get $slot) (i64.const 1)) (i64.const 64)))
            (call $link (i64.or (local.get $slot) (i64.const 0x700000000)))
            (drop (call $monitor (i64.or (local.get $slot) (i64.const 0x700000000))))
            (drop (call $exit (i64.or (local.get $slot) (i64.const 0x700000000)) (i32.const 0) (i32.const 0) (i32.const 0)))
            (br $again))",
    ),
];

/// Delay of each wake-up of a sleeper.
#[derive(Debug, Default)]
struct Lateness(Vec<Duration>);

impl Lateness {
    fn add(&mut self, since: Instant) {
        self.0.push(since.elapsed().saturating_sub(PERIOD));
    }

    /// Returns a percentile of the sorted values.
    fn percentile(&self, percent: usize) -> Duration {
        self.0.get((self.0.len() * percent / 100).min(self.0.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    fn sorted(mut self) -> Self {
        self.0.sort_unstable();
        self
    }
}

/// Starts a process that sleeps repeatedly until `stop` is set.
fn neighbour(runtime: &Handle, stop: &Arc<AtomicBool>) -> Result<mpsc::Receiver<Lateness>, Box<dyn Error>> {
    let ((give, take), stop) = (mpsc::channel(), Arc::clone(stop));
    runtime.spawn(move |ctx| async move {
        let mut lateness = Lateness::default();
        while !stop.load(Relaxed) {
            let started = Instant::now();
            ctx.sleep(PERIOD).await;
            lateness.add(started);
        }
        drop(give.send(lateness.sorted()));
    })?;
    Ok(take)
}

/// Keeps a guest running: starts it again whenever it ends.
fn keep(runtime: &Handle, wasm: &Wasm, module: &Module, number: usize) -> Result<(), Box<dyn Error>> {
    let (wasm, module) = (wasm.clone(), module.clone());
    runtime.spawn(move |ctx: Context| async move {
        ctx.set_label(format!("keeper {number}"));
        let guest = GuestOptions::default().profile("trusted").monitored();
        loop {
            match wasm.spawn_from(&ctx, &module, &guest) {
                Ok(_) => drop(ctx.receive_of::<Down>().await),
                // All instances are in use.
                Err(_) => ctx.sleep(Duration::from_millis(1)).await,
            }
        }
    })?;
    Ok(())
}

fn beside(bomb: &Bomb, time: Duration) -> Result<[Lateness; 2], Box<dyn Error>> {
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() })?;
    let wasm = Wasm::start(WasmConfig { capacity: CAPACITY, ..WasmConfig::default() })?;
    let (_, locals, code) = bomb;
    let needs_memory = ["16777216", "8388608", "16000000"].iter().any(|bytes| code.contains(bytes));
    let code = if needs_memory { format!("{GROW} {code}") } else { (*code).to_owned() };
    let module = wasm.load("bomb", &guests::raw(locals, &code))?;
    let stop = Arc::new(AtomicBool::new(false));
    let lateness = neighbour(&runtime, &stop)?;
    let thread = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            let mut lateness = Lateness::default();
            while !stop.load(Relaxed) {
                let started = Instant::now();
                thread::park_timeout(PERIOD);
                lateness.add(started);
            }
            lateness.sorted()
        })
    };
    if bomb.0 != "nothing" {
        for number in 0..GUESTS {
            keep(&runtime, &wasm, &module, number)?;
        }
    }
    thread::park_timeout(time);
    stop.store(true, Relaxed);
    let lateness = lateness.recv_timeout(Duration::from_mins(1))?;
    let thread = thread.join().map_err(|_panic| "the thread panicked")?;
    runtime.shutdown(Duration::from_secs(1));
    Ok([lateness, thread])
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(3), |seconds| seconds.parse())?;
    let name = arguments.next().unwrap_or_default();
    let nothing: Bomb = ("nothing", "", "");
    if !std::iter::once(&nothing).chain(BOMBS).any(|bomb| bomb.0.contains(&name)) {
        return Err(format!("no guest has {name:?} in its name").into());
    }
    let (mut tried, mut passed) = (0, 0);
    println!("{:<30}{:>9}{:>9}{:>9}    {:>9}{:>9}", "beside a guest that", "p50", "p99", "latest", "thread", "latest");
    for bomb in std::iter::once(&nothing).chain(BOMBS).filter(|bomb| bomb.0.contains(&name)) {
        let [process, thread] = beside(bomb, Duration::from_secs(seconds))?;
        let ms = |duration: Duration| format!("{:.2}", duration.as_secs_f64() * 1e3);
        let figures = [process.percentile(50), process.percentile(99), process.percentile(100)].map(ms);
        let thread = [thread.percentile(99), thread.percentile(100)].map(ms);
        println!(
            "{:<30}{:>9}{:>9}{:>9}    {:>9}{:>9}",
            bomb.0, figures[0], figures[1], figures[2], thread[0], thread[1]
        );
        tried += 1;
        passed += u32::from(process.percentile(99) <= LATENESS_MAX);
    }
    println!("{tried} tried, {passed} with a 99th percentile of at most {} ms; milliseconds", LATENESS_MAX.as_millis());
    Ok(ExitCode::from(u8::from(tried != passed)))
}

//! Compares the node's CPU accounting with the kernel's.
//!
//! ```text
//!   load on a runtime ──▶ console ──▶ `cpu` message: rows, ended, runtime ──▶ sum, against the process's CPU time
//!   threads that spin outside of the node (--others N): schedulers lose their cores
//! ```
//!
//! Each load runs for `--seconds N` (default 8), by kind, and its last answer counts. The exit code is 5 if a sum differs
//! from the kernel by more than 3 %, or the processes of a load have more than the threads of the schedulers.
//!
//! `cargo run --release -p rusm-benches --bin cpu_accounting`

#![expect(clippy::print_stdout, reason = "prints its figures")]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use rusm_console::{Console, ConsoleConfig};
use rusm_protocol::{ClientMessage, Cpu, CpuView, ServerMessage, decode_server, encode};
use rusm_runtime::{Config, Context, Handle, Runtime};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Message;

type Failure = Box<dyn std::error::Error>;

/// Largest difference between the sum and the kernel, in per cent of the kernel's figure.
const SUM_BAR_PCT: f64 = 3.0;

type Load = (&'static str, fn(&Handle));

const LOADS: [Load; 6] = [
    ("one ping-pong pair", |runtime| ping_pong(runtime, 1)),
    ("64 ping-pong pairs", |runtime| ping_pong(runtime, 64)),
    ("spawn storm", spawn_storm),
    ("children that panic", panics),
    ("a spinner beside 40 pairs", |runtime| {
        spin(runtime);
        ping_pong(runtime, 40);
    }),
    ("processes of one poll of 0.2 ms", one_poll),
];

fn main() -> Result<ExitCode, Failure> {
    let (mut seconds, mut others) = (8, 0);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let number = words.next().and_then(|number| number.parse().ok());
        match (word.as_str(), number) {
            ("--seconds", Some(number)) => seconds = number,
            ("--others", Some(number)) => others = number,
            _ => return Err(format!("unknown argument {word:?}: use --seconds N or --others N").into()),
        }
    }
    // Panics of the load are expected.
    std::panic::set_hook(Box::new(|_| {}));
    let mut spinners = Vec::new();
    for _ in 0..others {
        spinners.push(Spinner(std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn()?));
    }
    println!(
        "{:<34}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "load, % of one core", "kernel", "sum", "rows", "ended", "runtime", "error"
    );
    let mut met = true;
    let result = LOADS.iter().try_for_each(|load| {
        met &= measure(load, Duration::from_secs(seconds))?;
        Ok::<(), Failure>(())
    });
    drop(spinners);
    result?;
    println!("{}", if met { "every bar is met" } else { "A BAR IS MISSED" });
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::from(5) })
}

/// Another program that needs a whole core until it is dropped.
struct Spinner(std::process::Child);

impl Drop for Spinner {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn measure((name, load): &Load, length: Duration) -> Result<bool, Failure> {
    let runtime = Runtime::start(Config::default())?;
    let dir = tempfile::tempdir()?;
    let config = ConsoleConfig { dir: dir.path().join("rusm"), ..ConsoleConfig::named("accounting") };
    let console = Console::bind(&runtime, config)?;
    load(&runtime);
    let cpu = watch(console.socket(), length)?;
    let rows: f64 = cpu.rows.iter().map(|row| row.cpu_pct).sum();
    let ended: f64 = cpu.rows.iter().map(|row| row.ended_pct).sum();
    let own: f64 = cpu.runtime.iter().map(|part| part.cpu_pct).sum();
    let error = (cpu.sum_pct - cpu.process_pct) / cpu.process_pct * 100.0;
    println!("{name:<34}{:>9.1}{:>9.1}{rows:>9.1}{ended:>9.1}{own:>9.1}{error:>8.2}%", cpu.process_pct, cpu.sum_pct);
    let mut parts = cpu.runtime;
    parts.sort_by(|a, b| b.cpu_pct.total_cmp(&a.cpu_pct));
    let parts: Vec<String> = parts.iter().take(6).map(|part| format!("{} {:.1}", part.name, part.cpu_pct)).collect();
    println!("    {}", parts.join(", "));
    for row in cpu.rows.iter().take(3) {
        println!("    {:5.1}  {:<50} alive {:>6}  ended/s {:.0}", row.cpu_pct, row.name, row.live, row.ended_per_sec);
    }
    Ok(error.abs() <= SUM_BAR_PCT && rows <= cpu.process_pct)
}

/// Returns the last answer about CPU time by kind.
fn watch(socket: &Path, length: Duration) -> Result<Cpu, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let stream = UnixStream::connect(socket).await?;
        let (mut client, _) = tokio_tungstenite::client_async("ws://localhost/", stream).await?;
        let view = CpuView { id: 1, ..CpuView::default() };
        client.send(Message::text(encode(&ClientMessage::Cpu { view: Some(view) }))).await?;
        let until = Instant::now() + length;
        let mut last = None;
        while let Some(message) = client.next().await {
            if let ServerMessage::Cpu(cpu) = decode_server(message?.to_text()?)? {
                last = Some(cpu);
            }
            if Instant::now() >= until {
                return last.ok_or_else(|| "the node sent no CPU time".into());
            }
        }
        Err("the node closed the connection".into())
    })
}

fn ping_pong(runtime: &Handle, pairs: usize) {
    for _ in 0..pairs {
        spawn(runtime, |ctx| async move {
            ctx.set_label("ping");
            let me = ctx.pid();
            let pong = ctx.spawn(move |ctx| async move {
                ctx.set_label("pong");
                loop {
                    let number = ctx.receive_of::<u64>().await;
                    ctx.send(me, number + 1).await;
                }
            });
            ctx.send(pong, 0_u64).await;
            loop {
                let number = ctx.receive_of::<u64>().await;
                ctx.send(pong, number).await;
            }
        });
    }
}

fn spawn_storm(runtime: &Handle) {
    for _ in 0..2 {
        spawn(runtime, |ctx| async move {
            ctx.set_label("spawner");
            loop {
                for _ in 0..64 {
                    ctx.spawn(|_| async {});
                }
                ctx.yield_now().await;
            }
        });
    }
}

fn panics(runtime: &Handle) {
    spawn(runtime, |ctx| async move {
        ctx.set_label("spawner");
        loop {
            for _ in 0..8 {
                ctx.spawn(|_| async { panic!("as the load demands") });
            }
            ctx.yield_now().await;
        }
    });
}

fn spin(runtime: &Handle) {
    spawn(runtime, |ctx| async move {
        ctx.set_label("spinner");
        loop {
            work(Duration::from_millis(1));
            ctx.yield_now().await;
        }
    });
}

fn one_poll(runtime: &Handle) {
    spawn(runtime, |ctx| async move {
        ctx.set_label("spawner");
        loop {
            for _ in 0..4 {
                ctx.spawn(|_| async { work(Duration::from_micros(200)) });
            }
            ctx.yield_now().await;
            while ctx.runtime().process_count() > 64 {
                ctx.yield_now().await;
            }
        }
    });
}

/// Computes for a time of the clock.
fn work(length: Duration) {
    let from = Instant::now();
    while from.elapsed() < length {
        std::hint::spin_loop();
    }
}

fn spawn<F>(runtime: &Handle, body: fn(Context) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    runtime.spawn(body).expect("a new runtime has room");
}

//! One observer on the process table of a node with a million processes.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use rusm_benches::cpu_time;
use rusm_console::{Console, ConsoleConfig};
use rusm_protocol::{ClientMessage, Column, ServerMessage, SortKey, View, ViewWindow, decode_server, encode};
use rusm_runtime::{Config, Handle, Runtime};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Message;

use crate::load::Load;
use crate::thread_cpu;

pub(crate) type Failure = Box<dyn std::error::Error>;

/// Name of the thread that samples, ranks and serves.
const THREAD: &str = "rusm-console";
const CPU_PCT_MAX: f64 = 1.0;
const IDLE_PCT_BAR: f64 = 0.5;
const PAGE_BYTES_MAX: usize = 20_000;

struct Case {
    name: &'static str,
    /// Sort column; `None` watches frames only.
    key: Option<Column>,
    offset: u64,
}

const CASES: [Case; 6] = [
    Case { name: "frames alone", key: None, offset: 0 },
    Case { name: "by reds/s", key: Some(Column::RedsPerSec), offset: 0 },
    Case { name: "by reds", key: Some(Column::Reds), offset: 0 },
    Case { name: "by age", key: Some(Column::AgeMs), offset: 0 },
    Case { name: "by reds/s, row 500,000", key: Some(Column::RedsPerSec), offset: 500_000 },
    Case { name: "by reds, row 500,000", key: Some(Column::Reds), offset: 500_000 },
];

/// Blocks this thread, which is not a scheduler.
pub(crate) fn pause(length: Duration) {
    let until = Instant::now() + length;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::park_timeout(left);
    }
}

/// Measures each case, idle and under a storm; returns true if all limits are met.
pub(crate) fn run(processes: u64, seconds: u64) -> Result<bool, Failure> {
    let runtime = Runtime::start(Config::default())?;
    let dir = tempfile::tempdir()?;
    let config = ConsoleConfig { dir: dir.path().join("rusm"), ..ConsoleConfig::named("overhead") };
    let console = Console::bind(&runtime, config)?;
    let length = Duration::from_secs(seconds);

    println!(
        "one observer: frames at 10 Hz, 50 rows at 4 Hz; {seconds} s each, CPU of the thread {THREAD} in % of a core"
    );
    let idle_pct = process_pct(length);
    println!(
        "  idle node, no observer attached: whole process {idle_pct:.2} %   bar {IDLE_PCT_BAR} %: {}",
        word(idle_pct < IDLE_PCT_BAR)
    );
    park(&runtime, processes)?;
    let mut met = idle_pct < IDLE_PCT_BAR;
    for storm in [false, true] {
        let load = storm.then(|| Load::spawn_storm(&runtime)).transpose()?;
        println!("  {processes} parked processes{}", if storm { " under a spawn storm" } else { "" });
        let duty = thread_pct(|| pause(length));
        println!("    {:<24} {duty:5.2} %", "no observer attached");
        for case in &CASES {
            met &= measure(case, console.socket(), length)?;
        }
        drop(load);
    }
    Ok(met)
}

pub(crate) fn park(runtime: &Handle, processes: u64) -> Result<(), Failure> {
    let before = Instant::now();
    runtime.spawn(move |ctx| async move {
        for number in 0..processes {
            ctx.spawn(|ctx| async move { drop(ctx.receive().await) });
            if number % 4096 == 0 {
                ctx.yield_now().await;
            }
        }
        drop(ctx.receive().await);
    })?;
    while runtime.process_count() <= processes {
        pause(Duration::from_millis(1));
    }
    println!("  {processes} processes spawned in {:.2} s", before.elapsed().as_secs_f64());
    Ok(())
}

fn measure(case: &Case, socket: &Path, length: Duration) -> Result<bool, Failure> {
    let mut seen = Ok(Seen::default());
    let pct = thread_pct(|| seen = watch(case, socket, length));
    let seen = seen?;
    // A rate is computed from two looks at a process.
    let age_max_ms = if case.key.is_some_and(Column::is_rate) { 3_000 } else { 1_000 };
    let meets = pct <= CPU_PCT_MAX && seen.age_ms_max <= age_max_ms && seen.page_bytes_max <= PAGE_BYTES_MAX;
    print!(
        "    {:<24} {pct:5.2} %   {:4.1} frames/s of {} B",
        case.name,
        seen.frames as f64 / length.as_secs_f64(),
        seen.frame_bytes_max
    );
    if case.key.is_some() {
        print!(
            "   {:3.1} pages/s of {} B, order {:.1} ms CPU, shown for {} ms at most",
            seen.pages as f64 / length.as_secs_f64(),
            seen.page_bytes_max,
            seen.order_us_max / 1e3,
            seen.age_ms_max,
        );
    }
    println!("   {}", word(meets));
    Ok(meets)
}

/// Measurements of one observer.
#[derive(Default)]
struct Seen {
    frames: u64,
    frame_bytes_max: usize,
    pages: u64,
    page_bytes_max: usize,
    order_us_max: f64,
    /// Longest age of a sort order when the next page replaced it, in milliseconds.
    age_ms_max: u64,
}

fn watch(case: &Case, socket: &Path, length: Duration) -> Result<Seen, Failure> {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    reactor.block_on(async {
        let stream = UnixStream::connect(socket).await?;
        let (mut socket, _) = tokio_tungstenite::client_async("ws://localhost/", stream).await?;
        socket.send(Message::text(encode(&ClientMessage::Watch { frame_hz: 10.0 }))).await?;
        if let Some(key) = case.key {
            let window = ViewWindow { offset: case.offset, len: 50 };
            let view = View { sort: SortKey { key, desc: true }, window, ..View::default() };
            socket.send(Message::text(encode(&ClientMessage::View(view)))).await?;
        }
        let until = tokio::time::Instant::now() + length;
        let mut seen = Seen::default();
        // Time at which the order of the displayed page was computed.
        let mut made: Option<Instant> = None;
        while let Ok(message) = tokio::time::timeout_at(until, socket.next()).await {
            let Message::Text(text) = message.ok_or("the node hung up")?? else { continue };
            match decode_server(&text)? {
                ServerMessage::Tick { .. } => {
                    seen.frames += 1;
                    seen.frame_bytes_max = seen.frame_bytes_max.max(text.len());
                }
                ServerMessage::Rows(rows) => {
                    let now = Instant::now();
                    let age_ms = made.map_or(0, |made| (now - made).as_millis() as u64);
                    made = now.checked_sub(Duration::from_millis(rows.order_age_ms));
                    seen.pages += 1;
                    seen.page_bytes_max = seen.page_bytes_max.max(text.len());
                    seen.order_us_max = seen.order_us_max.max(rows.cost_us);
                    seen.age_ms_max = seen.age_ms_max.max(age_ms);
                }
                _ => {}
            }
        }
        Ok(seen)
    })
}

pub(crate) fn thread_pct(work: impl FnOnce()) -> f64 {
    let (since, cpu) = (Instant::now(), thread_cpu::of_thread(THREAD));
    work();
    thread_cpu::of_thread(THREAD).saturating_sub(cpu).as_secs_f64() / since.elapsed().as_secs_f64() * 100.0
}

fn process_pct(length: Duration) -> f64 {
    let (since, cpu) = (Instant::now(), cpu_time());
    pause(length);
    cpu_time().saturating_sub(cpu).as_secs_f64() / since.elapsed().as_secs_f64() * 100.0
}

const fn word(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

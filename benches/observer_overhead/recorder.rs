//! Cost of the flight recorder on a node with a million processes and no observer attached.
//!
//! A block is four windows (off, on, on, off), so a machine that slowly gets faster or slower affects both alike. A
//! window has a console of its own and begins when its first second is over.

use std::path::Path;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rusm_benches::median;
use rusm_console::{Console, ConsoleConfig, RecorderConfig};
use rusm_protocol::{ClientMessage, Past, PastView, ServerMessage, decode_server, encode};
use rusm_runtime::{Config, Handle, Runtime};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Message;

use crate::load::Load;
use crate::page::{Failure, park, pause, thread_pct};

/// Limit of the CPU time that recording adds, in per cent of a core.
const CPU_PCT_BAR: f64 = 1.0;
/// Limit of the memory of the recorder.
const MEMORY_BAR: u64 = 64 << 20;
/// Time before a window: a console that has just started reads everything for the first time.
const WARM_UP: Duration = Duration::from_secs(3);

/// Measures an idle node and a spawn storm; returns true if all limits are met.
pub(crate) fn run(processes: u64, seconds: u64, blocks: usize) -> Result<bool, Failure> {
    let runtime = Runtime::start(Config::default())?;
    park(&runtime, processes)?;
    let length = Duration::from_secs(seconds);
    println!("recorder off and on, no observer attached: {blocks} ABBA blocks of 4 x {seconds} s, CPU of rusm-console");
    let mut met = true;
    for storm in [false, true] {
        let load = storm.then(|| Load::spawn_storm(&runtime)).transpose()?;
        let (mut off, mut on, mut memory_bytes) = (Vec::new(), Vec::new(), 0);
        for _ in 0..blocks {
            for is_on in [false, true, true, false] {
                let (pct, past) = window(&runtime, is_on, length)?;
                if is_on { &mut on } else { &mut off }.push(pct);
                memory_bytes = memory_bytes.max(past.memory_bytes);
            }
        }
        drop(load);
        let (off, on) = (median(off), median(on));
        let meets = on - off <= CPU_PCT_BAR && memory_bytes <= MEMORY_BAR;
        met &= meets;
        let name = if storm { "spawn storm" } else { "idle" };
        println!(
            "  {name:<12} {off:5.3} -> {on:5.3} %  (recorder {:+.3} %, bar {CPU_PCT_BAR} %)   memory after a window {:.1} MiB: {}",
            on - off,
            memory_bytes as f64 / 1_048_576.0,
            if meets { "met" } else { "MISSED" }
        );
    }
    Ok(met)
}

fn window(runtime: &Handle, is_on: bool, length: Duration) -> Result<(f64, Past), Failure> {
    let dir = tempfile::tempdir()?;
    let span = if is_on { RecorderConfig::default().span } else { Duration::ZERO };
    let recorder = RecorderConfig { span, ..RecorderConfig::default() };
    let config = ConsoleConfig { dir: dir.path().join("rusm"), recorder, ..ConsoleConfig::named("overhead") };
    let console = Console::bind(runtime, config)?;
    pause(WARM_UP);
    let pct = thread_pct(|| pause(length));
    let past = newest(console.socket())?;
    Ok((pct, past))
}

/// Requests the newest instant, which names the memory of the recorder.
fn newest(socket: &Path) -> Result<Past, Failure> {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    reactor.block_on(async {
        let stream = UnixStream::connect(socket).await?;
        let (mut socket, _) = tokio_tungstenite::client_async("ws://localhost/", stream).await?;
        let request = ClientMessage::Past(PastView { id: 1, at_ms: u64::MAX });
        socket.send(Message::text(encode(&request))).await?;
        while let Some(message) = socket.next().await {
            if let Message::Text(text) = message?
                && let Ok(ServerMessage::Past(past)) = decode_server(&text)
            {
                return Ok(past);
            }
        }
        Err("the console closed the connection".into())
    })
}

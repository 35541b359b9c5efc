//! The two ends of a stream, native or guest, and the process that starts and times them and collects their results.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusm_runtime::stream::{StreamError, StreamReader, StreamWriter, labelled_pipe};
use rusm_runtime::{Context, Pid};
use rusm_wasm::{GuestOptions, Module, Wasm};
use xxhash_rust::xxh3::Xxh3;

use super::chunks::Chunks;
use crate::measure::usage::process_cpu;
use crate::scenarios::wasm::guests::{message, words};

/// Writing time in one turn.
pub(super) const TURN: Duration = Duration::from_millis(60);

/// A stream to run.
pub(super) struct Pipe {
    pub(super) wasm: Wasm,
    /// Guest that writes; `None` for a native writer.
    pub(super) source: Option<Module>,
    /// Guest that reads; `None` for a native reader.
    pub(super) sink: Option<Module>,
    pub(super) chunks: Arc<Chunks>,
    pub(super) capacity: usize,
}

/// Result of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnResult {
    pub(super) chunks: u64,
    pub(super) wrong: u64,
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
}

/// Result of a native sink.
struct Read {
    chunks: u64,
    wrong: u64,
}

impl Pipe {
    /// Writes and reads for a while. If an end fails, the process that runs this function ends with it.
    pub(super) async fn run(self, ctx: &Context) -> Result<TurnResult, String> {
        ctx.set_label("stream pipe");
        let (writer, reader) = labelled_pipe(self.capacity, "stream-pipe").map_err(|error| error.to_string())?;
        let chunk = self.chunks.chunk as u64;
        if let Some(module) = &self.sink {
            let sink = self.guest(ctx, module)?;
            let facts: Vec<u64> = std::iter::once(chunk).chain(self.chunks.hashes.iter().copied()).collect();
            ctx.send(sink, message(&facts)).await;
            ctx.send(sink, reader).await;
        } else {
            let (chunks, pipe) = (Arc::clone(&self.chunks), ctx.pid());
            ctx.spawn_link(move |ctx| async move {
                let read = sink(reader, &chunks).await?;
                ctx.send(pipe, read).await;
                Ok::<(), StreamError>(())
            })
            .map_err(|error| error.to_string())?;
        }
        let over = Arc::new(AtomicBool::new(false));
        let mut native = Some(writer);
        let mut source = None;
        if let Some(module) = &self.source {
            let guest = self.guest(ctx, module)?;
            ctx.send(guest, message(&[chunk])).await;
            if let Some(writer) = native.take() {
                ctx.send(guest, writer).await;
            }
            // Wait until the guest has generated its chunks.
            drop(ctx.receive_of::<Bytes>().await);
            source = Some(guest);
        }
        let (start, cpu) = (Instant::now(), process_cpu());
        match (source, native) {
            (Some(guest), _) => ctx.send(guest, Bytes::new()).await,
            (None, Some(writer)) => {
                let (chunks, over) = (Arc::clone(&self.chunks), Arc::clone(&over));
                ctx.spawn_link(move |_| async move { write(writer, &chunks, &over).await })
                    .map_err(|error| error.to_string())?;
            }
            (None, None) => unreachable!("the source is native or a guest"),
        }
        ctx.sleep(TURN).await;
        over.store(true, Ordering::Relaxed);
        if let Some(guest) = source {
            ctx.send(guest, Bytes::new()).await;
        }
        let read = if self.sink.is_none() {
            ctx.receive_of::<Read>().await
        } else {
            let [chunks, wrong] = words(&ctx.receive_of::<Bytes>().await).ok_or("the sink did not send two numbers")?;
            Read { chunks, wrong }
        };
        let cpu = process_cpu().saturating_sub(cpu);
        Ok(TurnResult { chunks: read.chunks, wrong: read.wrong, wall: start.elapsed(), cpu })
    }

    fn guest(&self, ctx: &Context, module: &Module) -> Result<Pid, String> {
        let spawned = self.wasm.spawn_from(ctx, module, &GuestOptions::default().linked());
        spawned.map(|(pid, _)| pid).map_err(|error| error.to_string())
    }
}

async fn write(mut writer: StreamWriter, chunks: &Chunks, over: &AtomicBool) -> Result<(), StreamError> {
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        writer.write_all(chunks.of(number)).await?;
        number += 1;
    }
    writer.close();
    Ok(())
}

/// Hashes each chunk in place.
async fn sink(mut reader: StreamReader, chunks: &Chunks) -> Result<Read, StreamError> {
    let mut read = Read { chunks: 0, wrong: 0 };
    let (mut hash, mut left) = (Xxh3::new(), chunks.chunk);
    loop {
        let bytes = reader.fill().await?;
        if bytes.is_empty() {
            // An incomplete chunk is an error.
            read.wrong += u64::from(left != chunks.chunk);
            return Ok(read);
        }
        let count = bytes.len().min(left);
        hash.update(&bytes[..count]);
        reader.consume(count);
        left -= count;
        if left == 0 {
            read.wrong += u64::from(hash.digest() != chunks.hash(read.chunks));
            read.chunks += 1;
            left = chunks.chunk;
            hash.reset();
        }
    }
}

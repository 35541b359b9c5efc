//! Byte streams between processes: every byte arrives, back-pressure works, and either end may die.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rusm_runtime::stream::{StreamError, StreamReader, StreamWriter, pipe};
use rusm_runtime::{Config, ExitReason, Runtime, observe};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

const LONG: Duration = Duration::from_mins(2);

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start")
}

fn byte(place: u64) -> u8 {
    (place.wrapping_mul(0x9e37_79b9) >> 13) as u8
}

async fn write_bytes(mut writer: StreamWriter, count: u64, chunk: usize) -> Result<(), StreamError> {
    let mut place = 0;
    while place < count {
        let end = (place + chunk as u64).min(count);
        let bytes: Vec<u8> = (place..end).map(byte).collect();
        writer.write_all(&bytes).await?;
        place = end;
    }
    writer.close();
    Ok(())
}

async fn read_bytes(mut reader: StreamReader, chunk: usize) -> Result<u64, StreamError> {
    let (mut bytes, mut place) = (vec![0; chunk], 0);
    loop {
        let count = reader.read(&mut bytes).await?;
        if count == 0 {
            return Ok(place);
        }
        for (offset, seen) in (place..).zip(&bytes[..count]) {
            assert_eq!(*seen, byte(offset));
        }
        place += count as u64;
    }
}

#[test]
fn every_byte_arrives_in_order_whatever_the_chunks() {
    let runtime = runtime();
    for (capacity, writes, reads) in [(1, 1, 1), (64, 64, 64), (64, 1000, 7), (4096, 17, 100_000)] {
        let (writer, reader) = pipe(capacity).expect("a power of two");
        let (tell, told) = mpsc::channel();
        runtime.spawn(move |_| async move { tell.send(read_bytes(reader, reads).await) }).expect("there is room");
        runtime
            .spawn(move |_| async move { write_bytes(writer, 30_000, writes).await.expect("the reader is alive") })
            .expect("there is room");

        assert_eq!(told.recv_timeout(LONG), Ok(Ok(30_000)), "capacity {capacity}");
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !done() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::yield_now();
    }
}

#[test]
fn a_writer_is_never_further_ahead_than_the_capacity() {
    let runtime = runtime();
    let (mut writer, reader) = pipe(256).expect("a power of two");
    let written = Arc::new(AtomicU64::new(0));
    let progress = Arc::clone(&written);
    runtime
        .spawn(move |_| async move {
            while let Ok(count) = writer.write(&[7; 100]).await {
                progress.fetch_add(count as u64, Ordering::Relaxed);
            }
        })
        .expect("there is room");

    wait_for("a full stream", || written.load(Ordering::Relaxed) == 256 && observe::idle_progress(&runtime).is_some());
    let (tell, told) = mpsc::channel();
    let reading = runtime
        .spawn(move |ctx| async move {
            let mut reader = reader;
            let mut bytes = [0; 10];
            for _ in 0..4 {
                assert_eq!(reader.read(&mut bytes).await, Ok(10));
            }
            tell.send(()).expect("the test waits");
            ctx.receive().await;
        })
        .expect("there is room");
    told.recv_timeout(LONG).expect("the reader has started");

    wait_for("as much room as was read", || written.load(Ordering::Relaxed) == 296);
    runtime.exit(reading, ExitReason::Killed);
    wait_for("the writer's end", || runtime.process_count() == 0);
}

#[test]
fn the_death_of_the_reader_is_an_error_of_the_next_write() {
    let runtime = runtime();
    let (writer, reader) = pipe(64).expect("a power of two");
    let (tell, told) = mpsc::channel();
    let reading = runtime
        .spawn(move |ctx| async move {
            let _reader = reader;
            ctx.receive().await;
        })
        .expect("there is room");
    runtime.spawn(move |_| async move { tell.send(write_bytes(writer, 1000, 10).await) }).expect("there is room");
    wait_for("a blocked writer", || observe::idle_progress(&runtime).is_some());

    runtime.exit(reading, ExitReason::Killed);

    assert_eq!(told.recv_timeout(LONG), Ok(Err(StreamError::ReaderGone)));
}

#[test]
fn the_death_of_the_writer_is_an_error_after_its_last_byte() {
    let runtime = runtime();
    for (reason, panics) in [(ExitReason::Killed, false), (ExitReason::Shutdown, false), (ExitReason::Normal, true)] {
        let (mut writer, mut reader) = pipe(64).expect("a power of two");
        let (tell, told) = mpsc::channel();
        runtime
            .spawn(move |_| async move {
                let mut bytes = [0; 64];
                let mut read = 0;
                loop {
                    match reader.read(&mut bytes).await {
                        Ok(count) => read += count,
                        Err(error) => break tell.send((read, error)),
                    }
                }
            })
            .expect("there is room");
        let (say, said) = mpsc::channel();
        let writing = runtime
            .spawn(move |ctx| async move {
                writer.write_all(b"half of").await.expect("the reader is alive");
                say.send(()).expect("the test waits");
                ctx.receive().await;
                assert!(!panics, "the writer panics on purpose");
            })
            .expect("there is room");
        said.recv_timeout(LONG).expect("it writes");
        if panics {
            runtime.try_send(writing, ()).expect("the process waits for this message");
        } else {
            runtime.exit(writing, reason);
        }

        assert_eq!(told.recv_timeout(LONG), Ok((7, StreamError::Cut)));
    }
}

#[test]
fn an_end_can_be_sent_to_another_process() {
    let runtime = runtime();
    let (tell, told) = mpsc::channel();
    let reading = runtime
        .spawn(move |ctx| async move { tell.send(read_bytes(ctx.receive_of().await, 100).await) })
        .expect("there is room");
    runtime
        .spawn(move |ctx| async move {
            let (writer, reader) = pipe(128).expect("a power of two");
            ctx.send(reading, reader).await;
            write_bytes(writer, 5_000, 99).await.expect("the reader is alive");
        })
        .expect("there is room");

    assert_eq!(told.recv_timeout(LONG), Ok(Ok(5_000)));
}

#[test]
fn tokio_reads_writes_and_copies_streams() {
    let runtime = runtime();
    let (tell, told) = mpsc::channel();
    runtime
        .spawn(move |ctx| async move {
            let (mut first, mut middle) = pipe(16).expect("a power of two");
            let (mut end, last) = pipe(32).expect("a power of two");
            ctx.spawn(move |_| async move {
                first.write_all(b"one\ntwo\n").await.expect("the reader is alive");
                AsyncWriteExt::write_all(&mut first, b"a line of more than the capacity\n").await.expect("it is read");
                first.shutdown().await.expect("it never fails");
                let late = AsyncWriteExt::write(&mut first, b"late").await;
                assert_eq!(late.expect_err("it is shut").kind(), std::io::ErrorKind::BrokenPipe);
            });
            ctx.spawn(move |_| async move {
                tokio::io::copy(&mut middle, &mut end).await.expect("the writer closed the stream");
                end.close();
            });
            let mut lines = last.lines();
            let mut seen = Vec::new();
            while let Some(line) = lines.next_line().await.expect("the writer closed the stream") {
                seen.push(line);
            }
            tell.send(seen)
        })
        .expect("there is room");

    assert_eq!(
        told.recv_timeout(LONG),
        Ok(["one", "two", "a line of more than the capacity"].map(str::to_owned).into())
    );
}

#[test]
fn a_cut_stream_is_an_unexpected_end_for_tokio() {
    let runtime = runtime();
    let (tell, told) = mpsc::channel();
    runtime
        .spawn(move |_| async move {
            let (writer, mut reader) = pipe(16).expect("a power of two");
            drop(writer);
            tell.send(reader.read_to_end(&mut Vec::new()).await.expect_err("it was cut").to_string())
        })
        .expect("there is room");

    assert_eq!(told.recv_timeout(LONG).as_deref(), Ok("the writer of the stream ended without closing it"));
}

#[test]
fn a_capacity_that_is_none_is_named() {
    let error = pipe(100).map(drop).expect_err("it is no power of two");

    assert_eq!(error.to_string(), "ring capacity of 100 items is not a power of two from 1 to 2^40");
}

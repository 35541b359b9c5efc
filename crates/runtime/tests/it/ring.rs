//! Rings as processes and threads see them: order, policies, and the end of either side.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::rings::{LONG, assert_ends_well, count_up, runtime, wait_for};
use rusm_runtime::ring::{Builder, ChunkError, Flush, JoinError, Padding, Policy, ReadError, RingError};
use rusm_runtime::{ExitReason, observe};

#[test]
fn many_processes_read_every_item_in_order() {
    let runtime = runtime(2);
    for (readers, capacity, chunk) in [(1, 64, 16), (3, 8, 5), (40, 256, 16), (2, 1, 1)] {
        let (mut writer, subscriber) = Builder::new(capacity)
            .readers_max(readers)
            .observed_by(&runtime)
            .build::<u64>()
            .expect("the options are valid");
        let (tell, told) = mpsc::channel();
        for _ in 0..readers {
            let (reader, tell) = (subscriber.join().expect("there is a seat"), tell.clone());
            runtime.spawn(move |_| async move { tell.send(count_up(reader, chunk).await) }).expect("there is room");
        }
        runtime
            .spawn(move |_| async move {
                let items: Vec<u64> = (0..20_000).collect();
                for part in items.chunks(chunk + 2) {
                    writer.write(part).await;
                }
                writer.close();
            })
            .expect("there is room");
        for _ in 0..readers {
            assert_eq!(told.recv_timeout(LONG), Ok(20_000), "{readers} readers");
        }
    }
}

#[test]
fn threads_and_processes_read_together() {
    let runtime = runtime(2);
    let (mut writer, subscriber) = Builder::new(128).build::<u64>().expect("the options are valid");
    let (tell, told) = mpsc::channel();
    for _ in 0..3 {
        let (reader, tell) = (subscriber.join().expect("there is a seat"), tell.clone());
        runtime.spawn(move |_| async move { tell.send(count_up(reader, 16).await) }).expect("there is room");
        let mut reader = subscriber.join().expect("there is a seat");
        std::thread::spawn(move || {
            let (mut items, mut expected) = ([0; 7], 0);
            while let Ok(count) = reader.blocking_read(&mut items) {
                for item in &items[..count] {
                    assert_eq!(*item, expected);
                    expected += 1;
                }
            }
        });
    }
    let items: Vec<u64> = (0..50_000).collect();
    for part in items.chunks(33) {
        writer.blocking_write(part);
    }
    writer.close();

    for _ in 0..3 {
        assert_eq!(told.recv_timeout(LONG), Ok(50_000));
    }
    wait_for("the threads", || subscriber.readers() == 0);
}

#[test]
fn a_reader_that_dies_however_it_dies_stops_nobody() {
    let runtime = runtime(2);
    let (mut writer, subscriber) = Builder::new(16).build::<u64>().expect("the options are valid");
    let idle: Vec<_> = (0..4)
        .map(|kind| {
            let reader = subscriber.join().expect("there is a seat");
            let body = move |ctx: rusm_runtime::Context| async move {
                let _reader = reader;
                if kind == 3 {
                    ctx.receive().await;
                    panic!("as it should");
                }
                ctx.receive().await;
            };
            runtime.spawn(body).expect("there is room")
        })
        .collect();
    let written = Arc::new(AtomicUsize::new(0));
    let progress = Arc::clone(&written);
    let done = runtime
        .spawn(move |_| async move {
            for item in 0..1_000_u64 {
                writer.write(&[item]).await;
                progress.fetch_add(1, Ordering::Relaxed);
            }
            writer.close();
        })
        .expect("there is room");
    wait_for("a full ring", || written.load(Ordering::Relaxed) == 16);

    runtime.exit(idle[0], ExitReason::Killed);
    runtime.exit(idle[1], ExitReason::Shutdown);
    for pid in &idle[2..] {
        runtime.try_send(*pid, ()).expect("its mailbox has room");
    }

    assert_ends_well(&runtime, done);
    assert_eq!(written.load(Ordering::Relaxed), 1_000);
}

#[test]
fn a_lossy_ring_goes_on_and_tells_exactly_how_much_was_missed() {
    let (mut writer, subscriber) =
        Builder::new(64).policy(Policy::Lossy).build::<u64>().expect("the options are valid");
    let mut reader = subscriber.join().expect("a seat");
    let mut items = [0; 10];
    let (mut read, mut missed) = (0, 0);
    for item in 0..1_000_u64 {
        assert_eq!(writer.try_write(&[item]), 1);
        if item % 100 == 50 {
            match reader.try_read(&mut items) {
                Ok(count) => read += count as u64,
                Err(ReadError::Missed { items }) => missed += items,
                Err(error) => panic!("{error}"),
            }
            assert_eq!(reader.position(), read + missed);
        }
    }
    writer.close();
    loop {
        match reader.try_read(&mut items) {
            Ok(count) => {
                for item in &items[..count] {
                    assert_eq!(*item, read + missed);
                    read += 1;
                }
            }
            Err(ReadError::Missed { items }) => missed += items,
            Err(error) => break assert_eq!(error, ReadError::Ended),
        }
    }

    assert_eq!(read + missed, 1_000);
    assert_eq!(reader.stats().missed, missed);
}

#[test]
fn what_a_reader_looks_at_stays_also_where_the_writer_does_not_wait() {
    for policy in [Policy::Lossy, Policy::EvictAfter(Duration::from_millis(1))] {
        let (mut writer, subscriber) = Builder::new(8).policy(policy).build::<u64>().expect("the options are valid");
        let mut reader = subscriber.join().expect("a seat");
        assert_eq!(writer.try_write(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), 8);

        let peek = reader.try_peek().expect("there is something");

        assert_eq!(writer.try_write(&[8]), 0, "{policy:?}");
        assert_eq!(peek.slices(), (&[0, 1, 2, 3, 4, 5, 6, 7][..], &[][..]));
        peek.release(3);
        assert_eq!(writer.try_write(&[8]), 1, "{policy:?}");
    }
}

#[test]
fn a_look_at_the_room_takes_nothing_from_a_reader() {
    let (mut writer, subscriber) =
        Builder::new(64).policy(Policy::Lossy).build::<u64>().expect("the options are valid");
    let mut reader = subscriber.join().expect("a seat");
    assert_eq!(writer.try_write(&[0; 63]), 63);
    assert_eq!(reader.try_read(&mut [0; 63]), Ok(63));
    assert_eq!(writer.room(), 64);
    assert_eq!(writer.try_write(&[0; 64]), 64);

    assert_eq!(writer.room(), 0);

    assert_eq!(reader.try_read(&mut [0; 64]), Ok(64));
    assert_eq!(reader.stats().missed, 0);
}

#[test]
fn a_reader_is_evicted_after_its_time_and_the_writer_goes_on() {
    let runtime = runtime(1);
    let (mut writer, subscriber) = Builder::new(8)
        .policy(Policy::EvictAfter(Duration::from_millis(20)))
        .observed_by(&runtime)
        .build::<u64>()
        .expect("the options are valid");
    let (mut slow, fast) = (subscriber.join().expect("a seat"), subscriber.join().expect("a seat"));
    let (tell, told) = mpsc::channel();
    runtime.spawn(move |_| async move { tell.send(count_up(fast, 4).await) }).expect("there is room");
    let start = Instant::now();

    let writing = runtime.spawn(move |_| async move {
        for item in 0..100 {
            writer.write(&[item]).await;
        }
        writer.close();
    });

    assert_ends_well(&runtime, writing.expect("there is room"));
    assert_eq!(told.recv_timeout(LONG), Ok(100));
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert_eq!(slow.try_read(&mut [0; 8]), Err(ReadError::Evicted));
    assert_eq!(slow.try_read(&mut [0; 8]), Err(ReadError::Evicted));
    assert_eq!(observe::streams(&runtime, 9)[0].evicted_total, 1);
}

#[test]
fn a_thread_that_writes_evicts_too() {
    let policy = Policy::EvictAfter(Duration::from_millis(5));
    let (mut writer, subscriber) = Builder::new(8).policy(policy).build::<u64>().expect("the options are valid");
    let mut reader = subscriber.join().expect("a seat");

    writer.blocking_write(&[0; 9]);

    assert_eq!(reader.try_read(&mut [0; 8]), Err(ReadError::Evicted));
}

#[test]
fn readers_come_and_go_and_see_what_is_written_meanwhile() {
    let (mut writer, subscriber) = Builder::new(16).readers_max(2).build::<u64>().expect("the options are valid");
    assert_eq!(writer.try_write(&[0; 100]), 16);
    assert_eq!(writer.try_write(&[0; 84]), 16, "there is no reader to wait for");
    let mut items = [0; 16];

    let mut first = subscriber.join().expect("a seat");
    assert_eq!(first.position(), 32);
    assert_eq!(first.try_read(&mut items), Err(ReadError::Empty));
    writer.try_write_all(&[32, 33]).expect("there is room");
    let mut second = subscriber.join().expect("a seat");
    writer.try_write_all(&[34]).expect("there is room");

    assert_eq!(subscriber.join().map(drop), Err(JoinError { readers_max: 2 }));
    assert_eq!((first.try_read(&mut items), items[2]), (Ok(3), 34));
    assert_eq!((second.try_read(&mut items), items[0]), (Ok(1), 34));
    drop(first);
    let third = subscriber.join().expect("the first has given its seat back");
    assert_eq!((third.position(), writer.readers()), (35, 2));
}

#[test]
fn the_end_of_the_writer_is_seen_after_what_it_has_written() {
    for closes in [true, false] {
        let (mut writer, subscriber) = Builder::new(8).build::<u8>().expect("the options are valid");
        let mut reader = subscriber.join().expect("a seat");
        assert_eq!(writer.try_write(b"end"), 3);
        if closes {
            writer.close();
        } else {
            drop(writer);
        }

        let mut items = [0; 8];
        assert_eq!(reader.try_read(&mut items), Ok(3));
        let end = if closes { ReadError::Ended } else { ReadError::Cut };
        assert_eq!(reader.try_read(&mut items), Err(end));
    }
}

#[test]
fn a_killed_writer_wakes_its_readers_with_the_news() {
    let runtime = runtime(2);
    let (mut writer, subscriber) = Builder::new(8).build::<u8>().expect("the options are valid");
    let (tell, told) = mpsc::channel();
    for _ in 0..3 {
        let (mut reader, tell) = (subscriber.join().expect("a seat"), tell.clone());
        let reads = move |_| async move {
            let mut items = [0; 8];
            let first = reader.read(&mut items).await;
            tell.send((first, reader.read(&mut items).await))
        };
        runtime.spawn(reads).expect("there is room");
    }
    let writing = runtime
        .spawn(|ctx| async move {
            writer.write(&[1]).await;
            ctx.receive().await;
        })
        .expect("there is room");
    wait_for("the first item read", || runtime.is_alive(writing) && observe::idle_progress(&runtime).is_some());

    runtime.exit(writing, ExitReason::Killed);

    for _ in 0..3 {
        assert_eq!(told.recv_timeout(LONG), Ok((Ok(1), Err(ReadError::Cut))));
    }
}

#[test]
fn what_a_process_has_kept_back_is_passed_on_at_the_end_of_its_turn() {
    let runtime = runtime(1);
    // So large that neither side completes a batch, at which it would notify the other.
    let (mut writer, subscriber) = Builder::new(1 << 16).build::<u8>().expect("the options are valid");
    let mut reader = subscriber.join().expect("a seat");
    let (tell, told) = mpsc::channel();
    runtime
        .spawn(move |ctx| async move {
            let mut items = [0; 8];
            let read = reader.read(&mut items).await;
            let _kept = reader;
            tell.send(read).expect("the test waits");
            ctx.receive().await;
        })
        .expect("there is room");
    let (ask, asked) = mpsc::channel();
    let writing = runtime
        .spawn(move |ctx| async move {
            ctx.receive().await;
            writer.write(b"now").await;
            ctx.receive().await;
            ask.send(writer.room()).expect("the test waits");
        })
        .expect("there is room");

    runtime.try_send(writing, ()).expect("its mailbox has room");
    assert_eq!(told.recv_timeout(LONG), Ok(Ok(3)), "the reader is woken while the writer waits for a message");
    runtime.try_send(writing, ()).expect("its mailbox has room");
    assert_eq!(asked.recv_timeout(LONG), Ok(1 << 16), "the reader has passed on what it has read");
}

#[test]
fn a_lazy_writer_wakes_nobody_before_it_flushes() {
    let (mut writer, subscriber) = Builder::new(1024).build::<u8>().expect("the options are valid");
    writer.set_flush(Flush::Lazy);
    let mut reader = subscriber.join().expect("a seat");
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        tell.send(()).expect("the test waits");
        let mut items = [0; 4];
        while reader.blocking_read(&mut items).is_ok() {
            tell.send(()).expect("the test waits");
        }
    });
    told.recv().expect("the thread begins");

    assert_eq!(writer.try_write(&[1]), 1);
    writer.flush();

    told.recv_timeout(LONG).expect("the flush has woken it, or it had not slept yet");
    writer.close();
    thread.join().expect("it ends with the ring");
}

#[test]
fn values_are_cloned_for_each_reader_and_dropped_once() {
    struct Counted(Arc<AtomicUsize>, u32);
    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::Relaxed);
            Self(Arc::clone(&self.0), self.1)
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let live = Arc::new(AtomicUsize::new(0));
    let (mut writer, subscriber) = Builder::new(4).build::<Counted>().expect("the options are valid");
    let mut readers: Vec<_> = (0..3).map(|_| subscriber.join().expect("a seat")).collect();

    for number in 0..10 {
        live.fetch_add(1, Ordering::Relaxed);
        assert!(writer.try_push(Counted(Arc::clone(&live), number)).is_ok());
        for reader in &mut readers {
            assert_eq!(reader.try_next().map(|value| value.1).ok(), Some(number));
        }
    }
    assert_eq!(live.load(Ordering::Relaxed), 4, "the ring keeps one lap");
    live.fetch_add(1, Ordering::Relaxed);
    for _ in 0..4 {
        live.fetch_add(1, Ordering::Relaxed);
        assert!(writer.try_push(Counted(Arc::clone(&live), 0)).is_ok());
    }
    assert!(writer.try_push(Counted(Arc::clone(&live), 0)).is_err());
    drop((writer, readers, subscriber));
    assert_eq!(live.load(Ordering::Relaxed), 0);
}

#[test]
fn a_grant_is_written_in_place_and_round_the_end() {
    let (mut writer, subscriber) = Builder::new(8).build::<u32>().expect("the options are valid");
    let mut reader = subscriber.join().expect("a seat");
    let mut items = [0; 8];
    for round in 0..5_u32 {
        let mut grant = writer.try_grant(6).expect("there is room");
        let (one, other) = grant.slices();
        for (place, item) in one.iter_mut().chain(other).enumerate() {
            *item = round * 10 + place as u32;
        }
        grant.commit(5);

        assert_eq!(reader.try_read(&mut items), Ok(5));
        assert_eq!(items[..5], [0, 1, 2, 3, 4].map(|place| round * 10 + place));
    }
    writer.try_grant(8).expect("there is room").commit(0);
    assert_eq!(writer.written(), 25);
    assert_eq!(writer.try_grant(9).map(drop), Err(ChunkError::TooLarge { chunk: 9, capacity: 8 }));
}

#[test]
fn bad_numbers_are_named() {
    let error = |builder: Builder| builder.build::<u8>().map(drop).expect_err("it is out of range").to_string();

    assert_eq!(error(Builder::new(0)), "ring capacity of 0 items is not a power of two from 1 to 2^40");
    assert_eq!(error(Builder::new(1000)), "ring capacity of 1000 items is not a power of two from 1 to 2^40");
    assert_eq!(error(Builder::new(8).readers_max(0)), "0 readers are not between 1 and 65536");
    assert_eq!(error(Builder::new(8).readers_max(70_000)), "70000 readers are not between 1 and 65536");
    let policy = Policy::EvictAfter(Duration::ZERO);
    assert_eq!(
        error(Builder::new(8).policy(policy)),
        "eviction after 0ns leaves a reader too little time: use at least 1 ms"
    );
    let huge = Builder::new(1 << 40).build::<[u64; 1 << 24]>().map(drop);
    assert_eq!(huge, Err(RingError::Memory { capacity: 1 << 40, item_bytes: 1 << 27 }));
    let (mut writer, subscriber) = Builder::new(8).padding(Padding::Line).build::<u8>().expect("the options are valid");
    let _reader = subscriber.join().expect("a seat");
    let error = writer.try_write_all(&[0; 9]).expect_err("it is too large");
    assert_eq!(error.to_string(), "a chunk of 9 items is larger than the ring of 8");
    writer.try_write_all(&[0; 6]).expect("there is room");
    let error = writer.try_write_all(&[0; 3]).expect_err("it is full");
    assert_eq!(error.to_string(), "no room for 3 items: 2 are free");
    let lossy = Builder::new(8).policy(Policy::Lossy).build::<u8>();
    let (mut writer, mut reader) = lossy.map(|(writer, all)| (writer, all.join().expect("a seat"))).expect("as above");
    writer.try_write_all(&[0; 5]).expect("there is room");
    assert!(writer.try_write_all(&[0; 9]).is_err() && writer.try_grant(9).is_err());
    assert_eq!(reader.try_read(&mut [0; 8]), Ok(5), "a chunk that can never fit skips no items");
}

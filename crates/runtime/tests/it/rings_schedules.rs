//! Rings under seeded schedules: in every order of execution, nothing is lost and no process sleeps forever.

use std::time::Duration;

use rusm_runtime::ring::{Builder, Policy, ReadError};
use rusm_runtime::{Down, ExitReason, test};

#[test]
fn everything_is_read_whatever_the_schedule() {
    test::explore(0..300, |ctx| async move {
        let (mut writer, subscriber) = Builder::new(4).readers_max(4).build::<u64>().expect("the options are valid");
        let me = ctx.pid();
        for chunk in 1..=3 {
            let mut reader = subscriber.join().expect("a seat");
            ctx.spawn(move |ctx| async move {
                let (mut items, mut next) = ([0; 3], 0);
                while let Ok(count) = reader.read(&mut items[..chunk]).await {
                    for item in &items[..count] {
                        assert_eq!(*item, next);
                        next += 1;
                    }
                    if next % 4 == 0 {
                        ctx.yield_now().await;
                    }
                }
                ctx.send(me, next).await;
            });
        }
        ctx.spawn(move |_| async move {
            for first in 0..10 {
                writer.write(&[3 * first, 3 * first + 1, 3 * first + 2]).await;
            }
            writer.close();
        });
        for _ in 0..3 {
            assert_eq!(ctx.receive_of::<u64>().await, 30);
        }
    });
}

#[test]
fn small_steps_are_enough_for_a_reader_that_asks_for_more_by_message() {
    // The reader takes less than half of the ring, then waits for a message that is sent only after further writes.
    test::explore(0..200, |ctx| async move {
        let (mut writer, subscriber) = Builder::new(8).build::<u64>().expect("the options are valid");
        let mut reader = subscriber.join().expect("a seat");
        let reading = ctx.spawn(move |ctx| async move {
            let mut items = [0; 2];
            for _ in 0..10 {
                reader.read_exact(&mut items).await.expect("the writer is there");
                ctx.receive_of::<()>().await;
            }
        });
        ctx.link(reading);
        let ended = ctx.monitor(reading);
        writer.write(&[0; 8]).await;
        for _ in 0..10 {
            writer.write(&[0; 2]).await;
            ctx.send(reading, ()).await;
        }
        assert_eq!(ctx.receive_of::<Down>().await.reference, ended);
    });
}

#[test]
fn the_death_of_a_reader_at_any_point_lets_the_writer_go_on() {
    test::explore(0..300, |ctx| async move {
        let (mut writer, subscriber) = Builder::new(2).build::<u64>().expect("the options are valid");
        let mut reader = subscriber.join().expect("a seat");
        let victim = ctx.spawn(move |_| async move { while reader.read(&mut [0]).await.is_ok() {} });
        let killer = ctx.spawn(move |ctx| async move {
            ctx.receive_of::<()>().await;
            ctx.exit(victim, ExitReason::Killed);
        });
        for item in 0..20 {
            if item == 5 {
                ctx.send(killer, ()).await;
            }
            writer.write(&[item]).await;
        }
        while writer.readers() > 0 {
            ctx.yield_now().await;
        }
    });
}

#[test]
fn the_death_of_a_writer_at_any_point_is_told_to_every_reader() {
    test::explore(0..300, |ctx| async move {
        let (mut writer, subscriber) = Builder::new(2).build::<u64>().expect("the options are valid");
        let me = ctx.pid();
        for _ in 0..2 {
            let mut reader = subscriber.join().expect("a seat");
            ctx.spawn(move |ctx| async move {
                loop {
                    if let Err(end) = reader.read(&mut [0]).await {
                        break ctx.send(me, end).await;
                    }
                }
            });
        }
        let victim = ctx.spawn(|_| async move {
            for item in 0.. {
                writer.write(&[item]).await;
            }
        });
        ctx.yield_now().await;
        ctx.exit(victim, ExitReason::Killed);
        for _ in 0..2 {
            assert_eq!(ctx.receive_of::<ReadError>().await, ReadError::Cut);
        }
    });
}

#[test]
fn eviction_comes_at_its_virtual_time_and_takes_only_the_slow() {
    test::explore(0..100, |ctx| async move {
        let start = tokio::time::Instant::now();
        let hour = Duration::from_hours(1);
        let (mut writer, subscriber) =
            Builder::new(4).policy(Policy::EvictAfter(hour)).build::<u64>().expect("the options are valid");
        let (mut slow, mut fast) = (subscriber.join().expect("a seat"), subscriber.join().expect("a seat"));
        ctx.spawn(move |_| async move { while fast.read(&mut [0; 4]).await.is_ok() {} });
        for item in 0..12 {
            writer.write(&[item]).await;
        }
        assert_eq!(start.elapsed(), hour);
        assert_eq!(slow.try_read(&mut [0]), Err(ReadError::Evicted));
        assert_eq!(writer.readers(), 2, "the evicted one keeps its seat until it is dropped");
    });
}

#[test]
fn a_lossy_writer_never_waits_and_its_readers_account_for_everything() {
    test::explore(0..300, |ctx| async move {
        let (mut writer, subscriber) =
            Builder::new(8).policy(Policy::Lossy).build::<u64>().expect("the options are valid");
        let me = ctx.pid();
        for _ in 0..2 {
            let mut reader = subscriber.join().expect("a seat");
            ctx.spawn(move |ctx| async move {
                let mut next = 0;
                loop {
                    let mut items = [0; 3];
                    match reader.read(&mut items).await {
                        Ok(count) => {
                            assert!(items[..count].iter().copied().eq(next..next + count as u64));
                            next += count as u64;
                        }
                        Err(ReadError::Missed { items }) => next += items,
                        Err(_) => break,
                    }
                    ctx.yield_now().await;
                }
                ctx.send(me, next).await;
            });
        }
        ctx.spawn(move |ctx| async move {
            for item in 0..60 {
                writer.write(&[item]).await;
                if item % 5 == 0 {
                    ctx.yield_now().await;
                }
            }
            writer.close();
        });
        for _ in 0..2 {
            assert_eq!(ctx.receive_of::<u64>().await, 60);
        }
    });
}

#[test]
fn a_write_that_was_given_up_does_not_hasten_a_later_eviction() {
    const PATIENCE: Duration = Duration::from_millis(300);
    test::run(1, |ctx| async move {
        let builder = Builder::new(4).policy(Policy::EvictAfter(PATIENCE));
        let (mut writer, subscriber) = builder.build::<u8>().expect("the options are valid");
        let mut reader = subscriber.join().expect("a seat");
        let mut items = [0; 4];
        writer.write(&[1; 4]).await;
        assert!(tokio::time::timeout(PATIENCE / 6, writer.write(&[2])).await.is_err());
        assert_eq!(reader.try_read(&mut items).expect("open"), 4);
        reader.flush();
        assert_eq!(writer.try_write(&[3; 4]), 4);
        ctx.sleep(2 * PATIENCE).await;

        let again = tokio::time::timeout(PATIENCE / 3, writer.write(&[4])).await;

        assert!(again.is_err(), "the reader's time starts when the ring is full");
        assert_eq!(reader.try_read(&mut items).expect("it is not evicted"), 4);
    });
}

#[test]
fn a_reader_has_its_whole_time_after_a_write_that_was_given_up() {
    const PATIENCE: Duration = Duration::from_millis(300);
    test::run(1, |ctx| async move {
        let builder = Builder::new(4).policy(Policy::EvictAfter(PATIENCE));
        let (mut writer, subscriber) = builder.build::<u8>().expect("the options are valid");
        let mut reader = subscriber.join().expect("a seat");
        writer.write(&[1; 4]).await;
        assert!(tokio::time::timeout(PATIENCE / 6, writer.write(&[2])).await.is_err());
        ctx.sleep(2 * PATIENCE).await;

        assert!(tokio::time::timeout(PATIENCE / 3, writer.push(2)).await.is_err());

        assert_eq!(reader.try_read(&mut [0; 4]).expect("it is not evicted"), 4);
    });
}

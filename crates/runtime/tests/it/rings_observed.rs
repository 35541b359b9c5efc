//! Rings as observers see them: readers, writers, and the reader that a writer waits for.

use std::pin::Pin;
use std::sync::mpsc;
use std::time::Duration;

use crate::rings::{assert_ends_well, count_up, runtime, wait_for};
use futures_util::FutureExt;
use rusm_runtime::ring::{Builder, Writer};
use rusm_runtime::{Pid, Runtime, observe};

/// Spawns a process that writes 200 items, one by one, and closes the ring.
fn writes_200(runtime: &Runtime, mut writer: Writer<u64>) -> Pid {
    let body = move |_| async move {
        for item in 0..200 {
            writer.write(&[item]).await;
        }
        writer.close();
    };
    runtime.spawn(body).expect("there is room")
}

#[test]
fn who_reads_slower_than_the_ring_is_seen_to_block_the_writer() {
    let runtime = runtime(2);
    let (writer, subscriber) =
        Builder::new(64).label("samples").observed_by(&runtime).build::<u64>().expect("the options are valid");
    let (slow, fast) = (subscriber.join().expect("a seat"), subscriber.join().expect("a seat"));
    let slow = runtime
        .spawn(move |ctx| async move {
            let mut reader = slow;
            let mut items = [0; 64];
            reader.read_exact(&mut items[..8]).await.expect("as many are written");
            ctx.receive().await;
            while reader.read(&mut items).await.is_ok() {}
        })
        .expect("there is room");
    runtime.spawn(move |_| async move { assert_eq!(count_up(fast, 16).await, 200) }).expect("there is room");
    let writing = writes_200(&runtime, writer);

    let mut seen = None;
    wait_for("a blocked writer", || {
        let views = observe::streams(&runtime, 1);
        seen = views.into_iter().find(|ring| ring.waits_for.is_some_and(|reader| reader.pid == Some(slow)));
        seen.as_ref().is_some_and(|ring| ring.fill == 64 && ring.written_total == 72)
    });
    let seen = seen.expect("it was found");
    assert_eq!((seen.label.as_deref(), seen.capacity, seen.readers), (Some("samples"), 64, 2));
    assert_eq!((seen.writer, seen.written_total, seen.item_bytes), (Some(writing), 72, 8));
    assert_eq!((seen.slowest.len(), seen.slowest[0].pid, seen.slowest[0].lag), (1, Some(slow), 64));

    runtime.try_send(slow, ()).expect("its mailbox has room");
    assert_ends_well(&runtime, writing);
    drop(subscriber);
    runtime.wait(slow);
    wait_for("an empty list", || observe::streams(&runtime, 1).is_empty());
}

#[test]
fn a_reader_that_never_reads_is_seen_to_block_the_writer_by_who_joined_or_who_waited_first() {
    let runtime = runtime(2);
    let (writer, subscriber) = Builder::new(64).observed_by(&runtime).build::<u64>().expect("the options are valid");
    let joins = subscriber.clone();
    let idle = runtime
        .spawn(move |ctx| async move {
            let _reader = joins.join().expect("a seat");
            ctx.receive().await;
        })
        .expect("there is room");
    // A reader that joined outside of processes belongs to the process that waits on it.
    let handed = subscriber.join().expect("a seat");
    let (tell, told) = mpsc::channel();
    let waits = runtime
        .spawn(move |ctx| async move {
            let (mut reader, mut items) = (handed, [0; 1]);
            let first = reader.read_exact(&mut items);
            drop(tokio::time::timeout(Duration::ZERO, first).await);
            tell.send(()).expect("the test waits for it");
            ctx.receive().await;
            drop(reader);
        })
        .expect("there is room");
    told.recv().expect("it has waited");
    wait_for("two readers", || subscriber.readers() == 2);
    let writing = writes_200(&runtime, writer);
    let blocks = |pid| {
        let views = observe::streams(&runtime, 1);
        views.into_iter().any(|ring| ring.waits_for.is_some_and(|reader| reader.pid == Some(pid)))
    };

    wait_for("one of them blocks the writer", || blocks(idle) || blocks(waits));
    runtime.try_send(idle, ()).expect("its mailbox has room");
    wait_for("the other blocks the writer", || blocks(waits));
    runtime.try_send(waits, ()).expect("its mailbox has room");

    assert_ends_well(&runtime, writing);
}

/// A write that may have to wait.
type Wait<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

#[test]
fn a_writer_that_has_given_up_waiting_blocks_on_nobody() {
    let runtime = runtime(1);
    let (mut writer, subscriber) = Builder::new(4).observed_by(&runtime).build::<u64>().expect("the options are valid");
    let _reader = subscriber.join().expect("a seat");
    writer.write(&[0; 4]).now_or_never().expect("there is room");
    let is_blocked = || observe::streams(&runtime, 1)[0].waits_for.is_some();

    let waits: [fn(&mut Writer<u64>) -> Wait<'_>; 3] = [
        |writer| Box::pin(writer.push(0)),
        |writer| Box::pin(writer.write(&[0])),
        |writer| Box::pin(async { drop(writer.grant(1).await) }),
    ];
    for wait in waits {
        let mut wait = wait(&mut writer);
        assert!(wait.as_mut().now_or_never().is_none());
        assert!(is_blocked());
        drop(wait);
        assert!(!is_blocked());
    }
}

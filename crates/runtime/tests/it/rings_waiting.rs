//! A waiting writer is woken when the room that it needs is free, whatever else readers do or leave undone.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rusm_runtime::ring::{Builder, Flush, Policy, Writer};
use rusm_runtime::{Config, Handle, Runtime};

const LONG: Duration = Duration::from_mins(2);
const CAPACITY: usize = 8;

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("the schedulers start")
}

/// Spawns a process that writes one item more than fits; the returned channel gets `()` when it has.
fn writes_one_more(runtime: &Handle, mut writer: Writer<u64>) -> Receiver<()> {
    let (tell, told) = mpsc::channel();
    let body = move |_| async move {
        writer.push(CAPACITY as u64).await;
        tell.send(())
    };
    runtime.spawn(body).expect("there is room");
    told
}

#[test]
fn one_that_rests_and_is_not_in_the_way_is_not_waited_for() {
    let runtime = runtime();
    let (mut writer, subscriber) = Builder::new(CAPACITY).build::<u64>().expect("the options are valid");
    let (mut rests, mut reads) = (subscriber.join().expect("a seat"), subscriber.join().expect("a seat"));
    assert_eq!(writer.try_write(&[0; CAPACITY]), CAPACITY);
    let (tell, told) = mpsc::channel();
    let body = move |ctx: rusm_runtime::Context| async move {
        rests.read(&mut [0]).await.expect("there are items");
        tell.send(()).expect("the test waits");
        // The reader keeps its slot, and waits for something else.
        ctx.receive().await;
        drop(rests);
    };
    runtime.spawn(body).expect("there is room");
    told.recv_timeout(LONG).expect("it reads");

    let written = writes_one_more(&runtime, writer);
    let body = move |_| async move { while reads.read(&mut [0; CAPACITY]).await.is_ok() {} };
    runtime.spawn(body).expect("there is room");

    assert_eq!(written.recv_timeout(LONG), Ok(()));
}

#[test]
fn a_reader_that_waits_for_something_else_after_one_item_has_given_it_back() {
    for flush in [Flush::Turn, Flush::Eager] {
        let runtime = runtime();
        let (mut writer, subscriber) = Builder::new(CAPACITY).build::<u64>().expect("the options are valid");
        let mut reader = subscriber.join().expect("a seat");
        assert_eq!(writer.try_write(&[0; CAPACITY]), CAPACITY);
        reader.set_flush(flush);

        let written = writes_one_more(&runtime, writer);
        let body = move |ctx: rusm_runtime::Context| async move {
            reader.read(&mut [0]).await.expect("there are items");
            ctx.receive().await;
            drop(reader);
        };
        runtime.spawn(body).expect("there is room");

        assert_eq!(written.recv_timeout(LONG), Ok(()), "{flush:?}");
    }
}

#[test]
fn outside_of_processes_each_read_is_heard_of_at_once() {
    let (mut writer, subscriber) = Builder::new(CAPACITY).build::<u64>().expect("the options are valid");
    let mut reader = subscriber.join().expect("a seat");
    assert_eq!(writer.try_write(&[0; CAPACITY]), CAPACITY);

    let thread = std::thread::spawn(move || {
        writer.blocking_write(&[CAPACITY as u64]);
        writer
    });
    assert_eq!(reader.try_read(&mut [0]), Ok(1));

    drop(thread.join().expect("there is room for it"));
}

#[test]
fn a_look_that_is_never_given_back_leaves_the_reader_where_it_was() {
    let (mut writer, subscriber) =
        Builder::new(CAPACITY).policy(Policy::Lossy).build::<u64>().expect("the options are valid");
    let mut reader = subscriber.join().expect("a seat");
    assert_eq!(writer.try_write(&[1, 2, 3]), 3);

    std::mem::forget(reader.try_peek().expect("there are items"));

    assert_eq!((reader.try_next(), reader.try_next()), (Ok(1), Ok(2)));
    assert_eq!(reader.try_peek().map(|peek| peek.len()), Ok(1));
    assert_eq!(reader.stats().missed, 0);
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker of another executor");
    }
}

struct Tells(Sender<()>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        self.0.send(()).expect("the test waits");
    }
}

#[test]
fn a_waker_that_panics_is_not_the_writers_and_the_next_reader_is_woken() {
    let (mut writer, subscriber) = Builder::new(CAPACITY).build::<u64>().expect("the options are valid");
    let (mut panics, mut reads) = (subscriber.join().expect("a seat"), subscriber.join().expect("a seat"));
    let (tell, told) = mpsc::channel();
    let wakers = [Waker::from(Arc::new(Panics)), Waker::from(Arc::new(Tells(tell)))];
    for (reader, waker) in [&mut panics, &mut reads].into_iter().zip(&wakers) {
        assert_eq!(reader.poll_read(&mut Context::from_waker(waker), &mut [0]), Poll::Pending);
    }

    assert_eq!(writer.try_write(&[7]), 1);
    writer.flush();

    assert_eq!(told.try_recv(), Ok(()));
    assert_eq!((reads.try_next(), panics.try_next()), (Ok(7), Ok(7)));
}

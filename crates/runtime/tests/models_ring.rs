//! The cursors of a ring under every interleaving that loom explores.
//!
//! The files under test are compiled here over loom's atomics. Items are loom cells: a reader that reads an item too
//! early, or a writer that overwrites one too soon, fails by itself, and a lost wake-up is a deadlock. Models also run
//! without each of the fences, and loom must detect that.

#![expect(unsafe_code, reason = "reads loom cells, which check every access")]
#![expect(dead_code, reason = "the models use only parts of the files under test")]

mod sync {
    use std::cell::Cell;

    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    }
    pub(crate) use crate::locks::Mutex;

    /// Subset of `FenceSite` in `src/sync.rs`: the fences of rings.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum FenceSite {
        Wake,
        Sleep,
        Move,
        Park,
        Join,
        Look,
    }

    thread_local! {
        // Loom runs all threads of a model on one system thread, so each test has its own value.
        static OMITTED_FENCE: Cell<Option<FenceSite>> = const { Cell::new(None) };
    }

    pub(crate) fn omit_fence(side: Option<FenceSite>) {
        OMITTED_FENCE.set(side);
    }

    pub(crate) fn overwrite(word: &atomic::AtomicU64, value: u64, order: atomic::Ordering) {
        word.swap(value, order);
    }

    pub(crate) fn store_load(side: FenceSite) {
        if OMITTED_FENCE.get() != Some(side) {
            atomic::fence(atomic::Ordering::SeqCst);
        }
    }
}
#[path = "models/locks.rs"]
mod locks;
mod panics {
    pub(crate) fn wake(waker: std::task::Waker) {
        waker.wake();
    }
}

mod runtime {
    pub(crate) use crate::panics;
}
#[path = "../src/stream/ring/cursors.rs"]
mod cursors;
#[path = "../src/stream/ring/read_cursor.rs"]
mod read_cursor;
#[path = "../src/stream/ring/reader_slots.rs"]
mod reader_slots;
#[path = "../src/stream/ring/write_cursor.rs"]
mod write_cursor;

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use cursors::{Available, Cursors, Ended, Guard};
use read_cursor::ReaderCursor;
use reader_slots::ReaderSlots;
use sync::FenceSite;
use write_cursor::WriterCursor;

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A thread that sleeps until it is woken.
#[derive(Default)]
struct Sleeper {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Sleeper {
    fn wake(self: std::sync::Arc<Self>) {
        *self.woken.lock().expect("it is not poisoned") = true;
        self.changed.notify_one();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let sleeper = std::sync::Arc::new(Sleeper::default());
    let waker = Waker::from(std::sync::Arc::clone(&sleeper));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => {
                let mut woken = sleeper.woken.lock().expect("it is not poisoned");
                while !std::mem::take(&mut *woken) {
                    woken = sleeper.changed.wait(woken).expect("it is not poisoned");
                }
            }
        }
    }
}

/// A ring of numbers in loom cells.
struct Ring {
    cursors: Cursors,
    items: Vec<UnsafeCell<u64>>,
}

impl Ring {
    fn new(capacity: usize, reader_slots: usize, guard: Guard) -> Arc<Self> {
        Arc::new(Self {
            cursors: Cursors::new(capacity as u64, ReaderSlots::new(reader_slots, 0), guard),
            items: (0..capacity).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    fn item(&self, position: u64) -> &UnsafeCell<u64> {
        &self.items[position as usize % self.items.len()]
    }

    /// Waits for room, writes the next item (its position plus 1), and wakes readers if that is due.
    fn write(&self, writer: &mut WriterCursor) {
        self.write_quietly(writer);
        if writer.is_wake_due() {
            writer.wake(&self.cursors);
        }
    }

    /// Waits for room and writes the next item, without waking readers.
    fn write_quietly(&self, writer: &mut WriterCursor) {
        block_on(poll_fn(|cx| writer.poll_room(&self.cursors, cx, 1)));
        self.put(writer);
    }

    fn put(&self, writer: &mut WriterCursor) {
        let position = writer.head();
        // SAFETY: the cursors guarantee that no reader reads it; loom checks it.
        self.item(position).with_mut(|item| unsafe { *item = position + 1 });
        writer.publish(&self.cursors, 1);
    }

    /// Reads one item, and adds the number of items missed before it to `missed`. Returns false at the end.
    fn read(&self, reader: &mut ReaderCursor, missed: &mut u64) -> bool {
        loop {
            match block_on(poll_fn(|cx| reader.poll_available(&self.cursors, cx))) {
                Available::End(_) | Available::Evicted => return false,
                Available::Items(_) => {}
            }
            let Some(gap) = reader.begin(&self.cursors) else { return false };
            *missed += gap;
            if reader.available(&self.cursors, 1) > 0 {
                self.take(reader);
                return true;
            }
            self.release(reader, 0);
        }
    }

    fn take(&self, reader: &mut ReaderCursor) {
        let position = reader.tail();
        // SAFETY: the cursors guarantee that it is written and not overwritten; loom checks it.
        let item = self.item(position).with(|item| unsafe { *item });
        assert_eq!(item, position + 1);
        self.release(reader, 1);
    }

    fn release(&self, reader: &mut ReaderCursor, count: u64) {
        reader.advance(count);
        reader.give_back(&self.cursors, count, false);
    }

    fn read_all(&self, mut reader: ReaderCursor) -> u64 {
        let (mut count, mut missed) = (0, 0);
        while self.read(&mut reader, &mut missed) {
            count += 1;
        }
        assert_eq!(missed, 0);
        self.cursors.leave(&reader);
        count
    }
}

/// Runs a writer of `count` items, and `readers` that each read all of them.
fn streams(capacity: usize, readers: usize, count: u64) {
    let ring = Ring::new(capacity, readers, Guard::Unguarded);
    let threads: Vec<_> = (0..readers)
        .map(|_| {
            let reader = ring.cursors.join().expect("there is a free reader slot");
            let ring = Arc::clone(&ring);
            thread::spawn(move || assert_eq!(ring.read_all(reader), count))
        })
        .collect();
    let mut writer = WriterCursor::new(&ring.cursors);
    for _ in 0..count {
        ring.write(&mut writer);
    }
    ring.cursors.end(Ended::Finished);
    for thread in threads {
        thread.join().expect("loom reports a panic itself");
    }
}

#[test]
fn one_reader_gets_everything_in_order_and_nobody_sleeps_for_ever() {
    explore(2, || streams(2, 1, 3));
}

#[test]
fn two_readers_get_everything_in_order_and_nobody_sleeps_for_ever() {
    explore(1, || streams(1, 2, 2));
}

/// A reader that is woken while it falls asleep must not take the place of another sleeping reader.
#[test]
fn of_two_readers_that_sleep_time_and_again_none_is_forgotten() {
    explore(3, || {
        let ring = Ring::new(2, 2, Guard::Unguarded);
        let threads = [(); 2].map(|()| {
            let mut reader = ring.cursors.join().expect("there is a free reader slot");
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut count = 0;
                while count < 2 {
                    block_on(poll_fn(|cx| reader.poll_available(&ring.cursors, cx)));
                    ring.take(&mut reader);
                    count += 1;
                }
            })
        });
        let mut writer = WriterCursor::new(&ring.cursors);
        for _ in 0..2 {
            ring.put(&mut writer);
            writer.wake(&ring.cursors);
        }
        for thread in threads {
            thread.join().expect("loom reports a panic itself");
        }
    });
}

/// Runs readers that read `reads` single items and rest after each, and a writer that needs `reads` free positions.
fn readers_rest(readers: usize, reads: u64) {
    let ring = Ring::new(4, readers, Guard::Unguarded);
    let joined: Vec<_> = (0..readers).map(|_| ring.cursors.join().expect("there is a free reader slot")).collect();
    let mut writer = WriterCursor::new(&ring.cursors);
    for _ in 0..4 {
        ring.put(&mut writer);
    }
    let rests = |mut reader: ReaderCursor| {
        let ring = Arc::clone(&ring);
        thread::spawn(move || {
            for _ in 0..reads {
                assert!(reader.available(&ring.cursors, 1) > 0);
                ring.take(&mut reader);
                reader.rest(&ring.cursors);
            }
        })
    };
    let threads: Vec<_> = joined.into_iter().map(rests).collect();
    for _ in 0..reads {
        block_on(poll_fn(|cx| writer.poll_room(&ring.cursors, cx, 1)));
        ring.put(&mut writer);
    }
    for thread in threads {
        thread.join().expect("loom reports a panic itself");
    }
}

#[test]
fn a_writer_that_falls_asleep_while_a_reader_comes_to_rest_hears_of_the_room() {
    explore(3, || readers_rest(1, 1));
}

#[test]
fn a_writer_waits_for_no_reader_that_rests_and_is_not_in_its_way() {
    explore(3, || readers_rest(2, 1));
    explore(2, || readers_rest(2, 2));
}

/// Returns a full ring, its writer, and a reader that has read one item in its turn: too few to publish its position.
fn in_a_turn() -> (Arc<Ring>, WriterCursor, ReaderCursor) {
    let ring = Ring::new(16, 1, Guard::Unguarded);
    let mut reader = ring.cursors.join().expect("there is a free reader slot");
    let mut writer = WriterCursor::new(&ring.cursors);
    for _ in 0..16 {
        ring.put(&mut writer);
    }
    ring.take(&mut reader);
    (ring, writer, reader)
}

/// Ends the turn of the process that read from this reader slot, on the thread that ran it.
fn end_of_turn(ring: &Arc<Ring>, reader_slot: usize) -> thread::JoinHandle<()> {
    let ring = Arc::clone(ring);
    thread::spawn(move || ring.cursors.publish_reader(reader_slot))
}

fn a_turn_ends() {
    let (ring, mut writer, reader) = in_a_turn();
    let turn = end_of_turn(&ring, reader.reader_slot());
    ring.write_quietly(&mut writer);
    turn.join().expect("loom reports a panic itself");
}

#[test]
fn a_writer_hears_of_what_was_read_when_the_turn_ends() {
    leave_out_asked_for();
    explore(3, a_turn_ends);
}

#[test]
fn a_turn_that_ends_late_frees_nothing_that_its_reader_still_reads_elsewhere() {
    explore(3, || {
        let (ring, mut writer, mut reader) = in_a_turn();
        let turn = end_of_turn(&ring, reader.reader_slot());
        let elsewhere = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                ring.take(&mut reader);
                ring.cursors.leave(&reader);
            })
        };
        for _ in 0..3 {
            ring.write_quietly(&mut writer);
        }
        turn.join().expect("loom reports a panic itself");
        elsewhere.join().expect("loom reports a panic itself");
    });
}

#[test]
fn a_turn_that_ends_late_frees_nothing_of_whoever_has_the_seat_by_then() {
    explore(3, || {
        let (ring, mut writer, reader) = in_a_turn();
        let turn = end_of_turn(&ring, reader.reader_slot());
        ring.cursors.leave(&reader);
        ring.cursors.join().expect("there is a free reader slot");
        for _ in 0..16 {
            ring.write_quietly(&mut writer);
        }
        assert_eq!(writer.room(&ring.cursors, 1), 0);
        turn.join().expect("loom reports a panic itself");
        assert_eq!(writer.room(&ring.cursors, 1), 0);
    });
}

/// A reader joins while the writer writes, reads what it gets, and leaves.
fn one_comes_and_goes() {
    let ring = Ring::new(1, 1, Guard::Unguarded);
    let guest = {
        let ring = Arc::clone(&ring);
        thread::spawn(move || {
            let mut reader = ring.cursors.join().expect("there is a free reader slot");
            if reader.available(&ring.cursors, 1) > 0 {
                ring.take(&mut reader);
            }
            if reader.available(&ring.cursors, 1) > 0 {
                ring.take(&mut reader);
            }
            ring.cursors.leave(&reader);
        })
    };
    let mut writer = WriterCursor::new(&ring.cursors);
    for _ in 0..3 {
        ring.write_quietly(&mut writer);
    }
    guest.join().expect("loom reports a panic itself");
}

#[test]
fn who_joins_sees_only_what_stays_and_who_leaves_stops_nobody() {
    leave_out_asked_for();
    explore(3, one_comes_and_goes);
}

#[test]
fn a_writer_that_skips_never_touches_what_is_read_and_loses_count_of_nothing() {
    explore(3, || {
        let ring = Ring::new(1, 1, Guard::Skips);
        let mut reader = ring.cursors.join().expect("there is a free reader slot");
        let thread = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let (mut read, mut missed) = (0, 0);
                while ring.read(&mut reader, &mut missed) {
                    read += 1;
                }
                assert_eq!(read + missed, 2);
                ring.cursors.leave(&reader);
            })
        };
        let mut writer = WriterCursor::new(&ring.cursors);
        for _ in 0..2 {
            ring.write(&mut writer);
        }
        ring.cursors.end(Ended::Finished);
        thread.join().expect("loom reports a panic itself");
    });
}

#[test]
fn an_evicted_reader_keeps_what_it_reads_and_gets_nothing_more() {
    explore(3, || {
        let ring = Ring::new(1, 1, Guard::Evicts);
        let mut reader = ring.cursors.join().expect("there is a free reader slot");
        let thread = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                while ring.read(&mut reader, &mut 0) {}
                ring.cursors.leave(&reader);
            })
        };
        let mut writer = WriterCursor::new(&ring.cursors);
        for _ in 0..2 {
            block_on(poll_fn(|cx| {
                let polled = writer.poll_room(&ring.cursors, cx, 1);
                if polled.is_pending() {
                    writer.evict(&ring.cursors, 1);
                }
                // The reader is evicted at once, or marked and then leaves by itself: either way there will be room.
                if writer.room(&ring.cursors, 1) >= 1 { Poll::Ready(1) } else { polled }
            }));
            ring.put(&mut writer);
            writer.wake(&ring.cursors);
        }
        ring.cursors.end(Ended::Finished);
        thread.join().expect("loom reports a panic itself");
    });
}

/// Environment variable with the fence that a child run of this program leaves out.
const LEFT_OUT_VARIABLE: &str = "RUSM_LEFT_OUT";

/// Runs a test of this program in a child process without a fence; returns the output of loom before it aborts.
fn says_without(side: FenceSite, test: &str) -> String {
    let program = std::env::current_exe().expect("a test is a program");
    let run = std::process::Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .env(LEFT_OUT_VARIABLE, format!("{side:?}"))
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("this program can be started");
    assert!(!run.status.success(), "loom did not detect that {side:?} was left out");
    String::from_utf8_lossy(&run.stderr).into_owned()
}

/// Leaves out the fence that [`says_without`] requests.
fn leave_out_asked_for() {
    let asked = std::env::var(LEFT_OUT_VARIABLE).unwrap_or_default();
    let sides = [FenceSite::Wake, FenceSite::Sleep, FenceSite::Move, FenceSite::Park, FenceSite::Join, FenceSite::Look];
    sync::omit_fence(sides.into_iter().find(|side| format!("{side:?}") == asked));
}

#[test]
fn one_item_fits_and_nobody_sleeps_for_ever() {
    leave_out_asked_for();
    explore(3, || streams(1, 1, 2));
}

#[test]
fn without_a_fence_of_the_writer_or_the_readers_somebody_sleeps_for_ever() {
    for side in [FenceSite::Wake, FenceSite::Sleep, FenceSite::Move, FenceSite::Park] {
        let said = says_without(side, "one_item_fits_and_nobody_sleeps_for_ever");
        assert!(said.contains("deadlock"), "{side:?}: {said}");
    }
}

#[test]
fn without_a_fence_when_one_joins_it_reads_what_is_being_overwritten() {
    for side in [FenceSite::Join, FenceSite::Look] {
        let said = says_without(side, "who_joins_sees_only_what_stays_and_who_leaves_stops_nobody");
        assert!(said.contains("Causality violation") || said.contains("left == right"), "{side:?}: {said}");
    }
}

#[test]
fn without_the_fence_at_the_end_of_a_turn_its_writer_sleeps_for_ever() {
    for side in [FenceSite::Move, FenceSite::Park] {
        let said = says_without(side, "a_writer_hears_of_what_was_read_when_the_turn_ends");
        assert!(said.contains("deadlock"), "{side:?}: {said}");
    }
}

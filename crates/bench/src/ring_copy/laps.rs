//! The loops that are timed: chunks through a ring on one thread, and the same copies without one.
//!
//! Each way is a loop of its own, so that the compiler has no more to keep in mind for one than for another. All that is
//! copied begins on a cache line, as in a ring, and on another one in each turn: where an allocator happens to put it can
//! double the time of a copy, and two places whose addresses end alike make a processor wait.

use std::hint::black_box;

use rusm_runtime::ring::{Builder, Flush, Reader, RingError, Writer};

/// Chunks of a lap.
pub(crate) const CHUNKS_PER_LAP: u64 = 1_024;

/// Sends [`CHUNKS_PER_LAP`] chunks through, and gives the first number of the last.
pub(crate) type Lap = Box<dyn FnMut() -> u32>;

/// Numbers that begin on a cache line.
struct Aligned {
    memory: Vec<u32>,
    first: usize,
}

/// Numbers of a cache line.
const LINE: usize = 16;
/// Lines of a page.
const PAGE_LINES: usize = 64;

impl Aligned {
    /// So many, at least `line` lines from where the allocator puts them.
    fn new(len: usize, line: usize) -> Self {
        let memory = vec![0; len + (PAGE_LINES + 1) * LINE];
        let first = memory.as_ptr().align_offset(LINE * size_of::<u32>()) + line % PAGE_LINES * LINE;
        Self { memory, first }
    }

    fn numbers(&mut self, len: usize) -> &mut [u32] {
        &mut self.memory[self.first..][..len]
    }
}

/// A chunk to write and one to read into, elsewhere in each turn.
fn chunks(chunk: usize, turn: usize) -> (Aligned, Aligned) {
    // Steps that have no factor in common with a page.
    (Aligned::new(chunk, turn * 5), Aligned::new(chunk, turn * 23))
}

/// Makes the next chunk another than the last.
#[inline]
fn renew(out: &mut [u32], next: &mut u32) {
    out[0] = *next;
    *next = next.wrapping_add(out.len() as u32);
}

fn ring(capacity: usize) -> Result<(Writer<u32>, Reader<u32>), RingError> {
    let (mut writer, subscriber) = Builder::new(capacity).readers_max(1).build::<u32>()?;
    let mut reader = subscriber.join().expect("the ring has a seat for one");
    writer.set_flush(Flush::Lazy);
    reader.set_flush(Flush::Lazy);
    Ok((writer, reader))
}

/// In and out in at most two copies each.
pub(crate) fn copies(chunk: usize, capacity: usize, turn: usize) -> Result<Lap, RingError> {
    let (mut writer, mut reader) = ring(capacity)?;
    let ((mut out, mut back), mut next) = (chunks(chunk, turn), 0);
    Ok(Box::new(move || {
        let (out, back) = (out.numbers(chunk), back.numbers(chunk));
        for _ in 0..CHUNKS_PER_LAP {
            renew(out, &mut next);
            let written = writer.try_write(black_box(out));
            debug_assert_eq!(written, chunk);
            let read = reader.try_read(back).unwrap_or(0);
            debug_assert_eq!(read, chunk);
            black_box(&*back);
        }
        back[0]
    }))
}

/// Written where it lies, and looked at there.
pub(crate) fn in_place(chunk: usize, capacity: usize, turn: usize) -> Result<Lap, RingError> {
    let (mut writer, mut reader) = ring(capacity)?;
    let ((mut out, _), mut seen, mut next) = (chunks(chunk, turn), 0, 0);
    Ok(Box::new(move || {
        let out = out.numbers(chunk);
        for _ in 0..CHUNKS_PER_LAP {
            renew(out, &mut next);
            if let Ok(mut grant) = writer.try_grant(chunk) {
                let (one, other) = grant.slices();
                let (to_one, to_other) = black_box(&*out).split_at(one.len());
                one.copy_from_slice(to_one);
                if !other.is_empty() {
                    other.copy_from_slice(to_other);
                }
                grant.commit(chunk);
            }
            if let Ok(peek) = reader.try_peek() {
                seen = black_box(peek.slices()).0[0];
                peek.release(chunk);
            }
        }
        seen
    }))
}

/// In and out one by one: what the seed did before its fix.
pub(crate) fn per_item(chunk: usize, capacity: usize, turn: usize) -> Result<Lap, RingError> {
    let (mut writer, mut reader) = ring(capacity)?;
    let ((mut out, mut back), mut next) = (chunks(chunk, turn), 0);
    Ok(Box::new(move || {
        let (out, back) = (out.numbers(chunk), back.numbers(chunk));
        for _ in 0..CHUNKS_PER_LAP {
            renew(out, &mut next);
            for item in black_box(&*out) {
                let pushed = writer.try_push(*item).is_ok();
                debug_assert!(pushed);
            }
            for place in &mut *back {
                let Ok(item) = reader.try_next() else { break };
                *place = item;
            }
            black_box(&*back);
        }
        back[0]
    }))
}

/// In and out of a buffer of the same size that is no ring.
pub(crate) fn memcpy(chunk: usize, capacity: usize, turn: usize) -> Lap {
    let (mut buffer, mut at) = (Aligned::new(capacity, 0), 0);
    let ((mut out, mut back), mut next) = (chunks(chunk, turn), 0);
    Box::new(move || {
        let (buffer, out, back) = (buffer.numbers(capacity), out.numbers(chunk), back.numbers(chunk));
        for _ in 0..CHUNKS_PER_LAP {
            renew(out, &mut next);
            // Hidden from the compiler, as are the items, so that it leaves out neither of the copies.
            let place = black_box(at);
            buffer[place..place + chunk].copy_from_slice(black_box(out));
            back.copy_from_slice(&black_box(&*buffer)[place..place + chunk]);
            black_box(&*back);
            at = (at + chunk) & (capacity - 1);
        }
        back[0]
    })
}

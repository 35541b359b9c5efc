//! The timed loops: chunks through a ring on one thread, and the same copies without a ring.
//!
//! Each way has its own loop, so that the compiler optimizes all of them alike. All copied data begins on a cache line,
//! as in a ring, and on a different one in each turn: the position chosen by an allocator can double the time of a
//! copy, and two addresses with equal low bits make a processor stall.

use std::hint::black_box;

use rusm_runtime::ring::{Builder, Flush, Reader, RingError, Writer};

/// Number of chunks in a lap.
pub(crate) const CHUNKS_PER_LAP: u64 = 1_024;

/// Moves [`CHUNKS_PER_LAP`] chunks and returns the first number of the last one.
pub(crate) type Lap = Box<dyn FnMut() -> u32>;

/// Numbers that begin on a cache line.
struct Aligned {
    memory: Vec<u32>,
    first: usize,
}

/// Numbers per cache line.
const LINE: usize = 16;
/// Cache lines per page.
const PAGE_LINES: usize = 64;

impl Aligned {
    /// Allocates `len` numbers that begin `line` cache lines (modulo a page) after the first aligned position.
    fn new(len: usize, line: usize) -> Self {
        let memory = vec![0; len + (PAGE_LINES + 1) * LINE];
        let first = memory.as_ptr().align_offset(LINE * size_of::<u32>()) + line % PAGE_LINES * LINE;
        Self { memory, first }
    }

    fn numbers(&mut self, len: usize) -> &mut [u32] {
        &mut self.memory[self.first..][..len]
    }
}

/// Allocates a chunk to write and one to read into, at different positions in each turn.
fn chunks(chunk: usize, turn: usize) -> (Aligned, Aligned) {
    // The steps are coprime to the number of lines in a page, so that all positions occur.
    (Aligned::new(chunk, turn * 5), Aligned::new(chunk, turn * 23))
}

/// Changes the chunk, so that each one differs from the last.
#[inline]
fn renew(out: &mut [u32], next: &mut u32) {
    out[0] = *next;
    *next = next.wrapping_add(out.len() as u32);
}

fn ring(capacity: usize) -> Result<(Writer<u32>, Reader<u32>), RingError> {
    let (mut writer, subscriber) = Builder::new(capacity).readers_max(1).build::<u32>()?;
    let mut reader = subscriber.join().expect("the ring has a slot for one reader");
    writer.set_flush(Flush::Lazy);
    reader.set_flush(Flush::Lazy);
    Ok((writer, reader))
}

/// Writes and reads with at most two copies each.
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

/// Writes and reads in place.
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

/// Writes and reads one item at a time, as the seed did before its fix.
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

/// Copies into and out of a plain buffer of the same size.
pub(crate) fn memcpy(chunk: usize, capacity: usize, turn: usize) -> Lap {
    let (mut buffer, mut at) = (Aligned::new(capacity, 0), 0);
    let ((mut out, mut back), mut next) = (chunks(chunk, turn), 0);
    Box::new(move || {
        let (buffer, out, back) = (buffer.numbers(capacity), out.numbers(chunk), back.numbers(chunk));
        for _ in 0..CHUNKS_PER_LAP {
            renew(out, &mut next);
            // Hide the position and the items from the compiler, so that it does not remove a copy.
            let place = black_box(at);
            buffer[place..place + chunk].copy_from_slice(black_box(out));
            back.copy_from_slice(&black_box(&*buffer)[place..place + chunk]);
            black_box(&*back);
            at = (at + chunk) & (capacity - 1);
        }
        back[0]
    })
}

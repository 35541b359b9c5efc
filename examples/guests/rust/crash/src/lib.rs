//! A process that ends in a requested way, given as its first argument or else in a message.

use std::hint::black_box;

use rusm::{ExitReason, Received};

const WAYS: &str = "return, error, exit, panic, divide, bounds, recurse";

fn run(args: &[String]) -> Result<(), String> {
    if let Some(way) = args.first() {
        return end(way);
    }
    loop {
        if let Received::Message(message) = rusm::receive() {
            return end(&message.text());
        }
    }
}

fn end(way: &str) -> Result<(), String> {
    match way {
        "return" => Ok(()),
        // An error that the process detected itself: the text is its exit reason.
        "error" => Err("no more coins".into()),
        "exit" => rusm::exit(rusm::pid(), ExitReason::ShutdownWith("closing time".into())).map_err(|e| e.to_string()),
        // An error that Rust detects: a trap; the message is in the log.
        "panic" => panic!("asked to panic"),
        // Errors that WebAssembly detects: traps.
        "divide" => Err(format!("{} came of a division by zero", divide(black_box(1), black_box(0)))),
        "bounds" => Err(format!("{} lay outside of the memory", outside())),
        "recurse" => Err(format!("an endless recursion ended at {}", recurse(black_box(1)))),
        other => Err(format!("{other:?} must be one of {WAYS}")),
    }
}

/// Divides without the check that Rust inserts before a division.
#[inline(never)]
fn divide(dividend: u32, divisor: u32) -> u32 {
    // SAFETY: violated on purpose, to provoke a trap; undefined behaviour stays inside this instance.
    let divisor = unsafe { std::num::NonZeroU32::new_unchecked(divisor) };
    dividend / divisor
}

#[inline(never)]
fn outside() -> u8 {
    let place: *const u8 = black_box(usize::MAX - 15) as *const u8;
    // SAFETY: out of bounds on purpose; WebAssembly defines such an access as a trap.
    unsafe { place.read_volatile() }
}

#[inline(never)]
#[expect(unconditional_recursion, reason = "overflows the stack on purpose")]
fn recurse(depth: u64) -> u64 {
    let kept = black_box([depth; 16]);
    recurse(black_box(depth + 1)) + kept[0]
}

rusm::actor!(run);

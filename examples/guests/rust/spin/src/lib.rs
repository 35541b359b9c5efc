//! A process that never gives way, and cannot keep others from running: the node interrupts it.

use std::hint::black_box;

fn run() {
    rusm::label("spinning");
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

rusm::actor!(run);

//! A process that never yields. The node interrupts it, so that other processes can run.

use std::hint::black_box;

fn run() {
    rusm::label("spinning");
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

rusm::actor!(run);

//! Memory of a hundred thousand waiting guests. This test has its own file because the operating system counts memory
//! per program, not per test.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::{Config, Pid, Runtime};
use rusm_wasm::{GuestOptions, Wasm, WasmConfig};

const GUESTS: u32 = 100_000;

/// Returns the resident memory of this program and the size of its page tables, in bytes.
fn resident() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0)
    };
    (kilobytes("VmRSS:") * 1024, kilobytes("VmPTE:") * 1024)
}

#[test]
#[expect(clippy::print_stdout, reason = "prints a figure that is too dependent on the machine to assert")]
fn a_hundred_thousand_guests_wait_and_each_answers() {
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).unwrap();
    let config = WasmConfig { capacity: GUESTS, memory_max_bytes: 65_536, parts_max: 1, ..WasmConfig::default() };
    let wasm = Wasm::start(config).unwrap();
    let parked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guests/prebuilt/wat/parked.wasm");
    let parked = wasm.load_file("parked", &parked).unwrap();
    let before = resident();

    let pids: Vec<Pid> =
        (0..GUESTS).map(|_| wasm.spawn(&runtime, &parked, &GuestOptions::default()).unwrap()).collect();
    let (give, take) = std::sync::mpsc::channel();
    runtime
        .spawn(|ctx| async move {
            let mut answers = 0;
            for pid in pids {
                let answer: Result<Bytes, _> = ctx.call(pid, Bytes::from_static(b"ping"), Duration::from_mins(1)).await;
                answers += u32::from(answer == Ok(Bytes::from_static(b"pong")));
            }
            give.send(answers)
        })
        .unwrap();

    assert_eq!(take.recv_timeout(Duration::from_mins(5)), Ok(GUESTS));
    let after = resident();
    let each = (after.0 - before.0) / u64::from(GUESTS);
    println!(
        "{GUESTS} guests with 64 KiB of memory: {} MiB, {each} bytes each, and {} MiB of page tables",
        after.0 >> 20,
        after.1 >> 20
    );
}

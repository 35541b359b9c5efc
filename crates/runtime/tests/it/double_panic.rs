//! A panic during unwinding aborts the program, as in every Rust program, and the output says why.

use std::process::Command;

use rusm_runtime::{Config, Runtime};

/// Environment variable that is set in the child program, which panics twice.
const CHILD: &str = "RUSM_TEST_DOUBLE_PANIC";

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the second of two panics");
    }
}

#[test]
fn a_panic_while_another_unwinds_is_told_before_the_program_ends() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("a scheduler starts");
        let victim = runtime.spawn(|_| async {
            let _bomb = Bomb;
            panic!("the first of two panics");
        });
        let victim = victim.expect("there is room");
        while runtime.is_alive(victim) {
            std::thread::yield_now();
        }
        return;
    }
    let program = std::env::current_exe().expect("a test is a program");
    let name = "double_panic::a_panic_while_another_unwinds_is_told_before_the_program_ends";

    let output = Command::new(program).args([name, "--exact", "--nocapture"]).env(CHILD, "1").output();

    let output = output.expect("the program runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it is aborted: {:?}", output.status);
    assert!(told.contains("last panic of a process:") && told.contains("double_panic.rs:14:"), "{told}");
    assert!(told.contains("panic in a destructor during cleanup"), "{told}");
    assert!(!told.contains("the first of two panics"), "a single panic is only an exit reason: {told}");
}

//! The line about a crash on standard error, of a program without a subscriber of `tracing`.

use std::process::Command;

use rusm_runtime::{Config, Context, Runtime};

/// Environment variable that is set in the child program, which crashes.
const CHILD: &str = "RUSM_TEST_CRASH_LINE";

/// Runs this test as a program, with a value of `RUST_BACKTRACE`. Returns what it wrote to standard error.
fn program(test: &str, backtrace: &str) -> String {
    let program = std::env::current_exe().expect("a test is a program");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--nocapture"]).env(CHILD, "1").env("RUST_BACKTRACE", backtrace);
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "a crash ends only its process: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_crash_is_one_line_with_pid_names_ancestors_and_reason_and_a_backtrace_if_asked_for() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("a scheduler starts");
        let parent = |ctx: Context| async move {
            ctx.register("shop").expect("the name is free");
            let child = ctx.spawn(|ctx: Context| async move {
                ctx.register("till").expect("the name is free");
                ctx.set_label("the first till");
                panic!("no change left");
            });
            ctx.monitor(child);
            ctx.receive().await;
        };
        runtime.wait(runtime.spawn(parent).expect("there is room"));
        return;
    }
    let name = "crash_lines::a_crash_is_one_line_with_pid_names_ancestors_and_reason_and_a_backtrace_if_asked_for";

    let (plain, with_backtrace, full) = (program(name, "0"), program(name, "1"), program(name, "full"));

    let crashes = |told: &str| told.lines().filter(|line| line.contains("crashed: ")).count();
    assert_eq!((crashes(&plain), crashes(&with_backtrace)), (1, 1), "{plain}{with_backtrace}");
    let line = plain.lines().find(|line| line.contains("crashed: ")).expect("it is there");
    for part in ["process <0.", " till the first till crashed: ", "no change left", " < <0.", " shop)"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    // The place of the panic, and with a backtrace its callers in this file.
    let places = |told: &str| told.matches("crash_lines.rs:").count();
    assert!(places(&plain) == 1 && places(&with_backtrace) > 1, "{plain}{with_backtrace}");
    let scheduler = |told: &str| told.matches("rusm_runtime::scheduler::").count();
    assert!(scheduler(&with_backtrace) == 0 && scheduler(&full) > 0, "{with_backtrace}{full}");
}

#[test]
fn a_panic_hook_that_was_set_before_the_runtime_still_runs() {
    if std::env::var_os(CHILD).is_some() {
        std::panic::set_hook(Box::new(|info| eprintln!("the program's own hook saw: {info}")));
        let config = Config { schedulers: 1, log_crashes: false, ..Config::default() };
        let runtime = Runtime::start(config).expect("a scheduler starts");
        runtime.wait(runtime.spawn(|_| async { panic!("no change left") }).expect("there is room"));
        return;
    }

    let told = program("crash_lines::a_panic_hook_that_was_set_before_the_runtime_still_runs", "0");

    assert!(told.contains("the program's own hook saw:") && told.contains("no change left"), "{told}");
}

//! Lines about processes on standard error, of a program without a subscriber of `tracing`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use rusm_runtime::{Config, Context, Runtime};

/// Environment variable that is set in the child program, which crashes.
const CHILD: &str = "RUSM_TEST_CRASH_LINE";

/// Returns the command that runs this test as a program.
fn command(test: &str) -> Command {
    let program = std::env::current_exe().expect("a test is a program");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--nocapture"]).env(CHILD, "1");
    command
}

/// Runs this test as a program, with a value of `RUST_BACKTRACE`. Returns what it wrote to standard error.
fn program(test: &str, backtrace: &str) -> String {
    let output = command(test).env("RUST_BACKTRACE", backtrace).output().expect("the program runs");
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

/// A message that no process receives.
struct Order;

#[test]
fn a_process_that_receives_none_of_the_types_in_its_mailbox_has_one_line() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("a scheduler starts");
        // One receives the number first and the order later, and one receives neither.
        let late = |ctx: Context| async move {
            ctx.receive_of::<u64>().await;
            ctx.receive_of::<Order>().await;
            ctx.receive_of::<u64>().await;
        };
        let wrong = |ctx: Context| async move { drop(ctx.receive_of::<String>().await) };
        for pid in [runtime.spawn(late), runtime.spawn(wrong)].map(|pid| pid.expect("there is room")) {
            runtime.try_send(pid, Order).expect("it is alive");
            runtime.try_send(pid, 1_u64).expect("it is alive");
        }
        // The test ends this program when it has read the line.
        std::thread::park_timeout(Duration::from_mins(1));
        return;
    }
    let name = "crash_lines::a_process_that_receives_none_of_the_types_in_its_mailbox_has_one_line";
    let mut child = command(name).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the program runs");

    let told = BufReader::new(child.stderr.take().expect("it is a pipe"));
    let line = told.lines().map_while(Result::ok).find(|line| line.contains("waits for messages"));

    child.kill().and_then(|()| child.wait()).expect("it runs");
    let line = line.expect("the line comes before the program ends by itself");
    let expected =
        " waits for messages of type alloc::string::String; in its mailbox are only others (2), the oldest of type ";
    assert!(line.contains(expected) && line.ends_with("::Order"), "{line}");
}

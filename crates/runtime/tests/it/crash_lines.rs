//! Lines about processes on standard error, of a program without a subscriber of `tracing`.

use std::future::pending;
use std::io::{BufRead, BufReader};
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::task::Waker;
use std::time::Duration;

use rusm_runtime::actor::Inbox;
use rusm_runtime::{Config, Context, CrashHook, Down, ExitReason, Message, Runtime, SpawnOptions, Starting};

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
    for part in ["process <0.", " till the first till crashed: ", "no change left", " in <0.", " shop)"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    // The place of the panic, and with a backtrace its callers in this file.
    let places = |told: &str| told.matches("crash_lines.rs:").count();
    assert!(places(&plain) == 1 && places(&with_backtrace) > 1, "{plain}{with_backtrace}");
    let scheduler = |told: &str| told.matches("rusm_runtime::scheduler::").count();
    assert!(scheduler(&with_backtrace) == 0 && scheduler(&full) > 0, "{with_backtrace}{full}");
}

#[test]
fn crash_lines_with_backtraces_are_in_order() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("a scheduler starts");
        runtime.wait(runtime.spawn(|_| async { panic!("the first") }).expect("there is room"));
        runtime.wait(runtime.spawn(|_| async { panic!("the second") }).expect("there is room"));
        runtime.wait(runtime.spawn(|_| async { ExitReason::other("the third") }).expect("there is room"));
        return;
    }

    let told = program("crash_lines::crash_lines_with_backtraces_are_in_order", "1");

    let places = ["the first", "the second", "the third"].map(|reason| told.find(reason));
    assert!(places.is_sorted() && places[0].is_some(), "{told}");
}

#[test]
fn each_type_that_an_actor_does_not_handle_is_named() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("a scheduler starts");
        runtime.block_on(|ctx| async move {
            let receiver = ctx.spawn(|ctx| async move {
                assert_eq!(Inbox::<u32>::new().receive(&ctx).await, 7);
            });
            for _ in 0..12 {
                ctx.send(receiver, "a text").await;
            }
            ctx.send(receiver, 'c').await;
            ctx.send(receiver, 7_u32).await;
            ctx.monitor(receiver);
            ctx.receive_of::<Down>().await;
        });
        return;
    }

    let told = program("crash_lines::each_type_that_an_actor_does_not_handle_is_named", "0");

    for part in ["type &str (1 so far)", "type &str (10 so far)", "type char (1 so far)"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(told.matches("does not handle").count(), 3, "{told}");
}

/// Panics when it is dropped.
struct Fragile(&'static str);

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("{}", self.0);
    }
}

#[test]
fn panics_of_a_killed_process_and_of_a_hook_have_lines() {
    if std::env::var_os(CHILD).is_some() {
        let hook = CrashHook::new(|_| panic!("no room for reports"));
        let config = Config { schedulers: 1, on_crash: Some(hook), ..Config::default() };
        let runtime = Runtime::start(config).expect("a scheduler starts");
        let (tell, told) = mpsc::channel();
        let killed = runtime.spawn(|ctx: Context| async move {
            let _value = Fragile("a lease is open");
            tell.send(()).expect("the program waits");
            ctx.receive_of::<()>().await;
        });
        let killed = killed.expect("there is room");
        told.recv().expect("it runs");
        for letter in ["the first letter", "the second letter"] {
            runtime.try_send(killed, Fragile(letter)).expect("it is alive");
        }
        runtime.exit(killed, ExitReason::Killed);
        runtime.wait(killed);
        return;
    }

    let told = program("crash_lines::panics_of_a_killed_process_and_of_a_hook_have_lines", "0");

    for part in ["crashed: panic at ", "a lease is open"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let outside = told.lines().filter(|line| line.starts_with("a panic outside of the body of a process: "));
    let ends = ["no room for reports", "the first letter", "the second letter"];
    let found = outside.filter(|line| ends.iter().any(|end| line.ends_with(end))).count();
    assert_eq!(found, ends.len(), "{told}");
}

#[test]
fn panics_beyond_the_limit_of_a_second_are_counted() {
    const PANICS: usize = 300;
    if std::env::var_os(CHILD).is_some() {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("a scheduler starts");
        let deaf = runtime.spawn(|_| std::future::pending::<()>()).expect("there is room");
        for _ in 0..PANICS {
            runtime.try_send(deaf, Fragile("a lost letter")).expect("it is alive");
        }
        runtime.exit(deaf, ExitReason::Killed);
        runtime.wait(deaf);
        return;
    }

    let told = program("crash_lines::panics_beyond_the_limit_of_a_second_are_counted", "0");

    let number = |text: &str| text.split(' ').next().and_then(|number| number.parse::<usize>().ok());
    let counted = |line: &str| match line.strip_prefix("a panic outside of the body of a process: ") {
        Some(line) => 1 + line.split_once("; ").and_then(|(_, before)| number(before)).unwrap_or(0),
        None if line.contains(" more lines about panics outside") => number(line).unwrap_or(0),
        None => 0,
    };
    assert_eq!(told.lines().map(counted).sum::<usize>(), PANICS, "{told}");
    assert!(told.lines().count() < PANICS, "{told}");
}

#[test]
fn a_panic_of_blocking_code_whose_process_has_ended_has_a_line() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("a scheduler starts");
        let ((tell, told), (open, gate)) = (mpsc::channel(), mpsc::channel());
        let code = move || {
            tell.send(()).expect("the program waits");
            gate.recv().expect("the program opens it");
            panic!("half a page");
        };
        let printer = runtime.spawn(|ctx: Context| async move { ctx.spawn_blocking(code).await });
        told.recv().expect("it runs");
        runtime.exit(printer.expect("there is room"), ExitReason::Killed);
        runtime.wait(printer.expect("there is room"));
        open.send(()).expect("the code waits");
        // The test has seen the line.
        std::io::stdin().read_line(&mut String::new()).expect("it can be read");
        return;
    }
    let mut command = command("crash_lines::a_panic_of_blocking_code_whose_process_has_ended_has_a_line");
    let mut program = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let lines = BufReader::new(program.stderr.take().expect("it is a pipe")).lines();

    let line = lines.map_while(Result::ok).find(|line| line.contains("half a page"));

    drop(program.stdin.take());
    assert!(program.wait().expect("it ends").success());
    assert!(line.is_some_and(|line| line.starts_with("a panic outside of the body of a process: panic at ")));
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
fn a_process_that_may_wait_for_ever_has_one_line() {
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
        // One selects by a function, one receives numbers beside an order all the time, three wait for a start, and one sends
        // to itself.
        let selects = |ctx: Context| async move { drop(ctx.receive_match(Message::is::<bool>).await) };
        let busy = |ctx: Context| async move {
            loop {
                ctx.receive_of::<u64>().await;
            }
        };
        let starts = |ctx: Context| async move {
            let never = async |_: Context, _starting: Starting| pending::<()>().await;
            drop(ctx.start_link(never).await);
        };
        let fills_its_own = |ctx: Context| async move {
            loop {
                ctx.send(ctx.pid(), Order).await;
            }
        };
        runtime.spawn_with(&SpawnOptions::default().mailbox_capacity(2), fills_its_own).expect("there is room");
        runtime.spawn(starts).expect("there is room");
        // Its first start ends, and the next one does not.
        let starts_two = |ctx: Context| async move {
            let quick = async |_: Context, starting: Starting| starting.acknowledge();
            assert!(ctx.start_link(quick).await.is_ok());
            let never = async |_: Context, _starting: Starting| pending::<()>().await;
            drop(ctx.start_link(never).await);
        };
        runtime.spawn(starts_two).expect("there is room");
        let [_, fed, _] = [runtime.spawn(selects), runtime.spawn(busy), runtime.spawn(starts)].map(|pid| {
            let pid = pid.expect("there is room");
            runtime.try_send(pid, Order).expect("it is alive");
            pid
        });
        let sender = async move |ctx: Context| {
            loop {
                ctx.send(fed, 1_u64).await;
                ctx.sleep(Duration::from_millis(20)).await;
            }
        };
        runtime.spawn(sender).expect("there is room");
        let mut from_outside = pin!(runtime.start(async |_: Context, _starting: Starting| pending::<()>().await));
        assert!(from_outside.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())).is_pending());
        // The test ends this program when it has read the lines.
        std::thread::park_timeout(Duration::from_mins(1));
        return;
    }
    let name = "crash_lines::a_process_that_may_wait_for_ever_has_one_line";
    let mut child = command(name).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the program runs");

    let told = BufReader::new(child.stderr.take().expect("it is a pipe"));
    let lines = told.lines().map_while(Result::ok).filter(|line| line.contains(" waits for "));
    let mut lines: Vec<_> =
        lines.take(8).filter_map(|line| Some(line.split_once(" waits for ")?.1.to_owned())).collect();

    child.kill().and_then(|()| child.wait()).expect("it runs");
    lines.sort();
    let expected = [
        "messages of type alloc::string::String; in its mailbox are only others (2), the oldest of type ",
        "messages of type u64; it leaves others in its mailbox (1), the oldest of type ",
        "messages that it selects; in its mailbox are only others (1), the oldest of type ",
        "room in its own mailbox",
        "something in its start, which it has not acknowledged for seconds",
        "the start of <0.",
        "the start of <0.",
        "the start of <0.",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }
    // The other start, and the wait for room, are logged without messages.
    assert_eq!(lines.iter().filter(|line| line.ends_with("::Order")).count(), 4, "{lines:?}");
}

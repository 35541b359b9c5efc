//! Crashes are told: to the program as data, with names, ancestors and backtrace, and to the parent of a tree that
//! gives up.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use rusm_runtime::supervisor::{ChildSpec, GaveUp, Intensity, Strategy, Supervisor};
use rusm_runtime::{Config, Context, Crash, CrashHook, Exit, ExitReason, Runtime};

/// Starts a runtime that logs nothing and passes its crashes on.
fn told() -> (Runtime, mpsc::Receiver<Crash>) {
    let (tell, crashes) = mpsc::channel();
    let on_crash = CrashHook::new(move |crash| drop(tell.send(crash.clone())));
    let config = Config { schedulers: 1, log_crashes: false, on_crash: Some(on_crash), ..Config::default() };
    (Runtime::start(config).unwrap(), crashes)
}

#[test]
fn a_panic_is_told_with_name_label_ancestors_and_backtrace() {
    let (runtime, crashes) = told();
    let root = runtime.spawn(|ctx| async move {
        ctx.register("root").unwrap();
        ctx.spawn(|ctx| async move {
            ctx.register("worker").unwrap();
            ctx.set_label("job 7");
            panic!("out of {}", "paper");
        });
        ctx.receive().await;
    });
    let crash = crashes.recv().unwrap();
    assert_eq!((crash.name.as_deref(), crash.label.as_deref()), (Some("worker"), Some("job 7")));
    assert_eq!(crash.ancestors, [(root.unwrap(), Some("root".into()))]);
    let ExitReason::Panic(info) = &crash.reason else { panic!("{crash:?}") };
    assert_eq!(info.message, "out of paper");
    assert!(crash.backtrace.is_some());
    assert!(crash.future_type.contains("crashes"), "{}", crash.future_type);
}

#[test]
fn a_panic_of_blocking_code_has_its_place() {
    let (runtime, crashes) = told();
    runtime.spawn(|ctx| async move { ctx.spawn_blocking(|| panic!("no disk")).await }).unwrap();
    let crash = crashes.recv().unwrap();
    let ExitReason::Panic(info) = &crash.reason else { panic!("{crash:?}") };
    assert_eq!(info.message, "no disk");
    assert!(info.location.as_deref().is_some_and(|place| place.contains("crashes.rs:")), "{crash:?}");
}

#[test]
fn the_ancestors_of_a_crash_have_their_ids_as_children() {
    let (runtime, crashes) = told();
    runtime.block_on(|ctx| async move {
        ctx.trap_exits(true);
        let failing = ChildSpec::new("db", |_| async { ExitReason::other("no disk") });
        let stores = Supervisor::new(Strategy::OneForOne).child(failing);
        let tree = Supervisor::new(Strategy::OneForOne).named("shop").child(ChildSpec::supervisor("stores", stores));
        tree.start_link(&ctx).await.expect("the child fails later");
        ctx.receive_of::<Exit>().await;
    });
    let crash = crashes.recv().unwrap();
    assert_eq!(crash.label.as_deref(), Some("db"));
    let called: Vec<_> = crash.ancestors.iter().map(|(_, name)| name.as_deref()).collect();
    assert_eq!(called, [Some("stores"), Some("shop"), None]);
}

#[test]
fn a_crash_that_ends_a_tree_is_one_crash() {
    let (runtime, crashes) = told();
    let root = runtime.spawn(|ctx| async move {
        let child = ChildSpec::new("child", |ctx: Context| async move {
            ctx.trap_exits(true);
            ctx.receive_of::<Exit>().await;
        });
        let inner = Supervisor::new(Strategy::OneForOne).child(child);
        let tree = Supervisor::new(Strategy::OneForOne).child(ChildSpec::supervisor("inner", inner));
        tree.start_link(&ctx).await.expect("it starts");
        panic!("the root");
    });
    runtime.wait(root.unwrap());
    runtime.shutdown(Duration::from_secs(30));

    let reasons: Vec<_> = crashes.try_iter().map(|crash| crash.reason.to_string()).collect();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
}

#[test]
fn an_abnormal_return_is_a_crash_and_an_exit_signal_is_none() {
    let (runtime, crashes) = told();
    let killed = runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).unwrap();
    runtime.exit(killed, ExitReason::other("from outside"));
    runtime.wait(killed);
    let linked = runtime.spawn(|ctx| async move {
        ctx.spawn_link(|_| async { ExitReason::other("by itself") }).expect("there is room");
        ctx.receive().await;
    });
    runtime.wait(linked.unwrap());
    runtime.spawn(|_| async { ExitReason::Shutdown }).unwrap();
    runtime.spawn(|_| async { ExitReason::other("last") }).unwrap();
    let reasons: Vec<_> = crashes.iter().take(2).map(|crash| crash.reason).collect();
    assert_eq!(reasons, [ExitReason::other("by itself"), ExitReason::other("last")]);
}

#[test]
fn a_hook_that_panics_harms_nothing() {
    let on_crash = Some(CrashHook::new(|_| panic!("in the hook")));
    let runtime = Runtime::start(Config { log_crashes: false, on_crash, ..Config::default() }).unwrap();
    for _ in 0..100 {
        let failing = runtime.spawn(|_| async { ExitReason::other("failed") }).unwrap();
        assert!(matches!(runtime.wait(failing), ExitReason::Other(_) | ExitReason::NoProcess));
    }
}

#[test]
fn a_supervisor_that_gives_up_says_which_child_and_why() {
    let (runtime, crashes) = told();
    let period = Duration::from_mins(1);
    let (_, end) = runtime
        .spawn_monitored(move |ctx| async move {
            ctx.trap_exits(true);
            let starts = AtomicU32::new(0);
            let failing = ChildSpec::new("db", move |_| {
                let reason = if starts.fetch_add(1, Ordering::Relaxed) == 0 { "no network" } else { "no disk" };
                async move { ExitReason::other(reason) }
            });
            let tree = Supervisor::new(Strategy::OneForOne).intensity(2, period).child(failing);
            let tree = tree.start_link(&ctx).await.expect("the child fails later");
            assert!(tree.pid() != ctx.pid());
            ctx.receive_of::<Exit>().await.reason
        })
        .unwrap();
    let reason = end.wait();
    let ExitReason::ShutdownWith(detail) = &reason else { panic!("{reason}") };
    let text = "child \"db\" ended again after 2 restarts within 60s: no disk; before that: no network";
    assert_eq!(detail.text(), text);
    let why: &GaveUp = detail.value().expect("the cause is the value");
    assert_eq!((&*why.child, why.intensity), ("db", Intensity { restarts: 2, period }));
    assert_eq!(why.ends, ["no disk", "no disk", "no network"].map(ExitReason::other));
    assert_eq!(crashes.iter().take(3).count(), 3);
}

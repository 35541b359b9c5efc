//! Values in exit reasons, when their last reference is dropped: the drop may panic or use the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as TaskContext, Wake, Waker};
use std::time::Duration;

use crate::eventually::eventually;
use rusm_runtime::observe::{self, EventKind};
use rusm_runtime::{Config, Context, Detail, Exit, ExitReason, Handle, Pid, Runtime};

/// Counts its drops, and panics in each.
struct Bomb(Arc<AtomicU64>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("in the value of a reason");
    }
}

/// Calls several functions of the runtime when it is dropped.
struct Asker {
    runtime: Handle,
    of: Pid,
    asked: Arc<AtomicU64>,
}

impl Drop for Asker {
    fn drop(&mut self) {
        observe::links(&self.runtime, self.of, 10);
        observe::events(&self.runtime, 0, 1);
        self.runtime.exit(self.of, ExitReason::Normal);
        assert!(self.runtime.spawn(|_| async {}).is_ok());
        self.asked.fetch_add(1, Ordering::SeqCst);
    }
}

fn runtime(schedulers: usize) -> Runtime {
    // A short stall of the machine must not make a process count as stuck.
    let stuck_after = Duration::from_mins(10);
    Runtime::start(Config { schedulers, stuck_after, ..Config::default() }).expect("schedulers start")
}

#[test]
fn a_value_that_panics_in_its_drop_ends_no_scheduler() {
    let runtime = runtime(1);
    let dropped = Arc::new(AtomicU64::new(0));
    let bomb = || ExitReason::ShutdownWith(Detail::with("with a bomb", Bomb(Arc::clone(&dropped))));
    let (returned, signalled, trapping) = (bomb(), bomb(), bomb());

    // One reason is returned; one arrives as a signal, and another signal after it has no effect; one is in a message.
    runtime.spawn(move |_| async { returned }).unwrap();
    let waits = runtime.spawn(|_| std::future::pending::<()>()).unwrap();
    runtime.exit(waits, signalled);
    runtime.exit(waits, bomb());
    let traps = runtime
        .spawn(|ctx| async move {
            ctx.trap_exits(true);
            drop(ctx.receive_of::<Exit>().await);
        })
        .unwrap();
    runtime.exit(traps, trapping);

    eventually("all of them went off", || dropped.load(Ordering::SeqCst) == 4);
    eventually("all end", || runtime.process_count() == 0);
    runtime.wait(runtime.spawn(|_| async {}).unwrap());
}

#[test]
fn a_bomb_in_the_drop_of_a_panicking_body_hides_neither_message_nor_place() {
    let runtime = runtime(1);
    let dropped = Arc::new(AtomicU64::new(0));
    let inner = Detail::with("inside", Bomb(Arc::clone(&dropped)));
    let later = Detail::with("of the future", Bomb(Arc::clone(&dropped)));
    let pid = runtime
        .spawn(move |ctx| {
            let mut later = Some(later);
            let waits = async move {
                let _inner = inner;
                ctx.receive().await;
                panic!("the first");
            };
            async move {
                let result = waits.await;
                later.take();
                result
            }
        })
        .unwrap();
    let watch = runtime.watch(pid);

    runtime.try_send(pid, ()).unwrap();

    let ExitReason::Panic(info) = watch.wait() else { panic!("it panicked") };
    assert_eq!(info.message, "the first");
    let place = info.location.clone().unwrap();
    assert!(place.contains("last_words.rs"), "{place}");
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
}

#[test]
fn what_a_forgotten_signal_carries_is_dropped_outside_of_the_locks() {
    let runtime = runtime(2);
    let asked = Arc::new(AtomicU64::new(0));
    let (handle, seen) = (Handle::clone(&runtime), Arc::clone(&asked));
    let unlinker = runtime
        .spawn(move |ctx: Context| async move {
            let curious = Asker { runtime: handle.clone(), of: ctx.pid(), asked: seen };
            let reason = ExitReason::ShutdownWith(Detail::with("with a question", curious));
            let child = ctx.spawn_link(move |_| async { reason }).unwrap();
            // The other scheduler runs the child during this poll: its exit signal has come and not yet taken effect.
            while handle.process_count() > 1 {
                std::hint::spin_loop();
            }
            ctx.unlink(child);
        })
        .unwrap();

    eventually("it asked, and was answered", || asked.load(Ordering::SeqCst) == 1);
    eventually("all end", || runtime.process_count() == 0 && !runtime.is_alive(unlinker));
}

#[test]
fn what_an_old_event_carries_is_dropped_outside_of_the_lock_of_the_events() {
    let runtime = runtime(1);
    let asked = Arc::new(AtomicU64::new(0));
    let curious = Asker { runtime: Handle::clone(&runtime), of: Pid::NONE, asked: Arc::clone(&asked) };
    let first = ExitReason::Other(Detail::with("with a question", curious));
    runtime.spawn(move |_| async { first }).unwrap();
    eventually("it is an event", || observe::event_counts(&runtime).0 == 1);

    // A scheduler records only a few events per slice; waiting for each process gives each a slice of its own.
    while asked.load(Ordering::SeqCst) == 0 && observe::event_counts(&runtime).0 < 2_000 {
        runtime.wait(runtime.spawn(|_| async { ExitReason::other("another") }).unwrap());
    }

    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let newest = observe::events(&runtime, 0, 1);
    assert!(matches!(newest[0].kind, EventKind::Failure { .. }), "{newest:?}");
}

#[test]
fn a_waker_of_a_stranger_that_panics_ends_no_scheduler() {
    struct Stranger(AtomicU64);
    impl Wake for Stranger {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("in a waker");
        }
    }
    let runtime = runtime(1);
    let pid = runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).unwrap();
    let stranger = Arc::new(Stranger(AtomicU64::new(0)));
    let waker = Waker::from(Arc::clone(&stranger));
    let mut watch = std::pin::pin!(runtime.watch(pid));
    assert!(watch.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());

    runtime.try_send(pid, ()).unwrap();

    eventually("it was woken", || stranger.0.load(Ordering::SeqCst) == 1);
    eventually("the process has ended", || runtime.process_count() == 0);
    runtime.wait(runtime.spawn(|_| async {}).unwrap());
}

//! A restarted child does not wait until its supervisor has handled the other messages in its mailbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::eventually::eventually;
use rusm_runtime::observe;
use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor};
use rusm_runtime::{Config, Context, ExitReason, Runtime};

/// A message that keeps the process that drops it busy.
struct Work<F: FnMut()>(F);

impl<F: FnMut()> Drop for Work<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_restarted_child_runs_elsewhere_while_its_supervisor_goes_on() {
    let config = Config { schedulers: 2, stuck_after: Duration::from_mins(10), ..Config::default() };
    let runtime = Runtime::start(config).expect("two schedulers start");
    let starts = Arc::new(AtomicU64::new(0));
    let (tell, told) = mpsc::channel();
    let counted = Arc::clone(&starts);
    let body = move |ctx: Context| {
        let (counted, tell) = (Arc::clone(&counted), tell.clone());
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            tell.send((ctx.pid(), ctx.parent().unwrap())).unwrap();
            drop(ctx.receive().await);
        }
    };
    let tree = Supervisor::new(Strategy::OneForOne).child(ChildSpec::new("child", body));
    let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();
    outside.block_on(tree.start(&runtime)).unwrap();
    let (child, supervisor) = told.recv().unwrap();
    let flag = || Arc::new(AtomicBool::new(false));
    let (inside, go, seen) = (flag(), flag(), flag());

    // The supervisor drops this message while the child ends and another message arrives.
    let (is_inside, may_go) = (Arc::clone(&inside), Arc::clone(&go));
    let first = Work(move || {
        is_inside.store(true, Ordering::SeqCst);
        while !may_go.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
    });
    runtime.try_send(supervisor, first).unwrap();
    eventually("the supervisor works", || inside.load(Ordering::SeqCst));
    runtime.exit(child, ExitReason::Killed);
    eventually("the child has ended", || runtime.process_count() == 1);
    let (counted, tells) = (Arc::clone(&starts), Arc::clone(&seen));
    let second = Work(move || {
        let until = Instant::now() + Duration::from_mins(1);
        while counted.load(Ordering::SeqCst) < 2 && Instant::now() < until {
            std::hint::spin_loop();
        }
        tells.store(counted.load(Ordering::SeqCst) == 2, Ordering::SeqCst);
    });
    runtime.try_send(supervisor, second).unwrap();
    eventually("the other scheduler sleeps", || {
        observe::schedulers(&runtime).iter().filter(|scheduler| scheduler.parks == scheduler.wakes).count() == 1
    });
    go.store(true, Ordering::SeqCst);

    told.recv().unwrap();
    eventually("the child ran before the supervisor was done", || seen.load(Ordering::SeqCst));
}

//! Cost of a supervisor with many children: for its callers, for observers, and for the process that ends it.
//!
//! ```sh
//! cargo run --release -p rusm-benches --bin tree             # 100,000 children
//! cargo run --release -p rusm-benches --bin tree 1000000
//! ```
//!
//! Each line is the median and the longest of all tries by the caller's clock, and the median CPU time of the process.
//! Pages are read twice: from children of which none was ever removed, and from those of a dynamic supervisor with
//! removed children in between.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::future::pending;
use std::time::{Duration, Instant};

use rusm_benches::cpu_time;
use rusm_runtime::supervisor::{ChildSpec, Restart, Shutdown, Strategy, Supervisor, SupervisorRef};
use rusm_runtime::{Config, ExitReason, Handle, Pid, Runtime, observe};
use tokio::runtime::Runtime as Outside;

/// Number of rows of a page on a large screen.
const PAGE: usize = 200;
const TRIES: usize = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let children: usize = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    if children < PAGE {
        return Err(format!("at least {PAGE} children are needed: the last page must be full").into());
    }
    let outside = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for strategy in [Strategy::OneForOne, Strategy::SimpleOneForOne] {
        let runtime = Runtime::start(Config::default())?;
        println!("{strategy:?}, {children} children");
        let supervisor = timed("start", || start(&runtime, &outside, strategy, children));
        measure(&runtime, &outside, supervisor, children);
    }
    Ok(())
}

/// Starts a supervisor with `children` idle children; a dynamic one has removed some in between.
fn start(runtime: &Handle, outside: &Outside, strategy: Strategy, children: usize) -> SupervisorRef {
    let body = |id: String| ChildSpec::new(id, |_| pending::<()>());
    if strategy == Strategy::OneForOne {
        let supervisor = Supervisor::new(strategy).intensity(u32::MAX, Duration::from_secs(1));
        let supervisor = (0..children).fold(supervisor, |supervisor, n| supervisor.child(body(format!("worker-{n}"))));
        return outside.block_on(supervisor.start(runtime)).expect("all children start");
    }
    let template = ChildSpec::template("session", |_, _: usize| pending::<()>()).restart(Restart::Transient);
    let supervisor = Supervisor::simple_one_for_one(template.shutdown(Shutdown::BrutalKill));
    let supervisor = supervisor.intensity(u32::MAX, Duration::from_secs(1)).start(runtime);
    let supervisor = outside.block_on(supervisor).expect("its init starts no child");
    let asks = runtime.spawn(move |ctx| async move {
        for n in 0..children + children / 100 {
            let pid = supervisor.start_one(&ctx, n).await.expect("it starts");
            if n % 101 == 50 {
                supervisor.terminate_child(&ctx, pid).await.expect("it runs");
            }
        }
    });
    assert_eq!(runtime.wait(asks.expect("there is room")), ExitReason::Normal);
    supervisor
}

fn measure(runtime: &Handle, outside: &Outside, supervisor: SupervisorRef, children: usize) {
    let pid = supervisor.pid();
    for (name, offset) in [("page, first", 0), ("page, middle", children / 2), ("page, last", children - PAGE)] {
        tries(name, |_| {
            let page = observe::children(runtime, pid, offset, PAGE).expect("it runs");
            assert_eq!(page.children.len(), PAGE);
        });
    }
    tries("one supervisor's report", |_| {
        assert_eq!(observe::supervisor(runtime, pid).expect("it runs").counts.total(), children);
    });
    tries("which_children", |_| {
        assert_eq!(outside.block_on(supervisor.which_children(runtime)).expect("it runs").len(), children);
    });
    tries("count_children", |_| {
        assert_eq!(outside.block_on(supervisor.count_children(runtime)).expect("it runs").active, children);
    });
    let victims = observe::children(runtime, pid, children / 2, TRIES).expect("it runs").children;
    tries("a restart", |at| {
        let old = victims[at].state.pid().expect("it runs");
        runtime.exit(old, ExitReason::other("crash"));
        let key = victims[at].key;
        wait_until(|| running(runtime, pid, key).is_some_and(|new| new != old));
    });
    timed("the end of the tree", || {
        runtime.exit(pid, ExitReason::Shutdown);
        wait_until(|| runtime.process_count() == 0);
    });
}

fn running(runtime: &Handle, supervisor: Pid, key: observe::ChildKey) -> Option<Pid> {
    observe::child(runtime, supervisor, key)?.0.state.pid()
}

fn wait_until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

fn tries(name: &str, mut what: impl FnMut(usize)) {
    let (mut wall, mut cpu): (Vec<Duration>, Vec<Duration>) = (0..TRIES).map(|at| cost(|| what(at)).0).unzip();
    wall.sort();
    cpu.sort();
    let (median, longest) = (wall[TRIES / 2], wall[TRIES - 1]);
    println!("  {name:<24} {median:>12.1?} median {longest:>12.1?} longest {:>12.1?} CPU", cpu[TRIES / 2]);
}

fn timed<T>(name: &str, what: impl FnOnce() -> T) -> T {
    let ((wall, cpu), result) = cost(what);
    println!("  {name:<24} {wall:>12.1?} {cpu:>43.1?} CPU");
    result
}

/// Returns the elapsed time and the CPU time of this whole process.
fn cost<T>(what: impl FnOnce() -> T) -> ((Duration, Duration), T) {
    let (began, cpu_before) = (Instant::now(), cpu_time());
    let result = what();
    ((began.elapsed(), cpu_time().saturating_sub(cpu_before)), result)
}

//! Observers see the truth: states, busy time, memory, counters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rusm_runtime::observe::{self, EndedGroup, ProcessKind, ProcessState};
use rusm_runtime::{Config, Context, ExitReason, Handle, Pid, Runtime, StartError};

fn runtime() -> Result<Runtime, StartError> {
    Runtime::start(Config { schedulers: 2, ..Config::default() })
}

/// Waits for an expected event; fails after a time by which it surely would have happened.
fn eventually(what: &str, done: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_mins(2);
    while !done() {
        assert!(Instant::now() < until, "{what} did not happen");
        std::thread::yield_now();
    }
}

fn is(runtime: &Handle, pid: Pid, state: ProcessState) -> bool {
    observe::process(runtime, pid).is_some_and(|seen| seen.state == state)
}

#[test]
fn a_process_is_shown_in_the_state_that_it_is_in() -> Result<(), StartError> {
    let runtime = Runtime::start(Config { schedulers: 1, mailbox_capacity: 1, ..Config::default() })?;
    let (stop, stopped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let spawn = |body: fn(Context) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| runtime.spawn(body).unwrap();
    let waiting = spawn(|ctx| Box::pin(async move { drop(ctx.receive().await) }));
    let sleeping = spawn(|ctx| Box::pin(async move { ctx.sleep(Duration::from_hours(1)).await }));
    let io = spawn(|_| {
        Box::pin(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.accept().await.unwrap();
        })
    });
    runtime.try_send(sleeping, ()).unwrap();
    let sending = runtime.spawn(move |ctx| async move { ctx.send(sleeping, ()).await }).unwrap();

    eventually("all four wait", || {
        is(&runtime, waiting, ProcessState::Waiting)
            && is(&runtime, sleeping, ProcessState::Sleeping)
            && is(&runtime, io, ProcessState::Io)
            && is(&runtime, sending, ProcessState::Waiting)
    });
    let (stop_seen, is_stopped) = (Arc::clone(&stop), Arc::clone(&stopped));
    let running = runtime
        .spawn(move |_| async move {
            while !stop_seen.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            is_stopped.store(true, Ordering::Release);
        })
        .unwrap();
    eventually("one runs", || is(&runtime, running, ProcessState::Running));
    runtime.try_send(waiting, ()).unwrap();
    eventually("another is runnable behind it", || is(&runtime, waiting, ProcessState::Runnable));
    stop.store(true, Ordering::Release);
    eventually("both end", || stopped.load(Ordering::Acquire) && !runtime.is_alive(waiting));
    Ok(())
}

/// Returns the CPU time of this thread.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Time of a process that alternates computing with sleep, by its own clocks.
struct PartTime {
    /// CPU time of computing.
    worked: Duration,
    /// Elapsed time of computing: with pauses in which the machine gave the core to others.
    computed: Duration,
    total: Duration,
}

/// Alternates `busy` of computing with `idle` of sleep for `total`.
async fn part_time(ctx: &Context, busy: Duration, idle: Duration, total: Duration) -> PartTime {
    let start = Instant::now();
    let (mut worked, mut computed) = (Duration::ZERO, Duration::ZERO);
    while start.elapsed() < total {
        let (from, begun) = (thread_cpu(), Instant::now());
        while thread_cpu().saturating_sub(from) < busy {
            std::hint::spin_loop();
        }
        worked += thread_cpu().saturating_sub(from);
        computed += begun.elapsed();
        ctx.sleep(idle).await;
    }
    PartTime { worked, computed, total: start.elapsed() }
}

fn busy_ns(runtime: &Handle, pid: Pid) -> u64 {
    observe::process_in_slot(runtime, pid.slot()).map_or(0, |seen| seen.busy_ns())
}

#[test]
fn a_process_that_is_busy_for_a_third_of_the_time_is_shown_so_alone_and_in_a_crowd() -> Result<(), StartError> {
    for crowded in [false, true] {
        let runtime = runtime()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (result, measured) = mpsc::channel();
        if crowded {
            for _ in 0..4 {
                let stop = Arc::clone(&stop);
                runtime
                    .spawn(move |ctx| async move {
                        while !stop.load(Ordering::Relaxed) {
                            ctx.spawn(|_| async {});
                            ctx.yield_now().await;
                        }
                    })
                    .unwrap();
            }
        }
        let pid = runtime
            .spawn(move |ctx| async move {
                let (me, runtime) = (ctx.pid(), ctx.runtime());
                let (busy, idle) = (Duration::from_millis(3), Duration::from_millis(6));
                // The first long poll is not known to be long before it ends: time without a core counts in it.
                part_time(&ctx, busy, idle, Duration::from_millis(50)).await;
                let before_ns = busy_ns(&runtime, me);
                let own = part_time(&ctx, busy, idle, Duration::from_secs(1)).await;
                result.send((own, busy_ns(&runtime, me) - before_ns)).unwrap();
                std::future::pending::<()>().await;
            })
            .unwrap();
        let (own, shown_ns) = measured.recv().unwrap();
        stop.store(true, Ordering::Relaxed);

        // Compare with the process's own measurement: time without a core counts at most where the machine took it away.
        let share = |time: Duration| time.as_secs_f64() / own.total.as_secs_f64();
        let (worked, computed, shown) = (share(own.worked), share(own.computed), share(Duration::from_nanos(shown_ns)));
        let is_true = shown > worked - 0.03 && shown < computed + 0.03;
        assert!(is_true, "crowded {crowded}: {worked:.3} to {computed:.3} shown as {shown:.3}");
        assert!(runtime.is_alive(pid));
    }
    Ok(())
}

#[test]
fn what_ended_processes_used_stays_with_their_kind_and_parent_and_nothing_is_lost() -> Result<(), StartError> {
    let runtime = runtime()?;
    let parents: Vec<Pid> = [(), ()]
        .map(|()| {
            let body = |ctx: Context| async move {
                for number in 0..30_000_u32 {
                    ctx.spawn(move |ctx| async move {
                        if number % 3 == 0 {
                            ctx.set_label("labelled");
                        }
                        std::hint::black_box((0..number % 64).sum::<u32>());
                        ctx.yield_now().await;
                    });
                    ctx.yield_now().await;
                }
                drop(ctx.receive().await);
            };
            runtime.spawn(body).unwrap()
        })
        .to_vec();
    eventually("all children end", || runtime.process_count() == 2 && observe::totals(&runtime).exited == 60_000);
    eventually("the parents wait", || parents.iter().all(|pid| is(&runtime, *pid, ProcessState::Waiting)));

    let groups = observe::ended_groups(&runtime);
    let ended = |of: &dyn Fn(&&EndedGroup) -> bool| groups.iter().filter(of).map(|group| group.ended).sum::<u64>();
    let labelled = ProcessKind::Label("labelled".into());
    assert_eq!(ended(&|group| group.kind == labelled), 20_000);
    assert_eq!(ended(&|group| matches!(group.kind, ProcessKind::Future(_))), 40_000);
    for parent in &parents {
        assert_eq!(ended(&|group| group.parent == Some(*parent)), 30_000);
    }
    let of_ended: u64 = groups.iter().map(|group| group.busy_ns).sum();
    let of_live: u64 = parents.iter().map(|pid| busy_ns(&runtime, *pid)).sum();
    let in_polls: u64 = observe::schedulers(&runtime).iter().map(|scheduler| scheduler.poll_ns).sum();
    assert!(of_ended > 0 && of_live > 0, "{of_ended} {of_live}");
    assert_eq!(of_ended + of_live, in_polls, "rows and ended processes add up to the time in polls");
    Ok(())
}

#[test]
fn crashed_killed_and_taken_along_by_a_link_are_counted_apart() -> Result<(), StartError> {
    let runtime = runtime()?;
    let waits = |ctx: Context| async move { drop(ctx.receive().await) };
    for _ in 0..3 {
        runtime.spawn(|_| async { panic!("for the test") }).unwrap();
    }
    let killed: Vec<Pid> = (0..5).map(|_| runtime.spawn(waits).unwrap()).collect();
    let first = runtime
        .spawn(move |ctx| async move {
            for _ in 0..7 {
                ctx.spawn_link(waits).unwrap();
            }
            drop(ctx.receive().await);
        })
        .unwrap();
    eventually("all wait", || runtime.process_count() == 13 && is(&runtime, first, ProcessState::Waiting));

    for pid in killed {
        runtime.exit(pid, ExitReason::Killed);
    }
    runtime.exit(first, ExitReason::other("for the test"));
    eventually("all end", || runtime.process_count() == 0);

    let totals = observe::totals(&runtime);
    assert_eq!((totals.crashed, totals.killed, totals.linked), (3 + 5 + 1 + 7, 5 + 1, 7));
    Ok(())
}

#[test]
fn of_two_processes_with_short_polls_the_one_that_does_more_is_shown_to_be_busier() -> Result<(), StartError> {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() })?;
    let stop = Arc::new(AtomicBool::new(false));
    let pids: Vec<Pid> = (0..2)
        .map(|weight| {
            let stop = Arc::clone(&stop);
            runtime
                .spawn(move |ctx| async move {
                    while !stop.load(Ordering::Relaxed) {
                        for _ in 0..(1 + 3 * weight) * 20 {
                            std::hint::spin_loop();
                        }
                        ctx.yield_now().await;
                    }
                })
                .unwrap()
        })
        .collect();
    // They alternate, and one does four times as much work. The measured ratio depends on the other load of the
    // machine, and a sampled poll that was interrupted by other programs counts for many polls until enough others were
    // sampled.
    eventually("the one that does more is busier", || {
        let [light, heavy] = [0, 1].map(|index| busy_ns(&runtime, pids[index]));
        light > 20_000_000 && heavy > light + light / 2
    });
    stop.store(true, Ordering::Relaxed);
    Ok(())
}

#[test]
fn the_rows_of_many_processes_add_up_to_the_memory_that_they_take() -> Result<(), StartError> {
    const PROCESSES: u64 = 1_000_000;
    let runtime = runtime()?;
    let before = rss_bytes();
    runtime
        .spawn(|ctx| async move {
            for _ in 0..PROCESSES {
                ctx.spawn(|ctx| async move { drop(ctx.receive().await) });
            }
            drop(ctx.receive().await);
        })
        .unwrap();
    eventually("all are parked", || {
        let mut parked = 0;
        for part in 0..observe::table_parts(&runtime) {
            observe::for_each_process(&runtime, part, |seen| {
                parked += u64::from(seen.state() == ProcessState::Waiting);
            });
        }
        parked > PROCESSES
    });

    let mut rows = 0;
    for part in 0..observe::table_parts(&runtime) {
        observe::for_each_process(&runtime, part, |seen| rows += seen.memory_bytes());
    }
    let grown = rss_bytes() - before;

    let ratio = rows as f64 / grown as f64;
    assert!((0.9..1.1).contains(&ratio), "rows {rows}, resident {grown}, ratio {ratio:.3}");
    assert!(grown / PROCESSES <= 512, "{} bytes a process", grown / PROCESSES);

    for part in 0..observe::table_parts(&runtime) {
        let mut pids = Vec::new();
        observe::for_each_process(&runtime, part, |seen| pids.push(seen.pid()));
        for pid in pids {
            runtime.exit(pid, ExitReason::Killed);
        }
    }
    eventually("all end", || runtime.process_count() == 0);
    eventually("half of the memory goes back to the system", || rss_bytes() < before + grown / 2);
    let again = runtime
        .spawn(|ctx| async move {
            for _ in 0..PROCESSES / 2 {
                ctx.spawn(|_| async {});
            }
        })
        .unwrap();
    runtime.wait(again);
    eventually("cold places are used again", || runtime.process_count() == 0);
    Ok(())
}

fn rss_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

#[test]
fn large_futures_and_waiting_messages_are_counted() -> Result<(), StartError> {
    let runtime = runtime()?;
    let large = runtime
        .spawn(|ctx| async move {
            let buffer = [0_u8; 4096];
            ctx.receive_of::<u8>().await;
            std::hint::black_box(&buffer);
        })
        .unwrap();
    eventually("it waits", || is(&runtime, large, ProcessState::Waiting));
    let seen = || observe::process_in_slot(&runtime, large.slot()).unwrap();
    assert!((4096..4400).contains(&seen().future_bytes()), "{}", seen().future_bytes());
    assert_eq!(seen().mailbox_bytes(), 0);

    for _ in 0..10 {
        runtime.try_send(large, bytes::Bytes::from(vec![0; 1000])).unwrap();
    }

    eventually("they are in, with their bytes", || {
        (seen().mailbox_len(), seen().mailbox_bytes()) == (10, 10 * (64 + 1000))
    });
    runtime.try_send(large, 1_u8).unwrap();
    eventually("it ends", || !runtime.is_alive(large));
    Ok(())
}

#[test]
fn counters_count_what_happened() -> Result<(), StartError> {
    let runtime = runtime()?;
    let parent = runtime
        .spawn(|ctx| async move {
            for number in 0..1_000_u32 {
                let child = ctx.spawn(|ctx| async move {
                    let number = ctx.receive_of::<u32>().await;
                    assert!(number % 10 != 0, "every tenth crashes");
                });
                ctx.send(child, number).await;
            }
        })
        .unwrap();
    eventually("all end", || runtime.process_count() == 0);

    let totals = observe::totals(&runtime);
    assert_eq!((totals.spawned, totals.exited, totals.crashed, totals.messages), (1_001, 1_001, 100, 1_000));
    let schedulers = observe::schedulers(&runtime);
    assert!(schedulers.iter().map(|scheduler| scheduler.polls).sum::<u64>() >= 1_001);
    assert!(!runtime.is_alive(parent));
    Ok(())
}

#[test]
fn an_idle_runtime_does_nothing() -> Result<(), StartError> {
    let runtime = runtime()?;
    eventually("both schedulers sleep", || observe::schedulers(&runtime).iter().all(|scheduler| scheduler.parks > 0));
    let before = observe::schedulers(&runtime);
    std::thread::park_timeout(Duration::from_millis(200));

    let after = observe::schedulers(&runtime);

    for (before, after) in before.iter().zip(&after) {
        assert!(after.wakes - before.wakes <= 1, "{before:?} {after:?}");
        assert_eq!(after.polls, before.polls);
    }
    Ok(())
}

//! Processes that end leave nothing: heap, table, names and timers are the same before and after many crashes (sentence
//! 13).

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::heap::{LIVE_BYTES, SLACK_BYTES, alone, cycles, leaves_nothing, name_of};
use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor};
use rusm_runtime::{Caller, Config, Context, Down, Exit, ExitReason, Request, Runtime};

type Cycle = for<'a> fn(&'a Context, u64) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Runs `cycle` many times, and checks that they leave no more than a first run of a tenth as many.
fn is_flat(cycle: Cycle) {
    leaves_nothing(|times| {
        Box::new(move |ctx| {
            Box::pin(async move {
                ctx.trap_exits(true);
                for number in 0..times {
                    cycle(&ctx, number).await;
                }
            })
        })
    });
}

/// Ends the process of cycle `number` by a panic, an error or normally, in turn.
fn end(number: u64) -> ExitReason {
    match number % 3 {
        0 => panic!("a panic in turn"),
        1 => ExitReason::other(number),
        _ => ExitReason::Normal,
    }
}

#[test]
fn spawning_linking_and_exiting_leaves_nothing() {
    is_flat(|ctx, number| {
        Box::pin(async move {
            let child = ctx.spawn_link(move |_| async move { end(number) }).unwrap();
            assert_eq!(ctx.receive_of::<Exit>().await.from, child);
        })
    });
}

#[test]
fn monitors_names_and_labels_of_the_dead_leave_nothing() {
    is_flat(|ctx, number| {
        Box::pin(async move {
            let name = name_of(number);
            let own = name.clone();
            let body = move |ctx: Context| async move {
                ctx.register(&own).unwrap();
                ctx.set_label(own.as_str());
                ctx.send_after(ctx.pid(), Duration::from_hours(1), [0_u8; 100]);
                ctx.monitor(ctx.pid());
                ctx.receive().await;
                end(number)
            };
            let (child, reference) = ctx.spawn_monitor(body).unwrap();
            ctx.send(child, vec![0_u8; 100]).await;
            ctx.send(child, "left in the mailbox").await;
            assert_eq!(ctx.receive_of::<Down>().await.reference, reference);
            assert_eq!(ctx.whereis(&name), None);
        })
    });
}

#[test]
fn processes_killed_in_the_middle_of_things_leave_nothing() {
    is_flat(|ctx, number| {
        Box::pin(async move {
            let (me, held) = (ctx.pid(), vec![number; 16]);
            let body = move |ctx: Context| async move {
                ctx.link(me);
                ctx.send(me, ()).await;
                pending::<()>().await;
                drop(held);
            };
            let child = ctx.spawn(body);
            ctx.receive_of::<()>().await;
            ctx.exit(child, ExitReason::Killed);
            assert_eq!(ctx.receive_of::<Exit>().await, Exit { from: child, reason: ExitReason::Killed });
        })
    });
}

#[test]
fn crashes_and_restarts_under_a_supervisor_leave_nothing() {
    leaves_nothing(|times| {
        Box::new(move |ctx| {
            Box::pin(async move {
                let (conductor, starts) = (ctx.pid(), Arc::new(AtomicU64::new(0)));
                let body = move |ctx: Context| {
                    let starts = Arc::clone(&starts);
                    async move {
                        let number = starts.fetch_add(1, Ordering::Relaxed);
                        if number == times {
                            ctx.send(conductor, ()).await;
                            return pending().await;
                        }
                        ctx.register(&name_of(number)).unwrap();
                        ctx.send_after(ctx.pid(), Duration::from_hours(1), [0_u8; 100]);
                        ctx.monitor(conductor);
                        end(number)
                    }
                };
                // A restart intensity that is never exceeded.
                let supervisor = Supervisor::new(Strategy::OneForOne).intensity(100_000, Duration::from_millis(1));
                supervisor.child(ChildSpec::new("child", body)).start_link(&ctx).await.unwrap();
                ctx.receive_of::<()>().await;
            })
        })
    });
}

#[test]
fn requests_from_outside_leave_nothing_with_whom_they_ask() {
    let _alone = alone();
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start");
    let server = runtime
        .spawn(|ctx| async move {
            loop {
                let Request { request, reply } = ctx.receive_of::<Request<u64, u64>>().await;
                reply.send(&ctx, request);
            }
        })
        .expect("there is room");
    let reactor = tokio::runtime::Builder::new_current_thread().build().expect("a reactor");
    let ask = |times: u64| {
        reactor.block_on(async {
            for number in 0..times {
                assert_eq!(runtime.request(server, number).await, Ok(number));
            }
        });
    };
    ask(cycles() / 10);
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    ask(cycles());
    let grown = LIVE_BYTES.load(Ordering::Relaxed).saturating_sub(before);
    // Message nodes are kept for reuse, up to 16 MiB. Leaked watchers of the server's end would add twice as much.
    let nodes = 64 * cycles() as usize;
    assert!(grown < nodes + SLACK_BYTES, "{grown} bytes more after {} requests", cycles());
}

//! Concurrent waits inside one process, under combinators that poll a future only if its own waker was woken.

use std::time::{Duration, Instant};

use crate::ask::{ask, runtime};
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use rusm_runtime::ring::Builder;
use rusm_runtime::{Caller, Context, Pid, Request, TaggedBytes, observe};

/// Timeout that is far longer than any test takes.
const NEVER: Duration = Duration::from_mins(1);

fn doubler(ctx: &Context) -> Pid {
    ctx.spawn(|ctx| async move {
        loop {
            let Request { request, reply } = ctx.receive_of::<Request<u32, u32>>().await;
            // Reply only after all callers have sent their requests.
            ctx.yield_now().await;
            reply.send(&ctx, request * 2);
        }
    })
}

#[test]
fn calls_side_by_side_are_answered_when_the_replies_come() {
    let runtime = runtime();
    let (requests, calls) = ask(&runtime, |ctx| async move {
        let (server, began) = (doubler(&ctx), Instant::now());
        let requests = join_all((0..40_u32).map(|number| ctx.request::<_, u32>(server, number))).await;
        let calls = join_all((0..40_u32).map(|number| ctx.call::<_, u32>(server, number, NEVER))).await;
        assert!(began.elapsed() < NEVER, "not at their timeouts");
        (requests, calls)
    });

    let doubles: Vec<_> = (0..40).map(|number| Ok(2 * number)).collect();
    assert_eq!((requests, calls), (doubles.clone(), doubles));
}

#[test]
fn what_one_wait_takes_in_for_another_is_seen_by_it() {
    const ROUNDS: u32 = 20_000;
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let me = ctx.pid();
        // Their messages arrive while the waiting process checks for the one type and then the other.
        let [small, large] = [false, true].map(|is_large| {
            ctx.spawn(move |ctx| async move {
                loop {
                    let number = ctx.receive_of::<u32>().await;
                    if is_large { ctx.send(me, u64::from(number)).await } else { ctx.send(me, number).await }
                }
            })
        });
        for number in 0..ROUNDS {
            ctx.send(small, number).await;
            ctx.send(large, number).await;
            let came = tokio::join!(ctx.receive_of::<u32>(), ctx.receive_of::<u64>());
            assert_eq!(came, (number, u64::from(number)));
        }
    });
}

#[test]
fn selective_waits_side_by_side_each_get_their_own() {
    let runtime = runtime();
    let came = ask(&runtime, |ctx| async move {
        let me = ctx.pid();
        ctx.spawn(move |ctx| async move {
            for tag in (0..40).rev() {
                ctx.send(me, TaggedBytes { tag, ..TaggedBytes::default() }).await;
                ctx.yield_now().await;
            }
        });
        let wait = |tag| {
            let wanted = move |message: &rusm_runtime::Message| {
                message.downcast_ref::<TaggedBytes>().is_some_and(|tagged| tagged.tag == tag)
            };
            let ctx = &ctx;
            async move { ctx.receive_match(wanted).await.downcast::<TaggedBytes>().map_or(u64::MAX, |tagged| tagged.tag) }
        };
        join_all((0..40).map(wait)).await
    });

    assert_eq!(came, (0..40).collect::<Vec<_>>());
}

#[test]
fn turns_given_up_and_shares_used_up_come_again() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let yields = (0..40).map(|_| async {
            for _ in 0..3 {
                ctx.yield_now().await;
            }
        });
        yields.collect::<FuturesUnordered<_>>().collect::<Vec<()>>().await;

        // More messages, and more ring items, than a process may take in one turn.
        for number in 0..600_u32 {
            ctx.send(ctx.pid(), number).await;
        }
        let mail = (0..600).map(|_| ctx.receive_of::<u32>()).collect::<FuturesUnordered<_>>();
        assert_eq!(mail.collect::<Vec<_>>().await.len(), 600);

        let (mut writer, subscriber) = Builder::new(16).build::<u32>().expect("the options are valid");
        let mut reader = subscriber.join().expect("a seat");
        let write = async {
            for number in 0..2_000 {
                writer.write(&[number]).await;
            }
        };
        let read = async {
            let (mut sum, mut item) = (0, [0]);
            for _ in 0..2_000 {
                reader.read(&mut item).await.expect("the writer goes on");
                sum += item[0];
            }
            assert_eq!(sum, 1_999_000);
        };
        let both: [std::pin::Pin<Box<dyn Future<Output = ()> + Send>>; 2] = [Box::pin(write), Box::pin(read)];
        both.into_iter().collect::<FuturesUnordered<_>>().collect::<Vec<()>>().await;
    });
}

#[test]
fn waits_side_by_side_do_nothing_while_nothing_comes() {
    let runtime = runtime();
    let waiter = ask(&runtime, |ctx| async move {
        ctx.spawn(|ctx| async move {
            let mut waits: FuturesUnordered<_> = (0..3).map(|_| ctx.receive_of::<u32>()).collect();
            waits.next().await;
        })
    });
    let polls = || observe::process_in_slot(&runtime, waiter.slot()).map_or(0, |seen| seen.reductions());
    // Once they wait, a message that matches none of them causes one or two polls of each.
    for number in 0..50_u64 {
        runtime.try_send(waiter, number).expect("it has room");
        std::thread::park_timeout(Duration::from_millis(1));
    }

    let seen = polls();
    assert!(seen < 50 * 4 + 20, "{seen} polls");
}

#[test]
fn looks_that_nobody_waits_for_are_kept_once() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        for _ in 0..1_000_000 {
            assert!(ctx.receive().now_or_never().is_none());
        }
    });
}

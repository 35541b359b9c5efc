//! Calls and acknowledged starts: sentence 24 of `docs/semantics.md`; the test names have its number.

use std::convert::identity;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ask::{ask, runtime};
use rusm_runtime::actor::{Actor, Address, Flow, Inbox};
use rusm_runtime::server::{Server, ServerRef};
use rusm_runtime::supervisor::{ChildSpec, Counts, Strategy, Supervisor, SupervisorRef};
use rusm_runtime::{
    CallError, Caller, Config, Context, Down, Exit, ExitReason, InitError, Pid, ReplyTo, Request, Runtime, Starting,
};
use rusm_runtime::{defaults, observe, test};

const LONG: Duration = Duration::from_mins(2);

/// Spawns a process that answers each number with its double.
fn doubler(ctx: &Context) -> Pid {
    ctx.spawn(|ctx| async move {
        loop {
            let Request { request, reply } = ctx.receive_of::<Request<u32, u32>>().await;
            reply.send(&ctx, request * 2);
        }
    })
}

/// Spawns a process that keeps requests until an [`Answer`] request makes it answer the oldest.
fn keeper(ctx: &Context) -> Pid {
    ctx.spawn(|ctx| async move {
        let mut kept: Vec<(u32, ReplyTo<u32>)> = Vec::new();
        loop {
            let message = match ctx.receive().await.downcast::<Request<u32, u32>>() {
                Ok(Request { request, reply }) => {
                    kept.push((request, reply));
                    continue;
                }
                Err(message) => message,
            };
            let Request { reply, .. } = message.downcast::<Request<Answer, Option<u32>>>().expect("nothing else comes");
            let (request, oldest) = kept.remove(0);
            let wanted = oldest.send(&ctx, request);
            reply.send(&ctx, wanted);
        }
    })
}

/// Request to a [`keeper`] to answer the oldest request.
struct Answer;

fn bonds(ctx: &Context, pid: Pid) -> (usize, usize) {
    let bonds = observe::links(&ctx.runtime(), pid, 10).expect("it is alive");
    (bonds.monitor_count, bonds.monitored_by_count)
}

#[test]
fn s24_a_call_pairs_each_reply_with_its_request() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let doubler = doubler(&ctx);
        for number in 0..2_000_u32 {
            assert_eq!(ctx.call(doubler, number, LONG).await, Ok(number * 2));
        }
        assert_eq!((bonds(&ctx, ctx.pid()), bonds(&ctx, doubler)), ((0, 0), (0, 0)), "no call leaves a monitor");
    });
}

#[test]
fn s24_a_late_reply_is_discarded_and_never_taken_for_the_next_one() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let keeper = keeper(&ctx);
        let late: Result<u32, _> = ctx.call(keeper, 1_u32, Duration::from_millis(5)).await;
        assert!(matches!(late, Err(CallError::Timeout { to, .. }) if to == keeper));

        let unwanted: Option<u32> = ctx.call(keeper, Answer, LONG).await.unwrap();

        assert_eq!(unwanted, Some(1), "the late reply came back to the callee");
        assert!(ctx.receive_timeout(Duration::ZERO).await.is_none(), "and the mailbox is empty");
        assert_eq!((bonds(&ctx, ctx.pid()), bonds(&ctx, keeper)), ((0, 0), (0, 0)));
    });
}

#[test]
fn s24_the_end_of_the_callee_ends_the_call_at_once_with_its_reason() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let callee = ctx.spawn(|ctx| async move {
            ctx.receive_of::<Request<(), ()>>().await;
            ExitReason::other("disk full")
        });

        let ended = ctx.call::<_, ()>(callee, (), Duration::MAX).await;

        assert_eq!(ended, Err(CallError::Ended { to: callee, reason: ExitReason::other("disk full") }));
        assert!(ctx.receive_timeout(Duration::ZERO).await.is_none(), "the call took the down message");
    });
}

#[test]
fn s24_a_kept_request_may_be_answered_by_another_process() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let callee = ctx.spawn(|ctx| async move {
            let request = ctx.receive_of::<Request<u32, u32>>().await;
            ctx.spawn(move |ctx| async move { assert_eq!(request.reply.send(&ctx, request.request + 1), None) });
            pending::<()>().await;
        });
        assert_eq!(ctx.call(callee, 1_u32, LONG).await, Ok(2_u32));
        assert_eq!((bonds(&ctx, ctx.pid()), bonds(&ctx, callee)), ((0, 0), (0, 0)));
    });
}

#[test]
fn a_call_to_a_dead_process_to_oneself_or_with_no_time_says_so_at_once() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let (dead, _) = ctx.spawn_monitor(|_| async {}).unwrap();
        ctx.receive_of::<Down>().await;
        assert_eq!(ctx.call::<_, ()>(dead, (), Duration::MAX).await, Err(CallError::NoProcess { to: dead }));

        let me = ctx.pid();
        assert_eq!(ctx.call::<_, ()>(me, (), Duration::MAX).await, Err(CallError::CallingSelf { pid: me }));

        let outside = ctx.runtime();
        assert_eq!(outside.call::<_, ()>(me, (), Duration::MAX).await, Err(CallError::CallingSelf { pid: me }));

        let keeper = keeper(&ctx);
        let none: Result<u32, _> = ctx.call(keeper, 7_u32, Duration::ZERO).await;
        assert_eq!(none, Err(CallError::Timeout { to: keeper, timeout: Duration::ZERO }));
        let unwanted: Option<u32> = ctx.call(keeper, Answer, LONG).await.unwrap();
        assert_eq!(unwanted, Some(7), "the request was sent anyway");
        assert!(ctx.receive_timeout(Duration::ZERO).await.is_none());
    });
}

#[test]
fn a_call_is_as_quick_behind_a_long_mailbox_and_leaves_it_in_order() {
    const WAITING: u32 = 30_000;
    const CALLS: u32 = 10_000;

    let runtime = Runtime::start(Config { mailbox_capacity: WAITING, schedulers: 2, ..Config::default() }).unwrap();
    ask(&runtime, |ctx| async move {
        let doubler = doubler(&ctx);
        for number in 0..WAITING {
            ctx.send(ctx.pid(), number).await;
        }
        // Searching from the start of the mailbox would visit 300 million messages.
        for number in 0..CALLS {
            assert_eq!(ctx.call(doubler, number, LONG).await, Ok(number * 2));
        }
        for number in 0..WAITING {
            assert_eq!(ctx.receive().await.downcast::<u32>().unwrap(), number);
        }
    });
}

#[test]
fn calls_of_many_to_one_that_dies_all_end() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let me = ctx.pid();
        let callee = ctx.spawn(|ctx| async move {
            for _ in 0..50 {
                ctx.receive_of::<Request<(), u32>>().await;
            }
            panic!("enough");
        });
        for _ in 0..100 {
            ctx.spawn(move |ctx| async move {
                let reply = ctx.call::<_, u32>(callee, (), Duration::MAX).await;
                ctx.send(me, reply).await;
            });
        }
        for _ in 0..100 {
            let reply = ctx.receive_of::<Result<u32, CallError>>().await;
            let dropped = matches!(reply, Err(CallError::Dropped { .. }));
            assert!(
                dropped || matches!(reply, Err(CallError::Ended { .. } | CallError::NoProcess { .. })),
                "{reply:?}"
            );
        }
    });
}

#[test]
fn a_call_from_outside_gets_its_reply_or_the_reason_why_there_is_none() {
    let runtime = runtime();
    let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let doubler = ask(&runtime, |ctx| async move { doubler(&ctx) });
    let deaf = runtime.spawn(|ctx| async move {
        ctx.receive_of::<Request<u32, u32>>().await;
        ExitReason::other("deaf")
    });
    let deaf = deaf.unwrap();

    assert_eq!(outside.block_on(runtime.request(doubler, 4_u32)), Ok(8_u32));
    let ended = CallError::Ended { to: deaf, reason: ExitReason::other("deaf") };
    assert_eq!(outside.block_on(runtime.request::<u32, u32>(deaf, 4)), Err(ended));
    assert_eq!(outside.block_on(runtime.request::<u32, u32>(deaf, 4)), Err(CallError::NoProcess { to: deaf }));
}

/// Spawns a process that drops each request by `way`.
fn dropper(ctx: &Context, way: fn(&Context, ReplyTo<u32>)) -> Pid {
    ctx.spawn(move |ctx| async move {
        loop {
            let Request { reply, .. } = ctx.receive_of::<Request<(), u32>>().await;
            way(&ctx, reply);
        }
    })
}

#[test]
fn a_shared_context_and_a_shared_handle_call_send_and_reply_as_their_owners_do() {
    async fn doubled(by: &impl Caller, doubler: Pid) -> Result<u32, CallError> {
        by.call(doubler, 21_u32, LONG).await
    }

    let runtime = runtime();
    let handle = Arc::new((*runtime).clone());
    ask(&runtime, |ctx| async move {
        let ctx = Arc::new(ctx);
        let doubler = doubler(&ctx);
        assert_eq!((doubled(&ctx, doubler).await, doubled(&handle, doubler).await), (Ok(42), Ok(42)));

        let echo = ctx.spawn_typed(|ctx, mut inbox: Inbox<ReplyTo<u32>>| async move {
            let ctx = Arc::new(ctx);
            inbox.receive(&ctx).await.send(&ctx, 7);
        });
        let echo = echo.unwrap();
        assert_eq!(echo.call(&ctx, |reply| reply).await, Ok(7));
        handle.deliver(ctx.pid(), 1_u8).await;
        ctx.try_deliver(ctx.pid(), 2_u8).unwrap();
        assert_eq!((ctx.receive_of::<u8>().await, ctx.receive_of::<u8>().await), (1, 2));
    });
}

#[test]
fn s24_a_dropped_request_ends_its_call_at_once_wherever_it_is_dropped() {
    let runtime = runtime();
    let ways: [fn(&Context, ReplyTo<u32>); 5] = [
        |_, reply| drop(reply),
        |_, reply| drop(std::thread::spawn(move || drop(reply)).join()),
        |ctx, reply| {
            ctx.spawn(move |_| async move { drop(reply) });
        },
        |_, reply| drop(tokio::spawn(async move { drop(reply) })),
        |ctx, reply| {
            ctx.spawn(move |_| async move { panic!("with {reply:?}") });
        },
    ];
    let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for way in ways {
        let (handle, callee) = ask(&runtime, move |ctx| async move {
            let callee = dropper(&ctx, way);
            let me = ctx.pid();
            assert_eq!(ctx.call::<_, u32>(callee, (), Duration::MAX).await, Err(CallError::Dropped { to: callee }));
            assert_eq!(bonds(&ctx, me), (0, 0), "no monitor is left");
            (ctx.runtime(), callee)
        });
        let reply: Result<u32, _> = outside.block_on(handle.call(callee, (), Duration::MAX));
        assert_eq!(reply, Err(CallError::Dropped { to: callee }));
    }
}

#[test]
fn s24_a_request_that_is_dropped_at_the_end_of_a_time_slice_ends_its_call() {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    ask(&runtime, |ctx| async move {
        let callee = dropper(&ctx, |_, reply| {
            // Longer than a time slice, so the slice ends with this poll.
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(5) {
                std::hint::spin_loop();
            }
            drop(reply);
        });
        for _ in 0..8 {
            assert_eq!(ctx.call::<_, u32>(callee, (), Duration::MAX).await, Err(CallError::Dropped { to: callee }));
        }
    });
}

#[test]
fn s24_a_request_that_dies_with_its_process_ends_its_call_with_the_exit_reason() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let killed = ctx.spawn(|ctx| async move {
            let _kept = ctx.receive_of::<Request<(), u32>>().await;
            ctx.exit(ctx.pid(), ExitReason::Killed);
            pending::<()>().await;
        });
        let reason = ExitReason::Killed;
        assert_eq!(ctx.call::<_, u32>(killed, (), LONG).await, Err(CallError::Ended { to: killed, reason }));
        let unread = ctx.spawn(|ctx| async move {
            ctx.receive_of::<u8>().await;
            ExitReason::other("unread")
        });
        let end = {
            let ctx = ctx.runtime();
            move || async move { ctx.send(unread, 0_u8).await }
        };
        ctx.spawn(move |ctx| async move {
            ctx.sleep(Duration::from_millis(20)).await;
            end().await;
        });
        let reason = ExitReason::other("unread");
        assert_eq!(ctx.call::<_, u32>(unread, (), LONG).await, Err(CallError::Ended { to: unread, reason }));
    });
}

#[test]
fn a_call_from_outside_ends_after_its_timeout() {
    let runtime = runtime();
    let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let deaf = runtime.spawn(|_| pending::<()>()).unwrap();
    let timeout = Duration::from_millis(10);
    let reply: Result<u32, _> = outside.block_on(runtime.call(deaf, (), timeout));
    assert_eq!(reply, Err(CallError::Timeout { to: deaf, timeout }));
}

/// A kind of server, of which none runs.
struct Silent;

impl Server for Silent {
    type Args = ();
    type Call = ();
    type Reply = ();
    type Cast = ();

    async fn init(_: &Context, (): ()) -> Result<Self, ExitReason> {
        Ok(Self)
    }

    async fn handle_call(&mut self, _: &Context, (): (), _: ReplyTo<()>) -> Flow {
        Flow::Continue
    }

    async fn handle_cast(&mut self, _: &Context, (): ()) -> Flow {
        Flow::Continue
    }
}

#[test]
fn requests_wait_five_seconds_and_those_to_a_supervisor_a_minute_unless_told_otherwise() {
    rusm_runtime::test::run(1, |ctx| async move {
        let deaf = ctx.spawn(|_| pending::<()>());
        let timeout = Duration::from_secs(5);
        let from_process: Result<(), _> = ctx.request(deaf, ()).await;
        assert_eq!(from_process, Err(CallError::Timeout { to: deaf, timeout }));
        let from_outside: Result<(), _> = ctx.runtime().request(deaf, ()).await;
        assert_eq!(from_outside, Err(CallError::Timeout { to: deaf, timeout }));
        let server = ServerRef::<Silent>::of(deaf).request(&ctx, ()).await;
        assert_eq!(server, Err(CallError::Timeout { to: deaf, timeout }));

        let supervisor = SupervisorRef::of(deaf);
        let waited = supervisor.count_children(&ctx).await;
        assert_eq!(waited, Err(CallError::Timeout { to: deaf, timeout: Duration::from_mins(1) }));
        let short = supervisor.with_timeout(timeout).which_children(&ctx.runtime()).await;
        assert_eq!(short, Err(CallError::Timeout { to: deaf, timeout }));
    });
}

#[test]
fn s24_a_process_that_calls_its_parent_before_it_has_started_gets_an_error() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let parent = ctx.pid();
        let child = ctx
            .start_link(move |ctx: Context, starting: Starting| async move {
                let caller = ctx.pid();
                let reply: Result<u32, _> = ctx.call(parent, 1_u32, LONG).await;
                assert_eq!(reply, Err(CallError::AwaitsStart { to: parent, caller }));
                let by_handle: Result<u32, _> = ctx.runtime().call(parent, 1_u32, LONG).await;
                assert_eq!(by_handle, reply);
                starting.acknowledge();
                assert_eq!(ctx.call(parent, 2_u32, LONG).await, Ok(4_u32));
            })
            .await;
        child.expect("it has started");
        let Request { request, reply } = ctx.receive_of::<Request<u32, u32>>().await;
        reply.send(&ctx, request * 2);
    });
}

#[test]
fn s24_a_child_that_asks_its_own_supervisor_during_its_start_gets_an_error_that_says_so() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let me = ctx.pid();
        let body = move |ctx: Context, starting: Starting| async move {
            let supervisor = SupervisorRef::of(ctx.parent().expect("a child has a parent"));
            let early = supervisor.count_children(&ctx).await.expect_err("the supervisor waits for this start");
            let stopped = supervisor.stop(&ctx, LONG).await.expect_err("it cannot stop before this start");
            let by_handle = supervisor.stop(&ctx.runtime(), LONG).await.expect_err("nor if a handle asks it");
            assert_eq!((&stopped, &by_handle), (&early, &early));
            starting.acknowledge();
            ctx.send(me, (supervisor, ctx.pid(), early)).await;
            // From now on, the supervisor answers.
            ctx.send(me, supervisor.count_children(&ctx).await).await;
            pending::<()>().await;
        };
        let children = Supervisor::new(Strategy::OneForOne).child(ChildSpec::acknowledged("eager", body));
        let supervisor = children.start_link(&ctx).await.expect("its child has started");
        let (asked, child, early) = ctx.receive_of::<(SupervisorRef, Pid, CallError)>().await;
        assert_eq!(
            (asked, early.clone()),
            (supervisor, CallError::AwaitsStart { to: supervisor.pid(), caller: child })
        );
        assert!(early.to_string().contains("start"), "{early}");
        assert!(ctx.receive_of::<Result<Counts, CallError>>().await.is_ok());
    });
}

struct Hoarder(Vec<ReplyTo<u32>>);

impl Actor for Hoarder {
    type Args = ();
    type Message = ReplyTo<u32>;
    type Ref = Address<ReplyTo<u32>>;

    async fn init(_: &Context, (): ()) -> Result<Self, ExitReason> {
        Ok(Self(Vec::new()))
    }

    async fn handle(&mut self, _: &Context, reply: ReplyTo<u32>) -> Flow {
        self.0.push(reply);
        Flow::Continue
    }
}

#[test]
fn a_typed_call_that_is_never_answered_ends_after_five_seconds_from_inside_and_from_outside() {
    test::run(1, |ctx| async move {
        let hoarder = Hoarder::start_link(&ctx, ()).await.expect("it starts");
        let late = Err(CallError::Timeout { to: hoarder.pid(), timeout: defaults::CALL_TIMEOUT });
        let before = tokio::time::Instant::now();
        assert_eq!(hoarder.call(&ctx, identity).await, late);
        assert_eq!(hoarder.call(&ctx.runtime(), identity).await, late);
        assert_eq!(before.elapsed().as_secs(), 2 * defaults::CALL_TIMEOUT.as_secs());
    });
}

#[test]
fn a_start_is_over_when_the_process_acknowledges_it() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let body = |ctx: Context, starting: Starting| async move {
            ctx.register("ready").unwrap();
            starting.acknowledge();
            pending::<()>().await;
        };
        let pid = ctx.start_link(body).await.unwrap();
        assert_eq!(ctx.whereis("ready"), Some(pid));
        let bonds = observe::links(&ctx.runtime(), pid, 1).unwrap();
        assert_eq!((bonds.links, bonds.monitored_by_count), (vec![ctx.pid()], 0));
    });
}

#[test]
fn a_start_that_fails_gives_the_reason() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        // This process does not trap exits, and a refused start does not end it.
        let refused =
            ctx.start_link(|ctx, starting| async move { starting.refuse(&ctx, ExitReason::other("no disk")) }).await;
        assert_eq!(refused, Err(InitError::Ended(ExitReason::other("no disk"))));
        let returned = ctx.start_link(|_, _starting| async {}).await;
        assert_eq!(returned, Err(InitError::Ended(ExitReason::Normal)));

        ctx.trap_exits(true);
        let panicked = ctx.start_link(|_, _starting| async { panic!("at start") }).await;
        let Err(InitError::Ended(ExitReason::Panic(info))) = panicked else { panic!("{panicked:?}") };
        assert_eq!(info.message, "at start");
        assert!(matches!(ctx.receive_of::<Exit>().await.reason, ExitReason::Panic(_)));

        let forgetful = ctx
            .start_link(|_, starting| async {
                drop(starting);
                pending::<()>().await;
            })
            .await;
        assert_eq!(forgetful, Err(InitError::Ended(ExitReason::Killed)), "the caller does not wait forever");
        // The closure drops the token before the process exists, so the process cannot be killed yet.
        let careless = ctx.start_link(|_, _starting| pending::<()>()).await;
        assert_eq!(careless, Err(InitError::Ended(ExitReason::Killed)), "the caller does not wait forever");
        let outside = ctx.runtime().start(|_, _starting| pending::<()>()).await;
        assert_eq!(outside, Err(InitError::Ended(ExitReason::Killed)), "the caller does not wait forever");
    });
}

#[test]
fn a_call_that_is_given_up_with_its_answer_at_hand_leaves_no_monitor() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let server = ctx.spawn(|ctx| async move {
            loop {
                let Request { request, reply } = ctx.receive_of::<Request<Pid, ()>>().await;
                reply.send(&ctx, ());
                ctx.exit(request, ExitReason::Killed);
            }
        });
        for _ in 0..100 {
            let client = ctx.spawn(move |ctx| async move {
                drop(ctx.call::<_, ()>(server, ctx.pid(), LONG).await);
            });
            ctx.monitor(client);
            ctx.receive_of::<Down>().await;
        }
        assert_eq!(bonds(&ctx, server).1, 0);
    });
}

#[test]
fn large_replies_leave_the_room_of_a_mailbox_as_it_was() {
    let runtime = runtime();
    let room = ask(&runtime, |ctx| async move {
        let callee = ctx.spawn(|ctx| async move {
            let Request { reply, .. } = ctx.receive_of::<Request<(), [u64; 100]>>().await;
            reply.send(&ctx, [0; 100]);
        });
        assert_eq!(ctx.call(callee, (), LONG).await, Ok([0_u64; 100]));
        ctx.try_send(ctx.pid(), 1_u8).is_ok()
    });
    assert!(room);
}

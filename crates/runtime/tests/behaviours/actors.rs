//! Typed actors and inboxes: what they do with their messages, and with those that they do not handle.

use std::time::Duration;

use rusm_runtime::actor::{Actor, Address, Flow, Inbox, Unmatched};
use rusm_runtime::supervisor::{Strategy, Supervisor};
use rusm_runtime::{CallError, Caller, Config, Context, Down, ExitReason, Message, ReplyTo, Runtime};

use crate::ask::{ask, runtime};

struct Counter {
    total: u64,
    ended: u32,
}

enum Count {
    Add(u64),
    Total(ReplyTo<u64>),
    Ended(ReplyTo<u32>),
    Forget(ReplyTo<u64>),
    Stop,
    Crash,
}

impl Actor for Counter {
    type Args = Result<u64, &'static str>;
    type Message = Count;
    type Ref = Address<Count>;

    async fn init(_: &Context, first: Self::Args) -> Result<Self, ExitReason> {
        Ok(Self { total: first.map_err(ExitReason::other)?, ended: 0 })
    }

    async fn handle(&mut self, ctx: &Context, message: Count) -> Flow {
        match message {
            Count::Add(number) => self.total += number,
            Count::Total(reply) => _ = reply.send(ctx, self.total),
            Count::Ended(reply) => _ = reply.send(ctx, self.ended),
            Count::Forget(reply) => drop(reply),
            Count::Stop => return Flow::Stop(ExitReason::other("asked to")),
            Count::Crash => panic!("asked to"),
        }
        Flow::Continue
    }

    async fn handle_info(&mut self, _: &Context, message: Message) -> Result<Flow, Message> {
        message.downcast::<Down>()?;
        self.ended += 1;
        Ok(Flow::Continue)
    }
}

/// Ends with the reason for which it is asked at its start, and crashes at a message that it does not handle.
struct Strict;

impl Actor for Strict {
    type Args = ();
    type Message = ();
    type Ref = Address<()>;
    const UNMATCHED: Unmatched = Unmatched::Crash;

    async fn init(ctx: &Context, (): ()) -> Result<Self, ExitReason> {
        ctx.trap_exits(true);
        Ok(Self)
    }

    async fn handle(&mut self, _: &Context, (): ()) -> Flow {
        Flow::Continue
    }
}

fn quiet() -> Runtime {
    Runtime::start(Config { schedulers: 2, log_crashes: false, ..Config::default() }).unwrap()
}

#[test]
fn each_message_of_an_actor_has_its_own_reply() {
    ask(&runtime(), |ctx| async move {
        let counter = Counter::start_link(&ctx, Ok(40)).await.unwrap();
        counter.send(&ctx, Count::Add(2)).await;
        assert_eq!(counter.call(&ctx, Count::Total).await, Ok(42_u64));
        assert_eq!(counter.call(&ctx, Count::Ended).await, Ok(0_u32));
        assert_eq!(counter.call(&ctx, Count::Forget).await, Err(CallError::Dropped { to: counter.pid() }));
        assert_eq!(counter.stop(&ctx, ExitReason::Normal, Duration::from_mins(1)).await, Ok(()));
        assert_eq!(counter.call(&ctx, Count::Total).await, Err(CallError::NoProcess { to: counter.pid() }));
    });
}

#[test]
fn an_actor_is_called_from_outside_as_from_inside() {
    let runtime = runtime();
    let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();
    outside.block_on(async {
        let counter = Counter::start(&runtime, Ok(1)).await.unwrap();
        counter.try_send(&*runtime, Count::Add(1)).unwrap();
        assert_eq!(counter.call(&*runtime, Count::Total).await, Ok(2));
        let within = counter.call_within(&*runtime, Duration::from_mins(1), Count::Total).await;
        assert_eq!(within, Ok(2));
    });
}

#[test]
fn an_actor_that_refuses_to_start_says_why_and_one_that_stops_too() {
    ask(&quiet(), |ctx| async move {
        let refused = Counter::start_link(&ctx, Err("no luck")).await;
        assert_eq!(refused.unwrap_err().to_string(), "ended during its start: no luck");
        ctx.trap_exits(true);
        let counter = Counter::start_link(&ctx, Ok(0)).await.unwrap();
        counter.send(&ctx, Count::Stop).await;
        let exit = ctx.receive_of::<rusm_runtime::Exit>().await;
        assert_eq!((exit.from, exit.reason), (counter.pid(), ExitReason::other("asked to")));
    });
}

#[test]
fn an_actor_handles_other_messages_and_warns_of_the_rest() {
    ask(&runtime(), |ctx| async move {
        let counter = Counter::start_link(&ctx, Ok(0)).await.unwrap();
        ctx.send(counter.pid(), "not a count").await;
        ctx.send(counter.pid(), 7_u8).await;
        let short = ctx.spawn(|_| async {});
        // As if it had monitored a process.
        let reference = ctx.monitor(short);
        let down = ctx.receive_of::<Down>().await;
        assert_eq!(down.reference, reference);
        ctx.send(counter.pid(), down).await;
        assert_eq!(counter.call(&ctx, Count::Ended).await, Ok(1));
    });
}

#[test]
fn a_strict_actor_crashes_at_a_message_that_it_does_not_handle() {
    let runtime = quiet();
    let reason = ask(&runtime, |ctx| async move {
        ctx.trap_exits(true);
        let strict = Strict::start_link(&ctx, ()).await.unwrap();
        ctx.send(strict.pid(), 7_u8).await;
        ctx.receive_of::<rusm_runtime::Exit>().await.reason
    });
    assert_eq!(reason, ExitReason::other("received a u8, which it does not handle"));
}

#[test]
fn a_supervisor_restarts_an_actor_with_the_same_arguments() {
    ask(&quiet(), |ctx| async move {
        let supervisor = Supervisor::new(Strategy::OneForOne).child(Counter::child("counter", Ok(5)));
        let supervisor = supervisor.start_link(&ctx).await.unwrap();
        let pid = async || match supervisor.which_children(&ctx).await.unwrap()[0].state {
            rusm_runtime::supervisor::ChildState::Running(pid) => Some(pid),
            _ => None,
        };
        let first = pid().await.unwrap();
        let counter = Address::<Count>::of(first);
        counter.send(&ctx, Count::Add(1)).await;
        let end = ctx.monitor(first);
        counter.send(&ctx, Count::Crash).await;
        assert_eq!(ctx.receive_of::<Down>().await.reference, end);
        loop {
            match pid().await {
                Some(second) if second != first => {
                    assert_eq!(Address::<Count>::of(second).call(&ctx, Count::Total).await, Ok(5));
                    break;
                }
                _ => ctx.yield_now().await,
            }
        }
    });
}

#[test]
fn an_inbox_gives_its_messages_and_leaves_system_messages() {
    ask(&quiet(), |ctx| async move {
        let worker = ctx
            .spawn_typed_link(|ctx: Context, mut inbox: Inbox<(u64, ReplyTo<u64>)>| async move {
                let short = ctx.spawn(|_| async {});
                let reference = ctx.monitor(short);
                let (number, reply) = inbox.receive(&ctx).await;
                assert_eq!(ctx.receive_of::<Down>().await.reference, reference);
                assert_eq!(inbox.address(&ctx).pid(), ctx.pid());
                reply.send(&ctx, number + 1);
            })
            .unwrap();
        ctx.send(worker.pid(), "foreign").await;
        assert_eq!(worker.call(&ctx, |reply| (41, reply)).await, Ok(42));
    });
}

#[test]
fn a_strict_inbox_ends_its_process() {
    for traps in [false, true] {
        let reason = ask(&quiet(), move |ctx| async move {
            let worker = ctx.spawn_typed(move |ctx: Context, inbox: Inbox<u64>| async move {
                ctx.trap_exits(traps);
                inbox.unmatched(Unmatched::Crash).receive(&ctx).await;
            });
            let worker = worker.unwrap();
            let end = ctx.monitor(worker.pid());
            ctx.deliver(worker.pid(), 'x').await;
            let down = ctx.receive_of::<Down>().await;
            assert_eq!(down.reference, end);
            down.reason
        });
        assert_eq!(reason, ExitReason::other("received a char, which it does not handle"));
    }
}

#[test]
fn a_process_with_an_inbox_is_stopped_after_its_messages() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        for traps in [false, true] {
            let total = ctx.spawn_typed(move |ctx: Context, mut inbox: Inbox<ReplyTo<u32>>| async move {
                ctx.trap_exits(traps);
                loop {
                    inbox.receive(&ctx).await.send(&ctx, 7);
                }
            });
            let total = total.unwrap();
            assert_eq!(total.call(&ctx, |reply| reply).await, Ok(7));
            assert_eq!(total.stop(&ctx, ExitReason::Normal, Duration::MAX).await, Ok(()));
            assert!(!ctx.runtime().is_alive(total.pid()));
        }
    });
}

#[test]
fn a_thread_outside_waits_for_the_value_of_a_process() {
    let runtime = quiet();
    assert_eq!(runtime.block_on(|ctx| async move { ctx.parent() }), None);
    let crashed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.block_on(|_| async { if true { panic!("no value") } else { 1_u8 } })
    }));
    let text = *crashed.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("ended before it returned its value") && text.contains("no value"), "{text}");
}

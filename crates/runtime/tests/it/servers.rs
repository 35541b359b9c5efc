//! Servers: requests, immediate and deferred replies, other messages, starting and termination.

use std::sync::mpsc;
use std::time::Duration;

use rusm_runtime::actor::Unmatched;
use rusm_runtime::server::{Flow, Server, ServerRef};
use rusm_runtime::supervisor::{ChildSpec, ChildState, Strategy, Supervisor};
use rusm_runtime::{CallError, Config, Context, Exit, ExitReason, InitError, Message, Pid, ReplyTo, Runtime};

const LONG: Duration = Duration::from_mins(2);

/// A server that uses every callback: it sums numbers, defers replies, and reports to `observer` how it terminates.
struct Till {
    sum: u64,
    kept: Vec<ReplyTo<u64>>,
    observer: Pid,
}

#[derive(Clone)]
struct Args {
    observer: Pid,
    traps: bool,
}

enum Ask {
    Sum,
    /// Answered when the next cast arrives.
    NextSum,
    Panic,
}

/// Reason for which a till terminated.
struct Terminated(ExitReason);

impl Server for Till {
    type Args = Args;
    type Call = Ask;
    type Reply = u64;
    type Cast = u64;

    const UNMATCHED: Unmatched = Unmatched::Crash;

    async fn init(ctx: &Context, Args { observer, traps }: Args) -> Result<Self, ExitReason> {
        ctx.trap_exits(traps);
        if observer == Pid::NONE {
            return Err(ExitReason::other("nobody to tell"));
        }
        Ok(Self { sum: 0, kept: Vec::new(), observer })
    }

    async fn handle_call(&mut self, ctx: &Context, request: Ask, reply: ReplyTo<u64>) -> Flow {
        match request {
            Ask::Sum => {
                reply.send(ctx, self.sum);
            }
            Ask::NextSum => self.kept.push(reply),
            Ask::Panic => panic!("asked for it"),
        }
        Flow::Continue
    }

    async fn handle_cast(&mut self, ctx: &Context, more: u64) -> Flow {
        self.sum += more;
        for reply in self.kept.drain(..) {
            reply.send(ctx, self.sum);
        }
        if self.sum > 1000 { Flow::Stop(ExitReason::other("full")) } else { Flow::Continue }
    }

    async fn handle_info(&mut self, ctx: &Context, message: Message) -> Result<Flow, Message> {
        if message.is::<i16>() {
            return Err(message);
        }
        ctx.send(self.observer, message.type_name()).await;
        Ok(Flow::Continue)
    }

    async fn terminate(self, ctx: &Context, reason: &ExitReason) {
        ctx.send(self.observer, Terminated(reason.clone())).await;
    }
}

/// Runs a body as a process and returns its result.
fn ask<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    body: impl FnOnce(Context) -> F + Send + 'static,
) -> T {
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start");
    let (give, take) = mpsc::channel();
    let run = move |ctx: Context| {
        let body = body(ctx);
        async move { give.send(body.await).expect("the test waits") }
    };
    let end = runtime.watch(runtime.spawn(run).expect("there is room"));
    take.recv_timeout(LONG).unwrap_or_else(|_| panic!("no answer: {}", end.wait()))
}

async fn till(ctx: &Context, traps: bool) -> ServerRef<Till> {
    ServerRef::start_link(ctx, Args { observer: ctx.pid(), traps }).await.expect("it starts")
}

async fn terminated(ctx: &Context) -> ExitReason {
    ctx.receive_of::<Terminated>().await.0
}

#[test]
fn a_server_answers_calls_now_or_later_and_takes_casts_in_their_order() {
    ask(|ctx| async move {
        let till = till(&ctx, false).await;
        till.cast(&ctx, 1).await;
        till.cast(&ctx, 2).await;
        assert_eq!(till.call(&ctx, Ask::Sum, LONG).await, Ok(3));

        let (me, mut casts) = (ctx.pid(), 0);
        ctx.spawn(move |ctx| async move {
            let sum = till.call(&ctx, Ask::NextSum, LONG).await;
            ctx.send(me, sum).await;
        });
        // Send casts until one arrives after the request.
        let answered = loop {
            till.cast(&ctx, 1).await;
            casts += 1;
            if let Some(sum) = ctx.receive_timeout(Duration::from_millis(1)).await {
                break sum.downcast::<Result<u64, CallError>>().unwrap();
            }
        };
        assert!(answered.is_ok_and(|sum| (4..=3 + casts).contains(&sum)));
    });
}

#[test]
fn a_message_that_is_not_handled_ends_a_server_whose_policy_says_so() {
    ask(|ctx| async move {
        ctx.trap_exits(true);
        let till = till(&ctx, false).await;
        ctx.send(till.pid(), 7_i16).await;
        assert_eq!(terminated(&ctx).await, ExitReason::other("received a i16, which it does not handle"));
    });
}

#[test]
fn other_messages_come_to_handle_info() {
    ask(|ctx| async move {
        let till = till(&ctx, false).await;
        ctx.send(till.pid(), 7_i8).await;
        assert_eq!(ctx.receive_of::<&'static str>().await, "i8");
    });
}

#[test]
fn a_server_that_stops_terminates_first() {
    ask(|ctx| async move {
        ctx.trap_exits(true);
        let full = till(&ctx, false).await;
        full.cast(&ctx, 2000).await;
        assert_eq!(terminated(&ctx).await, ExitReason::other("full"));
        assert_eq!(ctx.receive_of::<Exit>().await, Exit { from: full.pid(), reason: ExitReason::other("full") });

        let till = till(&ctx, false).await;
        till.cast(&ctx, 1).await;
        assert_eq!(till.stop(&ctx, ExitReason::Shutdown, LONG).await, Ok(()));
        assert_eq!(terminated(&ctx).await, ExitReason::Shutdown);
        let again = till.stop(&ctx, ExitReason::Shutdown, LONG).await;
        assert_eq!(again, Err(CallError::NoProcess { to: till.pid() }));
    });
}

#[test]
fn a_server_that_traps_exits_terminates_with_its_parent() {
    ask(|ctx| async move {
        ctx.trap_exits(true);
        let me = ctx.pid();
        let parent = ctx.spawn(move |ctx| async move {
            let till = ServerRef::<Till>::start_link(&ctx, Args { observer: me, traps: true }).await;
            ctx.send(me, till.expect("it starts")).await;
            ctx.receive_of::<ExitReason>().await
        });
        let till = ctx.receive_of::<ServerRef<Till>>().await;
        // The exit signal of a process that is not the parent is delivered as a message.
        ctx.exit(till.pid(), ExitReason::other("stranger"));
        assert!(ctx.receive_of::<&'static str>().await.ends_with("Exit"));

        ctx.send(parent, ExitReason::other("parent")).await;
        assert_eq!(terminated(&ctx).await, ExitReason::other("parent"));
    });
}

#[test]
fn a_failed_init_is_the_failure_of_the_start_and_a_panic_ends_the_call() {
    ask(|ctx| async move {
        let failed = ServerRef::<Till>::start_link(&ctx, Args { observer: Pid::NONE, traps: false }).await;
        assert_eq!(failed, Err(InitError::Ended(ExitReason::other("nobody to tell"))));

        ctx.trap_exits(true);
        let till = till(&ctx, false).await;
        let panicked = till.call(&ctx, Ask::Panic, LONG).await;
        let Err(CallError::Ended { reason: ExitReason::Panic(info), .. }) = panicked else { panic!("{panicked:?}") };
        assert_eq!(info.message, "asked for it");
    });
}

#[test]
fn a_supervised_server_is_restarted_with_its_arguments_and_stopped_gracefully() {
    ask(|ctx| async move {
        ctx.trap_exits(true);
        let args = Args { observer: ctx.pid(), traps: true };
        let supervisor = Supervisor::new(Strategy::OneForOne).child(ChildSpec::server::<Till>("till", args));
        let supervisor = supervisor.start_link(&ctx).await.unwrap();
        let running = || async {
            let children = supervisor.which_children(&ctx).await.unwrap();
            match children[0].state {
                ChildState::Running(pid) => ServerRef::<Till>::of(pid),
                state => panic!("{state:?}"),
            }
        };
        let first = running().await;
        assert!(first.call(&ctx, Ask::Panic, LONG).await.is_err());
        let second = running().await;
        assert_ne!(second, first);
        second.cast(&ctx, 5).await;
        assert_eq!(second.request(&ctx, Ask::Sum).await, Ok(5));

        supervisor.terminate_child(&ctx, "till").await.unwrap();
        assert_eq!(terminated(&ctx).await, ExitReason::Shutdown);
    });
}

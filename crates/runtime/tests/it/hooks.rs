//! Hooks: the program is told of each spawn, each end, and polls that take long.

use std::sync::mpsc;
use std::time::Duration;

use rusm_runtime::actor::{Inbox, Unmatched};
use rusm_runtime::server::{Flow, Server, ServerRef};
use rusm_runtime::supervisor::{ChildSpec, ChildState, Restart, Strategy, Supervisor};
use rusm_runtime::{
    CallError, Config, Context, Down, ExitReason, Hook, Pid, ProcessExit, ReplyTo, Runtime, SpawnOptions,
};

#[derive(Clone, Debug)]
enum Told {
    Spawn { pid: Pid, parent: Option<Pid>, label: Option<String> },
    Exit(ProcessExit),
    Slow { pid: Pid, took: Duration },
}

fn told(slow_poll: Duration) -> (Runtime, mpsc::Receiver<Told>) {
    let (tell, receiver) = mpsc::channel();
    let (exits, slow) = (tell.clone(), tell.clone());
    let config = Config {
        schedulers: 2,
        log_crashes: false,
        on_spawn: Some(Hook::new(move |spawn: &rusm_runtime::ProcessSpawn| {
            let label = spawn.label.as_deref().map(str::to_owned);
            drop(tell.send(Told::Spawn { pid: spawn.pid, parent: spawn.parent, label }));
        })),
        on_exit: Some(Hook::new(move |exit: &ProcessExit| drop(exits.send(Told::Exit(exit.clone()))))),
        on_slow_poll: Some(Hook::new(move |poll: &rusm_runtime::SlowPoll| {
            drop(slow.send(Told::Slow { pid: poll.pid, took: poll.took }));
        })),
        slow_poll,
        ..Config::default()
    };
    (Runtime::start(config).unwrap(), receiver)
}

#[test]
fn each_process_is_told_once_at_its_start_and_once_at_its_end() {
    let (runtime, receiver) = told(Duration::from_hours(1));
    let root = runtime
        .spawn_with(&SpawnOptions::default().label("root"), |ctx: Context| async move {
            ctx.register("the root").unwrap();
            let crashing = ctx.spawn(|_| async { Err::<(), _>("broken") });
            ctx.monitor(crashing);
            ctx.receive().await;
            let parked = ctx.spawn(|ctx| async move { drop(ctx.receive().await) });
            ctx.monitor(parked);
            ctx.exit(parked, ExitReason::Killed);
            ctx.receive().await;
        })
        .unwrap();
    // It may have ended before.
    assert!(matches!(runtime.wait(root), ExitReason::Normal | ExitReason::NoProcess));

    let all: Vec<Told> = receiver.iter().take(6).collect();
    let spawns = all.iter().filter_map(|told| match told {
        Told::Spawn { pid, parent, label } => Some((*pid, *parent, label.clone())),
        _ => None,
    });
    let spawns: Vec<_> = spawns.collect();
    assert_eq!(spawns.len(), 3);
    assert_eq!(spawns[0], (root, None, Some("root".to_owned())));
    assert!(spawns[1..].iter().all(|(_, parent, label)| *parent == Some(root) && label.is_none()));
    let exits: Vec<&ProcessExit> =
        all.iter().filter_map(|told| if let Told::Exit(exit) = told { Some(exit) } else { None }).collect();
    let reasons: Vec<_> = exits.iter().map(|exit| exit.reason.clone()).collect();
    assert_eq!(reasons, [ExitReason::other("broken"), ExitReason::Killed, ExitReason::Normal]);
    let last = exits[2];
    assert_eq!((last.name.as_deref(), last.label.as_deref()), (Some("the root"), Some("root")));
    // Its children may run on the other scheduler, and end before it waits.
    assert!(last.polls >= 1 && last.messages == 2, "{last:?}");
    drop(runtime);
    assert!(receiver.iter().next().is_none(), "nothing is told twice");
}

#[test]
fn a_child_without_a_label_is_told_by_its_id() {
    let (runtime, receiver) = told(Duration::from_hours(1));
    let child = ChildSpec::new("stock", |ctx| async move { ctx.receive_of::<()>().await }).restart(Restart::Temporary);
    let child = runtime.block_on(move |ctx| async move {
        let tree = Supervisor::new(Strategy::OneForOne).child(child).start_link(&ctx).await.unwrap();
        let children = tree.which_children(&ctx).await.unwrap();
        let ChildState::Running(pid) = children[0].state else { unreachable!("it waits for a message") };
        ctx.monitor(pid);
        ctx.send(pid, ()).await;
        // The tree ends with this process, and must not end before its child.
        ctx.receive_of::<Down>().await;
        pid
    });
    let label = receiver.iter().find_map(|told| match told {
        Told::Exit(exit) if exit.pid == child => Some(exit.label),
        _ => None,
    });
    assert_eq!(label.unwrap().as_deref(), Some("stock"));
}

#[test]
fn a_poll_that_takes_long_is_told_with_its_duration() {
    let (runtime, receiver) = told(Duration::from_millis(20));
    let quick = runtime.spawn(|ctx| async move { ctx.yield_now().await }).unwrap();
    runtime.wait(quick);
    let slow = runtime.spawn(|_| async { std::thread::park_timeout(Duration::from_millis(40)) }).unwrap();
    runtime.wait(slow);
    let took = receiver.iter().find_map(|told| match told {
        Told::Slow { pid, took } if pid == slow => Some(took),
        _ => None,
    });
    assert!(took.unwrap() >= Duration::from_millis(20));
}

#[test]
fn a_hook_that_panics_is_caught() {
    let on_spawn = Some(Hook::new(|_: &rusm_runtime::ProcessSpawn| panic!("in the hook")));
    let runtime = Runtime::start(Config { schedulers: 1, on_spawn, ..Config::default() }).unwrap();
    for _ in 0..10 {
        let (_, end) = runtime.spawn_monitored(|_| async {}).unwrap();
        assert_eq!(end.wait(), ExitReason::Normal);
    }
}

/// A server that shows its number, and one that does not.
#[derive(Debug)]
struct Open(u32);
struct Closed;

impl Server for Open {
    type Args = u32;
    type Call = ();
    type Reply = ();
    type Cast = u32;

    async fn init(_: &Context, number: u32) -> Result<Self, ExitReason> {
        Ok(Self(number))
    }

    async fn handle_call(&mut self, _: &Context, (): (), _: ReplyTo<()>) -> Flow {
        Flow::Continue
    }

    async fn handle_cast(&mut self, _: &Context, more: u32) -> Flow {
        self.0 += more;
        Flow::Continue
    }

    fn debug_state(&self) -> String {
        format!("{self:?}")
    }
}

impl Server for Closed {
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
fn the_state_of_a_server_is_read_after_the_messages_before_it() {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    runtime.block_on(|ctx| async move {
        let open: ServerRef<Open> = ServerRef::start_link(&ctx, 40).await.unwrap();
        let closed: ServerRef<Closed> = ServerRef::start_link(&ctx, ()).await.unwrap();
        open.cast(&ctx, 2).await;
        assert_eq!(ctx.state_of(open.pid()).await.unwrap(), "Open(42)");
        assert_eq!(ctx.runtime().state_of(closed.pid()).await.unwrap(), "it::hooks::Closed { .. }");
        assert!(ctx.state_of(Pid::NONE).await.is_err());
    });
}

#[test]
fn a_process_without_a_state_to_show_says_so_at_once_and_goes_on() {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    runtime.block_on(|ctx| async move {
        let strict = ctx.spawn_link(|ctx| async move {
            Inbox::<()>::new().unmatched(Unmatched::Crash).receive(&ctx).await;
        });
        let strict = strict.unwrap();

        assert_eq!(ctx.state_of(strict).await, Err(CallError::Dropped { to: strict }));
        assert!(ctx.runtime().is_alive(strict));
    });
}

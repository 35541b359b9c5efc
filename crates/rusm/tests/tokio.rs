//! The sentences of `docs/tokio.md` that its programs state and do not test.

#[path = "common/lines.rs"]
mod lines;

use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rusm::observe;
use rusm::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use lines::Lines;

const SHORT: Duration = Duration::from_millis(20);

fn start(schedulers: usize) -> Runtime {
    Runtime::start(Config { schedulers, log_crashes: false, ..Config::default() }).expect("schedulers start")
}

#[test]
fn each_scheduler_has_a_reactor() {
    start(2)
        .block_on(|ctx| async move {
            for scheduler in [0, 1] {
                let pid = ctx.spawn_pinned(scheduler, |ctx| async move {
                    ctx.receive_of::<()>().await;
                    let listener = TcpListener::bind("127.0.0.1:0").await?;
                    let mut client = TcpStream::connect(listener.local_addr()?).await?;
                    let (mut socket, _) = listener.accept().await?;
                    client.write_all(b"x").await?;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    assert_eq!(socket.read_u8().await?, b'x');
                    Ok::<(), ExitReason>(())
                })?;
                let end = ctx.runtime().watch(pid);
                ctx.send(pid, ()).await;
                assert!(end.await.is_normal(), "on scheduler {scheduler}");
            }
            Ok::<(), ExitReason>(())
        })
        .expect("there is room");
}

#[test]
fn a_reply_after_the_timeout_of_tokio_is_discarded() {
    start(1).block_on(|ctx| async move {
        let slow = ctx.spawn(|ctx| async move {
            let Request { reply, .. } = ctx.receive_of::<Request<(), u32>>().await;
            ctx.receive_of::<&str>().await;
            reply.send(&ctx, 7);
        });
        let end = ctx.runtime().watch(slow);
        let answer = tokio::time::timeout(SHORT, ctx.call::<(), u32>(slow, (), Duration::MAX)).await;
        assert!(answer.is_err());

        ctx.send(slow, "reply now").await;

        assert!(end.await.is_normal());
        assert!(ctx.receive_timeout(Duration::ZERO).await.is_none(), "the mailbox is empty");
    });
}

#[test]
fn a_context_panics_in_a_task_of_tokio() {
    type Use = fn(Context, Pid) -> Pin<Box<dyn Future<Output = ()> + Send>>;
    let uses: [(&str, Use); 5] = [
        ("send", |ctx, other| Box::pin(async move { ctx.send(other, ()).await })),
        ("receive", |ctx, _| Box::pin(async move { drop(ctx.receive().await) })),
        ("call", |ctx, other| Box::pin(async move { drop(ctx.call::<(), ()>(other, (), SHORT).await) })),
        ("sleep", |ctx, _| Box::pin(async move { ctx.sleep(SHORT).await })),
        ("spawn", |ctx, _| {
            Box::pin(async move {
                ctx.spawn(|_ctx| async {});
            })
        }),
    ];
    let runtime = start(1);

    for (name, usage) in uses {
        let has_panicked = runtime.block_on(move |ctx| async move {
            let other = ctx.spawn(|_ctx| std::future::pending::<()>());
            tokio::spawn(usage(ctx, other)).await.is_err_and(|error| error.is_panic())
        });
        assert!(has_panicked, "{name}");
    }
}

#[test]
fn a_socket_belongs_to_the_scheduler_on_which_it_was_created() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = start(2);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let connect = || -> std::io::Result<_> {
        let client = std::net::TcpStream::connect(listener.local_addr()?)?;
        let (socket, _) = listener.accept()?;
        socket.set_nonblocking(true)?;
        Ok((client, socket))
    };
    let ((mut foreign_client, foreign), (mut own_client, own)) = (connect()?, connect()?);
    let (release, wait) = std::sync::mpsc::channel();
    let (has_read, read) = std::sync::mpsc::channel();
    // Two readers run on scheduler 1. One has a socket of scheduler 0, which code then blocks.
    let reader = |name: &'static str| {
        let has_read = has_read.clone();
        runtime.spawn_pinned(1, move |ctx| async move {
            let mut socket = ctx.receive_of::<TcpStream>().await;
            has_read.send(name).expect("the test waits");
            socket.read_u8().await.expect("the client has written");
            has_read.send(name).expect("the test waits");
        })
    };
    let (of_foreign, of_own) = (reader("foreign")?, reader("own")?);
    runtime.spawn_pinned(1, move |ctx| async move {
        ctx.send(of_own, TcpStream::from_std(own).expect("it is registered")).await;
    })?;
    assert_eq!(read.recv()?, "own");
    runtime.spawn_pinned(0, move |ctx| async move {
        ctx.send(of_foreign, TcpStream::from_std(foreign).expect("it is registered")).await;
        wait.recv().expect("the test releases it");
    })?;
    assert_eq!(read.recv()?, "foreign");

    std::io::Write::write_all(&mut foreign_client, b"x")?;
    std::io::Write::write_all(&mut own_client, b"x")?;
    assert_eq!(read.recv()?, "own", "its reactor is that of scheduler 1");
    release.send(())?;

    assert_eq!(read.recv()?, "foreign", "its reactor is that of scheduler 0");
    Ok(())
}

#[test]
fn block_in_place_panics_in_a_process() {
    let reason = start(1).block_on(|ctx| async move {
        let pid = ctx.spawn(|_ctx| async { tokio::task::block_in_place(|| ()) });
        ctx.runtime().watch(pid).await
    });
    assert!(reason.to_string().contains("multi-threaded runtime"), "{reason}");
}

#[test]
fn a_timer_belongs_to_the_scheduler_on_which_it_was_created_and_a_channel_to_none() -> Result<(), ExitReason> {
    type Timer = Pin<Box<tokio::time::Sleep>>;
    let runtime = start(2);
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let (has_waited, waited) = std::sync::mpsc::channel();
    let (send, channel) = tokio::sync::oneshot::channel();
    let tell = has_waited.clone();
    let foreign = runtime.spawn_pinned(1, move |ctx| async move {
        tell.send("ready").expect("the test waits");
        ctx.receive_of::<Timer>().await.await;
        tell.send("foreign timer").expect("the test waits");
    })?;
    assert_eq!(waited.recv(), Ok("ready"));
    let (blocked, is_blocked) = std::sync::mpsc::channel();
    runtime.spawn_pinned(0, move |ctx| async move {
        ctx.send(foreign, Box::pin(tokio::time::sleep(Duration::from_millis(1))) as Timer).await;
        send.send("from scheduler 0").expect("the channel is open");
        blocked.send(()).expect("the test waits");
        wait.recv().expect("the test releases it");
    })?;
    is_blocked.recv().expect("it is blocked");

    runtime.spawn_pinned(1, move |_ctx| async move {
        has_waited.send(channel.await.expect("it was sent")).expect("the test waits");
        tokio::time::sleep(SHORT).await;
        has_waited.send("own timer").expect("the test waits");
    })?;

    let first = [waited.recv(), waited.recv()];
    release.send(()).expect("it is blocked");
    assert_eq!(first, [Ok("from scheduler 0"), Ok("own timer")]);
    assert_eq!(waited.recv(), Ok("foreign timer"));
    Ok(())
}

#[test]
fn a_loop_over_a_socket_that_does_not_yield_is_stuck_and_keeps_other_processes_and_signals_out()
-> Result<(), ExitReason> {
    let config = Config { schedulers: 1, stuck_after: SHORT, log_crashes: false, ..Config::default() };
    let runtime = Runtime::start(config)?;
    let (stop, has_run) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    let (tell, told) = std::sync::mpsc::channel();
    let (busy, end) = runtime.spawn_monitored(|_ctx| async move {
        let (mut one, mut other) = UnixStream::pair().expect("a pair of sockets");
        // The first bytes wait for the reactor.
        one.write_all(b"xx").await.expect("the other end is open");
        assert_eq!((other.read_u8().await.ok(), other.read_u8().await.ok()), (Some(b'x'), Some(b'x')));
        tell.send(()).expect("the test waits");
        while !stopped.load(Ordering::Relaxed) {
            one.write_all(b"x").await.expect("the other end is open");
            other.read_u8().await.expect("a byte is there");
        }
        std::future::pending::<()>().await;
    })?;
    told.recv().expect("it runs");
    let ran = Arc::clone(&has_run);
    while observe::stuck(&runtime) != [busy] {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    let other = runtime.spawn(|_ctx| async move { ran.store(true, Ordering::Relaxed) })?;
    runtime.exit(busy, ExitReason::Killed);
    std::thread::park_timeout(SHORT);
    assert!(!has_run.load(Ordering::Relaxed) && runtime.process_count() == 2);

    stop.store(true, Ordering::Relaxed);

    assert_eq!(end.wait(), ExitReason::Killed);
    runtime.wait(other);
    assert!(has_run.load(Ordering::Relaxed));

    // A loop with a yield lets others run.
    let (polite, end) = runtime.spawn_monitored(|ctx| async move {
        let (mut one, mut other) = UnixStream::pair().expect("a pair of sockets");
        loop {
            one.write_all(b"x").await.expect("the other end is open");
            other.read_u8().await.expect("a byte is there");
            ctx.yield_now().await;
        }
    })?;
    runtime.wait(runtime.spawn(|_ctx| async {})?);
    runtime.exit(polite, ExitReason::Shutdown);
    assert_eq!(end.wait(), ExitReason::Shutdown);
    Ok(())
}

#[test]
fn without_a_handler_sigterm_ends_a_program_at_once() {
    const CHILD: &str = "RUSM_TEST_WITHOUT_HANDLER";
    if std::env::var_os(CHILD).is_some() {
        let runtime = start(1);
        runtime.block_on(|ctx| async move {
            ctx.trap_exits(true);
            std::io::stdout().write_all(b"\nup\n").expect("the test reads it");
            std::future::pending::<()>().await;
        });
    }
    let program = std::env::current_exe().expect("a test is a program");
    let mut command = std::process::Command::new(program);
    command.args(["without_a_handler_sigterm_ends_a_program_at_once", "--exact", "--nocapture"]).env(CHILD, "1");
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let lines = std::io::BufReader::new(child.stdout.take().expect("it is a pipe"));
    assert!(std::io::BufRead::lines(lines).map_while(Result::ok).any(|line| line == "up"));

    let told = std::process::Command::new("kill").arg(child.id().to_string()).status();

    assert!(told.is_ok_and(|status| status.success()));
    let status = child.wait().expect("it has ended");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15), "{status}");
}

#[test]
fn a_loop_that_becomes_a_child_of_a_supervisor_starts_again_after_a_crash_which_is_logged() -> Result<(), ExitReason> {
    let lines = Lines::default();
    let writer = lines.clone();
    // The other tests of this program log no crashes.
    tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).init();
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() })?;
    let starts = Arc::new(AtomicU32::new(0));

    runtime.block_on(|ctx| async move {
        let (me, handle) = (ctx.pid(), ctx.runtime());
        let body = move |_: Context| {
            let (handle, starts) = (handle.clone(), Arc::clone(&starts));
            async move {
                let start = starts.fetch_add(1, Ordering::Relaxed);
                handle.send(me, start).await;
                assert!(start > 0, "the first loop crashes");
                std::future::pending::<()>().await;
            }
        };
        let tree = Supervisor::new(Strategy::OneForOne).child(ChildSpec::new("loop", body)).start_link(&ctx).await?;
        assert_eq!([ctx.receive_of::<u32>().await, ctx.receive_of::<u32>().await], [0, 1]);
        assert!(tree.stop(&ctx, Duration::from_secs(5)).await.is_ok());
        Ok::<(), ExitReason>(())
    })?;

    drop(runtime);
    let text = lines.text();
    let crashes = text.lines().filter(|line| line.contains("ERROR") && line.contains("the first loop crashes"));
    assert_eq!(crashes.count(), 1, "{text}");
    Ok(())
}

#[test]
fn a_process_that_ignores_the_shutdown_delays_those_before_it_for_nine_tenths_of_the_time() -> Result<(), ExitReason> {
    // A tenth of it is left to the others.
    const DEADLINE: Duration = Duration::from_secs(5);
    let runtime = start(1);
    let (tell, told) = std::sync::mpsc::channel();
    let (trapping, traps) = std::sync::mpsc::channel();
    for _ in 0..3 {
        let tell = tell.clone();
        runtime.spawn(|ctx| async move {
            ctx.trap_exits(true);
            ctx.receive_of::<Exit>().await;
            tell.send(Instant::now()).expect("the test waits");
        })?;
    }
    runtime.spawn(|ctx| async move {
        ctx.trap_exits(true);
        trapping.send(()).expect("the test waits");
        std::future::pending::<()>().await;
    })?;
    traps.recv().expect("both run");
    let began = Instant::now();

    let report = runtime.shutdown(DEADLINE);

    assert_eq!(report.killed, 1);
    for _ in 0..3 {
        assert!(told.recv().expect("it has received the signal") - began >= DEADLINE * 9 / 10);
    }
    Ok(())
}

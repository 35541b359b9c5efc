//! The sentences of `docs/tokio.md` that its programs state and do not test.

use std::pin::Pin;
use std::time::Duration;

use rusm::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

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

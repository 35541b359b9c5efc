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

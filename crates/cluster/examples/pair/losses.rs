//! Time until a process is told that the node of another is gone.

use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusm_runtime::{Context, Down, ExitReason};

use crate::{Measured, Member, Peer, SOON};

/// Kills the other node, and returns the time until the monitor of one of its processes says so.
pub(crate) fn killed(member: &Member, mut peer: Peer) -> Measured<Duration> {
    let down = monitor(member)?;
    let start = Instant::now();
    peer.0.kill()?;
    wait(member, &down, start)
}

/// Does the same for a node that is stopped, and stays stopped.
pub(crate) fn stopped(member: &Member, peer: &Peer) -> Measured<Duration> {
    let down = monitor(member)?;
    let start = Instant::now();
    Command::new("kill").args(["-STOP", &peer.0.id().to_string()]).status()?;
    wait(member, &down, start)
}

/// Monitors a process of the other node.
fn monitor(member: &Member) -> Measured<Receiver<(Instant, ExitReason)>> {
    let (tell, told) = channel();
    let (ready, is_ready) = channel();
    member.runtime.spawn(move |ctx: Context| async move {
        let echo = ctx.spawn_on("b", "echo", Bytes::new()).await;
        if let Ok(echo) = echo {
            ctx.monitor(echo);
            // The answer comes after the monitor.
            _ = ready.send(ctx.call::<Bytes, Bytes>(echo, Bytes::new(), SOON).await.is_ok());
            let down = ctx.receive_of::<Down>().await;
            _ = tell.send((Instant::now(), down.reason));
        }
    })?;
    if is_ready.recv()? { Ok(told) } else { Err("the other node does not answer".into()) }
}

fn wait(member: &Member, down: &Receiver<(Instant, ExitReason)>, start: Instant) -> Measured<Duration> {
    let (at, reason) = down.recv_timeout(SOON)?;
    if reason != ExitReason::NoConnection {
        return Err(format!("the process ended with {reason}").into());
    }
    while member.runtime.node_named("b").is_some() {
        std::thread::yield_now();
    }
    Ok(at - start)
}

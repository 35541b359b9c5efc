//! Round trips and one-way messages between processes of the two nodes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusm_runtime::{Context, Pid};

use crate::{Measured, Member, PAYLOAD, SOON};

/// Number of round trips of one measurement.
pub(crate) const ROUND_TRIPS: usize = 20_000;
/// Time of one measurement of throughput.
pub(crate) const WINDOW: Duration = Duration::from_secs(3);

/// Percentiles of round trips, in microseconds.
pub(crate) struct Latency {
    pub(crate) p50: f64,
    p99: f64,
    p999: f64,
}

impl Latency {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |per_mille: usize| times[(times.len() * per_mille / 1_000).min(times.len() - 1)].as_secs_f64() * 1e6;
        Self { p50: at(500), p99: at(990), p999: at(999) }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.1} {:>10.1} {:>10.1}", self.p50, self.p99, self.p999)
    }
}

/// Runs a process on this node, and returns its result.
pub(crate) fn on_node<T: Send + 'static, F: Future<Output = Measured<T>> + Send + 'static>(
    member: &Member,
    body: impl FnOnce(Context) -> F + Send + 'static,
) -> Measured<T> {
    let (give, take) = channel();
    let run = move |ctx: Context| {
        let body = body(ctx);
        async move { drop(give.send(body.await)) }
    };
    member.runtime.spawn(run)?;
    take.recv()?
}

/// Measures calls from a process here to a process of the other node, one at a time.
pub(crate) fn calls(member: &Member) -> Measured<Latency> {
    on_node(member, |ctx| async move {
        let echo = ctx.spawn_on("b", "echo", Bytes::new()).await?;
        let payload = Bytes::from(vec![0; PAYLOAD]);
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let start = Instant::now();
            ctx.call::<Bytes, Bytes>(echo, payload.clone(), SOON).await?;
            times.push(start.elapsed());
        }
        Ok(Latency::of(times))
    })
}

/// Returns the messages per second from senders here to receivers of the other node. All that was sent must arrive.
pub(crate) fn one_way(member: &Member, senders: usize, sinks: usize) -> Measured<f64> {
    let pids = on_node(member, move |ctx| async move {
        let mut pids = Vec::new();
        for _ in 0..sinks {
            pids.push(ctx.spawn_on("b", "sink", Bytes::new()).await?);
        }
        Ok(pids)
    })?;
    let is_over = Arc::new(AtomicBool::new(false));
    let (give, take) = channel();
    let start = Instant::now();
    for sender in 0..senders {
        let (to, is_over, give) = (pids[sender % sinks], Arc::clone(&is_over), give.clone());
        member.runtime.spawn(move |ctx: Context| async move {
            let payload = Bytes::from(vec![0; PAYLOAD]);
            let mut sent = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                ctx.send(to, payload.clone()).await;
                sent += 1;
            }
            _ = give.send(sent);
        })?;
    }
    drop(give);
    std::thread::park_timeout(WINDOW);
    is_over.store(true, Ordering::Relaxed);
    let sent: u64 = take.iter().sum();
    let received = received(member, pids)?;
    let rate = received as f64 / start.elapsed().as_secs_f64();
    if sent == received { Ok(rate) } else { Err(format!("{sent} messages were sent and {received} arrived").into()) }
}

/// Asks the receivers how many messages they have; the question comes after all messages. Then ends them.
fn received(member: &Member, pids: Vec<Pid>) -> Measured<u64> {
    on_node(member, |ctx| async move {
        let mut received = 0;
        for sink in pids {
            let count = ctx.call::<Bytes, Bytes>(sink, Bytes::new(), SOON).await?;
            received += u64::from_le_bytes(count.as_ref().try_into()?);
            ctx.exit(sink, rusm_runtime::ExitReason::Killed);
        }
        Ok(received)
    })
}

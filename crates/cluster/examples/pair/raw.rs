//! The transport alone: a session of zenoh in each process, configured as the link of nodes configures it.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use zenoh::Wait;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::CongestionControl;

use crate::traffic::{Latency, ROUND_TRIPS, WINDOW};
use crate::{Measured, PAYLOAD, SOON};

/// Number of messages after which the receiver says how many it has.
const ACK_EVERY: u64 = 256;
/// Messages that may be on the way, as for nodes.
const IN_FLIGHT: u64 = 4_096;

fn open(listen: Option<SocketAddr>, connect: Option<&str>) -> Measured<zenoh::Session> {
    let listen = listen.map(|at| format!("\"tcp/{at}\"")).unwrap_or_default();
    let connect = connect.map(|at| format!("\"tcp/{at}\"")).unwrap_or_default();
    let text = format!(
        "{{ mode: \"peer\", listen: {{ endpoints: [{listen}] }}, connect: {{ endpoints: [{connect}] }}, \
         scouting: {{ multicast: {{ enabled: false }} }}, timestamping: {{ enabled: false }}, \
         transport: {{ link: {{ protocols: [\"tcp\"] }}, shared_memory: {{ enabled: false }} }} }}"
    );
    zenoh::open(zenoh::Config::from_json5(&text)?).wait()
}

/// Echoes what arrives at `ping`, and counts what arrives at `flood`, for as long as it exists.
pub(crate) fn echo(connect: &str) -> Measured<(zenoh::Session, Vec<Subscriber<()>>)> {
    let session = open(None, Some(connect))?;
    let publisher = |key: &'static str| {
        session.declare_publisher(key).congestion_control(CongestionControl::Block).express(true).wait()
    };
    let (answers, acks) = (publisher("bench/pong")?, publisher("bench/ack")?);
    let answer = move |sample: zenoh::sample::Sample| {
        drop(answers.put(sample.payload().clone()).wait());
    };
    let ping = session.declare_subscriber("bench/ping").callback(answer).wait()?;
    let counted = AtomicU64::new(0);
    let count = move |_sample: zenoh::sample::Sample| {
        let count = counted.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_multiple_of(ACK_EVERY) {
            drop(acks.put(count.to_le_bytes().to_vec()).wait());
        }
    };
    let flood = session.declare_subscriber("bench/flood").callback(count).wait()?;
    Ok((session, vec![ping, flood]))
}

/// The side that measures.
pub(crate) struct Pinger {
    address: SocketAddr,
    ping: Publisher<'static>,
    flood: Publisher<'static>,
    pongs: Receiver<()>,
    acknowledged: Arc<AtomicU64>,
    sent: AtomicU64,
    _subscribers: Vec<Subscriber<()>>,
    _session: zenoh::Session,
}

impl Pinger {
    pub(crate) fn open() -> Measured<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let session = open(Some(address), None)?;
        let (arrived, pongs) = channel();
        let on_pong = move |_sample: zenoh::sample::Sample| {
            // The measuring side may have ended.
            _ = arrived.send(());
        };
        let acknowledged = Arc::new(AtomicU64::new(0));
        let newest = Arc::clone(&acknowledged);
        let on_ack = move |sample: zenoh::sample::Sample| {
            if let Ok(count) = sample.payload().to_bytes().as_ref().try_into() {
                newest.store(u64::from_le_bytes(count), Ordering::Release);
            }
        };
        let subscribers = vec![
            session.declare_subscriber("bench/pong").callback(on_pong).wait()?,
            session.declare_subscriber("bench/ack").callback(on_ack).wait()?,
        ];
        let block = CongestionControl::Block;
        let ping = session.declare_publisher("bench/ping").congestion_control(block).express(true).wait()?;
        let flood = session.declare_publisher("bench/flood").congestion_control(block).wait()?;
        let sent = AtomicU64::new(0);
        Ok(Self { address, ping, flood, pongs, acknowledged, sent, _subscribers: subscribers, _session: session })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the other side answers.
    fn is_ready(&self) -> Measured<()> {
        let until = Instant::now() + SOON;
        while Instant::now() < until {
            self.ping.put(vec![0; PAYLOAD]).wait()?;
            if self.pongs.recv_timeout(Duration::from_millis(100)).is_ok() {
                // Answers to earlier attempts.
                while self.pongs.recv_timeout(Duration::from_millis(100)).is_ok() {}
                return Ok(());
            }
        }
        Err("the raw session does not answer".into())
    }

    pub(crate) fn round_trips(&self) -> Measured<Latency> {
        self.is_ready()?;
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let start = Instant::now();
            self.ping.put(vec![0; PAYLOAD]).wait()?;
            self.pongs.recv_timeout(SOON)?;
            times.push(start.elapsed());
        }
        Ok(Latency::of(times))
    }

    /// Returns the messages per second, with as many on the way as nodes allow.
    pub(crate) fn one_way(&self) -> Measured<f64> {
        self.is_ready()?;
        let before = self.acknowledged.load(Ordering::Acquire);
        let start = Instant::now();
        while start.elapsed() < WINDOW {
            let sent = self.sent.load(Ordering::Relaxed);
            if sent - self.acknowledged.load(Ordering::Acquire) < IN_FLIGHT {
                self.flood.put(vec![0; PAYLOAD]).wait()?;
                self.sent.store(sent + 1, Ordering::Relaxed);
            } else {
                std::hint::spin_loop();
            }
        }
        Ok((self.acknowledged.load(Ordering::Acquire) - before) as f64 / start.elapsed().as_secs_f64())
    }
}

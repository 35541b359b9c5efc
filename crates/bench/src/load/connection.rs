//! A connection: a process that takes arrivals and has at most one operation in flight.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusm_runtime::Context;
use tokio::time::timeout;

use super::arrivals::Arrivals;
use super::dial::{dial, dial_http};
use super::h2::{H2Link, H2Request};
use super::held;
use super::http::HttpLink;
use super::options::{LoadError, LoadProtocol, Target};
use super::sse;
use super::tcp::TcpLink;
use super::ws::WsLink;
use crate::measure::meter::{Meter, Recorder};
use crate::run::flags::StopFlag;

/// Longest single sleep, so that a connection soon sees the stop flag.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Pause of a connection in a closed loop after a fast failure.
const REST: Duration = Duration::from_millis(10);
/// Maximum number of distinct kinds of failures.
const KINDS_MAX: usize = 32;

/// Kinds of failures with their counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Mutex<BTreeMap<String, u64>>>);

impl Faults {
    fn note(&self, kind: String) {
        let mut kinds = self.0.lock();
        let kind = if kinds.len() < KINDS_MAX || kinds.contains_key(&kind) { kind } else { "others".to_owned() };
        *kinds.entry(kind).or_default() += 1;
    }

    /// Returns the kinds of failures, most frequent first.
    pub(crate) fn read(&self) -> Vec<(String, u64)> {
        let kinds = self.0.lock();
        let mut kinds: Vec<_> = kinds.iter().map(|(kind, count)| (kind.clone(), *count)).collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        kinds
    }
}

/// State of a connection's process.
pub(crate) struct Worker {
    pub(crate) target: Arc<Target>,
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) recorder: Recorder,
    pub(crate) meter: Arc<Meter>,
    pub(crate) threads: usize,
    pub(crate) stop: StopFlag,
    pub(crate) faults: Faults,
}

impl Worker {
    pub(crate) async fn run(mut self, ctx: Context) {
        ctx.set_label("connection");
        let mut link = None;
        while !self.stop.is_set() {
            let arrival = self.arrivals.claim();
            let stamp = match arrival {
                Some(intended) => {
                    if !self.wait(&ctx, intended).await {
                        return;
                    }
                    self.recorder.begin_at(|| intended)
                }
                None => self.recorder.begin(),
            };
            let began = Instant::now();
            match operation(&self.target, &mut link).await {
                Ok(()) => {
                    self.recorder.end(stamp);
                    let latency_parts = self.meter.init_latency_parts(self.threads);
                    latency_parts.services.add(began.elapsed().as_nanos() as u64);
                    self.recorder.count(1);
                }
                Err(kind) => {
                    link = None;
                    self.recorder.fail(1);
                    self.faults.note(kind);
                    if arrival.is_some() {
                        // The schedule sets the pace, but an immediate refusal does not wait for anything: yield to
                        // other connections.
                        ctx.yield_now().await;
                    } else if began.elapsed() < REST {
                        ctx.sleep(REST).await;
                    }
                }
            }
        }
    }

    /// Waits until the intended start of an arrival. Returns false if the run stops meanwhile.
    async fn wait(&self, ctx: &Context, intended: Instant) -> bool {
        let mut waited = false;
        loop {
            let left = intended.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if self.stop.is_set() {
                return false;
            }
            waited = true;
            ctx.sleep_precise(left.min(SLEEP_MAX)).await;
        }
        if waited {
            // Nothing but the timer was in the way: this lateness is the generator's own.
            let late = intended.elapsed().as_nanos() as u64;
            self.meter.init_latency_parts(self.threads).pacer.add(late);
        }
        true
    }
}

/// An open connection.
pub(crate) enum Link {
    Http(HttpLink),
    H2(Box<H2Link>, H2Request),
    Ws(Box<WsLink>),
    Tcp(TcpLink),
}

impl Link {
    /// Returns true if the server closed the connection while no operation was in flight. Only HTTP allows that.
    fn is_gone(&mut self) -> bool {
        match self {
            Self::Http(http) => http.is_gone(),
            Self::H2(h2, _) => h2.is_gone(),
            Self::Ws(_) | Self::Tcp(_) => false,
        }
    }
}

/// Performs one operation on the kept connection, or on a new one. The error describes the problem in a few words.
async fn operation(target: &Target, link: &mut Option<Link>) -> Result<(), String> {
    let within = target.options.timeout;
    let late = |_| format!("no answer within {within:?}");
    timeout(within, exchange(target, link)).await.map_err(late)?
}

async fn exchange(target: &Target, link: &mut Option<Link>) -> Result<(), String> {
    if target.options.protocol == LoadProtocol::Sse {
        return sse::stream(target).await;
    }
    if target.options.protocol == LoadProtocol::Conn {
        return held::probe(target).await;
    }
    if link.as_mut().is_some_and(Link::is_gone) {
        *link = None;
    }
    let open = match link {
        Some(open) => open,
        None => link.insert(open(target).await?),
    };
    let keep = match open {
        Link::Http(http) => http.request(&target.request, &target.options.method).await?,
        Link::H2(h2, request) => h2.request(request).await?,
        Link::Ws(ws) => ws.echo(&target.request).await?,
        Link::Tcp(tcp) => tcp.echo(&target.request).await?,
    };
    if !keep {
        *link = None;
    }
    Ok(())
}

async fn open(target: &Target) -> Result<Link, String> {
    if let Some(request) = &target.h2 {
        return Ok(Link::H2(Box::new(H2Link::open(dial_http(target).await?).await?), request.clone()));
    }
    Ok(match target.options.protocol {
        LoadProtocol::Http | LoadProtocol::Sse | LoadProtocol::Conn => {
            Link::Http(HttpLink::new(dial_http(target).await?))
        }
        LoadProtocol::Ws => Link::Ws(Box::new(WsLink::open(dial_http(target).await?, target).await?)),
        LoadProtocol::Tcp => Link::Tcp(TcpLink::new(dial(target).await?)),
    })
}

/// Finds the first address of the server that answers correctly, and returns a target with that address.
pub(super) async fn probe(mut target: Target) -> Result<Target, LoadError> {
    let mut faults = Vec::new();
    for address in target.addresses.clone() {
        target.address = address;
        match operation(&target, &mut None).await {
            Ok(()) => return Ok(target),
            Err(fault) => faults.push((address, fault)),
        }
    }
    let reason = match faults.as_slice() {
        [(_, fault)] => fault.clone(),
        faults => faults.iter().map(|(address, fault)| format!("{address} {fault}")).collect::<Vec<_>>().join("; "),
    };
    Err(LoadError::Probe { url: target.options.url, reason })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::load::LoadOptions;

    #[tokio::test]
    async fn a_kept_connection_that_the_server_closed_is_replaced_and_no_failure() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    head.extend(byte);
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            }
        });
        let target = LoadOptions { protocol: LoadProtocol::Http, url, ..LoadOptions::default() }.target().unwrap();
        let mut link = None;

        operation(&target, &mut link).await.unwrap();
        let closed = async {
            while !link.as_mut().is_some_and(Link::is_gone) {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_mins(1), closed).await.unwrap();
        operation(&target, &mut link).await.unwrap();

        server.join().unwrap();
    }

    #[tokio::test]
    async fn of_a_host_with_several_addresses_the_first_that_answers_is_loaded() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut message = [0; 64];
            stream.read_exact(&mut message).unwrap();
            stream.write_all(&message).unwrap();
        });
        let target = |addresses: &[std::net::SocketAddr]| {
            let url = format!("tcp://{gone}");
            let target = LoadOptions { protocol: LoadProtocol::Tcp, url, ..LoadOptions::default() }.target().unwrap();
            Target { addresses: addresses.to_vec(), ..target }
        };

        assert_eq!(probe(target(&[gone, here])).await.unwrap().address, here);

        server.join().unwrap();
        let nobody = probe(target(&[gone, gone])).await.unwrap_err().to_string();
        assert_eq!(nobody.matches(&format!("{gone} cannot connect: ")).count(), 2, "{nobody}");
    }
}

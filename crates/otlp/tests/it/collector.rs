//! A collector: a server of HTTP that decodes JSON and answers as a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusm_otlp::OtlpConfig;
use serde_json::Value;

/// Time limit for anything that a test waits for.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A request of an exporter.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    /// Headers, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

/// How the collector answers a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Status, further lines of the head, and body.
    Status(u16, &'static str, &'static str),
    /// Never.
    Silence,
}

pub(crate) const OK: Answer = Answer::Status(200, "", "{\"partialSuccess\":{}}");

#[derive(Default)]
struct State {
    received: Mutex<Vec<Received>>,
    arrived: Condvar,
}

/// A running collector.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

impl Collector {
    /// Starts a collector; `answer` gets the number of the request, from 0, and the request.
    pub(crate) fn start(answer: impl Fn(usize, &Received) -> Answer + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), answer)
    }

    pub(crate) fn on(
        listener: TcpListener,
        answer: impl Fn(usize, &Received) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let (address, state) = (listener.local_addr().unwrap(), Arc::new(State::default()));
        let (of_thread, answer) = (Arc::clone(&state), Arc::new(answer));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (state, answer) = (Arc::clone(&of_thread), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &state, &*answer));
            }
        });
        Self { address, state }
    }

    /// Returns a configuration for this collector, with short times.
    pub(crate) fn config(&self) -> OtlpConfig {
        config(&format!("http://{}", self.address))
    }

    /// Waits until the requests are as expected, and returns them.
    pub(crate) fn wait(&self, expected: impl Fn(&[Received]) -> bool) -> Vec<Received> {
        let end = Instant::now() + DEADLINE;
        let mut received = self.state.received.lock();
        while !expected(&received) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "not in time: {received:#?}");
            self.state.arrived.wait_for(&mut received, left);
        }
        received.clone()
    }

    /// Waits for the first request to a path, and returns it.
    pub(crate) fn first(&self, path: &str) -> Received {
        let received = self.wait(|received| received.iter().any(|request| request.path == path));
        received.into_iter().find(|request| request.path == path).unwrap()
    }
}

/// Returns a configuration with short times and without metrics in between.
pub(crate) fn config(endpoint: &str) -> OtlpConfig {
    OtlpConfig {
        delay: Duration::from_millis(10),
        first_pause: Duration::from_millis(20),
        interval: Duration::from_hours(1),
        ..OtlpConfig::new(endpoint)
    }
}

/// Serves a connection.
pub(crate) fn serve_one<S: Read + Write>(
    stream: &mut BufReader<S>,
    respond: impl FnOnce(&Received) -> Answer,
) -> Option<()> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut headers, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().unwrap();
        }
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let received = Received { path, headers, body: serde_json::from_slice(&body).unwrap() };
    match respond(&received) {
        Answer::Silence => {
            // Until the exporter closes the connection.
            drop(stream.read(&mut [0]));
            None
        }
        Answer::Status(status, head, body) => {
            let stream = stream.get_mut();
            write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: {}\r\n{head}\r\n{body}", body.len()).ok()?;
            stream.flush().ok()
        }
    }
}

fn serve(stream: std::net::TcpStream, state: &State, answer: &(dyn Fn(usize, &Received) -> Answer + Send + Sync)) {
    let mut stream = BufReader::new(stream);
    let respond = |request: &Received| {
        let mut received = state.received.lock();
        let number = received.len();
        received.push(request.clone());
        state.arrived.notify_all();
        drop(received);
        answer(number, request)
    };
    while serve_one(&mut stream, respond).is_some() {}
}

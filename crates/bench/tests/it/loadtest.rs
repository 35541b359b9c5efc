//! Load tests against small real servers, some of them faulty: what is counted, and from which time.

#![expect(clippy::unwrap_used, reason = "a test helper may panic like the test itself")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, stream};
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, header};
use hyper_util::rt::TokioIo;
use rusm_bench::{Document, Load, LoadError, LoadOptions, LoadProtocol, Recipe, Report, SearchOptions, find_max};
use rusm_runtime::{Config, Runtime};
use rusm_serve::{Request, Router, ServeConfig, TlsFiles, websocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Behaviour of a server.
#[derive(Clone, Debug)]
enum Fixture {
    /// Answers each request with these pieces, through hyper: a single piece has a length, several are sent as chunks.
    Hyper(&'static [&'static str]),
    /// Like `Hyper`, as an event stream with these events.
    Events(&'static [&'static str]),
    /// Like `Hyper`, but answers nothing for `length`, beginning `from` after the first request.
    Freezes { from: Duration, length: Duration },
    /// Answers each request head with these bytes.
    Http(Vec<u8>),
    /// Like `Http`, but closes the connection after the answer.
    HttpOnce(Vec<u8>),
    /// Echoes each message.
    WebSocket,
    /// Echoes each byte.
    Echo,
    /// Answers each byte with a different one.
    WrongEcho,
    /// Never answers.
    Silent,
}

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// A server on its own thread that lives as long as the test process.
struct Server {
    address: SocketAddr,
    answered: Arc<AtomicU64>,
}

impl Server {
    fn start(fixture: Fixture) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let answered = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&answered);
        std::thread::spawn(move || {
            let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let tasks = tokio::task::LocalSet::new();
            tasks.block_on(&reactor, async move {
                let listener = TcpListener::from_std(listener).unwrap();
                let first = Arc::new(OnceLock::new());
                while let Ok((stream, _)) = listener.accept().await {
                    stream.set_nodelay(true).unwrap();
                    tokio::task::spawn_local(serve(stream, fixture.clone(), Arc::clone(&counter), Arc::clone(&first)));
                }
            });
        });
        Self { address, answered }
    }

    fn options(&self, protocol: LoadProtocol) -> LoadOptions {
        let url = format!("{}://{}/", protocol.scheme(), self.address);
        LoadOptions { protocol, url, connections: 8, ..LoadOptions::default() }
    }
}

async fn serve(
    mut stream: TcpStream,
    fixture: Fixture,
    answered: Arc<AtomicU64>,
    first: Arc<OnceLock<Instant>>,
) -> Option<()> {
    match fixture {
        Fixture::Http(answer) => loop {
            request(&mut stream).await?;
            stream.write_all(&answer).await.ok()?;
            answered.fetch_add(1, Ordering::Relaxed);
        },
        Fixture::HttpOnce(answer) => {
            request(&mut stream).await?;
            stream.write_all(&answer).await.ok()?;
            stream.shutdown().await.ok()
        }
        Fixture::Hyper(pieces) => hyper(stream, "text/plain", pieces, answered, || std::future::ready(())).await,
        Fixture::Events(events) => {
            hyper(stream, "text/event-stream", events, answered, || std::future::ready(())).await
        }
        Fixture::Freezes { from, length } => {
            let answers = Arc::clone(&answered);
            let thaws = || {
                // The first request of all is the trial before the measurement, which a slow machine may begin much later.
                let is_trial = answers.load(Ordering::Relaxed) == 0;
                let freeze = if is_trial { Instant::now() } else { *first.get_or_init(Instant::now) } + from;
                let is_frozen = (freeze..freeze + length).contains(&Instant::now());
                async move {
                    if is_frozen {
                        tokio::time::sleep_until((freeze + length).into()).await;
                    }
                }
            };
            hyper(stream, "text/plain", &["hello"], answered, thaws).await
        }
        Fixture::WebSocket => {
            let mut socket = tokio_tungstenite::accept_async(stream).await.ok()?;
            while let Some(Ok(message)) = socket.next().await {
                socket.send(message).await.ok()?;
            }
            Some(())
        }
        Fixture::Echo => echo(&mut stream, 0).await,
        Fixture::WrongEcho => echo(&mut stream, 1).await,
        Fixture::Silent => std::future::pending().await,
    }
}

/// Serves a connection with hyper; each answer waits for `ready`.
async fn hyper<R: Future<Output = ()>>(
    stream: TcpStream,
    content_type: &'static str,
    pieces: &'static [&'static str],
    answered: Arc<AtomicU64>,
    ready: impl Fn() -> R,
) -> Option<()> {
    let service = service_fn(|_| {
        let (answered, is_ready) = (Arc::clone(&answered), ready());
        async move {
            is_ready.await;
            answered.fetch_add(1, Ordering::Relaxed);
            let frames =
                pieces.iter().map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from_static(piece.as_bytes()))));
            let mut answer = Response::builder().header(header::CONTENT_TYPE, content_type);
            if let [piece] = pieces {
                answer = answer.header(header::CONTENT_LENGTH, piece.len());
            }
            answer.body(StreamBody::new(stream::iter(frames)))
        }
    });
    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok()
}

async fn echo(stream: &mut TcpStream, add: u8) -> Option<()> {
    let mut buffer = vec![0; 4096];
    loop {
        let len = stream.read(&mut buffer).await.ok().filter(|len| *len > 0)?;
        buffer[..len].iter_mut().for_each(|byte| *byte = byte.wrapping_add(add));
        stream.write_all(&buffer[..len]).await.ok()?;
    }
}

/// Reads a request without a body.
async fn request(stream: &mut TcpStream) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some(())
}

fn recipe(rate: Option<f64>, duration_ms: u64) -> Recipe {
    let warm_up = 100;
    Recipe {
        rate_per_sec: rate,
        runs: 1,
        duration_ms,
        warm_up_min_ms: warm_up,
        warm_up_max_ms: warm_up,
        ..Recipe::default()
    }
}

fn config() -> Config {
    Config { schedulers: 2, ..Config::default() }
}

/// Runs it for 400 ms, or longer until it has the required numbers of answers and failures.
fn run(options: &LoadOptions, rate: Option<f64>, least: (u64, u64)) -> (Document, Vec<(String, u64)>) {
    let mut duration_ms = 400;
    loop {
        let load = Load::prepare(options.clone()).unwrap();
        let document = load.run(&recipe(rate, duration_ms), &config(), |_, _| ()).unwrap();
        let report = one(&document);
        if report.ops_total >= least.0 && report.errors_total >= least.1 || duration_ms > 20_000 {
            return (document, load.faults());
        }
        duration_ms *= 4;
    }
}

fn one(document: &Document) -> &Report {
    &document.runs[0]
}

#[test]
fn every_protocol_is_answered_in_both_loops() {
    let chunked =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\n by\r\n0\r\nTrailer: 1\r\n\r\n";
    let events = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\ndata: 2\n\n";
    let cases = [
        (LoadProtocol::Http, Fixture::Hyper(&["hello"])),
        (LoadProtocol::Http, Fixture::Hyper(&["hello", " by", " hyper"])),
        (LoadProtocol::Sse, Fixture::Events(&["data: 1\n\n", "data: 2\n\ndata: 3\n\n"])),
        (LoadProtocol::Http, Fixture::Http(HELLO.to_vec())),
        (LoadProtocol::Http, Fixture::Http(chunked.to_vec())),
        (LoadProtocol::Http, Fixture::HttpOnce(b"HTTP/1.0 200 OK\r\n\r\nuntil the end".to_vec())),
        (LoadProtocol::Ws, Fixture::WebSocket),
        (LoadProtocol::Sse, Fixture::HttpOnce(events.to_vec())),
        (LoadProtocol::Tcp, Fixture::Echo),
    ];
    for (protocol, fixture) in cases {
        let server = Server::start(fixture.clone());
        for rate in [None, Some(500.0)] {
            let options = LoadOptions { events: 2, ..server.options(protocol) };

            let (document, faults) = run(&options, rate, (1, 0));

            let report = one(&document);
            assert_eq!((report.errors_total, &faults), (0, &Vec::new()), "{fixture:?}: {report}");
            assert!(report.ops_total > 0 && report.service.as_ref().is_some_and(|seen| seen.count > 0), "{report}");
            assert_eq!(report.open_loop.is_some(), rate.is_some());
            assert_eq!(document.recipe.scenario, protocol.scenario());
            assert_eq!(document.recipe.params["connections"], "8");
        }
    }
}

#[test]
fn an_encrypted_server_is_loaded_if_its_authority_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, signed.cert.pem()).unwrap();
    std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
    let runtime = Runtime::start(config()).unwrap();
    let router = Router::new().route("GET /", async |_: Request| "hello").unwrap();
    let router = router.route("GET /2", async |request: Request| format!("{:?}", needs_http2(&request))).unwrap();
    let router = router.route("GET /socket", async |request: Request| {
        websocket::upgrade(request, async |mut socket| {
            while let Ok(Some(message)) = socket.receive().await {
                if socket.send(message).await.is_err() {
                    break;
                }
            }
        })
    });
    let tls = Some(TlsFiles { certificate: certificate.clone(), key });
    let server = ServeConfig { tls, ..ServeConfig::listen(([127, 0, 0, 1], 0)) };
    let server = rusm_serve::Server::start(&runtime, server, router.unwrap()).unwrap();
    let port = server.local_addr().port();
    let options = |protocol, url: String, authority| LoadOptions { protocol, url, authority, ..LoadOptions::default() };

    for (protocol, url) in [
        (LoadProtocol::Http, format!("https://localhost:{port}/")),
        (LoadProtocol::Ws, format!("wss://localhost:{port}/socket")),
    ] {
        let (document, faults) = run(&options(protocol, url, Some(certificate.clone())), None, (1, 0));
        assert_eq!((one(&document).errors_total, faults), (0, Vec::new()), "{}", one(&document));
    }
    let http2 = options(LoadProtocol::Http, format!("https://localhost:{port}/2"), Some(certificate.clone()));
    let (document, faults) = run(&LoadOptions { http2: true, ..http2 }, None, (1, 0));
    assert_eq!((one(&document).errors_total, faults), (0, Vec::new()), "{}", one(&document));
    let refused = Load::prepare(options(LoadProtocol::Http, format!("https://localhost:{port}/"), None)).err().unwrap();
    assert!(refused.to_string().contains("TLS handshake failed: invalid peer certificate"), "{refused}");
}

/// Panics at a request that is not of HTTP/2, so that its client gets 500.
fn needs_http2(request: &Request) {
    assert_eq!(request.version(), http::Version::HTTP_2);
}

#[test]
fn requests_of_http2_have_a_body_and_headers() {
    let runtime = Runtime::start(config()).unwrap();
    let echo = async |mut request: Request| {
        needs_http2(&request);
        assert_eq!((request.header("x-kind"), request.header("user-agent")), (Some("a"), Some("rusm")));
        let body = request.bytes().await.unwrap();
        assert_eq!(body.len(), 300_000);
        body
    };
    let server = ServeConfig::listen(([127, 0, 0, 1], 0));
    let server = rusm_serve::Server::start(&runtime, server, Router::new().route("POST /", echo).unwrap()).unwrap();
    let options = LoadOptions {
        url: format!("http://{}/", server.local_addr()),
        method: "POST".to_owned(),
        headers: vec!["X-Kind: a".to_owned()],
        body: "x".repeat(300_000),
        connections: 3,
        http2: true,
        ..LoadOptions::default()
    };

    let (document, faults) = run(&options, None, (1, 0));

    assert_eq!((one(&document).errors_total, faults), (0, Vec::new()), "{}", one(&document));
    let refused = Load::prepare(LoadOptions { http2: false, ..options }).err().unwrap();
    assert!(refused.to_string().ends_with("status 500"), "{refused}");
}

#[test]
fn what_is_counted_was_answered() {
    let server = Server::start(Fixture::Hyper(&["hello"]));

    let (document, _) = run(&server.options(LoadProtocol::Http), None, (1, 0));

    let answered = server.answered.load(Ordering::Relaxed);
    assert!(one(&document).ops_total <= answered, "{} of {answered}", one(&document).ops_total);
}

#[test]
fn a_server_that_freezes_is_charged_for_all_who_came_meanwhile() {
    // A tenth of 10 s at 1,000/s arrives during the freeze of one second, and a tenth of those wait 0.9 s or more. On a
    // slow machine the part is larger, never smaller.
    let freezes = || Fixture::Freezes { from: Duration::from_secs(5), length: Duration::from_secs(1) };
    let open = Server::start(freezes());
    let closed = Server::start(freezes());
    let measure = |server: &Server, rate| {
        let options = LoadOptions { connections: 1, ..server.options(LoadProtocol::Http) };
        let load = Load::prepare(options).unwrap();
        let document = load.run(&recipe(rate, 10_000), &config(), |_, _| ()).unwrap();
        one(&document).clone()
    };

    let (open, closed) = std::thread::scope(|scope| {
        let closed = scope.spawn(|| measure(&closed, None));
        (measure(&open, Some(1_000.0)), closed.join().unwrap())
    });

    let tail = |report: &Report| report.latency.as_ref().unwrap().distribution;
    assert!(tail(&open).p99_ns >= 880_000_000, "{open}");
    assert!(tail(&open).p95_ns >= 450_000_000, "{open}");
    // The closed loop sends only one request during the freeze.
    assert!(tail(&closed).max_ns >= 500_000_000, "{closed}");
    assert!(tail(&closed).p99_ns < tail(&open).p99_ns, "{closed}");
    // The server is not slower for the arrivals that waited than for the single request of the closed loop: only the
    // service time shows the difference.
    assert!(open.service.unwrap().p95_ns < tail(&open).p95_ns);
    assert!(open.anomalies.pauses > 0);
}

#[test]
fn failures_are_counted_and_named() {
    let cases = [
        (LoadProtocol::Http, Fixture::Http(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec()), "status 503"),
        (LoadProtocol::Http, Fixture::Http(b"SSH-2.0-x\r\n".to_vec()), "not a valid HTTP answer"),
        (
            LoadProtocol::Http,
            Fixture::HttpOnce(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx".to_vec()),
            "closed the connection",
        ),
        (
            LoadProtocol::Http,
            Fixture::Http(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec()),
            "a chunk",
        ),
        (LoadProtocol::Http, Fixture::Silent, "no answer within 300ms"),
        (LoadProtocol::Sse, Fixture::Http(HELLO.to_vec()), "not an event stream"),
        (LoadProtocol::Ws, Fixture::Http(HELLO.to_vec()), "WebSocket handshake failed"),
        (LoadProtocol::Tcp, Fixture::WrongEcho, "not an echo"),
    ];
    for (protocol, fixture, wanted) in cases {
        let server = Server::start(fixture.clone());
        let silent = matches!(fixture, Fixture::Silent);
        let timeout = if silent { Duration::from_millis(300) } else { Duration::from_mins(1) };
        let options = LoadOptions { timeout, ..server.options(protocol) };

        let error = Load::prepare(options).unwrap_err();

        assert!(error.is_of_server() && error.to_string().contains(wanted), "{fixture:?}: {error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

#[test]
fn a_server_that_fails_later_has_its_failures_in_the_report() {
    // The first answer is valid; later ones on the same connection are not.
    let two = [HELLO, b"garbage\r\n\r\n"].concat();
    let server = Server::start(Fixture::Http(two));

    let (document, faults) = run(&server.options(LoadProtocol::Http), Some(200.0), (1, 1));

    let report = one(&document);
    assert!(report.errors_total > 0 && report.ops_total > 0, "{report}");
    assert!(faults.iter().any(|(kind, count)| kind.starts_with("not a valid HTTP answer") && *count > 0), "{faults:?}");
}

#[test]
fn an_open_loop_asks_a_server_that_is_gone_as_often_as_it_was_told() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while std::io::Read::read(&mut stream, &mut [0; 4096]).unwrap() == 0 {}
        std::io::Write::write_all(&mut stream, HELLO).unwrap();
    });
    let load = Load::prepare(LoadOptions { url, connections: 1, ..LoadOptions::default() }).unwrap();
    server.join().unwrap();

    // With the pause of a closed loop after each failure there would be about fifty in 400 ms.
    let asked = [400, 1_600, 6_400].into_iter().any(|duration_ms| {
        let document = load.run(&recipe(Some(100_000.0), duration_ms), &config(), |_, _| ()).unwrap();
        let report = one(&document);
        assert_eq!(report.ops_total, 0, "{report}");
        report.errors_total > duration_ms / 4
    });
    assert!(asked);
}

#[test]
fn nobody_there_is_said_before_anything_runs() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}/");

    let error = Load::prepare(LoadOptions { url: url.clone(), ..LoadOptions::default() }).unwrap_err();

    assert!(matches!(error, LoadError::Probe { .. }), "{error}");
    assert!(error.to_string().starts_with(&format!("{url}: cannot connect: ")), "{error}");
}

#[test]
fn the_highest_rate_under_a_promise_is_looked_for() {
    let server = Server::start(Fixture::Http(HELLO.to_vec()));
    let load = Load::prepare(server.options(LoadProtocol::Http)).unwrap();
    // Every answer meets this objective, so the result depends only on the server.
    let options = SearchOptions { slo_p99_ns: Some(60_000_000_000), errors_max: 0.0 };

    // A busy machine may give no answer in a short time.
    let found = [300, 1_200, 4_800].into_iter().find_map(|duration_ms| {
        find_max(&mut load.system(&recipe(None, duration_ms), config()), &options, |_| ()).ok()
    });
    let found = found.expect("there are answers");

    assert!(found.capacity_per_sec > 0.0 && found.levels.len() >= 3, "{found}");
    assert!(found.levels.iter().all(|level| level.errors_total == 0), "{found}");
}

/// Returns a number in the table of held connections.
fn held(report: &Report, name: &str) -> f64 {
    let table = &report.tables[0];
    let column = table.columns.iter().position(|column| column.name == name).unwrap();
    let rusm_bench::Cell::Number(number) = table.rows[0][column] else { panic!("{report}") };
    number
}

#[test]
fn connections_are_held_and_pinged() {
    for (fixture, scheme) in [(Fixture::WebSocket, "ws"), (Fixture::Hyper(&["hello"]), "http")] {
        let server = Server::start(fixture);
        let url = format!("{scheme}://{}/", server.address);
        let options = LoadOptions { url, connections: 40, ..server.options(LoadProtocol::Conn) };

        let (document, faults) = run(&options, None, (1, 0));

        let report = &document.runs[0];
        assert_eq!((&report.error, report.errors_total, faults.len()), (&None, 0, 0), "{report}");
        assert!(report.ops_total > 0, "{report}");
        let all = [held(report, "target"), held(report, "held"), held(report, "answered 3 pings")];
        assert_eq!(all.map(|number| number as u64), [40; 3], "{report}");
    }
}

#[test]
fn a_server_that_accepts_no_more_connections_ends_the_ramp_and_the_others_are_held() {
    let runtime = rusm_runtime::Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    let router = rusm_serve::Router::new().route("GET /", |_: rusm_serve::Request| std::future::ready("here")).unwrap();
    let limits = rusm_serve::Limits { connections: 100, ..rusm_serve::Limits::default() };
    let listen = rusm_serve::ServeConfig::listen(([127, 0, 0, 1], 0));
    let server = rusm_serve::Server::start(&runtime, rusm_serve::ServeConfig { limits, ..listen }, router).unwrap();
    let options = LoadOptions {
        protocol: LoadProtocol::Conn,
        url: format!("http://{}/", server.local_addr()),
        // Each holder has some that are answered, and more that are not.
        connections: 400,
        // The connection of the probe may still be open when the first hundred are.
        timeout: Duration::from_secs(1),
        ..LoadOptions::default()
    };

    let (document, _) = run(&options, None, (1, 0));

    // Further connections wait in the queue of the operating system, and so are connected; they answer no ping.
    let report = &document.runs[0];
    let answered = held(report, "answered 3 pings") as u64;
    assert!((1..=100).contains(&answered), "{report}");
    assert!(report.tables[0].notes.iter().any(|note| note.contains("ended at the first failure")), "{report}");
}

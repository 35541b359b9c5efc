//! HTTP/2, with and without encryption, and the reload of a certificate.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, StatusCode, Version};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rusm_runtime::{Config, Runtime};
use rusm_serve::{BoxError, IntoResponse, Limit, Limits, Router, ServeConfig, Server, TlsError, TlsFiles};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::client::Client;
use crate::serve;

fn router() -> Router {
    let routes = Router::new()
        .route("GET /", async |request: rusm_serve::Request| format!("{:?}", request.version()))
        .and_then(|router| {
            router.route("POST /echo", async |mut request: rusm_serve::Request| match request.bytes().await {
                Ok(bytes) => bytes.into_response(),
                Err(error) => error.into_response(),
            })
        })
        .and_then(|router| {
            router.route("GET /crash", async |_: rusm_serve::Request| -> StatusCode { panic!("as ordered") })
        });
    routes.expect("the routes are valid")
}

/// Runs a client on a thread of its own.
fn client<T>(work: impl Future<Output = T>) -> T {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a reactor");
    reactor.block_on(async { tokio::time::timeout(Duration::from_mins(1), work).await.expect("the server answers") })
}

/// Opens a connection without encryption.
async fn sender(server: &Server) -> http2::SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(server.local_addr()).await.expect("the server listens");
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("a handshake");
    tokio::spawn(connection);
    sender
}

fn request(method: &str, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(format!("http://localhost{path}"));
    request.body(Full::new(body.into())).expect("a valid request")
}

#[test]
fn a_host_that_is_not_the_authority_is_refused() {
    let (_runtime, server) = serve(router(), Limits::default());

    client(async {
        let mut sender = sender(&server).await;
        for (host, status) in [("localhost", StatusCode::OK), ("other", StatusCode::BAD_REQUEST)] {
            let mut request = request("GET", "/", "");
            request.headers_mut().insert("host", http::HeaderValue::from_static(host));
            assert_eq!(sender.send_request(request).await.expect("a response").status(), status, "{host}");
        }
        for authority in ["u@localhost", "localhost:99999"] {
            let request =
                Request::get(format!("http://{authority}/")).body(Full::<Bytes>::default()).expect("a request");
            let status = sender.send_request(request).await.expect("a response").status();
            assert_eq!(status, StatusCode::BAD_REQUEST, "{authority}");
        }
    });
}

#[test]
fn a_response_to_head_has_no_body() {
    let (_runtime, server) = serve(router(), Limits::default());

    client(async {
        let mut sender = sender(&server).await;
        for (path, status, bytes) in [("/", StatusCode::OK, "8"), ("/nope", StatusCode::NOT_FOUND, "10")] {
            let response = sender.send_request(request("HEAD", path, "")).await.expect("a response");
            assert_eq!(
                (response.status(), &response.headers()["content-length"]),
                (status, &http::HeaderValue::from_static(bytes))
            );
            let body = response.into_body().collect().await.expect("no stream error").to_bytes();
            assert!(body.is_empty(), "{body:?}");
        }
    });
}

#[test]
fn a_response_with_a_status_that_has_no_body_has_none() {
    const STATUSES: [StatusCode; 3] = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];
    let routes = Router::new().route("GET /:status", async |request: rusm_serve::Request| {
        let status = request.param("status").and_then(|text| StatusCode::from_bytes(text.as_bytes()).ok());
        (status.expect("a status"), "unwanted").into_response()
    });
    let (_runtime, server) = serve(routes.expect("the routes are valid"), Limits::default());

    client(async {
        let mut sender = sender(&server).await;
        for status in STATUSES {
            let response = sender.send_request(request("GET", &format!("/{}", status.as_u16()), "")).await;
            let response = response.expect("a response");
            assert_eq!(response.status(), status);
            let body = response.into_body().collect().await.expect("no stream error").to_bytes();
            assert!(body.is_empty(), "{status}: {body:?}");
        }
    });
}

#[test]
fn streams_of_one_connection_are_answered_apart() {
    let (_runtime, server) = serve(router(), Limits::default());

    client(async {
        let mut sender = sender(&server).await;
        let crash = sender.send_request(request("GET", "/crash", ""));
        let first = sender.send_request(request("GET", "/", ""));
        let body = vec![7; 300_000];
        let echo = sender.send_request(request("POST", "/echo", body.clone()));

        let (crash, first, echo) = tokio::join!(crash, first, echo);

        assert_eq!(crash.expect("a response").status(), StatusCode::INTERNAL_SERVER_ERROR);
        let first = first.expect("a response");
        assert_eq!(first.version(), Version::HTTP_2);
        assert_eq!(first.into_body().collect().await.expect("a body").to_bytes(), "HTTP/2.0");
        assert_eq!(echo.expect("a response").into_body().collect().await.expect("a body").to_bytes(), body);
    });
    let end = Instant::now() + Duration::from_secs(20);
    let bytes = || {
        let report = server.report(0);
        let echo = report.routes.iter().find(|route| &*route.label == "POST /echo").expect("the route exists");
        (echo.bytes_in_total, echo.bytes_out_total)
    };
    while bytes() != (300_000, 300_000) {
        assert!(Instant::now() < end, "the bytes of the bodies count for the route: {:?}", bytes());
        std::thread::yield_now();
    }
    assert_eq!(server.report(0).connections_total, 1);
}

#[test]
fn a_request_without_a_path_is_malformed() {
    let (_runtime, server) =
        serve(Router::new().route("/*", async |_: rusm_serve::Request| "ok").expect("valid"), Limits::default());

    assert_eq!(status_entry(server.local_addr(), &GET_ROOT), Some(STATUS_200));
    assert_eq!(status_entry(server.local_addr(), &GET_ROOT[..2]), Some(STATUS_400));
}

/// Entry of HPACK's static table for `:status 200`.
const STATUS_200: u8 = 0x88;
/// Entry of HPACK's static table for `:status 400`.
const STATUS_400: u8 = 0x8c;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

/// A client that sends exactly the frames that a test names.
struct Frames(Client);

impl Frames {
    /// Connects with these settings, each of an identifier and a value.
    fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut client = Self(Client::connect(address));
        client.0.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let entry = |&(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        client.send(SETTINGS, 0, 0, &settings.iter().flat_map(entry).collect::<Vec<u8>>());
        client
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
        self.0.write([&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat());
    }

    /// Sends a request without a body, as a block of fields.
    fn request(&mut self, stream: u32, fields: &[u8]) {
        let (end_stream, end_headers) = (1, 4);
        self.send(HEADERS, end_stream | end_headers, stream, fields);
    }

    /// Returns the next frame: its type and its payload; `None` at the end of the connection.
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.0.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.0.0.read_exact(&mut payload).ok()?;
        Some((head[3], payload))
    }

    /// Skips frames until one of this type.
    fn until(&mut self, kind: u8) -> Option<Vec<u8>> {
        loop {
            let (next, payload) = self.next()?;
            if next == kind {
                return Some(payload);
            }
        }
    }
}

/// Entries of HPACK's static table: `:method GET`, `:scheme http`, `:path /`.
const GET_ROOT: [u8; 3] = [0x82, 0x86, 0x84];

/// Sends a request with this block of fields; returns the first byte of the response's block, or `None` if the stream is
/// reset.
fn status_entry(address: SocketAddr, fields: &[u8]) -> Option<u8> {
    let mut client = Frames::connect(address, &[]);
    client.request(1, fields);
    loop {
        match client.next().expect("a frame") {
            (HEADERS, payload) => return Some(payload[0]),
            (RST_STREAM, _) => return None,
            _ => {}
        }
    }
}

/// A client can let a head and the trailers of each of its streams wait.
#[test]
fn heads_and_trailers_that_a_client_does_not_read_have_their_share_of_the_memory() {
    fn fields() -> [(http::HeaderName, http::HeaderValue); 30] {
        std::array::from_fn(|number| {
            let name = http::HeaderName::try_from(format!("x-{number}")).expect("a valid name");
            (name, http::HeaderValue::try_from("x".repeat(1_000)).expect("a valid value"))
        })
    }
    let with_head = Router::new().route("GET /", async |_: rusm_serve::Request| (fields(), "ok").into_response());
    let with_trailers = Router::new().route("GET /", async |_: rusm_serve::Request| {
        let frames =
            [Frame::data(Bytes::from("ok")), Frame::trailers(fields().into_iter().collect())].map(Ok::<_, BoxError>);
        rusm_serve::Response::new(rusm_serve::Body::new(StreamBody::new(futures_util::stream::iter(frames))))
    });
    for router in [with_head, with_trailers] {
        let limits = Limits { responses_bytes: 256 << 10, ..Limits::default() };
        let (_runtime, server) = serve(router.expect("the route is valid"), limits);
        let mut attackers: Vec<_> = (0..4).map(|_| Frames::connect(server.local_addr(), &[])).collect();
        for attacker in &mut attackers {
            (0..100).for_each(|number| attacker.request(2 * number + 1, &GET_ROOT));
        }

        let until = Instant::now() + Duration::from_mins(1);
        while !server.limits_hit().iter().any(|(limit, _)| *limit == Limit::ResponsesBytes) {
            assert!(Instant::now() < until, "the limit is not hit: {:?}", server.limits_hit());
            std::thread::yield_now();
        }
    }
}

/// A client may open its connection's window and keep that of each stream closed.
#[test]
fn a_client_that_accepts_no_byte_of_a_stream_holds_no_place() {
    let routes = Router::new()
        .route("GET /", async |_: rusm_serve::Request| {
            let chunks = futures_util::stream::repeat_with(|| Ok::<_, BoxError>(vec![7; 100_000]));
            rusm_serve::Response::new(rusm_serve::Body::stream(chunks))
        })
        .and_then(|router| router.route("GET /ok", async |_: rusm_serve::Request| "ok"))
        .expect("valid");
    let limits = Limits { in_flight: 3, write_timeout: Duration::from_millis(50), ..Limits::default() };
    let (_runtime, server) = serve(routes, limits);
    let window_of_a_stream = 4;
    let mut attacker = Frames::connect(server.local_addr(), &[(window_of_a_stream, 0)]);
    for stream in [1, 3, 5] {
        attacker.request(stream, &GET_ROOT);
        assert!(attacker.until(HEADERS).is_some());
    }

    // Waits in the queue until a place is free, for 5 s at most.
    assert_eq!(Client::connect(server.local_addr()).get("/ok").status, 200);

    let hit = server.limits_hit();
    assert!(hit.iter().any(|(limit, count)| *limit == Limit::WriteTimeout && *count >= 1), "{hit:?}");
    assert!(!hit.iter().any(|(limit, _)| *limit == Limit::QueueTimeout), "{hit:?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "nothing must happen in this time")]
fn a_frame_after_a_response_does_not_begin_the_time_of_a_head() {
    let limits = Limits { head_timeout: Duration::from_millis(50), ..Limits::default() };
    let (_runtime, server) = serve(router(), limits);
    let mut client = Frames::connect(server.local_addr(), &[]);
    client.request(1, &GET_ROOT);
    assert!(client.until(DATA).is_some());
    client.send(PING, 0, 0, &[0; 8]);
    std::thread::sleep(4 * limits.head_timeout);

    client.request(3, &GET_ROOT);

    assert!(client.until(HEADERS).is_some());
    assert_eq!(server.limits_hit(), []);
}

#[test]
fn an_idle_connection_is_told_to_leave() {
    let limits = Limits { idle_timeout: Duration::from_millis(50), ..Limits::default() };
    let (_runtime, server) = serve(router(), limits);
    let mut client = Frames::connect(server.local_addr(), &[]);
    client.request(1, &GET_ROOT);
    assert!(client.until(DATA).is_some());

    assert!(client.until(GOAWAY).is_some());
    // It ends, although its client answers no ping.
    while client.next().is_some() {}

    assert_eq!(server.limits_hit(), [(Limit::IdleTimeout, 1)]);
}

#[test]
fn a_drain_tells_its_clients_and_answers_what_they_have_asked() {
    let (_runtime, server) = serve(router(), Limits::default());

    client(async {
        let stream = TcpStream::connect(server.local_addr()).await.expect("the server listens");
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("a handshake");
        let connection = tokio::spawn(connection);
        assert_eq!(sender.send_request(request("GET", "/", "")).await.expect("a response").status(), StatusCode::OK);

        server.begin_drain(Duration::from_secs(30));

        connection.await.expect("it does not panic").expect("GOAWAY ends it without an error");
    });
    assert!(server.drain(Duration::from_secs(30)));
}

fn write_certificate(folder: &Path) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    fs::write(folder.join("cert.pem"), cert.pem()).expect("written");
    fs::write(folder.join("key.pem"), signing_key.serialize_pem()).expect("written");
    cert.der().clone()
}

async fn connect(address: SocketAddr, trusted: &CertificateDer<'static>, protocol: &[u8]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("supported versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(address).await.expect("the server listens");
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake")
}

#[test]
fn the_client_chooses_the_version_and_a_new_certificate_is_used_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = write_certificate(folder.path());
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("a runtime starts");
    let tls = TlsFiles { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    let config = ServeConfig { tls: Some(tls), ..ServeConfig::listen(([127, 0, 0, 1], 0)) };
    let server = Server::start(&runtime, config, router()).expect("a port is free");
    let address = server.local_addr();

    client(async {
        let stream = connect(address, &first, b"h2").await;
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("a handshake");
        tokio::spawn(connection);
        let answer = sender.send_request(request("GET", "/", "")).await.expect("a response");
        assert_eq!(answer.into_body().collect().await.expect("a body").to_bytes(), "HTTP/2.0");

        let second = write_certificate(folder.path());
        server.reload_certificate().expect("a valid certificate");
        let stream = connect(address, &second, b"http/1.1").await;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a handshake");
        tokio::spawn(connection);
        let mut first_of_version_1 = request("GET", "/", "");
        first_of_version_1.headers_mut().insert("host", http::HeaderValue::from_static("localhost"));
        let answer = sender.send_request(first_of_version_1).await.expect("a response");
        assert_eq!(answer.into_body().collect().await.expect("a body").to_bytes(), "HTTP/1.1");

        fs::write(folder.path().join("key.pem"), "nonsense").expect("written");
        let error = server.reload_certificate().expect_err("the key is not valid");
        assert!(matches!(error, TlsError::Pem { what: "private key", .. }), "{error}");
        drop(connect(address, &second, b"h2").await);
    });
}

#[test]
fn handshakes_share_their_memory_and_an_unfinished_one_is_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = write_certificate(folder.path());
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("a runtime starts");
    let tls = TlsFiles { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    // Enough for one handshake, which takes all of it.
    let limits = Limits { bodies_bytes: 1024, ..Limits::default() };
    let config = ServeConfig { tls: Some(tls), limits, ..ServeConfig::listen(([127, 0, 0, 1], 0)) };
    let server = Server::start(&runtime, config, router()).expect("a port is free");
    // The head of a record of 16,000 bytes, of which only one comes.
    let mut silent = Client::connect(server.local_addr());
    silent.write([0x16, 3, 1, 0x3e, 0x80, 1]);
    // A silent connection holds no memory.
    let _idle = Client::connect(server.local_addr());
    let answer = || {
        client(async {
            let stream = connect(server.local_addr(), &certificate, b"h2").await;
            let (mut sender, connection) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("a handshake");
            tokio::spawn(connection);
            sender.send_request(request("GET", "/", "")).await.expect("a response").status().as_u16()
        })
    };

    assert_eq!(answer(), 200);
    assert!(silent.is_closed());
    assert_eq!((server.limits_hit(), answer()), (vec![(Limit::BodiesBytes, 1)], 200));
}

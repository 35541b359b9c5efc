//! HTTP/2, with and without encryption, and the reload of a certificate.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rusm_runtime::{Config, Runtime};
use rusm_serve::{IntoResponse, Limits, Router, ServeConfig, Server, TlsError, TlsFiles};
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

fn request(method: &str, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(format!("http://localhost{path}"));
    request.body(Full::new(body.into())).expect("a valid request")
}

#[test]
fn streams_of_one_connection_are_answered_apart() {
    let (_runtime, server) = serve(router(), Limits::default());

    client(async {
        let stream = TcpStream::connect(server.local_addr()).await.expect("the server listens");
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("a handshake");
        tokio::spawn(connection);
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
    // Entries of HPACK's static table: `:method GET`, `:scheme http`, `:path /`.
    let (get, http, root) = (0x82, 0x86, 0x84);

    assert_eq!(status_entry(server.local_addr(), &[get, http, root]), Some(STATUS_200));
    assert_eq!(status_entry(server.local_addr(), &[get, http]), Some(STATUS_400));
}

/// Entry of HPACK's static table for `:status 200`.
const STATUS_200: u8 = 0x88;
/// Entry of HPACK's static table for `:status 400`.
const STATUS_400: u8 = 0x8c;

/// Sends a request with this block of fields; returns the first byte of the response's block, or `None` if the stream is
/// reset.
fn status_entry(address: SocketAddr, fields: &[u8]) -> Option<u8> {
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    let mut client = Client::connect(address);
    client.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.write([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    // END_STREAM and END_HEADERS, on stream 1.
    client.write([0, 0, fields.len() as u8, HEADERS, 5, 0, 0, 0, 1]);
    client.write(fields);
    loop {
        let mut head = [0; 9];
        client.0.read_exact(&mut head).expect("a frame");
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        client.0.read_exact(&mut payload).expect("the frame is complete");
        match head[3] {
            HEADERS => return Some(payload[0]),
            RST_STREAM => return None,
            _ => {}
        }
    }
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

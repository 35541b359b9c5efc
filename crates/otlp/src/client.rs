//! A client of HTTP for one address: one connection, which is opened again after an error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::config::{OtlpConfig, OtlpError};

/// Maximum number of bytes of a response; a collector answers with a few.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of bytes of a file of certificates.
const CERTIFICATES_BYTES_MAX: u64 = 1 << 20;
/// Longest pause that a collector may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);

/// Sends requests to one address of a collector.
pub(crate) struct Client {
    uri: Uri,
    host: String,
    port: u16,
    headers: Vec<(HeaderName, HeaderValue)>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// The end of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The collector has accepted all records but these, for this reason.
    Accepted { rejected: u64, reason: String },
    /// The request may succeed later, at the earliest after this time.
    Retry { after: Option<Duration>, reason: String },
    /// The collector rejects the request.
    Rejected { reason: String },
}

impl Client {
    /// Creates a client for the path of a signal.
    pub(crate) fn new(config: &OtlpConfig, path: &str) -> Result<Self, OtlpError> {
        let uri = config.uri(path)?;
        let headers = config.parsed_headers()?;
        let is_tls = uri.scheme_str() == Some("https");
        // An address of IPv6 has brackets in a URI.
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let tls = is_tls.then(|| tls(config, &host)).transpose().map_err(OtlpError::Invalid)?;
        Ok(Self { uri, host, port, headers, tls, connection: None })
    }

    /// Sends a body of JSON. Dropping the future closes the connection.
    pub(crate) async fn post(&mut self, body: Bytes) -> Outcome {
        // The connection is only put back after a complete response.
        let mut connection = match self.connection.take().filter(|connection| !connection.is_closed()) {
            Some(open) => open,
            None => match self.connect().await {
                Ok(open) => open,
                Err(reason) => return Outcome::Retry { after: None, reason },
            },
        };
        match self.exchange(&mut connection, body).await {
            Ok((status, headers, answer)) => {
                self.connection = Some(connection);
                outcome(status, &headers, &answer)
            }
            Err(reason) => Outcome::Retry { after: None, reason },
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let address = (self.host.as_str(), self.port);
        let stream = TcpStream::connect(address).await.map_err(|error| format!("cannot connect: {error}"))?;
        // Without it, a small body may wait for an acknowledgement.
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        match &self.tls {
            None => open(stream).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                open(stream.map_err(|error| format!("TLS handshake failed: {error}"))?).await
            }
        }
    }

    async fn exchange(
        &self,
        connection: &mut SendRequest<Full<Bytes>>,
        body: Bytes,
    ) -> Result<(StatusCode, HeaderMap, Bytes), String> {
        let failed = |error: hyper::Error| format!("the request failed: {error}");
        let path = self.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let host = self.uri.authority().map_or("", http::uri::Authority::as_str);
        let mut request = Request::post(path)
            .header(HOST, host)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("rusm-otlp/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        connection.ready().await.map_err(failed)?;
        let response = connection.send_request(request).await.map_err(failed)?;
        let (head, body) = response.into_parts();
        let answer = Limited::new(body, RESPONSE_BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
        Ok((head.status, head.headers, answer.to_bytes()))
    }
}

impl OtlpConfig {
    /// Checks all values, and reads the file of certificates.
    ///
    /// # Errors
    /// [`OtlpError::Invalid`] with the wrong value.
    pub fn check(&self) -> Result<(), OtlpError> {
        Client::new(self, "/v1/logs").map(drop)?;
        for (name, time) in [("interval", self.interval), ("timeout", self.timeout)] {
            if time < Duration::from_millis(1) {
                return Err(OtlpError::Invalid(format!("the {name} of OTLP must be at least 1ms")));
            }
        }
        Ok(())
    }
}

/// Starts HTTP on an open connection.
async fn open(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // Its errors are those of the requests.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Returns what a response means, as the specification of OTLP says.
fn outcome(status: StatusCode, headers: &HeaderMap, answer: &[u8]) -> Outcome {
    if status.is_success() {
        let (rejected, reason) = partial_success(answer);
        return Outcome::Accepted { rejected, reason };
    }
    let reason = format!("the collector answered {status}");
    match status.as_u16() {
        429 | 502 | 503 | 504 => {
            let after = headers.get(RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?));
            Outcome::Retry { after, reason }
        }
        _ => Outcome::Rejected { reason },
    }
}

/// Maximum length of a collector's reason in the log.
const REASON_MAX_BYTES: usize = 256;

/// Returns the number of rejected records, and the reason, if the collector has accepted only some.
fn partial_success(answer: &[u8]) -> (u64, String) {
    let answer: serde_json::Value = serde_json::from_slice(answer).unwrap_or_default();
    let partial = &answer["partialSuccess"];
    let count = |key: &str| match &partial[key] {
        serde_json::Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    let rejected = ["rejectedDataPoints", "rejectedLogRecords", "rejectedSpans"].into_iter().find_map(count);
    let reason = partial["errorMessage"].as_str().unwrap_or_default();
    (rejected.unwrap_or_default(), reason[..reason.floor_char_boundary(REASON_MAX_BYTES)].to_owned())
}

/// Parses a number of seconds or a date.
#[expect(clippy::disallowed_methods, reason = "a date is compared with the wall clock")]
fn retry_after(text: &str) -> Option<Duration> {
    let after = if let Ok(seconds) = text.trim().parse() {
        Duration::from_secs(seconds)
    } else {
        let date = httpdate::parse_http_date(text.trim()).ok()?;
        date.duration_since(std::time::SystemTime::now()).unwrap_or_default()
    };
    Some(after.min(RETRY_AFTER_MAX))
}

/// Reads the certificates that must have signed the one of the collector.
fn tls(config: &OtlpConfig, host: &str) -> Result<(TlsConnector, ServerName<'static>), String> {
    let mut roots = RootCertStore::empty();
    match &config.certificate {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let shown = path.display();
            let text = rusm_text::read_file(path, CERTIFICATES_BYTES_MAX);
            let text = text.map_err(|error| format!("cannot read the OTLP certificate {shown}: {error}"))?;
            for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
                let certificate = certificate.map_err(|error| format!("the OTLP certificate {shown}: {error}"))?;
                roots.add(certificate).map_err(|error| format!("the OTLP certificate {shown}: {error}"))?;
            }
            if roots.is_empty() {
                return Err(format!("the OTLP certificate {shown} lacks a certificate in PEM format"));
            }
        }
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("OTLP endpoint {host:?}: {error}"))?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// Pauses between the tries of a request: each is twice as long as the one before.
pub(crate) struct Backoff {
    first: Duration,
    next: Duration,
}

impl Backoff {
    const MAX: Duration = Duration::from_secs(30);

    pub(crate) const fn new(first: Duration) -> Self {
        Self { first, next: first }
    }

    pub(crate) const fn reset(&mut self) {
        self.next = self.first;
    }

    /// Returns the time of the next try: at least `after`, and spread by `random`, so that many programs do not return at
    /// once.
    pub(crate) fn next(&mut self, after: Option<Duration>, random: u64) -> Instant {
        let pause = self.next.mul_f64(0.75 + (random % 1024) as f64 / 2048.0);
        self.next = (self.next * 2).min(Self::MAX);
        Instant::now() + pause.max(after.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answers_of_the_specification_are_tried_again() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
        let of = |status: u16| outcome(StatusCode::from_u16(status).unwrap(), &headers, b"{}");

        for status in [429, 502, 503, 504] {
            let after = Some(Duration::from_secs(7));
            assert!(matches!(of(status), Outcome::Retry { after: found, .. } if found == after), "{status}");
        }
        for status in [400, 401, 404, 413, 500, 301] {
            assert!(matches!(of(status), Outcome::Rejected { .. }), "{status}");
        }
        assert!(matches!(of(200), Outcome::Accepted { rejected: 0, .. }));
    }

    #[test]
    fn a_pause_is_a_number_of_seconds_or_a_date_and_has_a_limit() {
        assert_eq!(retry_after("120"), Some(Duration::from_mins(2)));
        assert_eq!(retry_after("99999"), Some(RETRY_AFTER_MAX));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(retry_after("Fri, 31 Dec 9999 23:59:59 GMT"), Some(RETRY_AFTER_MAX));
        assert_eq!(retry_after("soon"), None);
    }

    #[test]
    fn a_collector_may_reject_a_part() {
        let text = br#"{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"too old"}}"#;
        assert_eq!(partial_success(text), (3, "too old".to_owned()));
        assert_eq!(partial_success(br#"{"partialSuccess":{"rejectedSpans":2}}"#).0, 2);
        assert_eq!(partial_success(b"{}"), (0, String::new()));
        assert_eq!(partial_success(b"not json"), (0, String::new()));
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_are_at_least_what_the_collector_asks_for() {
        let mut backoff = Backoff::new(Duration::from_secs(1));
        let now = Instant::now();
        for seconds in [1.0_f64, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
            let pause = backoff.next(None, 512).duration_since(now).as_secs_f64();
            assert!((pause - seconds).abs() < 0.5, "{pause} for {seconds}");
        }
        assert!(backoff.next(Some(Duration::from_mins(2)), 0) >= now + Duration::from_mins(2));
        backoff.reset();
        assert!(backoff.next(None, 0) < now + Duration::from_millis(1_500));
    }
}

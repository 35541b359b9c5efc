//! The first bytes of a connection: enforces limits, then decides between a WebSocket, a probe, and a refusal.
//!
//! ```text
//!   bytes ──▶ head (≤ 8 KiB, ≤ 5 s) ──▶ judge ──▶ Upgrade(role)
//!                                           ├──▶ Health, Ready, Metrics    TCP only
//!                                           └──▶ Refuse(status, why)
//! ```
//!
//! A browser cannot attach: it always sends `Origin`, which is refused, and it cannot set `Authorization`. DNS
//! rebinding shows in `Host`, which must be a loopback address or `localhost` with our port.

use std::io;

use rusm_protocol::{Role, SUBPROTOCOL};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Maximum size of a request head.
pub(crate) const HEAD_MAX_BYTES: usize = 8 * 1024;
/// Maximum number of fields in a request head.
const FIELDS_MAX: usize = 64;

/// A listener, with the data for checking its requests.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    /// The Unix socket; its peer has already been checked.
    Unix,
    /// Loopback TCP: the port expected in `Host`, and the tokens.
    Tcp { port: u16, tokens: Tokens },
}

/// Secrets of one node, in hexadecimal.
#[derive(Clone)]
pub(crate) struct Tokens {
    pub(crate) control: String,
    pub(crate) observe: String,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens(..)")
    }
}

/// Decision about a request head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeOutcome {
    /// Switch to a WebSocket with this role; the text answers the request.
    Upgrade {
        role: Role,
        response: String,
    },
    /// Answer that the node is alive.
    Health,
    Ready,
    /// Answer with the node's counters.
    Metrics,
    /// Refuse with a status line and one sentence.
    Refuse {
        status: &'static str,
        why: String,
    },
}

fn refuse(status: &'static str, why: impl Into<String>) -> HandshakeOutcome {
    HandshakeOutcome::Refuse { status, why: why.into() }
}

/// Reads a request head; the second part of the result is the data after it.
///
/// # Errors
/// If the stream ends or fails; [`io::ErrorKind::InvalidData`] if the head is over its limit.
pub(crate) async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut head: Vec<u8> = Vec::with_capacity(1024);
    let mut searched = 0_usize;
    loop {
        let from = searched.saturating_sub(3);
        if let Some(end) = head[from..].windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = head.split_off(from + end + 4);
            return Ok((head, rest));
        }
        searched = head.len();
        if head.len() >= HEAD_MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "request head is larger than 8 KiB"));
        }
        let room = HEAD_MAX_BYTES - head.len();
        if (&mut *stream).take(room as u64).read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Decides how to answer a request head.
pub(crate) fn check_request(head: &[u8], transport: &Transport) -> HandshakeOutcome {
    let mut headers = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => {
            let why = format!("the request head may have at most {FIELDS_MAX} fields");
            return refuse("431 Request Header Fields Too Large", why);
        }
        _ => return refuse("400 Bad Request", "not an HTTP/1.1 request"),
    }
    if request.method != Some("GET") {
        return refuse("405 Method Not Allowed", "only GET is served here");
    }
    let head = Head(request.headers);
    if head.has("origin") {
        return refuse("403 Forbidden", "requests with an Origin header are refused: browsers may not attach");
    }
    if let Transport::Tcp { port, .. } = transport
        && !head.only("host").is_some_and(|host| is_our_host(host, *port))
    {
        return refuse("403 Forbidden", format!("Host must be 127.0.0.1:{port}, [::1]:{port} or localhost:{port}"));
    }
    let path = request.path.unwrap_or("/");
    match (path.split('?').next().unwrap_or("/"), transport) {
        ("/healthz", Transport::Tcp { .. }) => HandshakeOutcome::Health,
        ("/readyz", Transport::Tcp { .. }) => HandshakeOutcome::Ready,
        ("/metrics", Transport::Tcp { .. }) => HandshakeOutcome::Metrics,
        ("/", _) => upgrade(&head, request.version, transport),
        _ => refuse("404 Not Found", "attach at /; TCP also has /healthz, /readyz and /metrics"),
    }
}

fn upgrade(head: &Head<'_>, version: Option<u8>, transport: &Transport) -> HandshakeOutcome {
    if !head.lists("connection", "upgrade") || !head.lists("upgrade", "websocket") {
        return refuse("426 Upgrade Required", "this is a WebSocket endpoint");
    }
    // RFC 6455, section 4.2.1: HTTP/1.1 or higher, because HTTP/1.0 does not define Upgrade.
    if version != Some(1) {
        return refuse("400 Bad Request", "a WebSocket requires HTTP/1.1, not HTTP/1.0");
    }
    if head.only("sec-websocket-version") != Some("13") {
        return refuse("426 Upgrade Required", "WebSocket version 13 is required");
    }
    let Some(key) = head.only("sec-websocket-key") else {
        return refuse("400 Bad Request", "Sec-WebSocket-Key is missing or sent twice");
    };
    if !is_key(key) {
        return refuse("400 Bad Request", "Sec-WebSocket-Key is not the base64 of 16 bytes");
    }
    let named = head.lists("sec-websocket-protocol", SUBPROTOCOL);
    let role = match transport {
        Transport::Unix => Role::Control,
        Transport::Tcp { tokens, .. } => {
            if !named {
                return refuse("400 Bad Request", format!("request the subprotocol {SUBPROTOCOL}"));
            }
            let Some(role) = tokens.role_of(head.only("authorization")) else {
                let why = "send the token of this node's token file as \"Authorization: Bearer TOKEN\"";
                return refuse("401 Unauthorized", why);
            };
            role
        }
    };
    let accept = derive_accept_key(key.as_bytes());
    let protocol = if named { format!("Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n") } else { String::new() };
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\n{protocol}\r\n"
    );
    HandshakeOutcome::Upgrade { role, response }
}

/// Returns true for the base64 of exactly 16 bytes: 22 digits, the last of which has four unused bits, and `==`.
fn is_key(key: &str) -> bool {
    let Some(digits) = key.strip_suffix("==").filter(|digits| digits.len() == 22) else { return false };
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    digits.bytes().all(is_digit) && digits.ends_with(['A', 'Q', 'g', 'w'])
}

impl Tokens {
    /// Returns the role of an `Authorization` header; compares both tokens in full, whatever the header holds.
    fn role_of(&self, header: Option<&str>) -> Option<Role> {
        let (scheme, token) = header?.split_once(' ')?;
        let token = token.trim();
        let control = bool::from(token.as_bytes().ct_eq(self.control.as_bytes()));
        let observe = bool::from(token.as_bytes().ct_eq(self.observe.as_bytes()));
        match (control, observe) {
            _ if !scheme.eq_ignore_ascii_case("bearer") => None,
            (true, _) => Some(Role::Control),
            (false, true) => Some(Role::Observe),
            (false, false) => None,
        }
    }
}

fn is_our_host(host: &str, port: u16) -> bool {
    ["127.0.0.1", "[::1]", "localhost"].iter().any(|ours| host.strip_prefix(ours) == Some(&format!(":{port}")))
}

struct Head<'a>(&'a [httparse::Header<'a>]);

impl Head<'_> {
    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name))
            .map(|header| std::str::from_utf8(header.value).unwrap_or(""))
    }

    fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// Returns the value of a header that is present exactly once.
    fn only(&self, name: &str) -> Option<&str> {
        let mut values = self.all(name);
        values.next().filter(|_| values.next().is_none())
    }

    fn lists(&self, name: &str, word: &str) -> bool {
        self.all(name).flat_map(|value| value.split(',')).any(|item| item.trim().eq_ignore_ascii_case(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_request_heads() {
        const HEAD: &str = "GET / HTTP/1.1\r\nHost: 127.0.0.1:4000\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
            Sec-WebSocket-Protocol: rusm.v1\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n";
        let words = [
            "Origin: null\r\n",
            "Host: [::1]:4000\r\n",
            "HTTP/1.0",
            "POST",
            "/healthz",
            "/metrics",
            "\r\n",
            "\r\n\r\n",
            "Bearer ",
            ",",
        ];
        let tokens = Tokens { control: "0123456789abcdef".to_owned(), observe: "fedcba9876543210".to_owned() };
        let doors = [Transport::Unix, Transport::Tcp { port: 4000, tokens }];
        rusm_fuzz::Fuzz::new("handshake").seed(HEAD).words(&words).run(|input| {
            for transport in &doors {
                match check_request(input, transport) {
                    HandshakeOutcome::Refuse { status, why } => {
                        assert!(
                            status.starts_with('4') && why.chars().all(|character| !character.is_control()),
                            "{why:?}"
                        );
                    }
                    HandshakeOutcome::Upgrade { response, .. } => {
                        assert!(
                            response.starts_with("HTTP/1.1 101 ") && response.ends_with("\r\n\r\n"),
                            "{response:?}"
                        );
                        assert_eq!(response.matches("\r\n\r\n").count(), 1, "no field was added: {response:?}");
                    }
                    HandshakeOutcome::Health | HandshakeOutcome::Ready | HandshakeOutcome::Metrics => {}
                }
            }
        });
    }

    fn transport() -> Transport {
        Transport::Tcp { port: 4000, tokens: Tokens { control: "c0".repeat(32), observe: "0b".repeat(32) } }
    }

    fn request(path: &str, extra: &str) -> Vec<u8> {
        format!(
            "GET {path} HTTP/1.1\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{extra}\r\n"
        )
        .into_bytes()
    }

    fn status(head: &[u8]) -> String {
        match check_request(head, &transport()) {
            HandshakeOutcome::Refuse { status, .. } => status.to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn the_right_token_gets_its_role_and_the_right_accept_key() {
        let head = |token: &str| {
            let extra = format!(
                "Host: 127.0.0.1:4000\r\nSec-WebSocket-Protocol: chat, rusm.v1\r\nAuthorization: Bearer {token}\r\n"
            );
            check_request(&request("/", &extra), &transport())
        };

        let HandshakeOutcome::Upgrade { role, response } = head(&"c0".repeat(32)) else { panic!("refused") };
        assert_eq!(role, Role::Control);
        assert!(response.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert!(matches!(head(&"0b".repeat(32)), HandshakeOutcome::Upgrade { role: Role::Observe, .. }));
        assert!(matches!(head("wrong"), HandshakeOutcome::Refuse { status: "401 Unauthorized", .. }));
    }

    #[test]
    fn browsers_and_rebound_names_are_refused() {
        let ours = "Host: localhost:4000\r\nSec-WebSocket-Protocol: rusm.v1\r\n";

        assert_eq!(status(&request("/", &format!("{ours}Origin: http://localhost:4000\r\n"))), "403 Forbidden");
        assert_eq!(status(&request("/", "Host: evil.example:4000\r\n")), "403 Forbidden");
        assert_eq!(status(&request("/", "Host: 127.0.0.1.evil.example:4000\r\n")), "403 Forbidden");
        assert_eq!(status(&request("/", "Host: 127.0.0.1\r\n")), "403 Forbidden");
        assert_eq!(status(&request("/", "Host: 127.0.0.1:4000\r\nHost: 127.0.0.1:4000\r\n")), "403 Forbidden");
        assert_eq!(status(&request("/", "")), "403 Forbidden");
        assert_eq!(status(&request("/healthz", "Host: evil.example:4000\r\n")), "403 Forbidden");
    }

    #[test]
    fn what_is_no_attach_request_is_told_so() {
        assert_eq!(status(b"POST / HTTP/1.1\r\nHost: localhost:4000\r\n\r\n"), "405 Method Not Allowed");
        assert_eq!(status(b"\x16\x03\x01\r\n\r\n"), "400 Bad Request");
        assert_eq!(status(&request("/else", "Host: localhost:4000\r\n")), "404 Not Found");
        assert_eq!(status(b"GET / HTTP/1.1\r\nHost: localhost:4000\r\n\r\n"), "426 Upgrade Required");
        assert_eq!(status(&request("/", "Host: localhost:4000\r\n")), "400 Bad Request");
    }

    #[test]
    fn an_upgrade_by_http_1_0_is_a_bad_request_and_a_probe_is_not() {
        for transport in [Transport::Unix, transport()] {
            let ours = "Host: localhost:4000\r\nSec-WebSocket-Protocol: rusm.v1\r\n";
            let mut head = request("/", ours);
            head[13] = b'0';
            assert!(head.starts_with(b"GET / HTTP/1.0\r\n"));

            let HandshakeOutcome::Refuse { status, why } = check_request(&head, &transport) else {
                panic!("not refused")
            };

            assert_eq!((status, why.lines().count()), ("400 Bad Request", 1));
        }
        assert_eq!(
            check_request(b"GET /healthz HTTP/1.0\r\nHost: localhost:4000\r\n\r\n", &transport()),
            HandshakeOutcome::Health
        );
    }

    #[test]
    fn a_key_that_is_not_the_base64_of_16_bytes_is_a_bad_request() {
        let with = |key: &str| {
            let text = String::from_utf8(request("/", "")).unwrap().replace("dGhlIHNhbXBsZSBub25jZQ==", key);
            check_request(text.as_bytes(), &Transport::Unix)
        };
        for good in ["dGhlIHNhbXBsZSBub25jZQ==", "AAAAAAAAAAAAAAAAAAAAAA==", "+/+/+/+/+/+/+/+/+/+/+w=="] {
            assert!(matches!(with(good), HandshakeOutcome::Upgrade { .. }), "{good}");
        }
        for bad in [
            "",
            "dGhlIHNhbXBsZSBub25jZQ=",
            "dGhlIHNhbXBsZSBub25jZQ",
            "dGhlIHNhbXBsZSBub25jZQAA",
            "dGhlIHNhbXBsZSBub25jZVE=",
            "dGhlIHNhbXBsZSBub25jZR==",
            "dGhlIHNhbXBsZSBub25j!Q==",
            "dGhlIHNhbXBsZSBub25j_Q==",
            "dGhlIHNhbXBsZSBub25=ZQ==",
            "dGhlIHNhbXBsZSBub2 5jZQ==",
            "dGhlIHNhbXBsZSBub25jZQdGhlIHNhbXBsZQ==",
            "========================",
            "dGhlIHNhbXBsZSBub25é==",
        ] {
            assert!(matches!(with(bad), HandshakeOutcome::Refuse { status: "400 Bad Request", .. }), "{bad}");
        }
    }

    #[test]
    fn the_unix_door_asks_for_no_token_and_has_no_probes() {
        assert!(matches!(
            check_request(&request("/", ""), &Transport::Unix),
            HandshakeOutcome::Upgrade { role: Role::Control, .. }
        ));
        assert!(matches!(check_request(&request("/metrics", ""), &Transport::Unix), HandshakeOutcome::Refuse { .. }));
    }
}

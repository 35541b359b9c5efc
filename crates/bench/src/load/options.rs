//! Target and settings of a load test, and their form in a report, so that the test can be repeated.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use rusm_text::escaped;
use thiserror::Error;

use super::h2::H2Request;
use super::tls::Tls;

/// Maximum number of connections.
const CONNECTIONS_MAX: u32 = 100_000;
/// Maximum size of a message, in bytes.
const PAYLOAD_MAX: usize = 16 << 20;
/// Maximum number of events of a stream.
const EVENTS_MAX: u32 = 1_000_000;

/// Protocol of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadProtocol {
    /// One operation is a request and its whole answer, on a kept connection.
    #[default]
    Http,
    /// One operation is a message sent and the next message received, on a kept connection.
    Ws,
    /// One operation is a connection, a request and a given number of events.
    Sse,
    /// One operation sends a number of bytes and receives as many, on a kept connection.
    Tcp,
    /// One operation is a ping on one of many held connections, whose number is the result: each one a WebSocket that echoes,
    /// or a kept connection of HTTP.
    Conn,
}

impl LoadProtocol {
    /// All protocols.
    pub const ALL: [Self; 5] = [Self::Http, Self::Ws, Self::Sse, Self::Tcp, Self::Conn];

    /// Returns the beginning of its URLs.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Http | Self::Sse => "http",
            Self::Ws | Self::Conn => "ws",
            Self::Tcp => "tcp",
        }
    }

    /// Returns the name of its load tests in reports.
    pub const fn scenario(self) -> &'static str {
        match self {
            Self::Http => "loadtest-http",
            Self::Ws => "loadtest-ws",
            Self::Sse => "loadtest-sse",
            Self::Tcp => "loadtest-tcp",
            Self::Conn => "loadtest-conn",
        }
    }

    const fn default_port(self) -> Option<u16> {
        match self {
            Self::Http | Self::Sse | Self::Ws | Self::Conn => Some(80),
            Self::Tcp => None,
        }
    }
}

/// Target and settings of a load test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Protocol of the server.
    pub protocol: LoadProtocol,
    /// URL of the server, such as `http://127.0.0.1:8080/path`.
    pub url: String,
    /// Number of connections, and so the maximum number of operations in flight, 1–100,000. Default 64.
    pub connections: u32,
    /// Method of HTTP requests. Default GET.
    pub method: String,
    /// Additional headers of HTTP requests, each as `name: value`.
    pub headers: Vec<String>,
    /// Body of HTTP requests; empty for none.
    pub body: String,
    /// Size of each WebSocket or TCP message, 1 B to 16 MiB. Default 64.
    pub payload: usize,
    /// Number of events that complete an SSE operation, 1–1,000,000. Default 1.
    pub events: u32,
    /// Sends HTTP requests by HTTP/2, from the first byte of a connection on. Default false.
    pub http2: bool,
    /// Time after which an operation has failed. Default 10 s.
    pub timeout: Duration,
    /// File in PEM format with the authority that signs the certificate of an encrypted server; `None` trusts the public
    /// ones. For `https` and `wss`.
    pub authority: Option<PathBuf>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            protocol: LoadProtocol::Http,
            url: String::new(),
            connections: 64,
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: String::new(),
            payload: 64,
            events: 1,
            http2: false,
            timeout: Duration::from_secs(10),
            authority: None,
        }
    }
}

/// Error returned when a server cannot be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The URL is not valid. Use a URL of the protocol.
    #[error("{url:?} is not a valid URL: use {scheme}://host:port{}", if *.scheme == "tcp" { "" } else { "/path" })]
    Url {
        /// The URL given.
        url: String,
        /// Valid beginning of a URL.
        scheme: &'static str,
    },
    /// The URL is for an encrypted port, which this protocol does not support. Use the server's plain port.
    #[error("{url:?} is encrypted: this load test supports only {scheme}://")]
    Encrypted {
        /// The URL given.
        url: String,
        /// Valid beginning of a URL.
        scheme: &'static str,
    },
    /// A number is out of range.
    #[error("{name} of {value} is not between 1 and {max}")]
    OutOfRange {
        /// Name of the setting.
        name: &'static str,
        /// The value given.
        value: u64,
        /// Largest valid value.
        max: u64,
    },
    /// The method or a header is not valid in HTTP.
    #[error("{name} {value:?} is not valid in HTTP")]
    Header {
        /// Name of the setting.
        name: &'static str,
        /// The value given.
        value: String,
    },
    /// The protocol is not one of requests, so HTTP/2 does not apply.
    #[error("HTTP/2 is for load tests of http: leave out --http2")]
    NotHttp2,
    /// The certificates to trust cannot be used.
    #[error("{0}")]
    Certificate(String),
    /// The host could not be resolved.
    #[error("cannot find {}: {source}", escaped(host))]
    Lookup {
        /// Host and port.
        host: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The server does not answer as expected.
    #[error("{}: {}", escaped(url), escaped(reason))]
    Probe {
        /// URL of the server.
        url: String,
        /// Description of the problem.
        reason: String,
    },
    /// The system cannot create a reactor.
    #[error("cannot wait for sockets: {source}")]
    Reactor {
        /// Error of the system.
        source: io::Error,
    },
    /// The report that a load test was to be repeated from is not of a load test.
    #[error("the report is of scenario {}, not of a load test", escaped(scenario))]
    NoLoad {
        /// Scenario of the report.
        scenario: String,
    },
}

impl LoadError {
    /// Returns true if the server or the system is at fault, and not the options.
    pub const fn is_of_server(&self) -> bool {
        matches!(self, Self::Lookup { .. } | Self::Probe { .. } | Self::Reactor { .. })
    }
}

/// A server with a resolved address.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) options: LoadOptions,
    /// Address to load.
    pub(crate) address: SocketAddr,
    /// All addresses of the host, in the order in which they are tried: `localhost` has two.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Host and port, as written in requests.
    pub(crate) host: String,
    pub(crate) path: String,
    /// Bytes sent for each operation.
    pub(crate) request: Vec<u8>,
    /// The request, if it is of HTTP/2.
    pub(crate) h2: Option<H2Request>,
    /// The encryption of an `https` or `wss` server.
    pub(crate) tls: Option<Tls>,
}

impl LoadOptions {
    /// Checks all options and resolves the server's address.
    pub(crate) fn target(&self) -> Result<Target, LoadError> {
        let ranges = [
            ("connections", u64::from(self.connections), u64::from(CONNECTIONS_MAX)),
            ("payload", self.payload as u64, PAYLOAD_MAX as u64),
            ("events", u64::from(self.events), u64::from(EVENTS_MAX)),
        ];
        if let Some((name, value, max)) = ranges.into_iter().find(|(_, value, max)| !(1..=*max).contains(value)) {
            return Err(LoadError::OutOfRange { name, value, max });
        }
        let (is_encrypted, host, path) = self.split_url()?;
        let source = |source| LoadError::Lookup { host: host.clone(), source };
        let addresses: Vec<SocketAddr> = host.to_socket_addrs().map_err(source)?.collect();
        let none = || source(io::Error::new(io::ErrorKind::NotFound, "no address"));
        let address = *addresses.first().ok_or_else(none)?;
        let request = match self.protocol {
            LoadProtocol::Http | LoadProtocol::Sse => self.http_request(&host, &path)?,
            LoadProtocol::Ws | LoadProtocol::Tcp => vec![b'x'; self.payload],
            LoadProtocol::Conn => Vec::new(),
        };
        let h2 = match self.protocol {
            _ if !self.http2 => None,
            LoadProtocol::Http => {
                let invalid = || LoadError::Header { name: "request", value: self.url.clone() };
                let base = format!("{}://{host}", if is_encrypted { "https" } else { "http" });
                let request = H2Request::new(&self.method, (&base, &path), &self.headers, &self.body);
                Some(request.ok_or_else(invalid)?)
            }
            _ => return Err(LoadError::NotHttp2),
        };
        let tls = if is_encrypted {
            let name = host.rsplit_once(':').map_or(&*host, |(name, _)| name).trim_matches(['[', ']']);
            Some(
                Tls::new(self.authority.as_deref(), name, if self.http2 { b"h2" } else { b"http/1.1" })
                    .map_err(LoadError::Certificate)?,
            )
        } else {
            None
        };
        Ok(Target { options: self.clone(), address, addresses, host, path, request, h2, tls })
    }

    /// Splits the URL: true if it is encrypted, host with port, and path with query.
    fn split_url(&self) -> Result<(bool, String, String), LoadError> {
        let scheme = self.protocol.scheme();
        let fault = || LoadError::Url { url: self.url.clone(), scheme };
        let (is_encrypted, rest) = match self.url.split_once("://") {
            Some((given, rest)) if given == scheme => (false, rest),
            Some(("http", rest)) if self.protocol == LoadProtocol::Conn => (false, rest),
            Some(("https", rest)) if matches!(self.protocol, LoadProtocol::Http | LoadProtocol::Sse) => (true, rest),
            Some(("wss", rest)) if self.protocol == LoadProtocol::Ws => (true, rest),
            Some(("https" | "wss", _)) => return Err(LoadError::Encrypted { url: self.url.clone(), scheme }),
            _ => return Err(fault()),
        };
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || host.contains('@') || !printable(host) || !printable(path) {
            return Err(fault());
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let after_address = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
        let default_port = if is_encrypted { Some(443) } else { self.protocol.default_port() };
        let host = match (after_address.rsplit_once(':'), default_port) {
            (Some((_, port)), _) if port.parse::<u16>().is_ok() => host.to_owned(),
            (None, Some(port)) => format!("{host}:{port}"),
            _ => return Err(fault()),
        };
        Ok((is_encrypted, host, path))
    }

    fn http_request(&self, host: &str, path: &str) -> Result<Vec<u8>, LoadError> {
        let is_token = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
        };
        if !is_token(&self.method) {
            return Err(LoadError::Header { name: "method", value: self.method.clone() });
        }
        let mut given = Vec::new();
        for header in &self.headers {
            let good = header
                .split_once(':')
                .filter(|(name, value)| is_token(name) && !value.bytes().any(|byte| byte < b' ' && byte != b'\t'));
            let Some((name, _)) = good else {
                return Err(LoadError::Header { name: "header", value: header.clone() });
            };
            given.push(name);
        }
        // Do not repeat a header that was given: servers reject a request with two hosts or two lengths.
        let ours = |name: &str, value: &str| {
            let is_given = given.iter().any(|given| given.eq_ignore_ascii_case(name));
            if is_given { String::new() } else { format!("{name}: {value}\r\n") }
        };
        let is_stream = self.protocol == LoadProtocol::Sse;
        let mut head = format!("{} {path} HTTP/1.1\r\n", self.method);
        head.push_str(&ours("Host", host));
        head.push_str(&ours("User-Agent", "rusm"));
        head.extend(self.headers.iter().flat_map(|header| [header, "\r\n"]));
        if is_stream {
            head.push_str(&ours("Accept", "text/event-stream"));
        }
        // Some servers require a length for these methods even if the body is empty.
        if !self.body.is_empty() || ["POST", "PUT", "PATCH"].contains(&&*self.method) {
            head.push_str(&ours("Content-Length", &self.body.len().to_string()));
        }
        head.push_str("\r\n");
        Ok([head.as_bytes(), self.body.as_bytes()].concat())
    }

    /// Returns the options as parameters of a report.
    pub fn to_params(&self) -> BTreeMap<String, String> {
        let mut params: BTreeMap<String, String> = [
            ("url", self.url.clone()),
            ("connections", self.connections.to_string()),
            ("timeout_ms", self.timeout.as_millis().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let mut add = |name: &str, value: String| drop(params.insert(name.to_owned(), value));
        match self.protocol {
            LoadProtocol::Http | LoadProtocol::Sse => {
                add("method", self.method.clone());
                for (name, escaped, text) in
                    [("headers", "headers_escaped", &self.headers.join("\n")), ("body", "body_escaped", &self.body)]
                {
                    // A report that is read again keeps no control characters.
                    if text.contains(char::is_control) {
                        add(escaped, in_one_line(text));
                    } else if !text.is_empty() {
                        add(name, text.clone());
                    }
                }
            }
            LoadProtocol::Ws | LoadProtocol::Tcp => add("payload", self.payload.to_string()),
            LoadProtocol::Conn => {}
        }
        if self.http2 {
            add("http2", "true".to_owned());
        }
        if let Some(authority) = &self.authority {
            add("authority", authority.display().to_string());
        }
        if self.protocol == LoadProtocol::Sse {
            add("events", self.events.to_string());
        }
        params
    }

    /// Reads the options from the parameters of a report.
    ///
    /// # Errors
    /// [`LoadError::NoLoad`] if the report is not of a load test.
    pub fn of_params(scenario: &str, params: &BTreeMap<String, String>) -> Result<Self, LoadError> {
        let protocol = LoadProtocol::ALL.into_iter().find(|protocol| protocol.scenario() == scenario);
        let protocol = protocol.ok_or_else(|| LoadError::NoLoad { scenario: scenario.to_owned() })?;
        let base = Self::default();
        let text = |name: &str| params.get(name).cloned();
        let escaped =
            |name: &str| text(&format!("{name}_escaped")).map(|text| of_one_line(&text)).or_else(|| text(name));
        let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok());
        Ok(Self {
            protocol,
            url: text("url").unwrap_or_default(),
            connections: number("connections").map_or(base.connections, |number| number as u32),
            method: text("method").unwrap_or(base.method),
            headers: escaped("headers").map_or(base.headers, |text| text.lines().map(str::to_owned).collect()),
            body: escaped("body").unwrap_or(base.body),
            payload: number("payload").map_or(base.payload, |number| number as usize),
            events: number("events").map_or(base.events, |number| number as u32),
            http2: text("http2").is_some_and(|text| text == "true"),
            timeout: number("timeout_ms").map_or(base.timeout, Duration::from_millis),
            authority: text("authority").map(PathBuf::from),
        })
    }
}

/// Writes a text without control characters.
fn in_one_line(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut line, character| {
        if character == '\\' || character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
        line
    })
}

/// Reads a text that [`in_one_line`] has written.
fn of_one_line(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let code = || {
            let (digits, after) = escape.strip_prefix("u{")?.split_once('}')?;
            Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, after))
        };
        let plain = [("n", '\n'), ("r", '\r'), ("t", '\t'), ("\\", '\\')];
        let known = plain.iter().find_map(|(word, character)| Some((*character, escape.strip_prefix(word)?)));
        let (character, after) = known.or_else(code).unwrap_or(('\\', escape));
        text.push(character);
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_one_line_reads_back_and_others_stay() {
        for text in ["", "A: 1\nB: \\n 2", "a\u{1b}[2J\r\n\t\\", "{\"a\": \"\\u{41}\"}"] {
            let line = in_one_line(text);
            assert!(!line.contains(char::is_control), "{line}");
            assert_eq!(of_one_line(&line), text);
        }
        assert_eq!(of_one_line(r"C:\dir \u{zz} \"), r"C:\dir \u{zz} \");
    }

    fn options(protocol: LoadProtocol, url: &str) -> LoadOptions {
        LoadOptions { protocol, url: url.to_owned(), ..LoadOptions::default() }
    }

    #[test]
    fn a_request_says_what_was_set() {
        let options = LoadOptions {
            method: "POST".to_owned(),
            headers: vec!["X-Kind: a".to_owned()],
            body: "abc".to_owned(),
            ..options(LoadProtocol::Http, "http://127.0.0.1:81?q=1")
        };

        let target = options.target().unwrap();

        assert_eq!(
            String::from_utf8(target.request).unwrap(),
            "POST /?q=1 HTTP/1.1\r\nHost: 127.0.0.1:81\r\nUser-Agent: rusm\r\nX-Kind: a\r\nContent-Length: 3\r\n\r\nabc"
        );
    }

    #[test]
    fn a_header_that_was_given_takes_the_place_of_ours() {
        let given = ["host: a.example", "USER-AGENT: me", "content-length: 3", "accept: */*"];
        let options = LoadOptions {
            headers: given.map(str::to_owned).to_vec(),
            body: "abc".to_owned(),
            ..options(LoadProtocol::Sse, "http://127.0.0.1:81/")
        };

        let request = String::from_utf8(options.target().unwrap().request).unwrap();

        assert_eq!(request, format!("GET / HTTP/1.1\r\n{}\r\n\r\nabc", given.join("\r\n")));
    }

    #[test]
    fn options_survive_a_report() {
        for protocol in LoadProtocol::ALL {
            let mut options = options(protocol, &format!("{}://127.0.0.1:1/", protocol.scheme()));
            options.connections = 3;
            match protocol {
                LoadProtocol::Http | LoadProtocol::Sse => {
                    options.headers = vec!["a: b".to_owned(), "c: d".to_owned()];
                    options.http2 = protocol == LoadProtocol::Http;
                }
                LoadProtocol::Ws | LoadProtocol::Tcp => options.payload = 5,
                LoadProtocol::Conn => {}
            }

            assert_eq!(LoadOptions::of_params(protocol.scenario(), &options.to_params()).unwrap(), options);
        }
        assert!(LoadOptions::of_params("fan-in", &BTreeMap::new()).is_err());
    }

    #[test]
    fn an_encrypted_server_has_a_port_and_authorities_of_its_own() {
        let here = |options: LoadOptions| options.target().map(|target| (target.host, target.tls.is_some()));
        let web = options(LoadProtocol::Http, "https://127.0.0.1/");

        assert_eq!(here(web.clone()).unwrap(), ("127.0.0.1:443".to_owned(), true));
        assert_eq!(here(options(LoadProtocol::Ws, "wss://[::1]:8443/")).unwrap(), ("[::1]:8443".to_owned(), true));
        assert_eq!(here(options(LoadProtocol::Http, "http://127.0.0.1/")).unwrap(), ("127.0.0.1:80".to_owned(), false));
        let other = LoadOptions { authority: Some(PathBuf::from("Cargo.toml")), ..web };
        assert_eq!(here(other).unwrap_err().to_string(), "Cargo.toml has no certificate in PEM format");
    }

    #[test]
    fn mistakes_are_refused_before_anything_is_sent() {
        let refusal = |options: LoadOptions| options.target().unwrap_err().to_string();
        let good = options(LoadProtocol::Http, "http://127.0.0.1:1/");

        assert_eq!(
            refusal(options(LoadProtocol::Http, "ftp://x/")),
            "\"ftp://x/\" is not a valid URL: use http://host:port/path"
        );
        assert_eq!(
            refusal(options(LoadProtocol::Conn, "wss://x/")),
            "\"wss://x/\" is encrypted: this load test supports only ws://"
        );
        for url in ["tcp://localhost", "tcp://:", "tcp://x:99999", "tcp://a b:1"] {
            assert!(refusal(options(LoadProtocol::Tcp, url)).contains("use tcp://host:port"), "{url}");
        }
        assert_eq!(
            refusal(LoadOptions { connections: 0, ..good.clone() }),
            "connections of 0 is not between 1 and 100000"
        );
        assert_eq!(
            refusal(LoadOptions { method: "GET /x".to_owned(), ..good.clone() }),
            "method \"GET /x\" is not valid in HTTP"
        );
        assert_eq!(
            refusal(LoadOptions { http2: true, ..options(LoadProtocol::Ws, "ws://127.0.0.1:1/") }),
            "HTTP/2 is for load tests of http: leave out --http2"
        );
        assert!(refusal(LoadOptions { headers: vec!["a: b\r\nc: d".to_owned()], ..good }).starts_with("header "));
    }
}

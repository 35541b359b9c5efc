//! A client that sends exactly the bytes that a test names.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// A connection to a server. Each wait ends after a generous time limit, so that a wrong server fails the test.
pub(crate) struct Client(pub(crate) TcpStream);

/// A response, as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_mins(1))).expect("the socket is open");
        Self(stream)
    }

    /// Connects from another address of this machine than other clients.
    pub(crate) fn connect_from(own: IpAddr, address: SocketAddr) -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&socket, &SocketAddr::new(own, 0)).expect("an address of loopback");
        connect(&socket, &address).expect("the server listens");
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_mins(1))).expect("the socket is open");
        Self(stream)
    }

    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).expect("the server reads");
    }

    /// Sends a request without a body.
    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.write(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n"));
        self.answer()
    }

    /// Reads a response with a declared or chunked body.
    pub(crate) fn answer(&mut self) -> Answer {
        let head = self.head();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
        let mut answer = Answer { status, head, body: Vec::new() };
        if let Some(bytes) = answer.header("content-length").and_then(|bytes| bytes.parse().ok()) {
            answer.body = vec![0; bytes];
            self.0.read_exact(&mut answer.body).expect("the body is complete");
        } else if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().expect("the body is complete") {
                answer.body.extend(chunk);
            }
        }
        answer
    }

    /// Reads up to the empty line.
    pub(crate) fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).expect("the head is complete");
            head.push(byte[0]);
        }
        String::from_utf8(head).expect("the head is text")
    }

    /// Reads a chunk of a chunked body; `None` for the last one.
    pub(crate) fn chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        let size = std::str::from_utf8(&line).ok().and_then(|line| usize::from_str_radix(line.trim(), 16).ok());
        let mut chunk = vec![0; size.expect("a size") + 2];
        self.0.read_exact(&mut chunk)?;
        chunk.truncate(chunk.len() - 2);
        Ok(Some(chunk).filter(|chunk| !chunk.is_empty()))
    }

    /// Returns true if the server closes the connection without another byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.0.read(&mut byte) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

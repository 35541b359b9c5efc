//! The bytes that a plain client exchanges on a held connection: an opening, and pings with their answers.
//!
//! ```text
//!   client ── opening ──▶ server        client ── ping ──▶ server
//!          ◀── head ──────                     ◀── answer of known length ──
//! ```
//!
//! The client of a held connection uses no library and keeps no buffers, so that the memory of a connection is that of
//! its server side.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Content of the message that a WebSocket server must echo. It is a binary message, not a ping frame.
const PING: [u8; 8] = *b"are you?";
/// Longest head of a response.
const HEAD_MAX: usize = 4096;

/// The bytes of a protocol.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// First bytes of a client; the answer ends with an empty line. Empty for none.
    opening: Vec<u8>,
    ping: Vec<u8>,
    answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Bytes(Vec<u8>),
    /// A head that ends with an empty line, and no body.
    Head,
}

impl Wire {
    /// Returns the bytes of HTTP/1.1: a HEAD request has a response without a body.
    pub(crate) fn http(host: &str, path: &str) -> Self {
        let request = format!("HEAD {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
        Self { opening: Vec::new(), ping: request, answer: Answer::Head }
    }

    /// Returns the bytes of a WebSocket (RFC 6455, sections 4.1 and 5.2).
    pub(crate) fn websocket(host: &str, path: &str) -> Self {
        let opening = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        let (binary, is_masked, mask) = (0x82, 0x80, [0; 4]);
        // A mask of zeros leaves the bytes as they are.
        let ping = [&[binary, is_masked | PING.len() as u8][..], &mask, &PING].concat();
        let answer = [&[binary, PING.len() as u8][..], &PING].concat();
        Self { opening: opening.into_bytes(), ping, answer: Answer::Bytes(answer) }
    }

    /// Opens the connection.
    pub(crate) async fn open(&self, stream: &mut TcpStream) -> io::Result<()> {
        if !self.opening.is_empty() {
            stream.write_all(&self.opening).await?;
            read_head(stream, "HTTP/1.1 101").await?;
        }
        Ok(())
    }

    /// Sends a ping and reads its answer.
    pub(crate) async fn ping(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(&self.ping).await?;
        match &self.answer {
            Answer::Head => read_head(stream, "HTTP/1.1 2").await,
            Answer::Bytes(expected) => {
                let mut answer = [0; 32];
                let answer = &mut answer[..expected.len()];
                stream.read_exact(answer).await?;
                if answer == expected { Ok(()) } else { Err(io::Error::other("the answer differs")) }
            }
        }
    }
}

/// Reads a head and checks its start. The server must send nothing behind it.
async fn read_head(stream: &mut TcpStream, start: &str) -> io::Result<()> {
    let (mut head, mut len) = ([0; HEAD_MAX], 0);
    while !head[..len].ends_with(b"\r\n\r\n") {
        if len == HEAD_MAX {
            return Err(io::Error::other(format!("the head of the answer is longer than {HEAD_MAX} bytes")));
        }
        match stream.read(&mut head[len..]).await? {
            0 => return Err(io::Error::other("the server has closed the connection")),
            bytes => len += bytes,
        }
    }
    if head.starts_with(start.as_bytes()) { Ok(()) } else { Err(io::Error::other("the server has refused")) }
}

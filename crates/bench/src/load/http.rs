//! HTTP/1.1 client for load tests: one request at a time on a kept connection.
//!
//! A server may close a kept connection at any time: a connection that is closed before a request is replaced, which is
//! not a failure. An answer ends by its length, by its last chunk, or at the end of the connection. Its body is read
//! and discarded.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::socket::Socket;

/// Maximum length of an answer's head, in bytes.
const HEAD_MAX: usize = 64 << 10;
/// Maximum number of headers in an answer.
const HEADERS_MAX: usize = 100;
const READ: usize = 16 << 10;
const CUT_ANSWER: &str = "the server closed the connection in the middle of an answer";

/// An HTTP connection to a server.
pub(crate) struct HttpLink {
    stream: Socket,
    /// Bytes read but not used yet.
    buffer: Vec<u8>,
}

/// Head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) body: Body,
    /// True if the connection stays open after the body.
    pub(crate) keeps: bool,
    pub(crate) is_event_stream: bool,
}

/// Rest of a body, by the way its end is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Number of bytes left.
    Length(u64),
    /// Chunked; number of bytes left in the current chunk.
    Chunked(u64),
    /// Until the end of the connection.
    UntilClose,
}

impl HttpLink {
    pub(crate) fn new(stream: impl Into<Socket>) -> Self {
        Self { stream: stream.into(), buffer: Vec::with_capacity(READ) }
    }

    /// Returns true if the server has closed the connection, or sent data without a request, since the last answer.
    pub(crate) fn is_gone(&mut self) -> bool {
        // Data read together with the last answer stays in the buffer: the next request fails because of it.
        self.buffer.is_empty() && self.stream.is_gone()
    }

    /// Sends a request and reads the whole answer. Returns true if the connection can be used again.
    pub(crate) async fn request(&mut self, request: &[u8], method: &str) -> Result<bool, String> {
        self.exchange(request, method, |_| ()).await
    }

    /// Like [`request`](Self::request), and passes the body to `seen`.
    pub(crate) async fn exchange(
        &mut self,
        request: &[u8],
        method: &str,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<bool, String> {
        self.send(request).await?;
        let mut head = self.head(method).await?;
        while self.part(&mut head.body, &mut seen).await? {}
        if head.status >= 400 {
            return Err(format!("status {}", head.status));
        }
        Ok(head.keeps)
    }

    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<(), String> {
        let cannot = |error| format!("cannot send: {error}");
        self.stream.write_all(request).await.map_err(cannot)?;
        self.stream.flush().await.map_err(cannot)
    }

    /// Reads the head of an answer.
    pub(crate) async fn head(&mut self, method: &str) -> Result<Head, String> {
        loop {
            match parse_head(&self.buffer, method)? {
                // An interim answer such as 100 Continue comes before the final one.
                Some((len, head)) if head.status < 200 => drop(self.buffer.drain(..len)),
                Some((len, head)) => {
                    self.buffer.drain(..len);
                    return Ok(head);
                }
                None if self.buffer.len() > HEAD_MAX => {
                    return Err(format!("the head of the answer is longer than {HEAD_MAX} bytes"));
                }
                None if self.fill().await? => {}
                None => return Err("the server closed the connection".to_owned()),
            }
        }
    }

    /// Reads a part of a body and passes it to `seen`. Returns false if nothing is left.
    pub(crate) async fn part(&mut self, body: &mut Body, mut seen: impl FnMut(&[u8])) -> Result<bool, String> {
        if *body == Body::Length(0) {
            return Ok(false);
        }
        if *body == Body::Chunked(0) && !self.read_chunk_size(body).await? {
            return Ok(false);
        }
        if self.buffer.is_empty() && !self.fill().await? {
            return match body {
                Body::UntilClose => Ok(false),
                Body::Length(_) | Body::Chunked(_) => Err(CUT_ANSWER.to_owned()),
            };
        }
        let have = self.buffer.len() as u64;
        let used = match body {
            Body::Length(left) | Body::Chunked(left) => {
                let used = have.min(*left);
                *left -= used;
                used
            }
            Body::UntilClose => have,
        } as usize;
        seen(&self.buffer[..used]);
        self.buffer.drain(..used);
        if *body == Body::Chunked(0) {
            self.line_end().await?;
        }
        Ok(true)
    }

    /// Reads the size of the next chunk. Returns false after the last one, and reads its trailers too.
    async fn read_chunk_size(&mut self, body: &mut Body) -> Result<bool, String> {
        loop {
            match httparse::parse_chunk_size(&self.buffer) {
                Ok(httparse::Status::Complete((len, size))) => {
                    self.buffer.drain(..len);
                    *body = Body::Chunked(size);
                    if size > 0 {
                        return Ok(true);
                    }
                    // Trailers end with an empty line, as heads do.
                    while self.skip_line().await? > 0 {}
                    *body = Body::Length(0);
                    return Ok(false);
                }
                Ok(httparse::Status::Partial) if self.buffer.len() < HEAD_MAX => {
                    if !self.fill().await? {
                        return Err(CUT_ANSWER.to_owned());
                    }
                }
                _ => return Err("the size of a chunk is not valid".to_owned()),
            }
        }
    }

    /// Removes a line and returns its length.
    async fn skip_line(&mut self) -> Result<usize, String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                self.buffer.drain(..end + 2);
                return Ok(end);
            }
            if self.buffer.len() > HEAD_MAX {
                return Err("a chunked body does not end".to_owned());
            }
            if !self.fill().await? {
                return Err(CUT_ANSWER.to_owned());
            }
        }
    }

    async fn line_end(&mut self) -> Result<(), String> {
        match self.skip_line().await? {
            0 => Ok(()),
            _ => Err("a chunk is longer than its size".to_owned()),
        }
    }

    /// Reads the available bytes. Returns false at the end of the connection.
    async fn fill(&mut self) -> Result<bool, String> {
        self.buffer.reserve(READ);
        let read = self.stream.read_buf(&mut self.buffer).await;
        read.map(|len| len > 0).map_err(|error| format!("cannot read: {error}"))
    }
}

/// Parses the head at the start of `bytes` and returns it with its length; `None` if it is not complete.
fn parse_head(bytes: &[u8], method: &str) -> Result<Option<(usize, Head)>, String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let len = match response.parse(bytes).map_err(|error| format!("not a valid HTTP answer: {error}"))? {
        httparse::Status::Complete(len) => len,
        httparse::Status::Partial => return Ok(None),
    };
    let status = response.code.unwrap_or(0);
    let value = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| String::from_utf8_lossy(header.value).to_ascii_lowercase())
    };
    let has =
        |name: &str, word: &str| value(name).is_some_and(|value| value.split(',').any(|part| part.trim() == word));
    let length = value("content-length")
        .map(|text| text.parse::<u64>().map_err(|error| format!("content length {text:?} is not valid: {error}")));
    let body = if method == "HEAD" || status < 200 || status == 204 || status == 304 {
        Body::Length(0)
    } else if has("transfer-encoding", "chunked") {
        Body::Chunked(0)
    } else {
        length.transpose()?.map_or(Body::UntilClose, Body::Length)
    };
    let keeps = body != Body::UntilClose
        && !has("connection", "close")
        && (response.version == Some(1) || has("connection", "keep-alive"));
    let is_event_stream = value("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
    Ok(Some((len, Head { status, body, keeps, is_event_stream })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        parse_head(text.as_bytes(), "GET").unwrap().unwrap().1
    }

    #[test]
    fn the_end_of_an_answer_is_told_by_its_head() {
        let length = head("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n");
        let chunked = head("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let old = head("HTTP/1.0 200 OK\r\n\r\n");
        let none = head("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");

        assert_eq!([length.body, chunked.body, old.body], [Body::Length(12), Body::Chunked(0), Body::UntilClose]);
        assert_eq!([length.keeps, chunked.keeps, old.keeps, none.keeps], [true, true, false, false]);
        assert_eq!(none.body, Body::Length(0));
        assert_eq!(
            parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD").unwrap().unwrap().1.body,
            Body::Length(0)
        );
    }

    #[test]
    fn what_is_no_http_is_said_and_half_a_head_is_waited_for() {
        assert_eq!(parse_head(b"HTTP/1.1 200 OK\r\nContent-", "GET"), Ok(None));
        assert!(parse_head(b"SSH-2.0-OpenSSH\r\n", "GET").unwrap_err().starts_with("not a valid HTTP answer: "));
        assert!(parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "GET").is_err());
    }
}

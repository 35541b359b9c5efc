//! Bytes sent to an echo server and read back.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection to an echo server.
pub(crate) struct TcpLink {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl TcpLink {
    pub(super) const fn new(stream: TcpStream) -> Self {
        Self { stream, answer: Vec::new() }
    }

    /// Sends bytes and reads the same number of bytes.
    pub(super) async fn echo(&mut self, bytes: &[u8]) -> Result<bool, String> {
        self.stream.write_all(bytes).await.map_err(|error| format!("cannot send: {error}"))?;
        self.answer.resize(bytes.len(), 0);
        self.stream.read_exact(&mut self.answer).await.map_err(|error| format!("cannot read: {error}"))?;
        if self.answer == bytes { Ok(true) } else { Err("the answer is not an echo of the request".to_owned()) }
    }
}

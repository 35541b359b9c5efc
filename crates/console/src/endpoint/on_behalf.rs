//! Connections of this process for observers elsewhere. The address from which they come names the observer, for audit lines.

use std::io;
use std::path::Path;

use tokio::net::{UnixSocket, UnixStream};

/// Connects to the socket of a console in this process on behalf of a client elsewhere. Audit lines name that client
/// instead of this process. `connection` tells the connections of this process apart. A client whose name is too long is
/// not named.
///
/// # Errors
/// The system's error.
pub async fn connect_on_behalf(socket: &Path, client: &str, connection: &str) -> io::Result<UnixStream> {
    let ours = UnixSocket::new_stream()?;
    // The address is abstract: it is not a file, and ends with the connection.
    if let Err(error) = ours.bind(format!("\0{}{connection}/{client}", prefix())) {
        tracing::debug!(client, %error, "the name of a client is left out");
    }
    ours.connect(socket).await
}

/// Returns the client on whose behalf this process has made a connection.
pub(super) fn client_of(stream: &UnixStream) -> Option<String> {
    if stream.peer_cred().ok()?.pid()?.cast_unsigned() != std::process::id() {
        return None;
    }
    // The address that `accept` returns is empty.
    let from = stream.peer_addr().ok()?;
    let name = std::str::from_utf8(from.as_abstract_name()?).ok()?;
    let (_, client) = name.strip_prefix(&prefix())?.split_once('/')?;
    Some(client.to_owned())
}

fn prefix() -> String {
    format!("rusm-observer/{}/", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_on_behalf_of_a_client_has_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let mut accepted = Vec::new();

        let named =
            [connect_on_behalf(&path, "a@b", "1").await.unwrap(), connect_on_behalf(&path, "a@b", "2").await.unwrap()];
        let unnamed = UnixStream::connect(&path).await.unwrap();
        for _ in 0..3 {
            let (stream, _) = listener.accept().await.unwrap();
            accepted.push(client_of(&stream));
        }

        assert_eq!(accepted, [Some("a@b".to_owned()), Some("a@b".to_owned()), None]);
        drop((named, unnamed));
    }
}

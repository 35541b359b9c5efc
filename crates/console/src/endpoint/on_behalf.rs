//! Connections of this process for observers elsewhere. The address from which they come names the observer, for audit lines.

use std::io;
use std::path::Path;

use tokio::net::{UnixSocket, UnixStream};

/// Maximum length of an address, in bytes.
const ADDRESS_MAX_BYTES: usize = 108;

/// Connects to the socket of a console in this process on behalf of a client elsewhere. Audit lines name that client
/// instead of this process, up to the bytes that fit into an address. `connection` tells the connections of this process
/// apart.
///
/// # Errors
/// The system's error.
pub async fn connect_on_behalf(socket: &Path, client: &str, connection: &str) -> io::Result<UnixStream> {
    let ours = UnixSocket::new_stream()?;
    // It is abstract: it is not a file, and ends with the connection.
    let mut address = format!("\0{}{connection}/{client}", prefix());
    address.truncate(address.floor_char_boundary(ADDRESS_MAX_BYTES));
    if let Err(error) = ours.bind(address) {
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
    format!("rusm/{}/", std::process::id())
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

        let long = "ä".repeat(100);
        let mut named = Vec::new();
        for (client, connection) in [("a@b", "1"), ("a@b", "2"), (&*long, "3")] {
            named.push(connect_on_behalf(&path, client, connection).await.unwrap());
        }
        let unnamed = UnixStream::connect(&path).await.unwrap();
        for _ in 0..4 {
            let (stream, _) = listener.accept().await.unwrap();
            accepted.push(client_of(&stream));
        }

        let cut = accepted.remove(2).unwrap();
        assert!(cut.len() > 80 && long.starts_with(&cut), "{cut}");
        assert_eq!(accepted, [Some("a@b".to_owned()), Some("a@b".to_owned()), None]);
        drop((named, unnamed));
    }
}

//! Opens sockets to the server.

use tokio::net::TcpStream;

use super::options::Target;

/// Opens a socket to the server.
pub(super) async fn dial(target: &Target) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(target.address).await.map_err(|error| format!("cannot connect: {error}"))?;
    stream.set_nodelay(true).map_err(|error| format!("cannot set nodelay: {error}"))?;
    Ok(stream)
}

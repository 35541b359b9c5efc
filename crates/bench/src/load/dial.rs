//! Opens sockets to the server.

use tokio::net::TcpStream;

use super::options::Target;
use super::socket::Socket;

/// Opens a connection to the server, encrypted if its URL says so.
pub(super) async fn dial_http(target: &Target) -> Result<Socket, String> {
    let stream = dial(target).await?;
    match &target.tls {
        None => Ok(stream.into()),
        Some(tls) => Ok(Socket::Encrypted(Box::new(tls.connect(stream).await?))),
    }
}

/// Opens a socket to the server.
pub(super) async fn dial(target: &Target) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(target.address).await.map_err(|error| format!("cannot connect: {error}"))?;
    stream.set_nodelay(true).map_err(|error| format!("cannot set nodelay: {error}"))?;
    Ok(stream)
}
